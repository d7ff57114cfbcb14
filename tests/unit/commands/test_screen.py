"""Foreign text on a terminal: shown as something to read, whatever is in it and whichever way it gets there."""

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import lego_rl
from lego_rl import cli
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.screen import Screen
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.plain_text import PlainFormatter, plain_line
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome
from lego_rl.rollout.progress import TrialRetried
from lego_rl.rollout.spec import HarnessChoice, TrialSpec

HOSTILE = "a\x1b]0;owned\x07b\x1b[2Jc\rd\x9b31me\u202ef\u2066g\x08h[bold red]i[/]:smile:[link=http://x]j"
STEERING = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"} | set("\u202e\u2066\u200b\u2028")


def steers(shown: str) -> set[str]:
    return STEERING & set(shown)


def printed(*things: object) -> str:
    file = io.StringIO()
    screen = Screen(file=file, width=400)
    for thing in things:
        screen.print(thing)
    return file.getvalue()


def test_whatever_is_printed_steers_nothing() -> None:
    table = Table("x", HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE, Text(HOSTILE))
    shown = printed(HOSTILE, Text(HOSTILE, style="bold"), Panel(HOSTILE, title=HOSTILE), table, [HOSTILE], {HOSTILE: 1})
    assert not steers(shown), steers(shown)
    for visible in ("\\u{1b}]0;owned", "\\u{9b}31m", "\\u{202e}", "[bold red]i[/]", ":smile:", "[link=http://x]j"):
        assert visible in shown


@given(st.text(alphabet=st.characters(), max_size=30))
def test_no_text_at_all_does(text: str) -> None:
    assert not steers(printed(text, Text(text)))


def test_styles_and_live_lines_are_still_drawn() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    file = Terminal()
    screen = Screen(file=file, width=80)
    screen.print(Text("trained", style="green"))
    with Live(Text(HOSTILE), console=screen, auto_refresh=False) as live:
        live.update(Text(f"again {HOSTILE}"), refresh=True)
    shown = file.getvalue()
    assert "\x1b[" in shown, "colours and cursor moves are the console's own"
    for steering in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e", "\u2066", "\x08"):
        assert steering not in shown
    assert "\\u{1b}]0;owned" in shown


def test_no_line_of_a_run_is_begun_by_what_an_agent_wrote() -> None:
    file = io.StringIO()
    progress = ConsoleProgress(1, Screen(file=file, width=80))
    spec = TrialSpec(Path("tasks/one"), "train/step-0000", 0, 1, 7, 1.0, Budget(), HarnessChoice("claude-code"))
    progress.trial(TrialRetried(spec, 1, Outcome(None, Ended.SANDBOX_START, None, f"{HOSTILE}\nstep 1/1 · fine"), 1.0))
    (line,) = file.getvalue().splitlines()
    assert line.startswith("retrying train.step-0000")
    assert line.endswith("\\u{a}step 1/1 · fine")
    assert not steers(line)


def test_neither_does_an_error_line_or_a_log_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise RunError(f"no trial {HOSTILE}\nlego-rl: all is well", HOSTILE)

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    assert not steers(said)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "call %s", (HOSTILE,), sys.exc_info())
    logged = PlainFormatter().format(record)
    assert "Traceback" in logged
    assert not steers(logged)


def test_the_commands_log_is_plain() -> None:
    program = (
        "import logging; from lego_rl import cli\n"
        "cli.app = lambda: logging.getLogger('lego_rl').warning('met %s', 'a\\x1b[2Jb')\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "met a\\u{1b}[2Jb\n"


def test_a_line_of_foreign_text_is_one() -> None:
    assert plain_line("a\nb\tc") == "a\\u{a}b\\u{9}c"


def test_nothing_is_cut_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> int:
        file = io.StringIO()
        table = Table(*"abcdefgh", box=None)
        table.add_row(*["a rather long cell"] * 8)
        Screen(file=file).print(table)
        return len(file.getvalue().splitlines())

    monkeypatch.delenv("COLUMNS", raising=False)
    assert rows() == 2
    monkeypatch.setenv("COLUMNS", "40")
    assert rows() > 2


def test_no_command_prints_on_another_console() -> None:
    source = Path(lego_rl.__file__).parent
    users = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if "rich.console" in path.read_text()}
    assert users == {"commands/screen.py"}


def test_what_a_library_writes_into_a_file_of_its_own_is_not_on_the_screen(tmp_path: Path) -> None:
    code = (
        "import logging; from lego_rl import cli\n"
        "log = logging.getLogger('harbor.of.one.trial')\n"
        f"log.addHandler(logging.FileHandler({str(tmp_path / 'trial.log')!r}))\n"
        "cli.app = lambda: log.warning('its sandbox is gone')\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert "its sandbox is gone" in (tmp_path / "trial.log").read_text()
