"""What the generator makes: a small repository with one bug on one line, its issue, its fix and its hidden tests."""

from collections.abc import Mapping
from dataclasses import dataclass

from lego_rl.tasks.names import Split


@dataclass(frozen=True)
class Bug:
    """Where the bug is and what fixes it: exactly one line changes.

    Attributes:
        path: File, relative to the repository.
        line: Line number, from 1.
        function: The function that the issue names.
        before: The wrong line as it stands in the file, indentation included; its text occurs once in the file.
        after: The line that replaces it.
    """

    path: str
    line: int
    function: str
    before: str
    after: str


@dataclass(frozen=True)
class BugTask:
    """One generated task, in memory.

    Attributes:
        id: ``family-split-index``.
        family: Kind of bug.
        split: Which share of the names it was drawn from.
        instruction: The issue text.
        files: The repository with its bug: relative path → text.
        bug: Where the bug is.
        tests: Hidden tests: relative path → text.
        fail_to_pass: Test ids (``path::function``) that fail before the fix.
        pass_to_pass: Test ids that pass before and after it.
    """

    id: str
    family: str
    split: Split
    instruction: str
    files: Mapping[str, str]
    bug: Bug
    tests: Mapping[str, str]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def fixed_files(self) -> dict[str, str]:
        """The repository after the fix."""
        lines = self.files[self.bug.path].split("\n")
        lines[self.bug.line - 1] = self.bug.after
        return {**self.files, self.bug.path: "\n".join(lines)}
