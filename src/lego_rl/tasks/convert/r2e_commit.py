"""The commit of a row of R2E-Gym: a JSON of its own, and the fix in it as one unified diff."""

from pydantic import ValidationError

from lego_rl.tasks.convert.row import Fields, RowError, with_end
from lego_rl.tasks.unified_diff import DiffError, read_diff


def gold_of(commit: str) -> bytes | None:
    """The fix as one patch, of the files of a commit that are no tests; ``None`` where the row has no commit.

    Raises:
        RowError: The row has one that cannot be read, holds no fix, or leaves out how a file was changed.
    """
    if not commit.strip():
        return None
    try:
        diffs = [diff for diff in _Commit.model_validate_json(commit).file_diffs if not diff.is_test]
    except ValidationError as error:
        raise RowError(f"parsed_commit_content: {error.errors()[0]['msg']}") from error
    if not diffs:
        raise RowError("its commit changes tests alone")
    for diff in diffs:
        path = diff.header.file.path
        if {f"a/{path}", f"b/{path}"}.isdisjoint({diff.before, diff.after}):
            raise RowError(f"its commit calls the file {path[:200]!r} otherwise, too")
        if not diff.hunks and "/dev/null" not in (diff.before, diff.after):  # made or deleted while it is empty
            raise RowError(f"its commit changes {path[:200]!r} in a way that is not in the row")
    text = with_end("\n".join(diff.text() for diff in diffs))
    try:
        read_diff(text)
    except DiffError as error:
        raise RowError(f"its commit as a patch {error}") from error
    return text


class _Line(Fields):
    content: str
    type: str = "context"


class _Lines(Fields):
    all_lines: tuple[_Line, ...] = ()


class _Range(Fields):
    start: int
    length: int | None = None


class _Descriptor(Fields):
    old_range: _Range
    new_range: _Range


class _Hunk(Fields):
    descriptor: _Descriptor
    line_group: _Lines

    def text(self) -> str:
        signs = {"context": " ", "added": "+", "deleted": "-", "note": "\\"}
        lines = [f"{signs.get(line.type, ' ')}{line.content}" for line in self.line_group.all_lines]
        old, new = (
            f"{part.start},{1 if part.length is None else part.length}"
            for part in (self.descriptor.old_range, self.descriptor.new_range)
        )
        return "\n".join([f"@@ -{old} +{new} @@", *lines])


class _Path(Fields):
    path: str = ""


class _Header(Fields):
    file: _Path = _Path()


class _FileDiff(Fields):
    header: _Header
    minus_file: _Path | None = None
    plus_file: _Path | None = None
    hunks: tuple[_Hunk, ...] = ()

    @property
    def is_test(self) -> bool:
        """Whether the file is one of the repository's own tests, by its name."""
        parts = self.header.file.path.lower().split("/")
        return parts[-1].startswith("test_") or parts[-1].endswith("_test.py") or "tests" in parts or "test" in parts

    @property
    def before(self) -> str:
        """As the line of the old file has it."""
        return self.minus_file.path if self.minus_file else f"a/{self.header.file.path}"

    @property
    def after(self) -> str:
        """As the line of the new file has it."""
        return self.plus_file.path if self.plus_file else f"b/{self.header.file.path}"

    def text(self) -> str:
        path, before, after = self.header.file.path, self.before, self.after
        kind = "new file mode 100644\n" if before == "/dev/null" else ""
        kind = "deleted file mode 100644\n" if after == "/dev/null" else kind
        head = f"diff --git a/{path} b/{path}\n{kind}--- {before}\n+++ {after}"
        return "\n".join([head, *(hunk.text() for hunk in self.hunks)])


class _Commit(Fields):
    file_diffs: tuple[_FileDiff, ...] = ()
