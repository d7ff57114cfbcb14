"""Bugs in an operator: ``arithmetic``, ``comparison`` and ``boolean``."""

from lego_rl.tasks.families.base import Defect, Family, Shape, in_words_or_code, number_inputs, pick, with_list
from lego_rl.tasks.names import Namer

_ARITHMETIC = {
    "+": ("add {b} to {a}", "use {a} plus {b}"),
    "-": ("subtract {b} from {a}", "use {a} minus {b}"),
    "*": ("multiply {a} by {b}", "use {a} times {b}"),
    "//": ("divide {a} by {b}", "use {a} over {b}"),
    "%": ("take the rest of {a} by {b}", "use {a} modulo {b}"),
}
_COMPARISON = {
    "<": ("{a} is less than {b}", "{a} is below {b}"),
    "<=": ("{a} is at most {b}", "{a} is up to {b}"),
    ">": ("{a} is more than {b}", "{a} is above {b}"),
    ">=": ("{a} is at least {b}", "{a} is {b} or more"),
}
_BOOLEAN = ("{a} and {b}", "{a} or {b}", "{a} and not {b}", "{a} or not {b}", "not {a} and {b}", "not {a} or {b}")


def _arithmetic(names: Namer, name: str) -> Defect:
    a, b, c, d = names.nouns(4)
    right, wrong = names.rng.sample(list(_ARITHMETIC), 2)
    shape = names.rng.choice(
        [
            Shape((a, b), (f"return {a} @ {b}",), number_inputs(names, 2)),
            Shape((a, b), (f"{c} = {a} @ {b}", f"return {c}"), number_inputs(names, 2)),
            Shape((a, b, c), (f"{d} = {a} @ {b}", f"return {d} + {c}"), number_inputs(names, 3)),
            Shape((a, b, c), (f"{d} = {c} * 2", f"return {d} + ({a} @ {b})"), number_inputs(names, 3)),
            Shape((c, b), (f"return [{a} @ {b} for {a} in {c}]",), with_list(names, number_inputs(names, 1))),
        ]
    )
    words = [phrase.format(a=f"`{a}`", b=f"`{b}`") for phrase in _ARITHMETIC[right]]
    wanted = in_words_or_code(names.rng, words, f"use `{a} {right} {b}`")
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"It should {wanted}.", rivals=_ARITHMETIC)


def _comparison(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    right, wrong = names.rng.sample(list(_COMPARISON), 2)
    x, y = names.number(), names.number(21, 40)
    pairs = number_inputs(names, 2, high=4, count=24)
    shape = names.rng.choice(
        [
            Shape((a, b), (f"return {a} @ {b}",), pairs),
            Shape((a, b), (f"if {a} @ {b}:", f"    return {x}", f"return {y}"), pairs),
            Shape((a, b), (f"{c} = {a} @ {b}", f"return {c}"), pairs),
            Shape((c, b), (f"return [{a} for {a} in {c} if {a} @ {b}]",), with_list(names, number_inputs(names, 1))),
        ]
    )
    words = [phrase.format(a=f"`{a}`", b=f"`{b}`") for phrase in _COMPARISON[right]]
    wanted = in_words_or_code(names.rng, words, f"`{a} {right} {b}`")
    verb = pick(names.rng, ("It should check that", "The test should be that"))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"{verb} {wanted}.", rivals=_COMPARISON)


def _boolean(names: Namer, name: str) -> Defect:
    a, b, c = names.nouns(3)
    conditions = [condition.format(a=a, b=b) for condition in _BOOLEAN]
    right, wrong = names.rng.sample(conditions, 2)
    x, y = names.number(), names.number(21, 40)
    flags = ((True, False), (False, True), (True, True), (False, False))
    shape = names.rng.choice(
        [
            Shape((a, b), ("return @",), flags),
            Shape((a, b), ("if @:", f"    return {x}", f"return {y}"), flags),
            Shape((a, b), (f"{c} = @", f"return {c}"), flags),
        ]
    )
    complaint = pick(names.rng, (f"It should test `{right}`.", f"The condition should be `{right}`."))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=complaint, rivals=conditions)


ARITHMETIC = Family("arithmetic", _arithmetic)
COMPARISON = Family("comparison", _comparison)
BOOLEAN = Family("boolean", _boolean)
