"""``lego-rl harness``: what is said of harnesses that are not there, of names that nobody knows, and of laws."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from lego_rl import cli
from lego_rl.commands import harness as command
from lego_rl.conformance.laws import Law
from lego_rl.conformance.situations import SITUATIONS
from lego_rl.conformance.trial import Report
from lego_rl.errors import HarnessError
from lego_rl.gateway.trajectory import CallRole
from lego_rl.harness import bundles, registry
from lego_rl.sandbox.sandbox import Completed


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["lego-rl", "harness", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_list_has_a_line_for_every_harness(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, "list") == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["harness", "version", "size", "sha256", "licence", "state"]
    expected = [(name, registry.make(name).version, "missing") for name in registry.REGISTRY]
    assert [tuple(line.split()) for line in lines] == expected


def test_list_says_in_a_line_which_record_is_damaged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = bundles.default_root() / "codex" / "0.1" / "bundle.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"format": 1, "name": 7}')
    assert run(monkeypatch, "list") == 0
    _, *lines, damaged = capsys.readouterr().out.splitlines()
    assert len(lines) == len(registry.REGISTRY)
    assert f"{record.parent}/bundle.json is not a bundle record" in damaged


BUNDLE = SimpleNamespace(version="1.0", hash="0" * 64)
ROLES: dict[CallRole, int] = {"main": 5, "subagent": 12, "compaction": 3}


def report(name: str = "hostile-repo", completed: Completed | None = None, **broken: str) -> Report:
    situation = next(each for each in SITUATIONS if each.name == name)
    laws = dict.fromkeys(Law, "") | {Law(law): wrong for law, wrong in broken.items()}
    return Report(situation, laws, 20, ROLES, 17, 299.9, completed or Completed(1, "", "", False, False))


def tried(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *reports: Report) -> tuple[str, str]:
    """What ``harness test`` prints of reports, and the advice that it gives."""

    async def all_of_them(*_: object, **__: object) -> list[Report]:
        return list(reports)

    monkeypatch.setattr(command.Bench, "prepare", lambda *_: SimpleNamespace(bundle=BUNDLE))
    monkeypatch.setattr(command, "try_all", all_of_them)
    with pytest.raises(HarnessError) as refused:
        command.test("codex", [], [], at_once=1)
    return capsys.readouterr().out, refused.value.fix


def test_the_law_table_fits_a_terminal_of_80_columns() -> None:
    out = StringIO()
    Console(file=out, width=80).print(command.law_table([report(), report("unknown-tool", exact="wrong")]))
    lines = out.getvalue().splitlines()
    assert lines[0].split() == ["situation", *Law, "calls", "seg", "sec"]
    assert "…" not in out.getvalue()
    assert [line.strip() for line in lines[2:4]] == ["12×subagent,", "3×compaction"]
    (first,) = [line for line in lines if line.startswith("hostile-repo")]
    assert first.split() == ["hostile-repo", *["yes"] * len(Law), "5×main,", "17", "300"]
    (second,) = [line for line in lines if line.startswith("unknown-tool")]
    assert second.split()[1] == "no"


def test_no_law_is_said_to_hold_that_was_not_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = {Law.SILENT: "", Law.ENDED: "it was killed after 300 s", Law.OUTCOME: "none of 0 requests was answered"}
    never = replace(report("fix"), laws=silent, requests=0, roles={}, segments=0)
    said, advice = tried(monkeypatch, capsys, never)
    (line,) = [line.split() for line in said.splitlines() if line.startswith("fix ")]
    assert line == ["fix", "-", "-", "-", "yes", "no", "no", "0", "300"]
    assert "it never called the model" in advice


def test_a_record_that_contradicts_itself_is_no_damaged_bundle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {Law.SILENT: "", Law.ENDED: "", Law.EXACT: "routes contradict each other"}
    said, advice = tried(monkeypatch, capsys, replace(report("fix"), laws=wrong, roles={}, segments=0, trajectory=None))
    (line,) = [line.split() for line in said.splitlines() if line.startswith("fix ")]
    assert line == ["fix", "no", "-", "-", "yes", "yes", "-", "0", "300"]
    assert "fix: exact: routes contradict each other" in said
    assert "never called" not in advice


def test_what_broke_a_law_is_told_with_the_harness_s_last_words() -> None:
    words = "".join(f"line {number}\n" for number in range(9)) + "\x1b[31mcannot start\x1b[0m\n \n"
    said = list(command.told(report("fix", Completed(127, "other", words, False, False), outcome="nothing was done")))
    assert said[:2] == ["fix: outcome: nothing was done", "fix: exit code 127; its last words:"]
    assert [line.strip() for line in said[2:]] == [f"line {number}" for number in range(5, 9)] + ["cannot start"]
    (_, silent) = command.told(report("fix", ended="it was killed"))
    assert silent == "fix: exit code 1, without a word"


def test_a_situation_that_is_named_twice_is_tried_once() -> None:
    assert [each.name for each in command._situations(["fix", "turns", "fix"])] == ["fix", "turns"]


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (["claude-cod"], "there is no harness 'claude-cod'", "did you mean claude-code?"),
        (["claude-code", "--only", "fixx"], "there is no situation 'fixx'", "did you mean fix?"),
        (["claude-code", "--set", "baer=true"], "unknown key harness.options.baer", "did you mean"),
        (["claude-code", "--set", "bare"], "bare", "="),
        (["claude-code"], "claude-code", "lego-rl harness install claude-code"),
    ],
)
def test_a_test_that_cannot_be_run_is_refused(
    arguments: list[str],
    problem: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    empty: Path,
) -> None:
    assert run(monkeypatch, "test", *arguments) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert problem in said[0]
    assert fix in said[1]
    assert not list(empty.iterdir())
