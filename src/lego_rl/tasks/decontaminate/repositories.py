"""One name for a repository, whatever it is called: renames, changes of owner, letter case, mirrors and bare names.

Invariant: two spellings of one repository have one canonical name, ``owner/name`` in small letters, and the canonical
name of a canonical name is itself. A name without an owner that the table does not know is ``?/name``: it is compared
by its name alone, and so with every owner. What is no name, such as ``n/a``, is none: who says nothing else is of no
repository.
"""

import re
from dataclasses import dataclass

from lego_rl.tasks.decontaminate.normal import plain_letters

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

PACKAGES = {
    "sklearn": "scikit-learn/scikit-learn",
    "astropy": "astropy/astropy",
    "django": "django/django",
    "flask": "pallets/flask",
    "jinja2": "pallets/jinja",
    "matplotlib": "matplotlib/matplotlib",
    "pylint": "pylint-dev/pylint",
    "pytest": "pytest-dev/pytest",
    "requests": "psf/requests",
    "scikit-learn": "scikit-learn/scikit-learn",
    "seaborn": "mwaskom/seaborn",
    "sphinx": "sphinx-doc/sphinx",
    "sympy": "sympy/sympy",
    "xarray": "pydata/xarray",
}
"""Names of packages that public sets of tasks are made from, and whose they are."""

_SCHEME = re.compile(r"^(?:git\+)?\w+://(?:[^@/]+@)?[^/]*/?(?:repos/)?")
_SCP = re.compile(r"^(?:[^@/:]+@)?[a-z0-9.-]+\.[a-z]{2,}:(?!\d+(?:/|$))")
_HOST = re.compile(r"^(?:www\.|api\.)?(?:github|gitlab|bitbucket|codeberg|gitee)\.(?:com|org)/(?:repos/)?")
_AFTER = re.compile(r"[@#]|(?<!^)\?")  # `UNKNOWN_OWNER` stands at the beginning
_GIT = re.compile(r"(?:\.git)+$")
_MIRROR = re.compile(
    r"^(?:[^/]+/)?(?P<owner>[a-z0-9-]+)(?:__|_1776_|_s_)(?P<name>[a-z0-9._-]+?)(?:\.[0-9a-f]{7,40}(?:\.[a-z0-9._-]+)?)?$"
)
_REPOSITORY = re.compile(r"^(?:\?|[a-z0-9][a-z0-9_-]*)/(?=[._-]*[a-z0-9])[a-z0-9._-]+$")
_VERSION = re.compile(r"-v?\d+(?:\.\w+)+$")
_NO_NAMES = frozenset({"n", "a", "na", "nan", "nil", "none", "null", "tbd", "undefined", "unknown"})
"""What is written where there is no name."""

_KNOWN = frozenset({*R2E_GYM.values(), *PACKAGES.values(), *(rename.new for rename in RENAMES)})
_RENAMED = {rename.old: rename.new for rename in RENAMES}
_KNOWN_FLAT = {name.replace("/", "-"): name for name in _KNOWN}
_RENAMED_FLAT = {rename.old.replace("/", "-"): rename.new.replace("/", "-") for rename in RENAMES}


def canonical(repository: str) -> str | None:
    """The canonical name of a repository.

    Args:
        repository: ``owner/name``, a bare name, the address of either, or a mirror such as
            ``swesmith/owner__name.2ab64612``.

    Returns:
        ``owner/name`` in small letters, ``?/name`` for a bare name that no table knows, ``None`` for what is no name
        of a repository: it says nothing.
    """
    text = re.sub(r"\s*/\s*", "/", plain_letters(repository).lower().strip())
    text = _HOST.sub("", _SCP.sub("", _SCHEME.sub("", text)))
    parts = _AFTER.split(text)[0].strip("/").split("/")[:2]  # an address may go on: /pull/12
    if len(parts) == 2:
        parts[1] = parts[1].partition(":")[0]  # a branch, or a tag
    text = _GIT.sub("", "/".join(parts))
    while (mirror := _MIRROR.match(text)) is not None:
        text = _GIT.sub("", f"{mirror['owner']}/{mirror['name']}")
    parts = text.split("/")
    if len(parts) == 1:
        parts[0] = _GIT.sub("", _VERSION.sub("", parts[0]))
    if not parts[-1] or _NO_NAMES.issuperset(set(parts) - {UNKNOWN_OWNER}):
        return None
    if len(parts) == 1:
        bare_name = re.sub("_", "-", parts[0])
        known = R2E_GYM.get(bare_name) or PACKAGES.get(bare_name)
        parts = (known or f"{UNKNOWN_OWNER}/{parts[0]}").split("/")
    name = "/".join(parts)
    return _RENAMED.get(name, name) if _REPOSITORY.match(name) else None


def is_known(repository: str) -> bool:
    """Whether a canonical name is of a repository that public sets of tasks are made from."""
    return repository in _KNOWN


def is_no_name(text: str) -> bool:
    """Whether it is what is written where there is no name, such as ``n/a``."""
    return _NO_NAMES.issuperset(re.split(r"[\W_]+", text.lower().strip("()[]<>- ")))


def known_flat(name: str) -> str | None:
    """The canonical name that is ``owner-name`` without a sign between, where a table has it."""
    return _KNOWN_FLAT.get(canonical_flat(name))


def flat(repository: str) -> str:
    """A canonical name as image names have it, where nothing tells the owner from the name: ``owner-name``."""
    return repository.replace("/", "-")


def canonical_flat(name: str) -> str:
    """``owner-name`` of today, for that of a repository that was called something else."""
    return _RENAMED_FLAT.get(name, name)


def bare(repository: str) -> str:
    """The name without its owner, where ``_``, ``.`` and ``-`` are one sign."""
    return re.sub(r"[._-]+", "-", repository.partition("/")[2])
