"""An assembler for classic BPF, as much of it as a seccomp filter needs.

Invariant: a jump goes forward to a label that exists and is at most 255 instructions away; anything else is refused
when the program is assembled, not when the kernel loads it.

Source: the kernel's Documentation/networking/filter.rst (instruction set) and Documentation/userspace-api/
seccomp_filter.rst (the data a filter reads: nr, arch, instruction pointer, six 64-bit arguments).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

LOAD_WORD_ABSOLUTE = 0x20
JUMP_IF_EQUAL = 0x15
JUMP_IF_AT_LEAST = 0x35
JUMP_IF_ANY_BIT = 0x45
RETURN_CONSTANT = 0x06
MAX_INSTRUCTIONS = 4096
MAX_JUMP = 255

NR_OFFSET = 0
ARCH_OFFSET = 4


def argument_offset(index: int) -> int:
    """Offset of the low 32 bits of system-call argument `index` (0 to 5) on a little-endian machine."""
    return 16 + 8 * index


@dataclass(frozen=True)
class Load:
    """Load the 32-bit word at `offset` of the filter's data."""

    offset: int


@dataclass(frozen=True)
class Jump:
    """Compare the loaded word with `value` by `operation`; go to a label, or on to the next where it is ``None``."""

    operation: int
    value: int
    if_true: str | None = None
    if_false: str | None = None


@dataclass(frozen=True)
class Label:
    """Names the next instruction."""

    name: str


@dataclass(frozen=True)
class Return:
    """End the filter with `value`: an action and its data."""

    value: int


type Statement = Load | Jump | Label | Return
"""One line of a program."""


def assemble(program: Sequence[Statement]) -> bytes:
    """Translate a program to an array of ``struct sock_filter``.

    Raises:
        ValueError: A label is missing, defined twice or out of reach, or the program is empty, too long or open-ended.
    """
    labels: dict[str, int] = {}
    position = 0
    for statement in program:
        if isinstance(statement, Label):
            if statement.name in labels:
                raise ValueError(f"label {statement.name} is defined twice")
            labels[statement.name] = position
        else:
            position += 1
    instructions = [statement for statement in program if not isinstance(statement, Label)]
    if not instructions or not isinstance(instructions[-1], Return):
        raise ValueError("a filter must end with a return")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise ValueError(f"a filter has at most {MAX_INSTRUCTIONS} instructions, not {len(instructions)}")
    return b"".join(_encode(statement, index, labels) for index, statement in enumerate(instructions))


def _encode(statement: Load | Jump | Return, index: int, labels: dict[str, int]) -> bytes:
    match statement:
        case Load(offset):
            return struct.pack("=HBBI", LOAD_WORD_ABSOLUTE, 0, 0, offset)
        case Return(value):
            return struct.pack("=HBBI", RETURN_CONSTANT, 0, 0, value)
        case Jump(operation, value, if_true, if_false):
            distances = [_distance(label, index, labels) for label in (if_true, if_false)]
            return struct.pack("=HBBI", operation, *distances, value)


def _distance(label: str | None, index: int, labels: dict[str, int]) -> int:
    if label is None:
        return 0
    if label not in labels:
        raise ValueError(f"label {label} is not defined")
    distance = labels[label] - index - 1
    if not 0 <= distance <= MAX_JUMP:
        raise ValueError(f"label {label} is {distance} instructions away; a jump reaches 0 to {MAX_JUMP}")
    return distance
