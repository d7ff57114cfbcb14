"""Diffs are read strictly and applied to the letter; whatever could be lost or lead out of the tree is refused."""

import base64
import difflib
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.tasks.unified_diff import BaseFile, DiffError, PatchedFile, apply_diff, read_diff, reversed_diff

CHANGE = b"""\
diff --git a/x.py b/x.py
index 0000001..0000002 100644
--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
"""
NEW = b"""\
diff --git a/t/new.sh b/t/new.sh
new file mode 100755
--- /dev/null
+++ b/t/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+echo
\\ No newline at end of file
"""
GONE = b"""\
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
"""
MOVED = b"""\
diff --git a/a.txt b/b.txt
similarity index 50%
rename from a.txt
rename to b.txt
--- a/a.txt
+++ b/b.txt
@@ -1,2 +1,2 @@
-a
+b
 kept
"""
TREE = {"x.py": b"one\ntwo\nthree\n", "old.txt": b"old\n", "a.txt": b"a\nkept\n"}


def apply(diff: bytes, tree: dict[str, bytes] = TREE) -> list[PatchedFile]:
    return apply_diff(diff, lambda path: BaseFile(tree[path], path.endswith(".sh")) if path in tree else None)


def test_what_a_diff_makes_of_a_tree() -> None:
    assert apply(CHANGE + NEW + GONE + MOVED) == [
        PatchedFile("x.py", b"one\nzwei\nthree\n"),
        PatchedFile("t/new.sh", b"#!/bin/sh\necho", executable=True),
        PatchedFile("old.txt", None),
        PatchedFile("a.txt", None),
        PatchedFile("b.txt", b"b\nkept\n"),
    ]


def test_a_moved_file_without_a_change_is_not_new() -> None:
    moved = b"diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n"
    assert apply(moved)[1] == PatchedFile("b.txt", b"a\nkept\n", is_new=False)


def test_an_executable_file_stays_one() -> None:
    diff = CHANGE.replace(b"x.py", b"x.sh").replace(b" 100644", b"")
    assert apply(diff, {"x.sh": TREE["x.py"]}) == [PatchedFile("x.sh", b"one\nzwei\nthree\n", executable=True)]


def test_carriage_returns_are_characters() -> None:
    diff = CHANGE.replace(b"zwei", b"z\rwei\r")
    assert apply(diff, {"x.py": b"one\ntwo\nthree\n"})[0].content == b"one\nz\rwei\r\nthree\n"
    with pytest.raises(DiffError, match=r"does not fit x\.py"):
        apply(diff, {"x.py": b"one\r\ntwo\r\nthree\r\n"})


def test_binary_files_with_their_data() -> None:
    content = b"\x89PNG\0\r\n"
    packed = zlib.compress(content)
    assert len(packed) <= 26, "one line of git's base 85, whose first letter is its length"
    data = bytes([ord("A") + len(packed) - 1]) + base64.b85encode(packed + bytes(-len(packed) % 4))
    head = b"diff --git a/i.bin b/i.bin\nnew file mode 100644\nindex 0000000..b4d2f84\nGIT binary patch\n"
    assert apply(head + b"literal %d\n%b\n\n" % (len(content), data)) == [PatchedFile("i.bin", content)]


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        (b"", "names no file"),
        (b"nothing of a diff\n", "names no file"),
        (CHANGE.replace(b"x.py", b"../x.py"), "leads out of the tree"),
        (CHANGE.replace(b"x.py", b"t/../../x.py"), "leads out of the tree"),
        (CHANGE.replace(b"a/x.py", b"/etc/x").replace(b"b/x.py", b"/etc/x"), "do not begin with a/ and b/"),
        (CHANGE.replace(b"a/x.py", b"x.py").replace(b"b/x.py", b"x.py"), "do not begin with a/ and b/"),
        (CHANGE.replace(b"x.py", b".git/hooks/x"), "changes a git directory"),
        (CHANGE.replace(b"x.py", b"sub/.GIT/config"), "changes a git directory"),
        (CHANGE.replace(b"x.py", b"\xff.py"), "no text"),
        (NEW.replace(b"100755", b"120000"), "link or submodule"),
        (NEW.replace(b"100755", b"160000"), "link or submodule"),
        (CHANGE + CHANGE, "names x.py twice"),
        (CHANGE.replace(b" three\n", b""), "another length"),
        (CHANGE.replace(b" three\n", b"\n"), "another length"),
        (CHANGE + b"-four\n", "another length"),
        (CHANGE.replace(b"@@ -1,3", b"@@ -1,2"), "another length"),
        (CHANGE.replace(b"@@ -1,3 +1,3 @@", b"@@ -1,x +1,3 @@"), "damaged"),
        (CHANGE.replace(b"two", b"three"), "does not fit"),
        (CHANGE.replace(b"-1,3 +1,3", b"-2,3 +2,3"), "does not fit"),
        (CHANGE.replace(b"x.py", b"y.py"), "which is not there"),
        (NEW.replace(b"t/new.sh", b"x.py"), "is there already"),
        (MOVED.replace(b"b.txt", b"x.py"), "is there already"),
        (GONE.replace(b"-old", b"-olden"), "does not fit"),
        (b"diff --git a/x.py b/x.py\ndeleted file mode 100644\n", "leaves something"),
        (
            b"diff --git a/i.png b/i.png\nnew file mode 100644\nBinary files /dev/null and b/i.png differ\n",
            "without its",
        ),
        (b"diff --git a/i b/i\nnew file mode 100644\nGIT binary patch\nliteral 9\nZZZZ\n\n", "cannot be read"),
        (b"x" * ((16 << 20) + 1), "more than 16 MiB"),
    ],
)
def test_what_cannot_be_used_is_refused(diff: bytes, said: str) -> None:
    with pytest.raises(DiffError, match=said):
        apply(diff)


def test_a_mail_ends_with_a_signature() -> None:
    mail = (
        b"From 0 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] it\n\n---\n x.py | 2 +-\n\n" + CHANGE + b"-- \n2.39.1\n\n"
    )
    assert apply(mail) == apply(CHANGE)


def test_other_tools_write_no_git_header() -> None:
    plain = CHANGE[CHANGE.index(b"---") :] + NEW[NEW.index(b"---") :] + GONE[GONE.index(b"---") :]
    assert [(made.path, made.content) for made in apply(plain)] == [
        (made.path, made.content) for made in apply(CHANGE + NEW + GONE)
    ]


LINES = st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "@@ -1 +1 @@", "diff --git a/x b/x"]), max_size=12)


@given(LINES, LINES, st.booleans())
def test_a_diff_takes_one_text_to_the_other_and_turned_round_back(old: list[str], new: list[str], end: bool) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    if end:
        after = after.removesuffix("\n")
    if before == after or not before or not after:
        return
    diff = _git_diff(before, after)
    assert [made.content for made in apply(diff, {"f": before.encode()})] == [after.encode()]
    back = reversed_diff(diff)
    assert [made.content for made in apply(back, {"f": after.encode()})] == [before.encode()]
    assert reversed_diff(back) == diff


def _git_diff(before: str, after: str) -> bytes:
    lines = list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f"))
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    text = re.sub(r"(?m)^@@ -(\d+)(?= )", r"@@ -\1,1", text)
    text = re.sub(r"(?m)^(@@ -\d+,\d+ \+\d+)(?= @@$)", r"\1,1", text)
    return f"diff --git a/f b/f\n{text}".encode()


def test_a_made_and_a_deleted_file_turned_round() -> None:
    (made,) = apply(NEW)
    assert made.content is not None
    assert apply(reversed_diff(NEW), {"t/new.sh": made.content}) == [PatchedFile("t/new.sh", None)]
    assert apply(reversed_diff(GONE), {}) == [PatchedFile("old.txt", b"old\n")]
    assert read_diff(reversed_diff(NEW))[0].patch.old_mode == 0o100755
    with pytest.raises(DiffError, match="cannot be turned round"):
        reversed_diff(MOVED)
