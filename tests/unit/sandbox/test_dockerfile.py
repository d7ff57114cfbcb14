"""A Dockerfile says here what it says to Docker, and what it leaves out of a build is left out."""

import tarfile
from pathlib import Path

import pytest

from lego_rl.errors import TaskError
from lego_rl.sandbox.copies import recipe_of
from lego_rl.sandbox.docker.image import bases, built_context
from lego_rl.sandbox.dockerfile import NeedsBuildError, read_dockerfile
from lego_rl.sandbox.dockerignore import Ignored
from lego_rl.sandbox.image import prepare_image
from lego_rl.sandbox.state import State


def dockerfile(folder: Path, text: str) -> Path:
    (folder / "Dockerfile").write_bytes(text.encode())
    return folder / "Dockerfile"


@pytest.mark.parametrize(
    "text",
    [
        "FROM x\n# a note \\\nWORKDIR /srv\n",
        "FROM x\nWORKDIR \\\n# a note\n/srv\n",
        "FROM x\nWORKDIR \\\n# a note \\\n\n  /srv\n",
        "FROM x\nWORKDIR \\  \n  /srv\n",
        "FROM x\r\nWORKDIR \\\r\n  /srv\r\n",
        "\ufeffFROM x\nWORKDIR\t/srv\n",
        "# escape=\\\nFROM x\nWORKDIR \\\n /srv\n",
        "FROM x\n# escape=`\nWORKDIR \\\n/srv\n",
    ],
)
def test_comments_and_continued_lines_are_docker_s(tmp_path: Path, text: str) -> None:
    assert read_dockerfile(dockerfile(tmp_path, text)).workdir == "/srv"


@pytest.mark.parametrize("text", ["FROM x\n# note\\\nRUN a\n", "FROM x\n#\\\nUSER a\n", "FROM x\n\x0cRUN a\n"])
def test_no_instruction_is_taken_for_a_comment(tmp_path: Path, text: str) -> None:
    with pytest.raises(NeedsBuildError, match="needs an image build"):
        read_dockerfile(dockerfile(tmp_path, text))


@pytest.mark.parametrize("text", ["# escape=`\nFROM x\n", "#Escape = `\nFROM x\n", "# syntax=x\n# escape=`\nFROM x\n"])
def test_another_escape_character_needs_a_build(tmp_path: Path, text: str) -> None:
    with pytest.raises(NeedsBuildError, match="escape"):
        read_dockerfile(dockerfile(tmp_path, text))


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x85"])
def test_only_a_line_end_ends_an_instruction(tmp_path: Path, separator: str) -> None:
    recipe = read_dockerfile(dockerfile(tmp_path, f"FROM x\nENV A=b{separator}WORKDIR=/srv\n"))
    assert recipe.workdir == "/"


@pytest.mark.parametrize("said", ["=b", "A=b c", "''", "PATH=", "PATH"])
def test_a_variable_that_is_none_or_stops_everything_is_the_task_s_fault(tmp_path: Path, said: str) -> None:
    with pytest.raises(TaskError, match="ENV"):
        read_dockerfile(dockerfile(tmp_path, f"FROM x\nENV {said}\n"))


def test_what_it_starts_from_is_read_from_its_instructions(tmp_path: Path) -> None:
    text = "FROM a AS b\n# note \\\nFROM c\nRUN echo \\\n  FROM d\nFROM b\nFROM \\\n e\n"
    assert list(bases(dockerfile(tmp_path, text))) == ["a", "c", "e"]


@pytest.mark.parametrize(
    ("patterns", "ignored", "kept"),
    [
        ("secret", ["secret", "secret/a", "secret/b/c"], ["a/secret", "secrets"]),
        ("/secret/", ["secret", "secret/a"], ["a/secret"]),
        ("*.log", ["a.log", ".log"], ["a/b.log", "a.log.txt"]),
        ("**/*.log", ["a.log", "a/b.log", "a/b/c.log"], ["a.txt"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z", "a/z/y"], ["a/b", "z"]),
        ("*/*/x", ["a/b/x"], ["a/x", "x"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[ab].py", ["a.py", "b.py"], ["c.py"]),
        ("[^ab].py", ["c.py"], ["a.py"]),
        ("*\n!a.py", ["b.py", "c/a.py"], ["a.py"]),
        ("docs\n!docs/a.md\n", ["docs/b.md"], ["docs/a.md"]),
        ("!a.py\n*.py", ["a.py"], []),
        ("# secret\n\n  x  \n", ["x"], ["secret", "# secret"]),
        ("./a/../b", ["b", "b/c"], ["a"]),
        ("*", ["a", ".b"], ["Dockerfile", ".dockerignore"]),
        ("a+b(c).d", ["a+b(c).d"], ["aab(c).d", "a+b(c)xd"]),
        (r"a\*", ["a*"], ["ab"]),
    ],
)
def test_what_a_dockerignore_leaves_out(tmp_path: Path, patterns: str, ignored: list[str], kept: list[str]) -> None:
    (tmp_path / ".dockerignore").write_text(patterns)
    rules = Ignored.by(tmp_path)
    assert [path for path in ignored if not rules.leaves_out(path)] == []
    assert [path for path in kept if rules.leaves_out(path)] == []


def context_of(environment: Path) -> list[str]:
    with built_context(environment) as stream, tarfile.open(fileobj=stream) as tar:
        return sorted(tar.getnames())


def test_what_is_built_is_what_a_dockerignore_leaves(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    (environment / "docs" / "deep").mkdir(parents=True)
    for name in ("Dockerfile", "a.py", "secret", "docs/a.md", "docs/b.md", "docs/deep/c"):
        (environment / name).write_text("FROM x\n")
    (environment / "link").symlink_to("a.py")
    everything = [
        ".",
        "Dockerfile",
        "a.py",
        "docs",
        "docs/a.md",
        "docs/b.md",
        "docs/deep",
        "docs/deep/c",
        "link",
        "secret",
    ]
    assert context_of(environment) == everything
    (environment / ".dockerignore").write_text("secret\ndocs\n!docs/a.md\nDockerfile\n")
    assert context_of(environment) == [".", ".dockerignore", "Dockerfile", "a.py", "docs/a.md", "link"]


def test_a_dockerignore_needs_a_build(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    (environment / "repo").mkdir(parents=True)
    (environment / "repo" / "secret").write_text("x")
    (environment / ".dockerignore").write_text("**/secret\n")
    assert prepare_image(environment, State(tmp_path / "state"), workdir="/app").workdir == "/app"
    dockerfile(environment, "FROM x\nWORKDIR /app\nCOPY repo/ .\n")
    with pytest.raises(NeedsBuildError, match="dockerignore"):
        recipe_of(environment, "/app")
