"""What of a ``setup.py`` that a test command runs, or an installation does, can be an agent's.

It is a program, and what it does before the tests could plant anything, a plugin of the runner to begin with. But most
changes of one are of values that only describe the package: those are told apart by the syntax tree.

Invariant: a changed file is the agent's only if, without those values, it is the very program that the task has.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from lego_rl.sandbox.ownership.texts.python_syntax import is_literal, is_same, last_name, literal, parsed, text_of
from lego_rl.sandbox.verdict import Change

TEXTS = frozenset({
    "version", "description", "long_description", "long_description_content_type", "author", "author_email",
    "maintainer", "maintainer_email", "url", "download_url", "project_urls", "license", "license_files", "keywords",
    "classifiers", "platforms", "python_requires", "install_requires", "extras_require", "zip_safe",
    "include_package_data",
})  # fmt: skip
"""Arguments of ``setup`` that only describe; nothing is fetched where tests run."""
REQUIRED = frozenset({"install_requires", "extras_require"})
"""Those that name other packages: by an address, it could be a folder of the work tree."""
IN_PACKAGES = frozenset({"packages", "package_data", "exclude_package_data", "ext_modules"})
"""Those that name parts of packages, which have to be the task's packages."""


_SEVERAL = (list, tuple, set, dict)


def only_describes(change: Change, pristine: Path) -> bool:
    """Whether a change is of a ``setup.py`` of the task's, and of nothing but what it says of the package."""
    is_kept = pristine.name == "setup.py" and change.kind == "file" and pristine.is_file() and not pristine.is_symlink()
    return is_kept and is_description(pristine.read_bytes(), change.content)


def is_description(pristine: bytes, changed: bytes) -> bool:
    """Whether a ``setup.py`` differs in nothing but what it says of the package.

    Args:
        pristine: The task's.
        changed: The agent's.
    """
    programs = [program for text in (pristine, changed) if (program := parsed(text)) is not None]
    calls = [_setups(program) for program in programs]
    if [len(each) for each in calls] != [1, 1]:
        return False
    known = set(_tops(calls[0][0]))
    for (call,) in calls:
        call.keywords = [each for each in call.keywords if not _is_free(each, known)]
    return is_same(*programs)


def _setups(program: ast.Module) -> list[ast.Call]:
    """The calls of ``setup``."""
    return [node for node in ast.walk(program) if isinstance(node, ast.Call) and last_name(node.func) == "setup"]


def _is_free(keyword: ast.keyword, known: set[str]) -> bool:
    """Whether an argument is written out, and describes no more than packages that are known."""
    if keyword.arg in TEXTS:
        return is_literal(keyword.value) and not (keyword.arg in REQUIRED and _names_address(keyword))
    if keyword.arg not in IN_PACKAGES:
        return False
    return all(name in known for name in _packages(keyword)) and not _leads_out(keyword)


def _tops(call: ast.Call) -> Iterator[str]:
    """First parts of the names of the packages that a call installs."""
    for keyword in call.keywords:
        if keyword.arg in IN_PACKAGES:
            yield from (name for name in _packages(keyword) if name)
        if keyword.arg == "name" and (name := text_of(keyword.value)) is not None:
            yield name.replace("-", "_").lower()


def _packages(keyword: ast.keyword) -> Iterator[str]:
    """First parts of what an argument names; an empty one for what is not written out."""
    value = keyword.value
    if keyword.arg == "ext_modules":
        elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        names = [_extension(each) for each in elements]
    else:
        listed = literal(value) if is_literal(value) else None
        names = [each if isinstance(each, str) else "" for each in listed] if isinstance(listed, _SEVERAL) else [""]
    yield from (name.partition(".")[0] for name in names)


def _extension(node: ast.expr) -> str:
    """The name of a compiled module that is described by plain values."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "Extension" or not node.args:
        return ""
    given = [*node.args, *(each.value for each in node.keywords if each.arg is not None)]
    plain = len(given) == len(node.args) + len(node.keywords) and all(map(is_literal, given))
    return (text_of(node.args[0]) or "") if plain else ""


def _leads_out(keyword: ast.keyword) -> bool:
    texts = (node.value for node in ast.walk(keyword.value) if isinstance(node, ast.Constant))
    return any(".." in text or text.startswith("/") for text in texts if isinstance(text, str))


def _names_address(keyword: ast.keyword) -> bool:
    texts = (node.value for node in ast.walk(keyword.value) if isinstance(node, ast.Constant))
    return any("@" in text for text in texts if isinstance(text, str))
