"""Figures of a step's trials: rewards, what was captured, how trials ended and where the seconds went."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from lego_rl.evaluate.heldout import score
from lego_rl.rollout.outcome import TrialRecord


def rollout_figures(records: Sequence[TrialRecord]) -> dict[str, float | None]:
    """Summarise a batch.

    Returns:
        ``rollout/…`` counts and means over the batch; ``ended/ROW`` trials that ended in a row of the fault table;
        ``seconds/PHASE`` mean wall-clock seconds of a trial. A share of nothing is ``None``.
    """
    solved = score(record.outcome for record in records)
    accounts = [record.accounting for record in records]
    sampled = sum(account.sampled_tokens for account in accounts)
    trainable = sum(account.trainable_tokens for account in accounts)
    ended = Counter(record.outcome.ended.value for record in records)
    return {
        "rollout/trials": len(records),
        "rollout/solved": solved.solved,
        "rollout/counted": solved.trials,
        "rollout/solve_rate": solved.rate,
        "rollout/calls": fmean(account.calls for account in accounts),
        "rollout/sampled_tokens": sampled,
        "rollout/delivered_fraction": trainable / sampled if sampled else None,
        "rollout/tool_calls": sum(account.tool_calls for account in accounts),
        "rollout/tool_parse_faults": sum(account.tool_parse_faults for account in accounts),
        "rollout/truncated": sum(account.truncated for account in accounts),
        "rollout/tries": sum(record.tries for record in records),
        **{f"ended/{row}": count for row, count in sorted(ended.items())},
        "seconds/setup": fmean(record.seconds.setup for record in records),
        "seconds/harness": fmean(record.seconds.harness for record in records),
        "seconds/engine": fmean(record.seconds.engine.total for record in records),
        "seconds/grading": fmean(record.seconds.grading for record in records),
        "seconds/trial": fmean(record.seconds.total for record in records),
    }
