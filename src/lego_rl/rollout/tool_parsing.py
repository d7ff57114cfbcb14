"""Were a step's tool calls readable at all? If none was, it is the parser that is wrong, not the policy."""

from collections.abc import Sequence

from lego_rl.errors import RunError
from lego_rl.rollout.outcome import TrialRecord


def refuse_unreadable(records: Sequence[TrialRecord]) -> None:
    """Look at the first step of a run.

    Raises:
        RunError: Answers held tool calls, and none of them could be parsed.
    """
    accounts = [record.accounting for record in records]
    faults = sum(account.tool_parse_faults for account in accounts)
    if faults and not any(account.tool_calls for account in accounts):
        raise RunError(
            f"[tool_parse] none of the tool calls in {faults} answers of the first step could be parsed",
            "the parser and what the policy writes do not fit: set policy.tool_parser, or train the format first"
            " (lego-rl sft); docs/capture.md shows how to read a trial",
        )
