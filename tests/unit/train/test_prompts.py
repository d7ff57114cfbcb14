"""The template check: the gateway's rendering against transformers' own."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tiny_moe import segment

from lego_rl.engine.protocol import Timings
from lego_rl.errors import ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.trajectory import Accounting, Generation, Trajectory
from lego_rl.messages import Message, Tool
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.train.prompts import PromptChecker

DEMO = Path(str(files("lego_rl.policies") / "demo"))
TOOL = Tool("Bash", "run a command", {"type": "object", "properties": {"command": {"type": "string"}}})
SPEC = TrialSpec(Path("t"), "train/step-0000", 0, 1, 0, 1.0, Budget(), HarnessChoice("none"))


def record(template: ChatTemplate, messages: Sequence[Message], *, abandoned: bool = False) -> TrialRecord:
    """A trial whose first request was rendered by the gateway's template."""
    ids = template.opening(messages, [TOOL])
    generation = Generation(
        call_id="call/0",
        parent=None,
        context_ids=np.array(ids, np.int32),
        token_ids=np.array([5, 6], np.int32),
        logprobs=np.zeros(2, np.float32),
        finish_reason="stop",
        weight_versions=(),
        timings=Timings(),
        role="main",
        fate="abandoned" if abandoned else "delivered",
    )
    chain = segment(
        [*ids, 5, 6], [0] * len(ids) + [1, 1], [0.0] * (len(ids) + 2), np.zeros((len(ids) + 1, 2, 2), np.uint8)
    )
    conversation = (*messages, Message("assistant", "Done."))
    segments, conversations = ((), ()) if abandoned else ((chain,), (conversation,))
    trajectory = Trajectory(segments, (generation,), conversations, (TOOL,), Accounting())
    return TrialRecord(SPEC, Outcome(1, Ended.FINISHED, None, ""), trajectory, PhaseSeconds())


CONVERSATION = (
    Message("system", "You are an agent."),
    Message("system", "CWD: /app"),
    Message("user", "`read_barn` is wrong.\nPlease fix it.\n"),
)


@pytest.mark.parametrize(
    "opening", [CONVERSATION, (*CONVERSATION, Message("system", "Be brief.")), (*CONVERSATION[2:], CONVERSATION[0])]
)
def test_both_implementations_render_the_same_ids(opening: Sequence[Message]) -> None:
    (check,) = PromptChecker(DEMO)([record(ChatTemplate.load(DEMO), opening)])
    assert check.recorded == check.rendered


def test_a_title_that_was_asked_for_first_is_passed_over() -> None:
    plain = record(ChatTemplate.load(DEMO), CONVERSATION)
    assert plain.trajectory is not None
    title = replace(plain.trajectory.generations[0], call_id="call/title", role="title")
    both = replace(plain.trajectory, generations=(title, *plain.trajectory.generations))
    (check,) = PromptChecker(DEMO)([replace(plain, trajectory=both)])
    assert check.recorded == check.rendered
    only = replace(plain.trajectory, generations=(title,), segments=())
    assert PromptChecker(DEMO)([replace(plain, trajectory=only)]) == ()


def test_two_trials_are_enough() -> None:
    records = [record(ChatTemplate.load(DEMO), CONVERSATION)] * 5
    assert len(PromptChecker(DEMO)(records)) == 2


def test_another_template_shows(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(DEMO, other)
    path = other / "chat_template.jinja"
    path.write_text(path.read_text().replace("<|im_start|>user", "<|im_start|>human"))
    (check,) = PromptChecker(DEMO)([record(ChatTemplate.load(other), CONVERSATION)])
    assert check.recorded != check.rendered


def test_what_cannot_be_compared_is_left_out() -> None:
    template = ChatTemplate.load(DEMO)
    special = (*CONVERSATION[:2], Message("user", "what does <|im_end|> do?"))
    assert PromptChecker(DEMO)([record(template, special)]) == ()
    assert PromptChecker(DEMO)([record(template, CONVERSATION, abandoned=True)]) == ()


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_a_damaged_file_beside_the_tokenizer_is_said(name: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    shutil.copytree(DEMO, policy)
    (policy / name).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="transformers cannot read the tokenizer"):
        PromptChecker(policy)
