"""The files of a task as they are written: ``task.toml`` and ``tests/spec.json``, checked when they are read.

Invariant: a file that says something impossible is an error that names it and what is wrong in it, in one line.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from lego_rl.documents import DocumentError, read_json, read_toml
from lego_rl.errors import TaskError
from lego_rl.tasks import written
from lego_rl.tasks.history import AgentHistory, GradingHistory
from lego_rl.tasks.network import PORTS
from lego_rl.tasks.provenance import DeclaredSource

LEAST_MEMORY_MB = 32
"""In less of it the first process of a sandbox does not start."""


class _Metadata(BaseModel):
    family: str = ""
    grader: str = ""
    editable: tuple[Annotated[str, AfterValidator(written.plain)], ...] = ()
    visible: tuple[Annotated[str, AfterValidator(written.plain)], ...] = ()
    repo: str = ""
    split: str = "default"
    base_commit: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    source: DeclaredSource = None
    history: AgentHistory = "reachable"
    grading_history: GradingHistory = "same"
    verifier_ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = PORTS


class _Agent(BaseModel):
    timeout_sec: float = Field(default=600.0, gt=0)


class _Reach(BaseModel):
    network_mode: str | None = None
    allowed_hosts: tuple[str, ...] | None = None


type _Name = Annotated[str, AfterValidator(written.variable)]
type _Value = Annotated[str, AfterValidator(written.literal)]


class _Verifier(_Reach):
    env: dict[_Name, _Value] = Field(default_factory=dict)
    environment: _Reach = _Reach()


class _Environment(_Reach):
    workdir: Annotated[str, AfterValidator(written.folder)] = "/app"
    docker_image: Annotated[str, AfterValidator(written.passable)] | None = None
    memory_mb: int = Field(default=2048, ge=LEAST_MEMORY_MB)
    storage_mb: int | None = Field(default=None, gt=0)


class Config(BaseModel):
    """What Lego-RL reads of a ``task.toml``; Harbor reads the rest."""

    metadata: Annotated[_Metadata, BeforeValidator(written.spelt)] = _Metadata()
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()


type _Word = Annotated[str, Field(min_length=1), AfterValidator(written.passable)]


class Spec(BaseModel):
    """``tests/spec.json`` as it is written."""

    fail_to_pass: tuple[_Word, ...] = Field(alias="FAIL_TO_PASS")
    pass_to_pass: tuple[_Word, ...] = Field(alias="PASS_TO_PASS")
    command: _Word
    parser: _Word
    test_files: tuple[Annotated[str, AfterValidator(written.plain)], ...]


def read_text(path: Path) -> str:
    """A text of a task.

    Raises:
        TaskError: It is no text, or not there.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no regular file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(
            f"cannot read {path}: {error}",
            "a task directory needs task.toml, instruction.md, environment/ and tests/spec.json or tests/test.sh",
        ) from error


def read_config(path: Path) -> Config:
    """A ``task.toml``.

    Raises:
        TaskError: It is not there, or says something impossible.
    """
    try:
        return Config.model_validate(read_toml(read_text(path)))
    except DocumentError as error:
        raise TaskError(f"{path} is not valid TOML: {error}", "mend the file") from error
    except ValidationError as error:
        raise TaskError(f"{path}: {_first(error)}", "mend the file") from error


def read_spec(path: Path) -> Spec:
    """A ``tests/spec.json``.

    Raises:
        TaskError: It is not there, or is none.
    """
    try:
        return Spec.model_validate(read_json(read_text(path)))
    except (DocumentError, ValidationError) as error:
        said = _first(error) if isinstance(error, ValidationError) else repr(error)
        raise TaskError(
            f"{path} is not a test specification: {said}",
            "it needs FAIL_TO_PASS, PASS_TO_PASS and test_files (lists of text), command and parser",
        ) from error


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
