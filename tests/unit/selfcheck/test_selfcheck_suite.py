"""What the self-check counts, tells and decides; the trials themselves are in the integration tests."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_rl.commands import live_line, selfcheck
from lego_rl.errors import ConfigError, SandboxError
from lego_rl.sandbox.environments import ENVIRONMENTS
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.verdict import Change, Patch, Verdict
from lego_rl.selfcheck.attack import SHOWN_ON, Attack, Control, Defence, Forgery, Kind
from lego_rl.selfcheck.attacks import ATTACKS
from lego_rl.selfcheck.controls import CONTROLS
from lego_rl.selfcheck.forgeries import FORGERIES
from lego_rl.selfcheck.suite import SLOW, Attacked, Findings, Forged, Worked
from lego_rl.selfcheck.target import Secrets
from lego_rl.selfcheck.traces import traces

UNPROVEN = {"bubblewrap": ["nowhere"], "docker": ["not-in-docker", "nowhere"], "kubernetes": ["nowhere"]}
SOURCE = Path(__file__).parents[3] / "src" / "lego_rl"
FIX = Patch((Change("calc/core.py", "file", b"def add(a, b):\n    return a + b\n"),))


def report(why: str = "", wrong: str = "") -> Findings:
    attacks = (Attack("counted", Kind.ESCAPE, "true", Defence.MOUNTS), Attack("more", Kind.FAULT, "true"))
    return Findings(
        "bubblewrap",
        [Attacked(attack, why if attack.defence else "", "finished", 1.0) for attack in attacks],
        [Worked(Control("honest", "true"), wrong, 1.0)],
        [Forged(Forgery("forged", "true"), True, ("the change names atexit",))],
        2.04,
    )


def test_names_are_told_apart() -> None:
    names = [each.id for each in (*ATTACKS, *CONTROLS, *FORGERIES)]
    assert len(set(names)) == len(names)
    assert {attack.id for attack in ATTACKS} >= SLOW


def test_there_is_enough_of_everything() -> None:
    for environment in SHOWN_ON:
        counted = Counter(attack.kind for attack in ATTACKS if attack.is_shown_on(environment))
        assert sum(counted.values()) >= 40
        assert all(counted[kind] >= 3 for kind in Kind)
    assert len(CONTROLS) >= 16
    assert {attack.defence for attack in ATTACKS if attack.defence is not None} == set(Defence)


def test_nothing_that_isolates_knows_the_self_check() -> None:
    knowing = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if "lego_rl.selfcheck" in path.read_text(encoding="utf-8")
    }
    assert knowing == {"selfcheck", "commands"}


def test_what_is_counted_was_shown_in_the_environment_or_else_in_the_first() -> None:
    attacks = (
        Attack("everywhere", Kind.ESCAPE, "true", Defence.MOUNTS),
        Attack("not-in-docker", Kind.ESCAPE, "true", Defence.MOUNTS, unshown=("docker",)),
        Attack("nowhere", Kind.ESCAPE, "true"),
    )
    counted = {}
    for environment in ENVIRONMENTS:
        tried = [Attacked(attack, "", "finished", 1.0) for attack in attacks]
        found = Findings(environment, tried, [], [], 1.0).as_json()
        assert (found["attacks"], found["unproven"]) == (2 - (environment == "docker"), UNPROVEN[environment])
        counted[environment] = found["shown_on"]
    assert counted == {"bubblewrap": "bubblewrap", "docker": "docker", "kubernetes": "bubblewrap"}


def test_json() -> None:
    found = report("earned a reward", "finished: no").as_json()
    assert found["attacks"] == 1
    assert found["succeeded"] == ["counted"]
    assert (found["controls"], found["wronged"]) == (1, ["honest"])
    assert found["seconds"] == 2.0
    assert found["unproven"] == ["more"]
    assert found["unblockable"] == [{"id": "forged", "rewarded": True, "traces": ["the change names atexit"]}]
    json.dumps(found)


@pytest.mark.parametrize(("why", "wrong"), [("", ""), ("earned a reward", ""), ("", "finished: no")])
def test_the_command_fails_where_anything_did_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str, wrong: str
) -> None:
    async def check(settings: SandboxSettings, told: Callable[[str], None]) -> Findings:
        assert settings.processes == 64
        told("trial 1 of 3")
        return report(why, wrong)

    monkeypatch.setattr(selfcheck, "check", check)
    monkeypatch.setattr(live_line, "QUIET_SECONDS", -1.0)
    if why or wrong:
        with pytest.raises(SandboxError, match="counted" if why else "honest"):
            selfcheck.sandbox("bubblewrap", ["sandbox.processes=64"], as_json=False)
    else:
        selfcheck.sandbox("bubblewrap", ["sandbox.processes=64"], as_json=False)
    said, progress = capsys.readouterr()
    assert "trial 1 of 3" in progress, "standard output is for what came of it"
    attacks, controls = int(bool(why)), int(bool(wrong))
    assert f"1 attacks (shown to be live on bubblewrap), {attacks} succeeded" in said
    assert f"1 honest controls, {controls} wronged; 2 s" in said
    assert ("counted succeeded: earned a reward" in said) == bool(why)
    assert ("honest was wronged: finished: no" in said) == bool(wrong)


def test_an_unknown_environment() -> None:
    with pytest.raises(ConfigError, match="no environment 'chroot'") as caught:
        selfcheck.sandbox("chroot", as_json=True)
    assert "bubblewrap" in caught.value.fix


def test_a_secret_is_seen_wherever_it_is() -> None:
    kept = Secrets()
    assert kept.seen_in(f"before{kept.file}after {kept.network}") == ["file", "network"]
    assert kept.seen_in("nothing") == []
    assert len(set(vars(kept).values())) == len(vars(kept))


@pytest.mark.parametrize(
    ("log", "reward", "said"),
    [
        ("3 passed in 0.03s", 1, ()),
        ("1 failed, 2 passed in 0.03s", 1, ("pytest said that tests failed",)),
        ("2 passed in 0.03s", 1, ("pytest said that tests failed",)),
        ("", 1, ("pytest never said how it ended",)),
        ("1 failed, 2 passed in 0.03s", 0, ()),
    ],
)
def test_a_log_that_says_otherwise_is_seen(log: str, reward: int, said: tuple[str, ...]) -> None:
    assert traces(FIX, Verdict(reward, dict.fromkeys("abc", "passed"), log=log)) == said


def test_words_of_a_change_are_seen() -> None:
    patch = Patch(
        (Change("a.py", "file", b"import atexit\nimport os\nos._exit(0)\n"), Change("b", "symlink", b"_pytest"))
    )
    assert traces(patch, None) == ("the change names atexit", "the change names os._exit")
    assert traces(None, None) == ()
