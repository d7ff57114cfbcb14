"""Ten kinds of one-line bugs; eight are trained and two are only ever evaluated."""

from lego_rl.tasks.families.base import Family
from lego_rl.tasks.families.calls import BUILTIN, SWAPPED
from lego_rl.tasks.families.numbers import CONSTANT, OFF_BY_ONE
from lego_rl.tasks.families.operators import ARITHMETIC, BOOLEAN, COMPARISON
from lego_rl.tasks.families.references import KEY, LITERAL, VARIABLE

TRAINED: tuple[Family, ...] = (ARITHMETIC, BUILTIN, COMPARISON, CONSTANT, KEY, OFF_BY_ONE, SWAPPED, VARIABLE)
UNSEEN: tuple[Family, ...] = (BOOLEAN, LITERAL)
FAMILIES: dict[str, Family] = {family.name: family for family in (*TRAINED, *UNSEEN)}
