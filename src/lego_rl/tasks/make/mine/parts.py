"""The smallest part of a change that makes some tests pass, found by leaving parts out."""

from collections.abc import Awaitable, Callable, Sequence

from lego_rl.tasks.make.mine.hunks import Hunk

MOST_RUNS = 40
"""Of one search; when they are spent, what is left is taken as it is."""

type Passes = Callable[[Sequence[Hunk]], Awaitable[bool]]
"""Whether the tests pass with some parts of a change."""


async def smallest(hunks: Sequence[Hunk], passes: Passes) -> list[Hunk]:
    """Leave out halves, then quarters and so on, as long as the tests pass without them (delta debugging, reduced to
    complements; A. Zeller, "Yesterday, my program worked", 1999).

    Args:
        hunks: Parts with which the tests pass.
        passes: Asks the tests.
    """
    kept, size, runs = list(hunks), max(1, len(hunks) // 2), 0
    while len(kept) > 1 and runs < MOST_RUNS:
        place, less = 0, False
        while place < len(kept) and runs < MOST_RUNS:
            without = kept[:place] + kept[place + size :]
            if without:
                runs += 1
                if await passes(without):
                    kept, less = without, True
                    continue
            place += size
        if size == 1 and not less:
            break
        size = max(1, size // 2)
    return kept
