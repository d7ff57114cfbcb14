"""docs/faults.md: the fault table for people, with an example of every row and what to look at.

Invariant: everything in columns of the first table is the code's own. A row without a text, or a text without a row, is
an error, and a unit test writes the page.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.rollout.batch_check import MAX_UNATTRIBUTED
from lego_rl.rollout.faults import FAULT_TABLE, MOST_TRIES, Ended
from scripts.fault_evidence import evidence_section
from scripts.outcomes import explained


@dataclass(frozen=True)
class Help:
    """What one row means to a reader.

    Attributes:
        example: How a trial comes to end there.
        look: What to do about it, or where to look.
    """

    example: str
    look: str


HELP: Mapping[str, Help] = {
    "finished": Help("the policy says that it is done, and the harness ends", "nothing"),
    "turn_budget": Help(
        "the bug is mended and the policy goes on looking until `budget.turns`",
        "nothing, if the policy does not know when to stop; where good trials are cut short, raise it",
    ),
    "context_budget": Help(
        "a long log was read, and the harness could not make its prompt shorter",
        "`budget.context_tokens`; at the first request the harness's own prompt is too long"
        " ([sizes](harnesses.md#what-a-first-prompt-takes))",
    ),
    "wall_clock_budget": Help(
        "a slow test suite is run again and again until `budget.wall_clock_sec`",
        "`seconds` in `outcome.json` for where the time goes",
    ),
    "attempt_budget": Help(
        "the client hangs up and asks again 16 times for every turn",
        "`refused` in `outcome.json` ([outcomes.md](reference/outcomes.md#requests-without-a-completed-model-call))",
    ),
    "output_budget": Help(
        "the policy writes a whole file into one answer and is cut off at `budget.output_tokens`",
        "`truncated`: many mean that the budget is small, or that the policy lacks its stop token",
    ),
    "malformed_call": Help(
        "a tool call without its closing tag: the harness sees plain text and ends",
        "`tool_parse_faults`; if all first answers end so, `policy.tool_parser` is the wrong one",
    ),
    "agent_timeout": Help(
        "a command that waits for input, and a harness that waits for the command",
        "`logs/harness.stdout`: a tool that hangs, or a harness that does not end on the last answer",
    ),
    "harness_error": Help(
        "the policy calls a tool that the harness's own code cannot bear, and it exits with 1",
        "`logs/harness.stderr`. Some harnesses end so on a full context ([harnesses.md](harnesses.md)); if every trial"
        " does, `lego-rl harness test NAME`",
    ),
    "harness_killed": Help(
        "`pkill node`, `kill -9 -1`: the policy killed the harness that it runs in",
        "`logs/harness.stderr`; the commands before the end",
    ),
    "out_of_memory": Help(
        "a test that allocates without end, until the kernel kills the harness",
        "`memory_mb` of the task; `limit_hits` in `outcome.json`",
    ),
    "out_of_disk": Help("a core dump or a data set in the work tree", "`storage_mb` of the task, `sandbox.disk_mb`"),
    "too_many_processes": Help(
        "a fork bomb, or a test runner with a process for every core of a large machine", "`sandbox.processes`"
    ),
    "limits_unmeasured": Help(
        "the work tree changes so fast that its size cannot be read", "the log of the run, for what could not be read"
    ),
    "sandbox_lost": Help(
        "the sandbox's first process ended, and the host cannot tell why",
        "the kernel's log; where control groups are missing, memory (`lego-rl check sandbox`)",
    ),
    "patch_too_large": Help(
        "a file of 20 MiB beside the fix: it is left out, the rest is graded", "`dropped` in `patch.json`"
    ),
    "no_snapshot": Help(
        "a file tree that the host cannot walk", "nothing; in many trials, what the agent does with the work tree"
    ),
    "patch_not_applied": Help(
        "a change that fills the grading sandbox's disk before a test runs", "`logs/tests.log`, `patch.json`"
    ),
    "verifier_timeout": Help(
        "the change made a loop endless",
        "if the task's own fix is slow too, raise `sandbox.grading_sec` and the task's `[verifier] timeout_sec`",
    ),
    "verifier_crashed": Help(
        "the change made the tests use more memory or disk than the sandbox has",
        "`logs/tests.log`, `logs/error.txt`; if all trials of a task end so, grade its own fix"
        " ([tasks.md](tasks.md#your-own-tasks))",
    ),
    "no_verdict": Help(
        "the change makes the interpreter exit before pytest writes its report",
        "`logs/tests.log`; if all trials of a task end so, the task's command names another report",
    ),
    "unrecordable": Help("a tool call with arguments nested 5,000 deep", "`logs/error.txt`; report it"),
    "task_unusable": Help(
        "a test file that `tests/spec.json` names is not there; with bubblewrap a Dockerfile that needs a build",
        "`detail` says what to mend in the task",
    ),
    "sandbox_start": Help("no user namespaces, no bubblewrap, no daemon", "`lego-rl check sandbox`"),
    "seal_failed": Help(
        "a route out, a hidden test or the solution on the disk, a capability too many", "`detail` names the hole"
    ),
    "setup_failed": Help(
        "the harness's bundle is damaged, or its port is taken", "`detail`; `lego-rl harness verify NAME`"
    ),
    "harness_silent": Help(
        "the harness does not start, or ends on its own settings",
        "`logs/harness.stderr`; what breaks the protocol (a 400) is no call. `lego-rl harness test NAME --only fix`",
    ),
    "engine_failed": Help("the engine is down or out of memory", "`detail`: the engine's own words"),
    "engine_silent": Help(
        "the engine hangs: a call got no answer, and then there was no step for anybody",
        "the engine's own log",
    ),
    "capture_failed": Help(
        "the engine returned a route or a log-prob too few", "`detail`; a bug of the engine or of its adapter"
    ),
    "gateway_lost": Help("the socket that a session listens on was shut down", "the log of the run"),
    "sandbox_killed": Help(
        "`kill -9` by an administrator or a batch system; an evicted pod",
        "`detail` says which signal; what guards the memory of the machine",
    ),
    "runtime_lost": Help("the container daemon was restarted, or the node is gone", "the daemon, the node"),
    "grading_start": Help("what holds for `sandbox_start`, after the agent", "`lego-rl check sandbox`"),
    "host_disk_full": Help("the run directory's disk is full", "`detail` says which; free it, then `--resume`"),
    "host_out_of_memory": Help(
        "something beside the sandboxes takes the memory", "run fewer trials at once (`rollout.concurrency`)"
    ),
    "host_out_of_handles": Help("a low `ulimit -n`", "raise it, then `--resume`"),
    "cancelled": Help("Ctrl-C", "`--resume`"),
    "unattributed_before": Help("a bug here or in Harbor", "`logs/error.txt`; report it"),
    "unattributed_after": Help(
        "a bug here or in Harbor", "`logs/error.txt`, or the traceback on the command's standard error; report it"
    ),
}


def faults_page() -> Iterator[str]:
    """The parts of docs/faults.md below its head."""
    help_of = explained(map(str, Ended), HELP)
    yield _INTRODUCTION
    yield "| ended | fault | reward | trained | group | denominator | retries | what happened |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in FAULT_TABLE.values():
        counts = " | ".join("yes" if each else "no" for each in (row.trained, row.in_group, row.in_denominator))
        head = f"`{row.ended}` | {row.fault} | {row.rewarded} | {counts}"
        yield f"| {head} | {row.retries} | {row.meaning} |"
    yield from evidence_section()
    yield _RETRIES
    yield "## Examples, and what to look at\n"
    yield "| ended | for example | what to look at |"
    yield "| --- | --- | --- |"
    for ended, text in help_of.items():
        yield f"| `{ended}` | {text.example} | {text.look} |"
    yield ""


_INTRODUCTION = """A trial is one attempt at one task. However it ends, it ends in one row of this table
(`rollout/faults.py`). The loss, the group statistics, every denominator and the retries read the row, and nothing else
decides any of them.

- **fault**: who brought the end about. `none`: nobody, it is an ordinary one. `policy`: the model, by what it said, or
  what its commands or its change of the code did. `infrastructure`: the machine, the engine or the task. `unknown`: an
  error that nobody foresaw.
- **reward**: where it comes from. `verdict`: the task's tests, and 0 where they say nothing. `zero`: it is 0.
  `nothing`: there is none, and the trial is *masked*: it counts nowhere.
- **trained**: whether the tokens that were sampled may be in the loss. A trial that has none is never a training row.
- **group**: whether the reward is part of its group's mean and standard deviation. A group of 1, 1, 0 and an
  infrastructure fault has the mean 2/3, over three.
- **denominator**: whether the trial is one of those that a solve rate is a share of: that of a step, of an evaluation,
  of the report.
- **retries**: how often a trial that ended so is run again from its start, at most; 0 means that the end is final.
"""

_RETRIES = f"""## Tries

A further try begins from nothing, under the same specification and seeds. A trial gets the fewer of its row's retries
and `rollout.retries`; all trials of a step or an evaluation together get as many further tries as there are trials (8
at least), and one trial has {MOST_TRIES} tries that faults took, however often its run is resumed. After that its last
record stands: masked.

More than {MAX_UNATTRIBUTED:.0%} of a step or an evaluation in rows whose fault is `unknown` stop the run (of fewer than
{math.ceil(1 / MAX_UNATTRIBUTED)} trials a single one does), and so does an infrastructure that took all of it. When the
infrastructure is mended, `--resume` gives those trials all their tries again. When the bug is, it runs those again that
it took, but none that has ended so {MOST_TRIES} times: where an agent brings the bug out, that must not give it one try
after the other.
"""
