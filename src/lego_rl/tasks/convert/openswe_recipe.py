"""Recipes of OpenSWE's environments, made such that they can be built, and refused where they bring the fix.

Invariant: an agent finds no fix in the image, wherever it lies there. A model wrote these recipes with the patches
before it; so a recipe must not name the commit of the fix, fetch its repository or a release of it again, move to
another commit, decode anything, or hold a part of the patches, as they are or encoded. The clone that it works on loses
all history but that of the base commit.

The base images of the recipes are published nowhere; the same is made of ``continuumio/miniconda3``, as OpenSWE's own
preparation does. The recipe copies a clone that a row does not bring; it clones instead.
"""

import base64
import binascii
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from lego_rl.tasks.convert.assemble import TESTBED
from lego_rl.tasks.convert.row import RowError

BASE = "continuumio/miniconda3:25.3.1-1"
TELLING = 30
"""Characters of a line from which it is no commonplace."""
_TELLING_BYTES = 12
"""Of what was encoded: nobody encodes a commonplace."""
_FROM = re.compile(r"^[ \t]*FROM[ \t]+\S*openswe-python-(?P<version>3\.\d{1,2})\S*[ \t]*$", re.MULTILINE)
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(?P<arguments>.+)$", re.MULTILINE | re.IGNORECASE)
_REPOSITORY = re.compile(r"(?:--chown=\S+[ \t]+)?(?:\./)?repo/?(?:\.)?[ \t]+(?P<target>/testbed/?)")
_COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_MOVES = re.compile(
    r"\bgit\b[^\n;&|]*[ \t](?:fetch|pull|checkout|switch|reset|restore|merge|cherry-pick|rebase|revert|apply|am|show"
    r"|worktree|bundle)\b(?P<rest>[^\n;&|]*)"
)
_REQUEST = re.compile(r"\b(?:pull|pulls|merge_requests|merge-requests|refs/pull)/\d+|\brefs/(?:pull|merge)\b")
_DECODES = re.compile(
    r"\b(?:base64|base32|basenc)\b[^\n;&|]*(?:-\w*[dD]\b|--decode)|\bxxd\b[^\n;&|]*-\w*r|\buudecode\b|\bopenssl\b[^\n;&|]*-d\b"
    r"|\bb(?:16|32|64|85)decode\b|\bunhexlify\b|\bfromhex\b|\bcodecs\.decode\b|\bdecompress\b"
)
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_INSTALLS = re.compile(r"\b(?:pip3?|uv|conda|mamba)\b[^\n;&|]*\binstall\b(?P<words>[^\n;&|]*)")


@dataclass(frozen=True)
class Source:
    """What a recipe must not bring more of than the base commit.

    Attributes:
        repo: ``owner/name``.
        base_commit: Full id of the commit that the agent starts from.
        end_commit: Of the fix, as far as the row names it.
        patches: Its patches, one after the other.
    """

    repo: str
    base_commit: str
    end_commit: str
    patches: str


def recipe_of(dockerfile: str, source: Source) -> str:
    """The Dockerfile: of a base that can be had, with a clone in place of the folder that the row does not bring.

    Raises:
        RowError: It copies what the row does not bring, has no base that is known, or may bring the fix.
    """
    if not dockerfile.strip():
        raise RowError("it has no Dockerfile")
    text = dockerfile.replace("\r\n", "\n")
    made, bases = _FROM.subn(_base, text)
    if bases != 1:
        raise RowError("its Dockerfile starts from something else than openswe-python-3.X")
    copied = [found["arguments"].strip() for found in _COPY.finditer(made)]
    foreign = [arguments for arguments in copied if _REPOSITORY.fullmatch(arguments) is None]
    if foreign or len(copied) != 1:
        raise RowError(f"its Dockerfile copies {(foreign or ['nothing'])[0][:100]!r}, and a row brings no files")
    joined = re.sub(r"\\\n", " ", text)
    for fault in (*_fetched(joined, source), *_held(joined, source)):
        raise RowError(f"its Dockerfile {fault}")
    made = _COPY.sub(lambda _: _clone(source), made)
    return made if made.endswith("\n") else f"{made}\n"


def _base(found: re.Match[str]) -> str:
    return (
        f"FROM {BASE}\nRUN conda create -n testbed python={found['version']} -y "
        '&& echo "conda activate testbed" >> ~/.bashrc'
    )


def _clone(source: Source) -> str:
    """The repository at the base commit, with nothing that is not of its past."""
    return (
        f"RUN git clone https://github.com/{source.repo}.git {TESTBED} && cd {TESTBED} "
        f"&& git checkout -q {shlex.quote(source.base_commit)} \\\n"
        "    && git remote remove origin && git tag --no-merged HEAD | xargs -r git tag -d > /dev/null \\\n"
        "    && git for-each-ref --format='%(refname)' refs/heads refs/remotes | xargs -r -n1 git update-ref -d \\\n"
        "    && rm -f .git/FETCH_HEAD .git/ORIG_HEAD && git reflog expire --expire=now --all && git gc -q --prune=now"
    )


def _fetched(text: str, source: Source) -> Iterator[str]:
    """How a recipe may get another state of the repository."""
    for found in _COMMIT.finditer(text):
        if source.end_commit and source.end_commit.lower().startswith(found.group().lower()):
            yield f"names the commit of the fix, {found.group()}"
    if request := _REQUEST.search(text):
        yield f"fetches a pull request, {request.group()!r}"
    if re.search(rf"{re.escape(source.repo)}(?![\w-])", text, re.IGNORECASE):
        yield f"gets its repository {source.repo} a second time"
    for found in _MOVES.finditer(text):
        words = found["rest"].split()
        if not any(len(word) >= 7 and source.base_commit.startswith(word) for word in words):
            yield f"moves to another commit: {found.group().strip()[:100]!r}"
    own = _project(source.repo.partition("/")[2])
    for found in _INSTALLS.finditer(text):
        if own in {_project(re.split(r"[<>=!~;\[@]", word.strip("'\""))[0]) for word in found["words"].split()}:
            yield f"installs a release of its own repository: {found.group().strip()[:100]!r}"


def _held(text: str, source: Source) -> Iterator[str]:
    """How a recipe may hold what the patches add."""
    if found := _DECODES.search(text):
        yield f"decodes what nobody can see: {found.group()[:100]!r}"
    for line in source.patches.split("\n"):
        added = line[1:].strip() if line.startswith("+") else ""
        if len(added) >= TELLING and added in text:
            yield f"holds a line of its patches: {added[:100]!r}"
    patches = source.patches.encode(errors="replace")
    for found in _ENCODED.finditer(text):
        for content in _decoded(found.group()):
            if len(content) >= _TELLING_BYTES and content in patches:
                yield f"holds a part of its patches, encoded: {found.group()[:100]!r}"


def _decoded(text: str) -> Iterator[bytes]:
    whole = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    if len(whole) % 4 != 1:
        yield base64.b64decode(whole + "=" * (-len(whole) % 4))
    if len(whole) % 2 == 0:
        try:
            yield binascii.unhexlify(whole)
        except binascii.Error:
            return


def _project(name: str) -> str:
    """As package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
