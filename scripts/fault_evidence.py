"""Who is at fault, for people: what masks a trial, and why no agent can bring that about. A part of docs/faults.md.

Invariant: every row that masks has its evidence here, and no other row has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.rollout.faults import FAULT_TABLE
from scripts.outcomes import explained


@dataclass(frozen=True)
class Evidence:
    """Why a row may mask a trial.

    Attributes:
        seen: What the host has to see.
        why: Why no agent brings that about, nor all of them together.
    """

    seen: str
    why: str


_NO_AGENT = "there was no agent yet"
EVIDENCE: Mapping[str, Evidence] = {
    "task_unusable": Evidence(
        "a file of the task is missing, two contradict each other, or one asks for what this environment does not do",
        "they lie on the host; a sandbox has copies",
    ),
    "sandbox_start": Evidence("there is no sandbox", _NO_AGENT),
    "seal_failed": Evidence(
        "a hole, found from inside", f"{_NO_AGENT}, and every sandbox starts from the task's own image"
    ),
    "setup_failed": Evidence("the harness's files, or the gateway's listener, could not be put into it", _NO_AGENT),
    "harness_silent": Evidence(
        "the gateway had no request that could be read", "the policy was never asked, so it has decided nothing"
    ),
    "engine_failed": Evidence(
        "the newest call ended in an error of the engine",
        "an engine raises one for the state that it is in, never for what or how much it is asked",
    ),
    "engine_silent": Evidence(
        "a call has no answer, and after the session's end the engine takes no step for a minute",
        "calls of other sessions make it slow but not still: every step does something for one of them; a change of"
        " weights is no silence",
    ),
    "capture_failed": Evidence(
        "what the engine returned contradicts itself", "it is checked before anything of it is read"
    ),
    "gateway_lost": Evidence(
        "the socket on which the session listened is closed", "no process of the sandbox has a descriptor of it"
    ),
    "sandbox_killed": Evidence(
        "a signal from outside ended its first process, or bubblewrap, and the kernel has killed nothing for memory; or"
        " the container was removed; or the pod was deleted, or had to leave for what others use on its node",
        "inside, the first process takes no signal, no tracer and no limit, and bubblewrap cannot be named",
    ),
    "runtime_lost": Evidence(
        "it has ended, the kernel has killed nothing for memory, and its daemon does not answer, at once where nobody"
        " listens or else for a minute, and not for this process's own want of handles or rights; or its node is lost,"
        " or the API server leaves attempt after attempt without an answer: while the agent works, or while its pod is"
        " killed or read",
        "load makes a daemon slow but ends no sandbox, and inside there is no other way to end the first process",
    ),
    "grading_start": Evidence(
        "there is no sandbox to grade in, and none at two further tries; and it was neither time nor room on the disk,"
        " in memory or in the kernel's tables that it lacked, nor did the kernel kill anything for memory meanwhile. A"
        " start that was late counts where hardly anything on this machine had to wait, and on a cluster",
        "the change was not in it yet, and agents of other trials take nothing but time and room; a pod has its own"
        " share of a node's processors",
    ),
    "host_disk_full": Evidence(
        "when the sandbox is gone the disk is full, and would be if all other sandboxes were gone too",
        "what agents hold, the trial's own and those of others, is counted as free",
    ),
    "host_out_of_memory": Evidence("the same of memory", "the same"),
    "host_out_of_handles": Evidence("the same of file handles, of the machine's and of this process's", "the same"),
    "cancelled": Evidence("somebody stopped the run", "the trial is run again when it is resumed"),
    "unattributed_before": Evidence("an error that nobody foresaw, before the policy was asked", _NO_AGENT),
}
"""Every row that masks."""

_TWINS = (
    ("looks alike", "the policy's", "the infrastructure's"),
    ("---",) * 3,
    ("everything in the sandbox is dead", "`harness_killed`, `sandbox_lost`", "`sandbox_killed`, `runtime_lost`"),
    ("no disk", "`out_of_disk`: its quota; or all trials together fill the disk", "`host_disk_full`"),
    ("no memory", "`out_of_memory`: its limit; or all trials together use it up", "`host_out_of_memory`"),
    ("nobody answers the harness", "the budget, or how the harness ended", "`gateway_lost`"),
    (
        "no answer of the model",
        "`wall_clock_budget` and others: it, or other sessions, asked for much",
        "`engine_failed`, `engine_silent`",
    ),
    (
        "no verdict",
        "`verifier_timeout`, `verifier_crashed`, `no_verdict`: the tested code; or trials together leave the tests no"
        " time or no room to start",
        "`grading_start`",
    ),
    ("the work cannot be read", "`no_snapshot`: its files", "`sandbox_killed`, `runtime_lost`: with Kubernetes"),
    ("the patch cannot be kept", "`patch_too_large`", "`host_disk_full`"),
)


def evidence_section() -> Iterator[str]:
    """The parts of docs/faults.md that say who is at fault."""
    masked = [str(row.ended) for row in FAULT_TABLE.values() if row.is_masked]
    yield _WHO
    yield "| masked | what the host has to see | why no agent brings it about |"
    yield "| --- | --- | --- |"
    for ended, text in explained(masked, EVIDENCE).items():
        yield f"| `{ended}` | {text.seen} | {text.why} |"
    yield _ALIKE
    for cells in _TWINS:
        yield f"| {' | '.join(cells)} |"
    yield _FIRST_PROCESS


_WHO = """
## Who is at fault

A policy must not be able to choose a fault instead of a 0. So once it has been asked for the first time, nothing that
happens in a sandbox masks a trial: that takes something that the host saw and no agent can bring about, alone or
together with the agents of other trials. Where it cannot be told, the policy answers for it.
"""

_ALIKE = """
That other trials ended so at the same moment is no evidence: the same policy plays all of them, and their clocks agree.
Nor is what they take from each other. The host has run out of something where next to nothing is left of it and, with
all that is held by sandboxes of the same `sandbox.state`, there would be less than one trial may use. So that honest
trials do not pay for it, a run begins only [where there is room](sandbox.md#limits) for all trials at once, and a
grading sandbox that lacks time or room is tried again for 5 min before its trial is `verifier_crashed`, a 0.
Programs that guard the memory of the machine (systemd-oomd, earlyoom) kill as an administrator does: keep the sandboxes
out of their reach, or a trial that provokes them is masked.

Pairs that look alike and end in different rows:
"""

_FIRST_PROCESS = """
A sandbox is over when its first process is. With **bubblewrap and Docker** that process is one of this machine, and
the kernel tells which signal ended it and how many processes it has killed for memory: SIGKILL with no such kill was
sent from outside (`sandbox_killed`); every other end is the policy's (`sandbox_lost`). With **Kubernetes** it ran on
another machine, and a pod's status is an exit code: what an administrator of the node sends, and what the kernel sends
for memory that another process of the pod used, look the same. So its end is always the policy's there, and only what
the cluster says of the pod or its node is evidence ([whose fault](kubernetes.md#whose-fault)).
"""
