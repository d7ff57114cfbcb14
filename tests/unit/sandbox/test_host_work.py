"""What a hostile change costs the host grows no faster than the change: it runs in threads that no timeout ends.

Counted are calls of functions, which no other load changes, and steps of a search.
"""

import cProfile
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lego_rl.sandbox.ownership.merge import configuration
from lego_rl.sandbox.ownership.merge.configuration import MAX_ALL_BYTES, MAX_BYTES, merge
from lego_rl.sandbox.ownership.own_tests.strays import MAX_SAID_BYTES
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.run.python_in_shell import python_texts
from lego_rl.sandbox.ownership.run.python_words import PythonWords
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.ownership.texts import shell_words, toml_keys
from lego_rl.sandbox.ownership.texts.toml_keys import MAX_KEY_PARTS
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.task import Task, TestSpec

TESTS = tuple(f"tests/test_{number}.py" for number in range(50))
SPEC = TestSpec(tuple(f"{name}::test_it" for name in TESTS), (), "pytest", "pytest-junit", TESTS)


def calls(work: Callable[[], object]) -> int:
    """How many functions were called, those written in C as well."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def split_calls(root: Path, paths: Sequence[str], files: int) -> int:
    task = Task("t", root / "task", "", "", "/app", TestSpec(SPEC.fail_to_pass[:files], (), "pytest", "x", ()), 1.0, 1)
    own = Ownership.of(task, root, {})
    own.split(Patch((Change("tests/a/first.py", "file"),)))  # what is looked up once for a task
    patch = Patch(tuple(Change(path, "file") for path in paths))
    return calls(lambda: own.split(patch))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in TESTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


SHAPES: dict[str, Callable[[int], str]] = {
    "one deep folder": lambda number: f"{'d/' * 98}f{number}",
    "modules in one deep folder": lambda number: f"{'d/' * 98}json{number}.py",
    "names of modules": lambda number: f"d{number}/json.py",
    "among tests": lambda number: f"tests/n{number}/test_{number}/__init__.py",
    "the work tree": lambda number: f"f{number}.py",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_ownership_is_linear(root: Path, shape: str) -> None:
    few, many = ([SHAPES[shape](number) for number in range(count)] for count in (200, 800))
    assert split_calls(root, many, 50) < 4.4 * split_calls(root, few, 50)
    assert split_calls(root, many, 50) < 1.1 * split_calls(root, many, 1), "however many tests there are"


def test_depth_costs_once_for_each_folder(root: Path) -> None:
    shallow, deep = ([f"{'d/' * depth}f{number}" for number in range(800)] for depth in (1, 98))
    assert split_calls(root, deep, 50) < 1.2 * split_calls(root, shallow, 50)
    chains = [f"d{number}/{'d/' * 48}f" for number in range(50)]
    assert split_calls(root, chains, 50) < 50 * 50 * 25, "a bounded number of calls for each new folder"


TOML = "[tool.pytest]\nx = 1\n"
HOSTILE: dict[str, Callable[[int], str]] = {
    "a long key": lambda size: TOML + "a" + ".a" * size + " = 1\n",
    "long keys": lambda size: TOML + "".join(f"k{n}{'.a' * 900} = 1\n" for n in range(size // 1800)),
    "a deep table": lambda size: f"{TOML}[a{'.a' * 900}]\n" + "".join(f"k{n} = 1\n" for n in range(size // 8)),
    "quoted": lambda size: TOML + '"a\\""' + ' . "#.\'"' * size + " = 1\n",
    "in a table": lambda size: f"{TOML}a = {{b{'.b' * 900} = 1}}\n" * (size // 1800),
    "after strings": lambda size: TOML + "x = '''\n\"'''\ny = \"'''\"\na" + ".a" * size + " = 1\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_keys_that_take_long_to_read_are_not_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> dict[str, object]:
        raise AssertionError("it was read")

    monkeypatch.setattr(toml_keys.tomllib, "loads", never)
    monkeypatch.setattr(configuration, "_merge_toml", lambda _, changed: configuration.read_toml(changed))
    assert merge(Change("pyproject.toml", "file", HOSTILE[kind](4_000).encode()), b"") == (None, Reason.UNREADABLE)


HONEST = {
    "dependencies": "[project]\ndependencies = [" + ", ".join(f'"a{n}==1.{n}.0.dev1"' for n in range(60)) + "]\n",
    "floats": "x = [" + ", ".join(f"0.{n}" for n in range(100)) + "]\n",
    "text": f"x = '''\n{'a.' * 100}\n'''\n# {'a.' * 100}\ny = \"{'a.' * 100}\"\n",
    "deep": "[" + ".".join("a" for _ in range(MAX_KEY_PARTS)) + "]\nx = 1\n",
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_text_with_many_dots_is_read(kind: str) -> None:
    change = Change("pyproject.toml", "file", HONEST[kind].encode())
    assert merge(change, b"") == (change, None)


SHORT_KEY = ".".join(["a"] * (MAX_KEY_PARTS // 2))
WORST: dict[str, tuple[str, Callable[[int], str]]] = {
    "tables": ("pyproject.toml", lambda size: TOML + "".join(f"[a{n}]\n" for n in range(size // 8))),
    "keys": ("pyproject.toml", lambda size: TOML + "".join(f"{SHORT_KEY}{n} = 1\n" for n in range(size // 33))),
    "keys in a deep table": (
        "pyproject.toml", lambda size: f"{TOML}[{SHORT_KEY}]\n" + "".join(f"k{n} = 1\n" for n in range(size // 11))
    ),
    "lists of tables": ("pyproject.toml", lambda size: TOML + "[[a]]\n[[a.b]]\n" * (size // 14)),
    "inline tables": ("pyproject.toml", lambda size: TOML + "a = [\n" + "{b = [{c = 1}]},\n" * (size // 17) + "]\n"),
    "sections": ("setup.cfg", lambda size: "[tool:pytest]\na = 1\n" + "".join(f"[s{n}]\n" for n in range(size // 8))),
    "options": ("setup.cfg", lambda size: "[pytest]\na = 1\n[x]\n" + "".join(f"a{n} =\n" for n in range(size // 9))),
    "lines of a value": ("setup.cfg", lambda size: "[pytest]\na = 1\n[x]\na = 1\n" + " b\n" * (size // 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", WORST)
def test_a_merge_is_linear(kind: str) -> None:
    name, text = WORST[kind]

    def cost(size: int) -> int:
        change = Change(name, "file", text(size).encode())
        return calls(lambda: merge(change, b""))

    assert cost(40_000) < 4.4 * cost(10_000)
    assert cost(40_000) < 50 * 40_000, "calls for each byte"


def test_there_is_room_for_so_much_configuration(root: Path) -> None:
    (root / "pkg").mkdir()
    (root / "pkg" / "setup.cfg").write_text("[metadata]\nname = a\n")
    full = b"[x]\n" + b"# comment\n" * ((MAX_BYTES - 4) // 10)
    generated = [Change(f"d{number}/setup.cfg", "file", full) for number in range(8)]
    mended = Change("pkg/setup.cfg", "file", full)
    small = Change("z/pyproject.toml", "file", b"[project]\nname = 'z'\n")
    task = Task("t", root / "task", "", "", "/app", SPEC, 1.0, 1)
    split = Ownership.of(task, root, {}).split(Patch((*generated, mended, small)))
    assert mended in split.applied and small in split.applied, "the task's own first, then the smallest"
    assert sum(len(change.content) for change in split.applied) <= MAX_ALL_BYTES
    beyond = {change.path for change in generated} - {change.path for change in split.applied}
    assert len(beyond) == 5
    assert split.rolled_back == dict.fromkeys(sorted(beyond), Reason.TOO_MUCH)


NEW_TESTS: dict[str, Callable[[int], tuple[str, str]]] = {
    "nothing names them": lambda number: (f"test_n{number}.py", "y = 2\n"),
    "one name": lambda number: (f"d{number}/test_x.py", f"from e{number} import test_x\n'e{number}.test_x'\n"),
    "many names": lambda number: (f"a/test_{number}/test_y.py", f"import b.test_{number}.test_y\n'test_y.txt'\n"),
    "all in a chain": lambda number: (f"test_c{number}.py", f"import test_c{number}\n"),
}


def split_calls_of_new_tests(root: Path, shape: str, count: int) -> int:
    task = Task("t", root / "task", "", "", "/app", TestSpec(SPEC.fail_to_pass, (), "pytest", "x", ()), 1.0, 1)
    own = Ownership.of(task, root, {})
    pairs = [NEW_TESTS[shape](number) for number in range(count)]
    tests = [Change(path, "file", b"x = 1\n") for path, _ in pairs]
    modules = [Change(f"m{number}.py", "file", says.encode()) for number, (_, says) in enumerate(pairs)]
    return calls(lambda: own.split(Patch((*tests, *modules))))


@pytest.mark.parametrize("shape", NEW_TESTS)
def test_new_tests_are_told_apart_in_linear_time(root: Path, shape: str) -> None:
    assert split_calls_of_new_tests(root, shape, 480) < 4.6 * split_calls_of_new_tests(root, shape, 120)


def test_there_is_room_for_so_much_that_names_new_tests(root: Path) -> None:
    large = b"import test_new\n" + b"# comment\n" * 100_000
    task = Task("t", root / "task", "", "", "/app", TestSpec(SPEC.fail_to_pass, (), "pytest", "x", ()), 1.0, 1)
    own, new = Ownership.of(task, root, {}), Change("test_new.py", "file")
    assert own.split(Patch((Change("m.py", "file", large), new))).rolled_back == {}
    beyond = Change("m.py", "file", large * 2)
    assert own.split(Patch((beyond, new))).rolled_back == {"test_new.py": Reason.STRAY}, "more than a program has"
    says = [Change(f"m{n}.py", "file", large.replace(b"import", b"#", 1)) for n in range(MAX_SAID_BYTES // len(large))]
    patch = Patch((Change("a.py", "file", large), *says, new))
    assert own.split(patch).rolled_back == {"test_new.py": Reason.STRAY}, (
        "what has it in no more than comments counts, too"
    )


def test_the_tests_side_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Path] = []
    read = Path.read_bytes

    def counting(path: Path) -> bytes:
        counted.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counting)
    task = Task("t", root / "task", "", "", "/app", SPEC, 1.0, 1)

    def reads(modules: int) -> int:
        own = Ownership.of(task, root, {})
        counted.clear()
        own.asked(Patch(tuple(Change(f"m{number}.py", "file") for number in range(modules))))
        return len(counted)

    assert 0 < reads(80) == reads(2) <= 2 * len(TESTS)


class Counting:
    """An expression that counts the characters it is given."""

    def __init__(self, expression: re.Pattern[str]) -> None:
        self.expression, self.characters = expression, 0

    def sub(self, new: str, text: str) -> str:
        self.characters += len(text)
        return self.expression.sub(new, text)

    def findall(self, text: str) -> list[object]:
        self.characters += len(text)
        return self.expression.findall(text)

    def search(self, text: str) -> object:
        self.characters += len(text)
        return self.expression.search(text)


NESTED = {"commands": ("$(", ")"), "quoted": ("'$(", ")'"), "in quotes": ('"$(', ')"')}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_commands_are_read_in_linear_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expression = shell_words._SUBSTITUTION
    first, last = NESTED[kind]

    def cost(depth: int) -> int:
        counting = Counting(expression)
        monkeypatch.setattr(shell_words, "_SUBSTITUTION", counting)
        text = first * depth + "pytest" + last * depth
        assert any("pytest" in words for words in shell_words.statements(text)), "whatever is around it"
        shell_words.without_commands(text)
        PythonWords.of(f"run({text!r})\n".encode())
        return counting.characters

    assert cost(2_000) < 4.4 * cost(500)


def test_a_line_that_is_too_long_is_read_without_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "pytest tests/test_a.py 'a b'" + " x" * shell_words.MAX_LINE
    monkeypatch.setattr(shell_words.shlex, "shlex", None)
    assert next(shell_words.statements(line))[:4] == ("pytest", "tests/test_a.py", "a", "b")


def test_texts_within_texts_have_a_bound() -> None:
    script = "cat <<EOF\n" * 2_000 + "import a\nEOF\n"
    assert sum(map(len, python_texts(script))) < 64 * len(script)
    assert b"import b" in set(python_texts("python3 - <<'EOF'\nimport b\nEOF\n" + script))
