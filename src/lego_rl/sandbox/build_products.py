"""What a build makes of sources: objects, caches of build tools, lists of what depends on what.

A tool takes such a file for done where it is newer than its source, as everything in a patch is newer than the task's
files: an object that was built before a fix would be linked into the tests in place of the fix, and one that somebody
else wrote in place of the tests' own. What the tests need is built by their run.

Invariant: only names are asked, of what is new and of what is beside it; what the task has itself is a file like any
other. What is linked or compiled to be used as it is (programs, ``.so``, ``.jar``) is none of it.
"""

import re
from collections.abc import Callable
from pathlib import PurePosixPath

BUILD_PRODUCT = "product of a build"

_NAMES = frozenset({
    "CMakeCache.txt", "cmake_install.cmake", "CTestTestfile.cmake", "build.ninja", "rules.ninja", ".ninja_deps",
    ".ninja_log", "config.status", "config.cache", ".sconsign.dblite", ".cargo-lock", ".rustc_info.json",
})  # fmt: skip
_FOLDERS = frozenset({
    "CMakeFiles", "meson-private", "meson-info", ".deps", ".libs", "autom4te.cache", ".gradle", ".kotlin",
    ".fingerprint", "dist-newstyle", ".stack-work", ".zig-cache", "zig-cache", "c4che", ".turbo", ".nx",
    ".parcel-cache", ".bloop",
})  # fmt: skip
_SUFFIXES = frozenset({
    ".o", ".lo", ".la", ".a", ".gch", ".pch", ".gcno", ".gcda", ".class", ".tsbuildinfo", ".rlib", ".rmeta", ".hi",
    ".dyn_o", ".dyn_hi", ".cmi", ".cmo", ".cmx", ".cmt", ".beam", ".elc", ".Po", ".Plo",
})  # fmt: skip
_COMPILED = ("c", "cc", "cpp", "cxx", "C", "m", "mm", "s", "S", "f", "F", "f90", "F90", "rs", "o")
"""Suffixes of sources and objects beside which a ``.d`` says what they depend on; elsewhere it may be written in D."""
_DEPENDS = re.compile(r"(.+)\.d")
_OUTPUT = re.compile(r"\.?_?(?:build|objs?|out|output|debug|release|target|deps?)(?:[-_.].*)?", re.IGNORECASE)
"""Names of folders that objects are put into."""
_HELD = ("CMakeCache.txt", "build.ninja", ".ninja_log", "meson-private", ".rustc_info.json", ".fingerprint",
         "project.assets.json", "c4che")  # fmt: skip
"""What is in a folder that a build tool made as a whole."""
_MADE_BESIDE = {
    "target": ("Cargo.toml", "pom.xml", "build.sbt"),
    "build": ("build.gradle", "build.gradle.kts"),
    "_build": ("mix.exs", "dune-project", "rebar.config"),
    ".build": ("Package.swift",),
}
"""Folders of build tools, by what their sources are described in."""
_MADE_FROM = {"Makefile": ("Makefile.in", "Makefile.am")}

type Has = Callable[[str], bool]
"""Whether a folder has something of a name, be it the task's or new."""


def product_because(path: str, beside: Has) -> str | None:
    """Why a new file or link is never carried over for how it was made, or ``None``.

    Args:
        path: In the work tree.
        beside: What else is in its folder.
    """
    name = PurePosixPath(path).name
    is_product = name in _NAMES or name in _FOLDERS or PurePosixPath(name).suffix in _SUFFIXES
    is_made = any(map(beside, _MADE_FROM.get(name, ())))
    return BUILD_PRODUCT if is_product or is_made or _is_list(path, beside) else None


def product_folder_because(path: str, holds: Has, beside: Has) -> str | None:
    """The same of a new folder.

    Args:
        path: In the work tree.
        holds: What is in it.
        beside: What else is in the folder that it is in.
    """
    name = PurePosixPath(path).name
    is_product = name in _FOLDERS or any(map(holds, _HELD))
    return BUILD_PRODUCT if is_product or any(map(beside, _MADE_BESIDE.get(name, ()))) else None


def _is_list(path: str, beside: Has) -> bool:
    """Whether a file lists what an object depends on, which ``make`` reads as a part of the Makefile."""
    place = PurePosixPath(path)
    found = _DEPENDS.fullmatch(place.name)
    if found is None:
        return False
    if any(_OUTPUT.fullmatch(folder) for folder in place.parts[:-1]) or PurePosixPath(found[1]).suffix[1:] in _COMPILED:
        return True
    return any(beside(f"{found[1]}.{suffix}") for suffix in _COMPILED)
