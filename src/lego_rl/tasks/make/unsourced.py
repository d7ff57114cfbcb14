"""What of a folder that is no checkout is no source: environments, installed packages, build output, secrets.

Invariant: what is left out is no part of any task: neither may a policy read it, nor is a bug put into it.
"""

import re
from collections.abc import Collection
from pathlib import PurePosixPath

_FOLDERS = frozenset({"site-packages", "dist-packages", ".eggs", ".pytest_cache", ".ruff_cache", ".hypothesis"})
_INSTALLED = (".egg-info", ".dist-info")
_BUILT = re.compile(r"(?:^|/)build/(?:lib|lib\.[^/]*|bdist\.[^/]*|temp\.[^/]*|scripts-[^/]*)/")
_ARCHIVE = re.compile(r"(?:^|/)dist/[^/]+\.(?:whl|tar\.gz|zip|egg)$")
_SECRET = re.compile(r"(?:^|/)(?:\.env(?:\..*)?|\.envrc|\.netrc|\.pypirc|\.npmrc)$")
_EXAMPLE = re.compile(r"\.(?:example|sample|template|dist)$")


def sources_among(paths: Collection[str]) -> list[str]:
    """Those of some paths of a folder that are sources, in their order."""
    environments = {str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name == "pyvenv.cfg"}
    return [path for path in paths if not _is_unsourced(path, environments)]


def _is_unsourced(path: str, environments: set[str]) -> bool:
    names = PurePosixPath(path).parts[:-1]
    if not _FOLDERS.isdisjoint(names) or any(name.endswith(_INSTALLED) for name in names):
        return True
    if not environments.isdisjoint(map(str, PurePosixPath(path).parents)):
        return True
    if _BUILT.search(path) or _ARCHIVE.search(path):
        return True
    return _SECRET.search(path) is not None and _EXAMPLE.search(path) is None
