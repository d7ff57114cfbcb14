"""Were a step's tool calls readable at all? If none was, it is the parser that is wrong, not the policy."""

from collections.abc import Sequence

from lego_rl.errors import RunError
from lego_rl.rollout.outcome import TrialRecord

LEAST = 16
"""Unreadable answers that are evidence: a policy that garbles every fifth call writes so many in a row by chance with a
probability of 1e-11, and two of them in one run of twenty-five."""


def refuse_unreadable(records: Sequence[TrialRecord]) -> None:
    """Look at the first step of a run.

    Raises:
        RunError: At least `LEAST` answers held tool calls, and none of them could be parsed.
    """
    accounts = [record.accounting for record in records]
    faults = sum(account.tool_parse_faults for account in accounts)
    if faults >= LEAST and not any(account.tool_calls for account in accounts):
        raise RunError(
            f"[tool_parse] none of the tool calls in {faults} answers of the first step could be parsed",
            "the parser and what the policy writes do not fit: set policy.tool_parser, or train the format first"
            " (lego-rl sft); docs/capture.md shows how to read a trial",
        )
