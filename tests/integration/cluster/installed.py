"""Digests of installed packages: whether every file is the one that was published."""

import base64
import csv
import hashlib
from importlib.metadata import Distribution, MetadataPathFinder
from pathlib import Path

UNHASHED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""What installers write themselves."""


def distribution(name: str, site: Path) -> Distribution:
    """An installed package of another environment."""
    (found,) = MetadataPathFinder.find_distributions(MetadataPathFinder.Context(name=name, path=[str(site)]))
    return found


def published(name: str, site: Path) -> dict[str, str]:
    """The files of an installed package that its publisher lists, with the hashes listed there."""
    listed = distribution(name, site).read_text("RECORD")
    assert listed is not None, f"{name} has no list of its files"
    rows = [row for row in csv.reader(listed.splitlines()) if row]
    return {
        path: hashed
        for path, hashed, _ in rows
        if Path(path).name not in UNHASHED and not path.startswith("..") and not path.endswith(".pyc")
    }


def digest(files: dict[str, str]) -> str:
    """One digest of a whole list."""
    lines = "".join(f"{path} {hashed}\n" for path, hashed in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def changed(files: dict[str, str], site: Path, package: str) -> list[str]:
    """Files that are not as listed, and Python files of the package that nobody lists."""
    wrong = [path for path, hashed in files.items() if _hash(site / path) != hashed]
    present = (path.relative_to(site).as_posix() for path in (site / package).rglob("*.py"))
    return wrong + [path for path in present if path not in files]


def _hash(path: Path) -> str:
    if not path.is_file():
        return "missing"
    hashed = hashlib.sha256(path.read_bytes()).digest()
    return "sha256=" + base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
