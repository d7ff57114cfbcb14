"""A small package with tests, as a git checkout and as source distributions, written for each run of the tests."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from dulwich import porcelain

AUTHOR = b"A <a@example.com>"
TIME = 1_700_000_000

CORE = '''\
"""Small things about numbers and words."""


def clamp(value, low, high):
    """`value`, but not below `low` and not above `high`."""
    if low > high:
        raise ValueError("low is above high")
    if value < low:
        return low
    # Everything above is cut.
    if value > high:
        return high
    return value


def chunks(items, size):
    """Pieces of `items`, `size` long; the last may be shorter."""
    found = []
    for start in range(0, len(items), size):
        found.append(items[start : start + size])
    return found


def initials(words, sep="."):
    """The first letters of some words, each followed by `sep`."""
    letters = [word[0].upper() for word in words if word and word[0].isalpha()]
    return sep.join(letters) + sep if letters else ""
'''
TESTS = """\
import pytest

from small.core import chunks, clamp, initials


class TestClamp:
    def test_inside(self):
        assert clamp(5, 0, 10) == 5

    def test_below(self):
        assert clamp(-1, 0, 10) == 0

    # What is too large.
    def test_above(self):
        assert clamp(11, 0, 10) == 10

    def test_wrong_bounds(self):
        with pytest.raises(ValueError):
            clamp(5, 10, 0)


@pytest.mark.parametrize("size, pieces", [(1, 5), (2, 3), (5, 1)])
def test_chunks(size, pieces):
    found = chunks(list("abcde"), size)
    assert len(found) == pieces


def test_chunks_keep_order():
    assert chunks([1, 2, 3], 2) == [[1, 2], [3]]


def test_initials():
    assert initials(["ada", "lovelace"]) == "A.L."


def test_no_initials():
    assert initials([]) == ""
"""
HYPHENS = """\


def test_initials_of_names_with_hyphens():
    assert initials(["jean-luc"]) == "J.-L."
"""
CHANGES = "# Changes\n\n## 1.0\n\n- First release.\n"

FIRST = {
    "small/__init__.py": "",
    "small/core.py": CORE,
    "small/unused.py": "def never(a, b):\n    return a + b\n",
    "tests/test_core.py": TESTS,
    "CHANGES.md": CHANGES,
    "README.md": "# small\n",
}
"""The first state."""
SECOND = {
    **FIRST,
    "small/core.py": CORE.replace(
        "    letters = [word[0].upper() for word in words if word and word[0].isalpha()]\n",
        '    letters = ["-".join(part[0].upper() for part in word.split("-")) for word in words if word]\n'
        '    letters = [each.replace("-", sep + "-") for each in letters]\n',
    ).replace('"""Small things about numbers and words."""', '"""Small things about numbers and about words."""'),
    "tests/test_core.py": TESTS + HYPHENS,
    "CHANGES.md": CHANGES.replace(
        "## 1.0", "## 1.1\n\n- The initials of names with hyphens keep the hyphens.\n\n## 1.0"
    ),
}
"""The second one: a fix with its test, and a change of words that no test asks for."""


def write_folder(root: Path, files: Mapping[str, str]) -> Path:
    """Lay some files out."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def write_checkout(root: Path, *states: Mapping[str, str]) -> Path:
    """A git work tree with a commit for each state."""
    root.mkdir(parents=True)
    with porcelain.init(str(root)) as repo:
        for place, files in enumerate(states):
            write_folder(root, files)
            porcelain.add(repo, paths=[str(root / name) for name in files])
            porcelain.commit(
                repo, message=f"State {place}".encode(), author=AUTHOR, committer=AUTHOR,
                commit_timestamp=TIME + place, author_timestamp=TIME + place, commit_timezone=0, author_timezone=0,
            )  # fmt: skip
    return root


def write_sdist(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A source distribution, never built by anything of the package's."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return archive
