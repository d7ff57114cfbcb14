"""The loop's invariant: a run that is killed anywhere resumes with no task lost, none trained twice, the same weights.

Trials are sampled straight from the real engine here, without a harness: the loop cannot tell. What survives a kill is
what lies on the disk: checkpoints, metrics, the audit log, and the trials' records, which a dictionary stands for.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from engine_rollouts import rollout_of
from tiny_moe import CARD, policy_directory, prompts

from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import FileAuditLog
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.errors import FidelityError, RunError
from lego_rl.evaluate.heldout import EvaluateSettings, Score
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.labels import train_label
from lego_rl.rollout.metrics_file import read_rows
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.loop import Loop, LoopParts, as_graded
from lego_rl.train.loop_tasks import LoopTasks
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.persistence import POLICY
from lego_rl.train.settings import LossSettings, OptimizerSettings, TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

STEPS, SHAPE = 3, BatchShape(prompts=2, trials_per_prompt=2, temperature=1.0)
SETTINGS = TrainSettings(threads=1, optimizer=OptimizerSettings(lr=1e-3), loss=LossSettings(kl_coefficient=0.0))
TASKS = [
    Task(f"task-{n}", Path(f"task-{n}"), "", "family", "/app", TestSpec(("t::a",), (), "true", "p", ()), 60.0, 512)
    for n in range(5)
]


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


@dataclass
class Watch:
    """What a run told its watcher."""

    steps: list[int] = field(default_factory=list)
    evaluations: list[tuple[str, str, Score]] = field(default_factory=list)

    def evaluated(self, label: str, split: str, result: Score) -> None:
        self.evaluations.append((label, split, result))

    def training(self, step: int) -> None:
        pass

    def stepped(self, step: int, figures: Mapping[str, float | int | str | None]) -> None:
        assert figures["audit/tokens"] == figures["fidelity/tokens"]
        self.steps.append(step)


@dataclass
class Rollouts:
    """Samples every trial that has no record yet; the records outlive a run, as those on a disk do."""

    engine: AuditedEngine
    records: dict[str, TrialRecord]
    sampled: Counter[str]
    dies_after: int | None = None
    unreadable: Collection[int] = ()
    """Steps whose trials hold tool calls that the parser cannot read, and no other."""

    async def __call__(self, specs: Sequence[TrialSpec]) -> list[TrialRecord]:
        for spec in specs:
            if spec.id in self.records:
                continue
            if self.dies_after is not None and len(self.records) >= self.dies_after:
                raise KilledError
            start = prompts(len(TASKS))[int(spec.group.split("-")[1])]
            segment = await rollout_of(self.engine, start, spec.seed)
            self.sampled[spec.id] += 1
            unreadable = spec.label in map(train_label, self.unreadable)
            accounting = Accounting(tool_parse_faults=5) if unreadable else Accounting(tool_calls=1)
            trajectory = Trajectory((segment,), (), ((),), (), accounting)
            reward: int = sum(segment.token_ids.tolist()) % 2
            outcome = Outcome(1 if reward else 0, Ended.FINISHED, None, "")
            self.records[spec.id] = TrialRecord(spec, outcome, trajectory, PhaseSeconds(), accounting)
        return [self.records[spec.id] for spec in specs]


def specs(tasks: Sequence[Task], label: str, attempts: int, temperature: float) -> list[TrialSpec]:
    numbers = [(task, attempt) for task in tasks for attempt in range(attempts)]
    return [
        TrialSpec(
            task=task.path,
            label=label,
            attempt=attempt,
            attempts=attempts,
            seed=17 * int(task.id[-1]) + attempt,
            temperature=temperature,
            budget=Budget(),
            harness=HarnessChoice("none"),
            split=label.split("/", maxsplit=1)[0],
        )
        for task, attempt in numbers
    ]


@contextmanager
def parts(folder: Path, records: dict[str, TrialRecord], sampled: Counter[str]) -> Iterator[LoopParts]:
    """A process: everything from the disk."""
    source = folder / "policy"
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    latest = checkpoints.latest()
    trainer = (
        Trainer.resume(latest[1], source, SETTINGS, SHAPE)
        if latest
        else Trainer.from_directory(source, SETTINGS, SHAPE)
    )
    served = latest[1] / POLICY if latest else source
    with (
        EmbeddedEngine.from_directory(served, version=trainer.version) as engine,
        FileAuditLog(folder / "audit") as audit_log,
        MetricsLog(folder, trainer.version) as log,
    ):
        auditor = AuditedEngine(engine, audit_log)
        yield LoopParts(
            trainer=trainer,
            engine=engine,
            digest_of=engine.digest_of,
            auditor=auditor,
            rollouts=Rollouts(auditor, records, sampled),
            specs=specs,
            prompts=lambda records: (),
            card=CARD,
            checkpoints=checkpoints,
            log=log,
            watcher=Watch(),
        )


def run(chosen: LoopParts, evaluated: Mapping[str, Sequence[Task]] | None = None) -> Loop:
    loop = Loop(chosen, LoopTasks(TASKS, evaluated or {}), SHAPE, STEPS, EvaluateSettings(trials=1), seed=3)
    asyncio.run(loop.run())
    return loop


def weights(folder: Path) -> dict[str, torch.Tensor]:
    with parts(folder, {}, Counter()) as final:
        assert final.trainer.version == STEPS
        return {name: tensor.clone() for name, tensor in final.trainer.state_dict().items()}


def fresh(folder: Path) -> Path:
    folder.mkdir()
    policy_directory(folder / "policy")
    return folder


@contextmanager
def dies_in(chosen: LoopParts, place: str, step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill the process at a place of a step, before or after what happens there."""
    when, _, name = place.partition(" ")
    part, method = name.split(".")
    target = getattr(chosen, part)
    real: Callable[..., object] = getattr(target, method)
    calls = Counter[str]()

    def dying(*arguments: object) -> object:
        calls[place] += 1
        if calls[place] <= step:
            return real(*arguments)
        if when == "after":
            real(*arguments)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(target, method, dying)
        yield


EVALUATED = {"heldout": TASKS[:2]}
PLACES = [
    "before trainer.step",
    "after trainer.step",
    "before log.write",
    "after log.write",
    "before checkpoints.save",
    "after checkpoints.save",
    "before auditor.settle_all",
    "after auditor.settle_all",
    "before engine.load_weights",
    "before watcher.stepped",
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are only equal bit by bit where they are split alike."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = fresh(tmp_path_factory.mktemp("loop") / "whole")
    with parts(folder, {}, Counter()) as chosen:
        run(chosen)
    return weights(folder)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_a_run_killed_anywhere_ends_with_the_weights_of_one_that_was_not(
    place: str, step: int, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, records, sampled = fresh(tmp_path / "run"), dict[str, TrialRecord](), Counter[str]()
    with (
        parts(folder, records, sampled) as chosen,
        dies_in(chosen, place, step, monkeypatch),
        pytest.raises(KilledError),
    ):
        run(chosen, EVALUATED)
    with parts(folder, records, sampled) as chosen:
        run(chosen, EVALUATED)
    assert max(sampled.values()) == 1, "a finished trial was run again"
    assert len(sampled) == STEPS * SHAPE.prompts * SHAPE.trials_per_prompt + 2 * len(TASKS[:2])
    assert [row["step"] for row in read_rows(folder / "metrics.jsonl")] == list(range(STEPS))
    resumed = weights(folder)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in uninterrupted.items())


@pytest.mark.parametrize("trials", [1, 3, 6, 8])
def test_a_run_killed_among_its_trials_runs_the_others(
    trials: int, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    folder, records, sampled = fresh(tmp_path / "run"), dict[str, TrialRecord](), Counter[str]()
    with parts(folder, records, sampled) as chosen, pytest.raises(KilledError):
        dying = Rollouts(chosen.auditor, records, sampled, dies_after=trials)  # type: ignore[arg-type]
        run(replace(chosen, rollouts=dying), EVALUATED)
    assert len(records) == trials
    with parts(folder, records, sampled) as chosen:
        run(chosen, EVALUATED)
    assert max(sampled.values()) == 1
    resumed = weights(folder)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in uninterrupted.items())


def test_an_altered_token_stops_the_run_before_its_checkpoint(tmp_path: Path) -> None:
    folder = fresh(tmp_path / "run")

    def altered(records: Sequence[TrialRecord], step: int) -> list[object]:
        trials = as_graded(records, step)
        for trial in trials:
            for segment in trial.segments:
                at = int(segment.loss_mask.argmax())
                segment.logprobs[at] = segment.logprobs[at] * (1 + 1e-6)
        return list(trials)

    with parts(folder, {}, Counter()) as chosen:
        changed = replace(chosen, rewards=altered)  # type: ignore[arg-type]
        with pytest.raises(FidelityError, match="log-prob") as stopped:
            run(changed)
        assert stopped.value.reason == "audit"
        assert chosen.checkpoints.latest() is None


@pytest.mark.parametrize("before", ["at first", "resumed"])
def test_a_first_step_whose_calls_are_all_unreadable_stops_the_run_before_it_trains(
    before: str, tmp_path: Path
) -> None:
    folder, records, sampled = fresh(tmp_path / "run"), dict[str, TrialRecord](), Counter[str]()
    for _ in range(1 if before == "at first" else 2):  # the trials of a stopped step are there when it is resumed
        with parts(folder, records, sampled) as chosen:
            rollouts = Rollouts(chosen.auditor, records, sampled, unreadable=[0])  # type: ignore[arg-type]
            with pytest.raises(
                RunError, match=r"\[tool_parse\] none of the tool calls in 20 answers of the first step"
            ):
                run(replace(chosen, rollouts=rollouts))
            assert chosen.checkpoints.latest() is None
            assert chosen.trainer.version == 0
        assert list(read_rows(folder / "metrics.jsonl")) == []
    assert max(sampled.values()) == 1


def test_a_later_step_whose_calls_are_all_unreadable_is_the_policys(tmp_path: Path) -> None:
    folder, records, sampled = fresh(tmp_path / "run"), dict[str, TrialRecord](), Counter[str]()
    with parts(folder, records, sampled) as chosen:
        rollouts = Rollouts(chosen.auditor, records, sampled, unreadable=[1])  # type: ignore[arg-type]
        run(replace(chosen, rollouts=rollouts))
    faults = [row["rollout/tool_parse_faults"] for row in read_rows(folder / "metrics.jsonl")]
    assert [bool(count) for count in faults] == [False, True, False]


def test_evaluations_are_made_once_each_and_reported_by_split(tmp_path: Path) -> None:
    folder, records, sampled = fresh(tmp_path / "run"), dict[str, TrialRecord](), Counter[str]()
    with parts(folder, records, sampled) as chosen:
        run(chosen, {"heldout": TASKS[:2]})
        assert isinstance(chosen.watcher, Watch)
        assert [(label, split, score.trials) for label, split, score in chosen.watcher.evaluations] == [
            ("heldout/before", "heldout", 2),
            ("heldout/after", "heldout", 2),
        ]
        assert chosen.watcher.steps == list(range(STEPS))
    with parts(folder, records, sampled) as chosen:
        run(chosen, {"heldout": TASKS[:2]})
        assert isinstance(chosen.watcher, Watch)
        assert [label for label, _, _ in chosen.watcher.evaluations] == ["heldout/after"]
    assert max(sampled.values()) == 1
