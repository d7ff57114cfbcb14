"""The BPF assembler and the seccomp filter, run by a small interpreter of classic BPF."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.sandbox import seccomp
from lego_rl.sandbox.bpf import (
    JUMP_IF_ANY_BIT,
    JUMP_IF_AT_LEAST,
    JUMP_IF_EQUAL,
    LOAD_WORD_ABSOLUTE,
    RETURN_CONSTANT,
    Jump,
    Label,
    Load,
    Return,
    Statement,
    assemble,
)

COMPARISONS = {
    JUMP_IF_EQUAL: lambda word, value: word == value,
    JUMP_IF_AT_LEAST: lambda word, value: word >= value,
    JUMP_IF_ANY_BIT: lambda word, value: bool(word & value),
}


PROGRAMS = {machine.audit: assemble(seccomp.program(machine)) for machine in seccomp.ARCHITECTURES.values()}


def run(code: bytes, data: bytes) -> int:
    """Interpret a program over a seccomp data block."""
    instructions = list(struct.iter_unpack("=HBBI", code))
    word = position = 0
    while True:
        operation, if_true, if_false, value = instructions[position]
        position += 1
        if operation == LOAD_WORD_ABSOLUTE:
            (word,) = struct.unpack_from("=I", data, value)
        elif operation == RETURN_CONSTANT:
            return int(value)
        else:
            position += if_true if COMPARISONS[operation](word, value) else if_false


def call(architecture: seccomp.Architecture, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter says about one system call."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, architecture.audit if audit is None else audit, 0, *padded)
    return run(PROGRAMS[architecture.audit], data)


machines = pytest.mark.parametrize("machine", list(seccomp.ARCHITECTURES.values()), ids=list(seccomp.ARCHITECTURES))


@machines
def test_plain_refusals(machine: seccomp.Architecture) -> None:
    assert {call(machine, number) for number in machine.refused.values()} == {seccomp.ERRNO | errno.EPERM}
    assert {call(machine, number) for number in machine.absent.values()} == {seccomp.ERRNO | errno.ENOSYS}


@machines
def test_socket_families(machine: seccomp.Architecture) -> None:
    for family in range(64):
        allowed = family in (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
        wanted = seccomp.ALLOW if allowed else seccomp.ERRNO | errno.EAFNOSUPPORT
        assert call(machine, machine.socket, family) == wanted
        assert call(machine, machine.socketpair, family) == wanted
    for protocol in range(1, 24):
        assert call(machine, machine.socket, seccomp.AF_NETLINK, 3, protocol) != seccomp.ALLOW


@machines
def test_high_bits_of_a_family_do_not_get_past(machine: seccomp.Architecture) -> None:
    # The kernel takes the family as a 32-bit int, and so does the filter.
    assert call(machine, machine.socket, 40 | 1 << 32) != seccomp.ALLOW


@machines
@given(flags=st.integers(0, 2**32 - 1))
def test_namespaces_are_refused_and_plain_clones_are_not(machine: seccomp.Architecture, flags: int) -> None:
    wanted = seccomp.ERRNO | errno.EPERM if flags & seccomp.NEW_NAMESPACES else seccomp.ALLOW
    assert call(machine, machine.clone, flags) == wanted
    assert call(machine, machine.unshare, flags) == wanted


@machines
def test_the_limits_of_the_first_process_are_its_own(machine: seccomp.Architecture) -> None:
    for process in (1, 1 | 1 << 32):  # the kernel takes a process as a 32-bit int, and so does the filter
        assert call(machine, machine.prlimit, process) == seccomp.ERRNO | errno.EPERM
    for process in (0, 2, 11, 2**32 - 1):
        assert call(machine, machine.prlimit, process) == seccomp.ALLOW


@machines
def test_foreign_abi(machine: seccomp.Architecture) -> None:
    assert call(machine, machine.socket, seccomp.AF_INET, audit=0x40000003) == seccomp.KILL_PROCESS
    if machine.x32:
        assert call(machine, machine.socket | seccomp.X32_BIT, 40) == seccomp.ERRNO | errno.ENOSYS


@machines
@given(number=st.integers(0, seccomp.X32_BIT - 1), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_everything_else_is_allowed(machine: seccomp.Architecture, number: int, arguments: list[int]) -> None:
    decided = {*machine.refused.values(), *machine.absent.values()}
    decided |= {machine.socket, machine.socketpair, machine.clone, machine.unshare, machine.ioctl, machine.prlimit}
    if number not in decided:
        assert call(machine, number, *arguments) == seccomp.ALLOW


@given(
    values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200, unique=True), probe=st.integers(0, 2**32 - 1)
)
def test_assembled_set_membership(values: list[int], probe: int) -> None:
    program: list[Statement] = [Load(0), *(Jump(JUMP_IF_EQUAL, value, if_true="in") for value in values)]
    code = assemble([*program, Return(0), Label("in"), Return(1)])
    for word in (probe, values[0], values[-1]):
        assert run(code, struct.pack("=I", word)) == (word in values)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([], "end with a return"),
        ([Load(0)], "end with a return"),
        ([Jump(JUMP_IF_EQUAL, 1, if_true="nowhere"), Return(0)], "not defined"),
        ([Label("a"), Label("a"), Return(0)], "twice"),
        ([Label("back"), Load(0), Jump(JUMP_IF_EQUAL, 1, if_true="back"), Return(0)], "instructions away"),
        ([Jump(JUMP_IF_EQUAL, 1, if_true="far"), *[Load(0)] * 300, Label("far"), Return(0)], "300 instructions away"),
        ([*[Load(0)] * 5000, Return(0)], "at most 4096"),
    ],
)
def test_bad_programs_are_refused(program: list[Statement], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assemble(program)
