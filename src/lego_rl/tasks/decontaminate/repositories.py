"""One name for a repository, whatever it is called: renames, changes of owner, letter case, mirrors and bare names.

Invariant: two spellings of one repository have one canonical name, ``owner/name`` in small letters, and the canonical
name of a canonical name is itself. A name without an owner that the table does not know is ``?/name``: it is compared
by its name alone, and so with every owner.
"""

import re
from dataclasses import dataclass

UNKNOWN_OWNER = "?"
"""Stands for the owner of a bare name."""


UNREAD = "known, not read anywhere"
"""The source of a rename that no text was found for."""


@dataclass(frozen=True)
class Rename:
    """A repository that was called something else.

    Attributes:
        old: ``owner/name`` that it had.
        new: ``owner/name`` that it has.
        source: Where that is said; `UNREAD` where no text that was read says so. A wrong entry takes out too much, and
            never lets anything through.
    """

    old: str
    new: str
    source: str


RENAMES = (
    Rename("kennethreitz/requests", "psf/requests", "github.com/not-kennethreitz/team/issues/21"),
    Rename("requests/requests", "psf/requests", "github.com/ycm-core/ycmd/issues/1168"),
    Rename("pycqa/pylint", "pylint-dev/pylint", "github.com/pylint-dev/pylint-django/issues/397"),
    Rename("pycqa/astroid", "pylint-dev/astroid", "github.com/pylint-dev/pylint-django/issues/397"),
    Rename("mitsuhiko/flask", "pallets/flask", "github.com/pallets/flask/pull/1764"),
    Rename("mitsuhiko/jinja2", "pallets/jinja", UNREAD),
    Rename("pallets/jinja2", "pallets/jinja", UNREAD),
    Rename("mitsuhiko/click", "pallets/click", UNREAD),
    Rename("mitsuhiko/werkzeug", "pallets/werkzeug", UNREAD),
    Rename("xray/xray", "pydata/xarray", "github.com/pydata/xarray/pull/720"),
    Rename("pydata/xray", "pydata/xarray", "github.com/pydata/xarray/pull/720"),
    Rename("hpk42/pytest", "pytest-dev/pytest", UNREAD),
    Rename("birkenfeld/sphinx", "sphinx-doc/sphinx", UNREAD),
    Rename("nedbat/coveragepy", "coveragepy/coveragepy", UNREAD),
    Rename("pydata/pandas", "pandas-dev/pandas", UNREAD),
    Rename("alanmcruickshank/sqlfluff", "sqlfluff/sqlfluff", UNREAD),
    Rename("darcymason/pydicom", "pydicom/pydicom", UNREAD),
    Rename("spulec/moto", "getmoto/moto", UNREAD),
    Rename("samuelcolvin/pydantic", "pydantic/pydantic", UNREAD),
    Rename("tiangolo/fastapi", "fastapi/fastapi", UNREAD),
    Rename("ambv/black", "psf/black", UNREAD),
    Rename("python/black", "psf/black", UNREAD),
)
"""Renames and changes of owner of repositories that public sets of tasks are made from."""

R2E_GYM = {
    "aiohttp": "aio-libs/aiohttp",
    "bokeh": "bokeh/bokeh",
    "coveragepy": "coveragepy/coveragepy",
    "datalad": "datalad/datalad",
    "mypy": "python/mypy",
    "numpy": "numpy/numpy",
    "orange3": "biolab/orange3",
    "pandas": "pandas-dev/pandas",
    "pillow": "python-pillow/pillow",
    "pyramid": "pylons/pyramid",
    "scrapy": "scrapy/scrapy",
    "statsmodels": "statsmodels/statsmodels",
    "sympy": "sympy/sympy",
    "tornado": "tornadoweb/tornado",
}
"""Bare names of R2E-Gym (its ``RepoName``) and whose they are."""

_RENAMED = {rename.old: rename.new for rename in RENAMES}
_RENAMED_FLAT = {rename.old.replace("/", "-"): rename.new.replace("/", "-") for rename in RENAMES}
_ADDRESS = re.compile(r"^(?:\w+://)?(?:[^@/]+@)?(?:www\.)?(?:github|gitlab|bitbucket)\.(?:com|org)[/:]")
_MIRROR = re.compile(r"^(?:[^/]+/)?(?P<owner>[a-z0-9-]+)(?:__|_1776_|_s_)(?P<name>[a-z0-9._-]+?)(?:\.[0-9a-f]{7,40})?$")


def canonical(repository: str) -> str | None:
    """The canonical name of a repository.

    Args:
        repository: ``owner/name``, a bare name, the address of either, or a mirror such as
            ``swesmith/owner__name.2ab64612``.

    Returns:
        ``owner/name`` in small letters, ``?/name`` for a bare name that no table knows, ``None`` for no name at all.
    """
    text = _ADDRESS.sub("", repository.strip().lower()).strip("/").removesuffix(".git")
    if not text:
        return None
    parts = text.split("/")
    mirror = _MIRROR.match("/".join(parts[:2])) if len(parts) <= 2 else None
    if mirror is not None:
        text = f"{mirror['owner']}/{mirror['name']}"
    elif len(parts) > 1:
        text = "/".join(parts[:2])  # an address may go on: /pull/12
    if "/" not in text:
        text = R2E_GYM.get(text, f"{UNKNOWN_OWNER}/{text}")
    return _RENAMED.get(text, text)


def flat(repository: str) -> str:
    """A canonical name as image names have it, where nothing tells the owner from the name: ``owner-name``."""
    return repository.replace("/", "-")


def canonical_flat(name: str) -> str:
    """``owner-name`` of today, for that of a repository that was called something else."""
    return _RENAMED_FLAT.get(name, name)


def bare(repository: str) -> str:
    """The name without its owner."""
    return repository.partition("/")[2]
