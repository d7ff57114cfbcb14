"""The recipe of supervised fine-tuning on captured demonstrations."""

from pydantic import Field

from lego_rl.settings import FolderPath, NameOrFolder, Settings
from lego_rl.train.sft_settings import SftSettings


class SftRunSection(Settings):
    """Where the run lives."""

    dir: FolderPath
    """The run directory; relative to the working directory. An unfinished run in it is continued."""


class SftPolicySection(Settings):
    """Which weights the run starts from."""

    path: NameOrFolder
    """A Hugging Face directory, or ``builtin:NAME`` for a shipped one."""


class DemonstrationsSection(Settings):
    """What is learned from."""

    runs: tuple[FolderPath, ...] = Field(min_length=1)
    """Run directories whose captured trials are the demonstrations."""


class SftRecipe(Settings):
    """A fine-tuning run."""

    run: SftRunSection
    policy: SftPolicySection
    demonstrations: DemonstrationsSection
    sft: SftSettings
