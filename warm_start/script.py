"""Demonstrators as the script of a `ScriptedEngine`: token ids in, token ids out, like any policy.

Invariant: what is returned is the policy's own spelling of the turn, ended by its end-of-turn token; so what the
gateway records is what a policy that talks like the demonstrator would have sampled.
"""

from collections.abc import Mapping
from pathlib import Path

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from warm_start.demonstrator import Demonstrator
from warm_start.transcript import read_transcript


class DemonstrationScript:
    """Answers each prompt by the demonstrator of the task that the prompt is about.

    Args:
        policy: Directory with the policy's tokenizer and chat template.
        demonstrators: Issue text → its demonstrator; several trials of one task need several scripts.
    """

    def __init__(self, policy: Path, demonstrators: Mapping[str, Demonstrator]) -> None:
        self._encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
        self._end_of_turn = ChatTemplate.load(policy).end_of_turn
        self._demonstrators = {issue.strip(): demonstrator for issue, demonstrator in demonstrators.items()}

    def __call__(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Reply:
        """The next turn.

        Raises:
            EngineError: The prompt is about no known task.
        """
        messages = read_transcript(self._encoder.decode(prompt_ids))
        asked = next((message.content.strip() for message in messages if message.role == "user"), "")
        demonstrator = self._demonstrators.get(asked)
        if demonstrator is None:
            raise EngineError(f"no demonstration for {asked[:80]!r}")
        return Reply([*self._encoder.encode(demonstrator.next_turn(messages)), self._end_of_turn])
