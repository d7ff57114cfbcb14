"""The seam between Lego-RL and a harness: how it is installed, launched and silenced. Nothing else is known of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

type OptionValue = bool | int | float | str | list[str]
"""A value of an official harness option, as a recipe can write it."""

_BUILD_CHARS = 8

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
class Conduct:
    """What a policy has to know of a harness besides the tools that it is offered.

    Attributes:
        ends_with: Shell command that ends a run, where neither an answer without a call nor a tool does.
        delegation: Arguments of the tool that calls a sub-agent, besides what its schema and the prompt say.
    """

    ends_with: str | None = None
    delegation: Mapping[str, str] = field(default_factory=dict)


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


class Harness(Protocol):
    """An adapter. Its options are the harness's official ones, validated when it is made."""

    name: str
    version: str

    @property
    def spec(self) -> BundleSpec:
        """Which bundle it needs."""
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
