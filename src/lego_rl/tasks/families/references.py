"""Bugs in what is referred to: the wrong ``variable``, the wrong ``key`` of a mapping, the wrong string ``literal``."""

from lego_rl.tasks.families.base import Arguments, Defect, Family, Shape, number_inputs, pick, with_list
from lego_rl.tasks.names import Namer


def _variable(names: Namer, name: str) -> Defect:
    right, wrong, c, d = names.nouns(4)
    params = names.rng.choice([(right, wrong), (wrong, right)])
    number = names.number(2, 9)
    three = number_inputs(names, 3)
    shape = names.rng.choice(
        [
            Shape((wrong, c), (f"{right} = {wrong} + {c}", "return @"), number_inputs(names, 2)),
            Shape((*params, c), (f"return {c} + @",), three),
            Shape((*params, c), (f"{d} = {c} - @", f"return {d} * {number}"), three),
            Shape((c, *params), (f"return [{d} * @ for {d} in {c}]",), with_list(names, number_inputs(names, 2))),
        ]
    )
    wanted = pick(names.rng, (f"use `{right}`, not `{wrong}`", f"take `{right}` in place of `{wrong}`"))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"It should {wanted}.", rivals=(c,))


def _rows(names: Namer, keys: tuple[str, ...], count: int = 8) -> tuple[Arguments, ...]:
    return tuple(({key: names.number(1, 30) for key in keys},) for _ in range(count))


def _key(names: Namer, name: str) -> Defect:
    right, wrong, row, c = names.nouns(4)
    other = names.noun()
    rows = _rows(names, (right, wrong, other))
    number = names.number(2, 9)
    shape = names.rng.choice(
        [
            Shape((row,), (f'return {row}["@"]',), rows),
            Shape((row,), (f'{c} = {row}["@"]', f"return {c} + {number}"), rows),
            Shape((row,), (f'{c} = {row}["{other}"]', f'return {c} + {row}["@"]'), rows),
            Shape((row, c), (f'return {row}["@"] * {c}',), tuple((*r, names.number()) for r in rows)),
        ]
    )
    wanted = pick(names.rng, (f"read the key `{right}`, not `{wrong}`", f"look up `{right}` in place of `{wrong}`"))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"It should {wanted}.", rivals=(other,))


def _literal(names: Namer, name: str) -> Defect:
    right, wrong, text, c, other = names.nouns(5)
    words = tuple((names.noun(),) for _ in range(4))
    pairs = number_inputs(names, 2, high=4, count=24)
    shape = names.rng.choice(
        [
            Shape((text,), (f'return {text} + "@"',), words),
            Shape((text,), (f'{c} = "@"', f"return {c} + {text}"), words),
            Shape((text, c), (f"if {text} > {c}:", '    return "@"', f'return "{other}"'), pairs),
        ]
    )
    wanted = pick(names.rng, (f"use `{right}`, not `{wrong}`", f"say `{right}` where it says `{wrong}`"))
    return Defect.of(name, shape, right=right, wrong=wrong, complaint=f"It should {wanted}.")


VARIABLE = Family("variable", _variable)
KEY = Family("key", _key)
LITERAL = Family("literal", _literal)
