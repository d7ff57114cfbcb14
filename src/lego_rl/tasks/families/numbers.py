"""Bugs in a number: a wrong ``constant``, and a bound that is off by one (``off_by_one``)."""

from lego_rl.tasks.families.base import Defect, Family, Shape, number_inputs, pick
from lego_rl.tasks.names import Namer

_LATER = ("It should stop one later.", "It stops one too soon.")
_EARLIER = ("It should stop one sooner.", "It stops one too late.")


def _constant(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    right, wrong = (str(number) for number in names.rng.sample(range(2, 100), 2))
    one, two = number_inputs(names, 1), number_inputs(names, 2)
    shape = names.rng.choice(
        [
            Shape((a, f"{b}=@"), (f"return {a} + {b}",), one),
            Shape((a,), (f"{b} = @", f"return {a} * {b}"), one),
            Shape((a, c), (f"{b} = @", f"return {a} + {c} * {b}"), two),
            Shape((a, c, f"{b}=@"), (f"{a} = {a} - {b}", f"return {a} * {c}"), two),
        ]
    )
    complaint = pick(names.rng, (f"`{b}` should be {right}.", f"It should use {right} for `{b}`."))
    near = (str(int(right) - 1), str(int(right) + 1))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=complaint, rivals=near)


def _off_by_one(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    bounds = (f"{a} - 1", a, f"{a} + 1")
    step = names.rng.choice([1, -1])
    at = names.rng.choice([0, 1] if step > 0 else [1, 2])
    wrong, right = bounds[at], bounds[at + step]
    counts = number_inputs(names, 1, low=2, high=5)
    lists = tuple((names.numbers(8), *count) for count in counts)
    shape = names.rng.choice(
        [
            Shape((a,), ("return list(range(@))",), counts),
            Shape((a,), (f"{b} = 0", f"for {c} in range(@):", f"    {b} += {c}", f"return {b}"), counts),
            Shape((b, a), (f"return {b}[:@]",), lists),
            Shape((b, a), (f"{c} = {b}[:@]", f"return sum({c})"), lists),
        ]
    )
    moved = _LATER if step > 0 else _EARLIER
    complaint = pick(names.rng, (*moved, f"The bound should be `{right}`.", f"It should stop at `{right}`."))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=complaint, rivals=bounds)


CONSTANT = Family("constant", _constant)
OFF_BY_ONE = Family("off_by_one", _off_by_one)
