"""Lays a defective function out in a small package of three or four modules, between functions that are right.

Invariant: modules import from the last one only, so no import is circular; every file stays within `MAX_LINES`.
"""

from dataclasses import dataclass, field

from lego_rl.tasks.families import TRAINED
from lego_rl.tasks.families.base import Defect, Function
from lego_rl.tasks.names import Namer

MIN_LINES = 10
MAX_LINES = 18


@dataclass
class Module:
    """One Python file.

    Attributes:
        path: Relative to the repository.
        title: The docstring's words.
        functions: In the order of the file.
        imports: ``(dotted module, function name)``.
    """

    path: str
    title: str
    functions: list[Function] = field(default_factory=list)
    imports: list[tuple[str, str]] = field(default_factory=list)

    @property
    def dotted(self) -> str:
        """The name to import it by."""
        return self.path.removesuffix(".py").replace("/", ".")

    def text(self) -> str:
        """The file's text."""
        parts = [f'"""{self.title}."""\n']
        parts += [f"\nfrom {module} import {name}\n" for module, name in self.imports]
        parts += ["\n\n" + "\n".join(function.lines) + "\n" for function in self.functions]
        return "".join(parts)

    def height(self) -> int:
        """Lines of the file."""
        return self.text().count("\n")


type Located = tuple[Module, Function]
"""A function and the module that it is in."""


@dataclass(frozen=True)
class Repository:
    """A laid-out package.

    Attributes:
        modules: All modules; the last one is imported by the others.
        target: The module that holds the bug.
        packages: Paths of the ``__init__.py`` files and their texts.
    """

    modules: tuple[Module, ...]
    target: Module
    packages: dict[str, str]

    def neighbours(self, wrong: Function) -> list[Located]:
        """The right functions of the target module."""
        return [(self.target, function) for function in self.target.functions if function is not wrong]

    def strangers(self) -> list[Located]:
        """The functions of all other modules."""
        others = [module for module in self.modules if module is not self.target]
        return [(module, function) for module in others for function in module.functions]

    def files(self) -> dict[str, str]:
        """Relative path → text, sorted by path."""
        texts = self.packages | {module.path: module.text() for module in self.modules}
        return dict(sorted(texts.items()))


def lay_out(names: Namer, defect: Defect) -> Repository:
    """Draw a package around the defect."""
    root = names.noun()
    folders = [root, f"{root}/{names.noun()}"] if names.rng.random() < 0.5 else [root]
    packages = {f"{folder}/__init__.py": f'"""The {folder.split("/")[-1]} package."""\n' for folder in folders}
    modules = []
    for _ in range(names.rng.randint(3, 4)):
        word = names.noun()
        title = f"{word.capitalize()} {names.rng.choice(['tools', 'helpers', 'rules', 'steps'])}"
        modules.append(Module(f"{names.rng.choice(folders)}/{word}.py", title))
    shared = modules[-1]
    target = names.rng.choice(modules[:-1])
    for module in modules:
        _fill(names, module, shared, [defect.wrong] if module is target else [])
    return Repository(tuple(modules), target, packages)


def _fill(names: Namer, module: Module, shared: Module, functions: list[Function]) -> None:
    """Add right functions until the module is high enough, then put them in random order."""
    _add(module, shared, functions)
    while module.height() < MIN_LINES or names.rng.random() < 0.5:
        filler = names.rng.choice(TRAINED).draw(names, names.function()).right
        if module is shared and filler.helpers:
            continue
        if module.height() + len(filler.lines) + 4 > MAX_LINES:
            break
        _add(module, shared, [filler])
    names.rng.shuffle(module.functions)


def _add(module: Module, shared: Module, functions: list[Function]) -> None:
    for function in functions:
        module.functions.append(function)
        for helper in function.helpers:
            shared.functions.append(helper)
            module.imports.append((shared.dotted, helper.name))
