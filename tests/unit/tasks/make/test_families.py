"""Every family makes bugs by changing the bytes of one place, and leaves nothing behind that shows where."""

import ast
import difflib
from collections import Counter

import pytest
from small_package import CORE, FIRST

from lego_rl.tasks.make.inject.candidates import FAMILIES, MISSES, TRIES, Mutant, Order, mutants
from lego_rl.tasks.make.inject.module import Module
from lego_rl.tasks.make.tree import Tree

SMALL = Tree({path: text.encode() for path, text in FIRST.items()})

EXAMPLES = {
    "comparison": ("return a < b", ["return a <= b", "return a > b"]),
    "boolean": ("return a and not b", ["return a or not b", "return a and b"]),
    "arithmetic": ("return (a) + b  # all", ["return (a) - b  # all"]),
    "off_by_one": ("return a[1:-1]", ["return a[2:-1]", "return a[0:-1]", "return a[1:-2]"]),
    "constant": ("return g(a, flag=True)", ["return g(a, flag=False)"]),
    "variable": ("return a", ["return b"]),
    "argument_order": ("return g(a, b)", ["return g(b, a)"]),
    "missing_argument": ("return g(a, key=b)", ["return g(a)"]),
    "lookalike": ("return a.find('é', b)", ["return a.rfind('é', b)"]),
    "missing_call": ("return len(a)", ["return a"]),
    "exception": ("raise KeyError(a)", ["raise IndexError(a)"]),
    "result": ("return a, b", ["return b, a"]),
    "missing_condition": ("return a and b or g", ["return g", "return a and b", "return b or g", "return a or g"]),
}


def made(family: str, body: str) -> list[str]:
    source = f"def f(a, b):\n    {body}\n".encode()
    module = Module.read("m.py", source)
    assert module is not None
    ((_, function),) = module.functions()
    return [edit.applied(source).decode().splitlines()[1].strip() for edit in FAMILIES[family](module, function)]


@pytest.mark.parametrize("family", EXAMPLES)
def test_a_family_changes_what_it_says(family: str) -> None:
    body, wanted = EXAMPLES[family]
    assert set(made(family, body)) == set(wanted)


def test_breaks_and_branches() -> None:
    source = CORE.encode()
    module = Module.read("m.py", source)
    assert module is not None
    clamp = dict(module.functions())["clamp"]
    texts = [edit.applied(source).decode() for edit in FAMILIES["missing_branch"](module, clamp)]
    # The comment above a branch goes with it.
    assert any("value > high" not in text and "cut" not in text for text in texts)
    assert len(texts) == 3
    loop = b"def f(a):\n    for b in a:\n        if b:\n            break\n    return b\n"
    module = Module.read("m.py", loop)
    assert module is not None
    ((_, function),) = module.functions()
    (edit,) = FAMILIES["loop_control"](module, function)
    assert edit.applied(loop) == loop.replace(b"break", b"continue")


def test_a_statement_goes_with_its_lines_and_nothing_else() -> None:
    source = b"def f(a):\n\n    # Sorted by now.\n    a.sort()\n\n    return a; b()\n"
    module = Module.read("m.py", source)
    assert module is not None
    ((_, function),) = module.functions()
    (edit,) = FAMILIES["missing_statement"](module, function)
    assert edit.applied(source) == b"def f(a):\n\n    return a; b()\n"


def test_bytes_outside_of_the_place_stay(subtests: pytest.Subtests) -> None:
    odd = "def f(a, b):\r\n    é = 'ü'  ;  c = a   <b\r\n    return (c ,\r\n\ta  and b)\r\n".encode()
    module = Module.read("m.py", odd)
    assert module is not None
    ((_, function),) = module.functions()
    for family, edits in FAMILIES.items():
        for edit in edits(module, function):
            with subtests.test(family=family, new=edit.new):
                changed = edit.applied(odd)
                start, end = edit.span
                assert changed[:start] == odd[:start]
                assert changed[start + len(edit.new.encode()) :] == odd[end:]
    assert {b"<=", b">"} <= {edit.new.encode() for edit in FAMILIES["comparison"](module, function)}


def test_every_bug_of_a_package_is_one_change_that_means_something_else() -> None:
    found = list(mutants(SMALL))
    whole = [(mutant, mutant.content(SMALL)) for mutant in found]
    assert len({mutant.id for mutant in found}) == len(found) > 40
    assert len({mutant.family for mutant in found}) >= 9
    for mutant, content in whole:
        if content is None:
            continue
        assert ast.dump(ast.parse(content)) != ast.dump(ast.parse(SMALL.files[mutant.path]))
        before, after = SMALL.files[mutant.path].decode().splitlines(), content.decode().splitlines()
        changed = [code for code in difflib.SequenceMatcher(None, before, after).get_opcodes() if code[0] != "equal"]
        assert len(changed) == 1, mutant
    assert sum(content is not None for _, content in whole) > 0.9 * len(whole)


def test_docstrings_annotations_and_f_strings_are_left_alone() -> None:
    source = b'def f(a: "x < y", b: int = 3) -> "a + b":\n    """1 + 1 == True"""\n    return f"{a < b}"\n'
    found = {(mutant.family, mutant.edit.new) for mutant in mutants(Tree({"m.py": source}))}
    assert found == {("constant", "4"), ("constant", "30")}


def test_the_order_follows_from_the_seed() -> None:
    def first(seed: int) -> list[str]:
        order = Order(list(mutants(SMALL)), seed)
        return [each.id for each in (order.next() for _ in range(12)) if each is not None]

    assert first(0) == first(0)
    assert first(0) != first(1)


def test_tasks_are_spread_over_families_and_functions() -> None:
    order = Order(list(mutants(SMALL)), 0)
    taken: list[Mutant] = []
    for _ in range(3):
        mutant = order.next()
        assert mutant is not None
        order.accepted(mutant)
        taken.append(mutant)
    assert len({mutant.family for mutant in taken}) == 3
    assert len({mutant.place for mutant in taken}) == 3


def test_what_is_tried_together_is_of_different_functions() -> None:
    order = Order(list(mutants(SMALL)), 0)
    waves: list[list[Mutant]] = []
    while wave := [mutant for mutant in (order.next() for _ in range(8)) if mutant is not None]:
        waves.append(wave)
        for mutant in wave:
            order.noticed(mutant)
    places = [[mutant.place for mutant in wave] for wave in waves]
    assert all(len(set(wave)) == len(wave) for wave in places)
    assert max(Counter(place for wave in places for place in wave).values()) == TRIES


def test_a_function_is_tried_a_few_times_and_a_module_without_tests_given_up() -> None:
    order = Order(list(mutants(SMALL)), 0)
    tried: list[Mutant] = []
    while (mutant := order.next()) is not None:
        order.unnoticed(mutant)
        tried.append(mutant)
    places = [mutant.place for mutant in tried]
    assert max(map(places.count, places)) <= TRIES
    assert sum(path == "small/core.py" for path, _ in places) == 12


MANY = Tree({"m.py": "".join(f"def f{n}(a, b):\n    return a + {n} < b\n\n\n" for n in range(20)).encode()})
"""One module of twenty functions."""


def drawn(tell_first: str) -> int:
    """Bugs of a module that are drawn when one thing comes of the first and no test notices any other."""
    order = Order(list(mutants(MANY)), 0)
    first = order.next()
    assert first is not None
    getattr(order, tell_first)(first)
    count = 1
    while (mutant := order.next()) is not None:
        order.unnoticed(mutant)
        count += 1
    return count


def test_a_module_that_tests_notice_is_not_given_up_whether_or_not_a_task_came_of_it() -> None:
    assert drawn("unnoticed") == MISSES
    assert drawn("untried") == MISSES + 1
    assert drawn("accepted") > MISSES + 1
    assert drawn("noticed") > MISSES + 1
