"""``lego-rl run``: a policy at work on one's own folder, in a sandbox; the change is printed, and applied on request.

Invariant: the workspace is only read, but where ``--apply`` is given and the change is whole; standard output holds the
patch, or JSON, and nothing else.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import typer

from lego_rl.commands import interrupts
from lego_rl.commands.live_line import LiveLine, said_if_slow
from lego_rl.commands.run_policies import ChosenPolicy
from lego_rl.commands.run_report import as_json, coloured, handed_over, outcome
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError, LegoError, RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call_log import LoggedCall
from lego_rl.gateway.store import write_trajectory
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.gateway.transcript_store import write_transcript
from lego_rl.harness import registry
from lego_rl.harness.base import OptionValue
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.workspace.apply import NotAppliedError, apply, recover
from lego_rl.workspace.job import Done, Job, work
from lego_rl.workspace.listing import list_workspace
from lego_rl.workspace.stage import differences

_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Wanted:
    """What is to be done with the change.

    Attributes:
        apply: Whether it is applied.
        output: File that the patch is written to.
        trajectory: Folder that is kept of the work.
        as_json: Whether JSON is printed in place of the patch.
    """

    apply: bool = False
    output: Path | None = None
    trajectory: Path | None = None
    as_json: bool = False


@dataclass(frozen=True)
class Around:
    """What the policy works in.

    Attributes:
        harness: Registry name.
        options: Official options of the harness.
        sandbox: What the sandbox is given.
        include: Paths that are handed over whatever they are.
        temperature: Of every call.
        budget: What the agent may spend.
    """

    harness: str
    sandbox: SandboxSettings
    budget: Budget
    temperature: float
    options: dict[str, OptionValue] = field(default_factory=dict)
    include: tuple[str, ...] = ()


def run(text: str, workspace: Path, policy: ChosenPolicy, around: Around, wanted: Wanted) -> None:
    """Have a policy work on a folder.

    Args:
        text: What it is told to do.
        workspace: The folder.
        policy: Who works.
        around: In what.
        wanted: What becomes of the change.

    Raises:
        LegoError: Something is missing, the policy did not answer, or the change could not be applied.
        KeyboardInterrupt: Somebody asked for the end; nothing is left behind.
    """
    job = _job(text, workspace, policy, around)
    _check_places(job.workspace, wanted)
    started = time.monotonic()
    with LiveLine(f"{job.bundle.name} {job.bundle.version} at work in a copy of {job.workspace}") as live:
        live.stay(handed_over(job.listing))
        done = interrupts.run(_work(job, policy, live, started))
    seconds = time.monotonic() - started
    if wanted.trajectory is not None:
        _keep(done, wanted.trajectory, job)
    if wanted.output is not None:
        wanted.output.write_bytes(done.text)
    refused = _applied(done, job) if wanted.apply else None
    if wanted.as_json:
        applied = wanted.apply and refused is None and bool(done.patch.changes)
        typer.echo(json.dumps({**as_json(done, job, seconds), "applied": applied}, indent=1))
    else:
        _print(done.text)
    console = Screen(stderr=True)
    console.print(outcome(done, seconds))
    if done.failure is not None:
        raise RunError(f"the policy did not answer: {done.failure}", "check the endpoint, and run it again")
    exit_code = done.completed.returncode
    if exit_code != 0 and not done.completed.timed_out and not done.patch.changes:
        said = " ".join((done.completed.stderr or done.completed.stdout).split())[-300:]
        raise RunError(f"{job.bundle.name} ended with exit code {exit_code}: {said}", "see --keep-trajectory DIR")
    if refused is not None:
        raise refused
    if wanted.apply:
        console.print(f"applied to {job.workspace}" if done.patch.changes else "there is nothing to apply")


def _job(text: str, workspace: Path, policy: ChosenPolicy, around: Around) -> Job:
    root = workspace.expanduser().resolve()
    if not root.is_dir():
        raise ConfigError(f"there is no folder {workspace}", "name the folder to work on with --workspace")
    if root in (Path("/"), Path.home().resolve()):
        raise ConfigError(f"{root} is no workspace: an agent would be handed all of it", "name a project in it")
    if recover(root):
        Screen(stderr=True).print(f"a change that a killed run had begun to apply to {root} was taken back")
    harness = registry.make(around.harness, around.options)
    bundle = registry.load(around.harness)
    with said_if_slow("looking at the workspace"):
        listing = list_workspace(root, around.include)
    provider_of(around.sandbox).check()
    return Job(
        instruction=text,
        workspace=root,
        listing=listing,
        harness=harness,
        bundle=bundle,
        budget=policy.budget(around.budget),
        temperature=around.temperature,
        sandbox=around.sandbox,
    )


def _check_places(workspace: Path, wanted: Wanted) -> None:
    if wanted.trajectory is not None and wanted.trajectory.exists() and any(wanted.trajectory.iterdir()):
        raise ConfigError(f"{wanted.trajectory} is not empty", "name a new folder with --keep-trajectory")
    if wanted.output is not None and (wanted.output.is_dir() or not wanted.output.absolute().parent.is_dir()):
        raise ConfigError(f"no file can be written at {wanted.output}", "name a file in a folder that exists")
    for name, place in (("--output", wanted.output), ("--keep-trajectory", wanted.trajectory)):
        if wanted.apply and place is not None and place.absolute().resolve().is_relative_to(workspace):
            raise ConfigError(f"{name} lies in the workspace, and would count as a change of it", "name another place")


async def _work(job: Job, policy: ChosenPolicy, live: LiveLine, started: float) -> Done:
    def show(call: LoggedCall) -> None:
        said = call.answer.tool_calls[0] if call.answer.tool_calls else None
        what = call.answer.content if said is None else f"{said.name} {json.dumps(dict(said.arguments))}"
        line = " ".join(what.split())[:_SHOWN_CHARACTERS]
        live.show(f"{time.monotonic() - started:4.0f} s, call {call.index + 1}: {line}")

    async with policy.serving(job.temperature) as gateway:
        return await work(job, gateway, show)


def _print(text: bytes) -> None:
    if sys.stdout.isatty():
        Screen().print(coloured(text), end="", soft_wrap=True)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def _applied(done: Done, job: Job) -> LegoError | None:
    """Apply a change of a policy that answered to the end; why that was not done."""
    if done.failure is not None or not done.patch.changes:
        return None
    now = list_workspace(job.workspace, [path for path in job.listing.named if (job.workspace / path).exists()])
    if changed := next(differences(job.workspace, now, done.staged), None):
        return NotAppliedError(
            f"nothing was applied: {changed} in {job.workspace} was changed meanwhile",
            "look at the patch, and apply it yourself: git apply FILE (--output FILE writes it)",
        )
    try:
        apply(done.patch, job.workspace, done.staged.entries)
    except NotAppliedError as error:
        return error
    return None


def _keep(done: Done, folder: Path, job: Job) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"harness": job.bundle.name, "version": job.bundle.version, "session_id": "run"}
    if isinstance(done.captured, Trajectory):
        write_trajectory(done.captured, folder, **about)
    else:
        write_transcript(done.captured, folder, **about)
    (folder / "change.patch").write_bytes(done.text)
    (folder / "harness.stdout").write_bytes(done.completed.stdout.encode(errors="backslashreplace"))
    (folder / "harness.stderr").write_bytes(done.completed.stderr.encode(errors="backslashreplace"))
