"""Which repository a source says that it is of; a folder's name says nothing."""

import json
from pathlib import Path

import pytest
from small_package import FIRST, write_checkout, write_folder

from lego_rl.errors import TaskError
from lego_rl.tasks.make.making import Wish, make_tasks
from lego_rl.tasks.make.origin import remotes_of, repository_of
from lego_rl.tasks.make.running import Bench
from lego_rl.tasks.make.source import open_source
from lego_rl.tasks.make.tree import Tree


def of(files: dict[str, str], remotes: tuple[str, ...] = (), distribution: str = "") -> str:
    return repository_of(Tree({path: text.encode() for path, text in files.items()}), remotes, distribution)


PYPROJECT = '[project]\nname = "Tool"\n[project.urls]\nSource = "https://github.com/me/tool-of-mine/tree/main"\n'


@pytest.mark.parametrize(
    ("files", "remotes", "distribution", "name"),
    [
        ({}, (), "", ""),
        ({}, ("/srv/git/sympy", "file:///srv/django", "../flask"), "", ""),
        ({}, ("https://user@github.com/me/work.git", "git@gitlab.com:other/work.git"), "", "me/work"),
        ({}, ("git@github.com:me/work.git", "https://github.com/pallets/flask"), "", "pallets/flask"),
        ({}, (), "small", "small"),
        ({}, (), "Django", "django/django"),
        ({"pyproject.toml": PYPROJECT}, (), "", "me/tool-of-mine"),
        ({"pyproject.toml": PYPROJECT}, ("git@github.com:fork/tool",), "", "fork/tool"),
        ({"pyproject.toml": '[project]\nname = "Tool"\n'}, (), "", "tool"),
        ({"pyproject.toml": '[tool.poetry]\nname = "x"\nrepository = "https://github.com/a/x"\n'}, (), "", "a/x"),
        ({"pyproject.toml": '[project]\nname = "Flask"\n'}, ("git@github.com:me/webapp",), "", "pallets/flask"),
        ({"setup.cfg": "[metadata]\nname = SymPy\nurl = https://sympy.org\n"}, (), "", "sympy/sympy"),
        ({"setup.py": "setup(name='a', url='https://github.com/b/a')"}, (), "", "b/a"),
        ({"setup.py": "import s\ns.setup(name=n, project_urls={'Code': 'https://github.com/b/c'})"}, (), "", "b/c"),
        ({"PKG-INFO": "Metadata-Version: 2.1\nName: x\nHome-page: https://github.com/o/x\n\nName: y"}, (), "", "o/x"),
        ({"flask/__init__.py": ""}, ("git@github.com:me/webapp",), "", "pallets/flask"),
        ({"src/sklearn/__init__.py": ""}, (), "", "scikit-learn/scikit-learn"),
        ({"app/vendor/flask/__init__.py": ""}, (), "", ""),
        ({"pyproject.toml": "[[[", "setup.py": "(", "setup.cfg": "no section"}, (), "", ""),
    ],
)
def test_a_tree_is_of_what_it_says(
    files: dict[str, str], remotes: tuple[str, ...], distribution: str, name: str
) -> None:
    assert of(files, remotes, distribution) == name


def test_every_remote_of_a_checkout_is_read_and_the_one_it_is_a_fork_of_first(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path / "sympy", FIRST)
    assert repository_of(open_source([checkout]).newest(), open_source([checkout]).remotes) == ""
    with (checkout / ".git" / "config").open("a") as config:
        config.write('[remote "a"]\n\turl = git@github.com:a/b\n[branch "x"]\n\turl = no\n')
        config.write('[remote "origin"]\n\tfetch = x\n\turl = "https://github.com/me/b"\n')
        config.write('[remote "upstream"]\n\turl = https://github.com/them/b.git\n')
    source = open_source([checkout])
    assert source.remotes == ("https://github.com/them/b.git", "https://github.com/me/b", "git@github.com:a/b")
    assert repository_of(source.newest(), source.remotes) == "them/b"
    assert remotes_of(tmp_path) == ()


def test_what_of_a_folder_is_no_source_is_no_part_of_its_tree(tmp_path: Path) -> None:
    unsourced = (
        "venv/pyvenv.cfg", "venv/lib/python3.12/site-packages/core.py", "other/pyvenv.cfg", "other/bin/tool.py",
        ".env", ".env.local", "conf/.netrc", "build/lib/small/core.py", "dist/small-1.0.tar.gz", ".eggs/a.py",
        "small.egg-info/PKG-INFO",
    )  # fmt: skip
    kept = {**FIRST, ".env.example": "KEY=", "build/tool.py": "x = 1", "dist/notes.txt": "", "env/core.py": "x = 1"}
    folder = write_folder(tmp_path / "small", {**kept, **dict.fromkeys(unsourced, "secret")})
    assert open_source([folder]).newest().files == {path: text.encode() for path, text in kept.items()}


def test_tasks_of_a_folder_that_was_changed_have_other_names(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "small", FIRST)
    before = open_source([folder]).label
    assert open_source([folder]).label == before
    (folder / "notes.txt").write_text("more")
    assert open_source([folder]).label != before


class Untouched:
    """A place where no test is run."""

    sandboxes = ""

    async def bench(self, tree: Tree) -> Bench:
        raise AssertionError("a test was about to be run")


class Silent:
    """Watches and says nothing."""

    def doing(self, what: str) -> None:
        assert what

    def made(self, task: str, kind: str) -> None:
        raise AssertionError(f"{task} was made")


async def make(folder: Path, named: str | None) -> None:
    wish = Wish(inject=1, mine=0, repository=named)
    await make_tasks([folder], folder.parent / "pool", wish, Untouched(), Silent())


@pytest.mark.parametrize("named", ["me/mine", "flask"])
async def test_a_known_repository_is_not_made_another_by_naming_one(named: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", {"pyproject.toml": '[project]\nname = "Django"\n', "a.py": "a = 1\n"})
    with pytest.raises(TaskError, match=f"django/django.*{named}"):
        await make(folder, named)
    assert not list((tmp_path / "pool").glob("make-*"))


@pytest.mark.parametrize(
    ("name", "named", "recorded"),
    [
        ("tool", "me/mine", "me/mine"),
        ("tool", None, "tool"),
        ("Flask", "https://github.com/mitsuhiko/flask", "pallets/flask"),
        ("Flask", None, "pallets/flask"),
    ],
)
async def test_what_is_named_goes_before_what_an_unknown_tree_says(
    name: str, named: str | None, recorded: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "mine", {"pyproject.toml": f'[project]\nname = "{name}"\n'})
    with pytest.raises(TaskError, match="no Python code"):
        await make(folder, named)
    assert json.loads((tmp_path / "pool" / "make-mine.json").read_text())["repository"] == recorded
