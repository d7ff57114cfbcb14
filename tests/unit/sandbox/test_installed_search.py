"""What a Python of the tests can import counts as installed, and what any other Python of the image has does not."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from lego_rl.sandbox.ownership.modules import installed_search
from lego_rl.sandbox.ownership.modules.installed import _MAY_NAME_PYTHON

NAMES = ["first", "named", "env", "bare", "other", "work", "kept", "inner.deep", "nowhere"]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some Pythons, each of which looks in a folder of its own, and folders of packages that none looks in."""
    for name in ("first", "named", "env"):
        _python(tmp_path / name / "bin" / "python", tmp_path / name / "packages")
        (tmp_path / name / "packages").mkdir()
        (tmp_path / name / "packages" / f"{name}.py").touch()
    (tmp_path / "first" / "packages" / "inner").mkdir()
    (tmp_path / "first" / "packages" / "inner" / "deep.so").touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    bare = tmp_path / "bare" / "lib" / "python3.9" / "site-packages"
    bare.mkdir(parents=True)
    (tmp_path / "bare" / "pyvenv.cfg").touch()
    (bare / "bare.py").touch()
    other = tmp_path / "other" / "lib" / "python3" / "dist-packages"
    other.mkdir(parents=True)
    (other / "other.py").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'first' / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setattr(installed_search, "environments", partial(installed_search.environments, top=str(tmp_path)))
    (tmp_path / "app").mkdir()
    return tmp_path


def _python(path: Path, *folders: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho noise\necho '{json.dumps(list(map(str, folders)))}'\n")
    path.chmod(0o755)


def search(capsys: pytest.CaptureFixture[str], words: list[str], image: Path, skipped: tuple[str, ...] = ()) -> object:
    installed_search.main(NAMES, words, str(image / "app"), list(skipped))
    return json.loads(capsys.readouterr().out)


def test_it_is_what_the_first_python_and_environments_find(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(capsys, [], image) == ["first", "env", "bare", "inner.deep"]


@pytest.mark.parametrize("word", ["named/bin", "named/bin/python"])
def test_a_python_counts_that_the_command_names(image: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert search(capsys, [str(image / word)], image) == ["first", "named", "env", "bare", "inner.deep"]


def test_an_environment_of_the_hosts_is_nobodys(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(capsys, [], image, (str(image / "env"),)) == ["first", "bare", "inner.deep"]


def test_sources_of_the_work_tree_are_not_installed(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = image / "app" / "env" / "lib" / "site-packages"
    kept.mkdir(parents=True)
    (kept / "kept.py").touch()
    (image / "app" / "work.py").touch()
    (image / "first" / "bin" / "python").unlink()
    (image / "first" / "bin").rmdir()
    _python(image / "first" / "bin" / "python", image / "app", kept)
    assert search(capsys, [], image) == ["env", "bare", "kept"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("source /opt/conda/bin/activate && conda activate x", ["/opt/conda/bin/activate"]),
        ("PATH=/opt/x/bin:$PATH python3.9 -m pytest", ["/opt/x/bin", "python3.9"]),
        ("pythonpath=src python-config mypython", []),
    ],
)
def test_words_that_may_name_a_python(said: str, words: list[str]) -> None:
    assert _MAY_NAME_PYTHON.findall(said) == words
