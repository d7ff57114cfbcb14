"""The seam between Lego-RL and a harness: how it is installed, launched and silenced. Nothing else is known of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

type OptionValue = bool | int | float | str | list[str]
"""A value of an official harness option, as a recipe can write it."""

_BUILD_CHARS = 8
_ARGUMENT_BYTES = 128 * 1024
"""Linux's limit of one argument or variable, its final NUL included."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``PATH`` of a harness where the sandbox has no toolchain folder to put in front."""


def looser(budget: int) -> int:
    """A harness-side limit that the gateway's budget of the same kind always comes before."""
    return 2 * budget + 16


@dataclass(frozen=True)
class BundleSpec:
    """Which bundle an adapter needs.

    Attributes:
        name: Registry name, such as ``claude-code``.
        version: Exact upstream version.
        licence: SPDX identifier, or a short name for a proprietary licence.
        build: Digest of everything the bundle is built from besides upstream's files (pins, layout, Python version): a
            bundle made from something else is another one, beside it.
    """

    name: str
    version: str
    licence: str
    build: str

    @property
    def folder(self) -> str:
        """Name of the bundle's folder: builds of one version lie side by side."""
        return f"{self.version}-{hashlib.sha256(self.build.encode()).hexdigest()[:_BUILD_CHARS]}"


@dataclass(frozen=True)
class HarnessBundle:
    """An installed harness: a folder that is mounted read-only into every sandbox.

    Attributes:
        name: Registry name, such as ``claude-code``.
        version: Exact upstream version.
        hash: SHA-256 over the relative paths, modes and contents of the bundle's files.
        path: The folder on the host.
        size_bytes: Sum of the file sizes.
        licence: SPDX identifier, or a short name for a proprietary licence.
    """

    name: str
    version: str
    hash: str
    path: Path
    size_bytes: int
    licence: str


@dataclass(frozen=True)
class Endpoint:
    """Where a harness finds the model, seen from inside the sandbox.

    Attributes:
        base_url: Without a trailing slash and without ``/v1``; holds the trial's secret.
        model: Model name to send.
        context_tokens: The gateway's context budget, so that a harness-side limit can be set looser.
        output_tokens: The gateway's output budget per call.
        turns: The gateway's turn budget.
        api_key: Sent as the harness's credential; the gateway ignores it, the secret is in `base_url`.
    """

    base_url: str
    model: str
    context_tokens: int
    output_tokens: int
    turns: int
    api_key: str = "lego-rl"


@dataclass(frozen=True)
class ToolUse:
    """How a policy uses one of a harness's tools.

    Attributes:
        name: As the prompt shows it.
        text: The parameter that takes the command, the message or the task.
        further: Values of other parameters, which the schema does not tell.
    """

    name: str
    text: str
    further: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Conduct:
    """How a harness behaves, as far as whoever tries it has to know: which tools do what, and what it does in trouble.

    Attributes:
        shell: The tool that runs a command.
        too_long: What it does where a prompt is refused for its length: has the model sum the history up and goes on,
            or ends the run.
        broken_off: What it does where a stream breaks off after some text: keeps the text and goes on from there, or
            asks again; ``either`` where it is now the one, now the other.
        subagent: The tool that calls a sub-agent, if there is one.
        finish: The tool that ends a run, where an answer without a call does not, or is not all.
        last_command: Shell command that ends a run, where neither an answer without a call nor a tool does.
        repository_runs: Kinds of programs of the repository that it runs in spite of its launch.
    """

    shell: ToolUse
    too_long: Literal["summarises", "stops"]
    broken_off: Literal["keeps", "asks again", "either"] = "asks again"
    subagent: ToolUse | None = None
    finish: ToolUse | None = None
    last_command: str | None = None
    repository_runs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Launch:
    """One headless start of a harness inside a sandbox.

    Attributes:
        argv: Program and arguments, absolute inside the sandbox.
        env: The whole environment; nothing is inherited.
        files: Files to write before the start: absolute path in the sandbox → content.
        stdin: Text fed to standard input, byte for byte, which is then closed. Adapters send the instruction this way:
            as an argument it could be read as an option, and Linux limits an argument to 128 KiB.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""

    def impossible(self) -> str:
        """Why no program can be started like this; empty where one can."""
        for text in (*self.argv, *(f"{name}={value}" for name, value in self.env.items())):
            size = len(text.encode("utf-8", "surrogatepass"))
            if "\0" in text:
                return "no argument can hold a NUL character"
            if size >= _ARGUMENT_BYTES:
                return f"an argument of {size} bytes would hold it, and Linux takes less than {_ARGUMENT_BYTES}"
        return ""


class Harness(Protocol):
    """An adapter. Its options are the harness's official ones, validated when it is made."""

    name: str
    version: str

    @property
    def spec(self) -> BundleSpec:
        """Which bundle it needs."""
        ...

    @property
    def conduct(self) -> Conduct:
        """How it behaves with these options; no trial depends on it, only `lego-rl harness test`."""
        ...

    def install(self, root: Path) -> HarnessBundle:
        """Install the pinned version under `root` (idempotent) and return the bundle.

        Raises:
            HarnessError: The package cannot be fetched or does not hold what it should.
        """
        ...

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """Describe a headless run.

        Args:
            instruction: The task's text.
            endpoint: The trial's model endpoint.
            mount: Where the bundle is mounted in the sandbox.
            home: A fresh writable home directory in the sandbox.
            workdir: The repository in the sandbox, which is also the current directory of the start.
            path: ``PATH`` of the harness and of every command that it runs.
        """
        ...
