"""Bugs in a call: the wrong builtin (``builtin``), the right function with swapped arguments (``swapped``)."""

from lego_rl.tasks.families.base import (
    Defect,
    Family,
    Function,
    Shape,
    in_words_or_code,
    number_inputs,
    pick,
    with_list,
)
from lego_rl.tasks.names import Namer

_BUILTINS = {
    "min": ("the smallest of {a}", "the lowest of {a}"),
    "max": ("the largest of {a}", "the highest of {a}"),
    "sum": ("the sum of {a}", "the total of {a}"),
    "len": ("the number of {a}", "the count of {a}"),
}


def _builtin(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    right, wrong = names.rng.sample(list(_BUILTINS), 2)
    alone = tuple((names.numbers(low=3),) for _ in range(6))
    shape = names.rng.choice(
        [
            Shape((a,), (f"return @({a})",), alone),
            Shape((a,), (f"{b} = @({a})", f"return {b}"), alone),
            Shape((a, b), (f"return @({a}) + {b}",), with_list(names, number_inputs(names, 1))),
            Shape((a, b), (f"{c} = @({a})", f"return {c} * {b}"), with_list(names, number_inputs(names, 1))),
        ]
    )
    words = [phrase.format(a=f"`{a}`") for phrase in _BUILTINS[right]]
    wanted = in_words_or_code(names.rng, words, f"`{right}`, not `{wrong}`")
    verb = pick(names.rng, ("It should use", "It should take"))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"{verb} {wanted}.", rivals=_BUILTINS)


def _helper(names: Namer) -> Function:
    a, b = names.nouns(2)
    factor = names.number(2, 9)
    body = names.rng.choice([f"return {a} - {b}", f"return {a} * {factor} + {b}", f"return {a} + {b} * {factor}"])
    return Function(names.function(), (a, b), (body,), number_inputs(names, 2))


def _swapped(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    helper = _helper(names)
    right, wrong = f"{helper.name}({a}, {b})", f"{helper.name}({b}, {a})"
    twice = (f"{helper.name}({a}, {a})", f"{helper.name}({b}, {b})")
    params = names.rng.choice([(a, b), (b, a)])
    shape = names.rng.choice(
        [
            Shape(params, ("return @",), number_inputs(names, 2)),
            Shape(params, (f"{c} = @", f"return {c}"), number_inputs(names, 2)),
            Shape((*params, c), (f"return @ + {c}",), number_inputs(names, 3)),
        ]
    )
    wanted = pick(names.rng, (f"`{a}` first, then `{b}`", f"`{a}` before `{b}`"))
    verb = pick(names.rng, ("It should pass", "The call should have"))
    return Defect.of(
        name, shape, right=right, wrong=wrong, complaint=f"{verb} {wanted}.", rivals=twice, helpers=(helper,)
    )


BUILTIN = Family("builtin", _builtin)
SWAPPED = Family("swapped", _swapped)
