import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.analysis.actions import Kind
from lego_rl.analysis.shell import shell_actions
from lego_rl.analysis.words import simple_commands

READ, EDIT, TEST, SEARCH = Kind.READ, Kind.EDIT, Kind.TEST, Kind.SEARCH


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py", [(READ, "a.py")]),
        ("cat a.py src/b.py | head -20", [(READ, "a.py"), (READ, "src/b.py")]),
        ("sed -n '1,40p' a.py", [(READ, "a.py")]),
        ("head -n 20 a.py", [(READ, "a.py")]),
        ("head -20 ./a.py", [(READ, "a.py")]),
        ("awk '{print $1}' a.py", [(READ, "a.py")]),
        ("nl -ba a.py | sed -n '10,20p'", [(READ, "a.py")]),
        ("cd src && cat a.py", [(READ, "src/a.py")]),
        ("cd /app/src; cat ../a.py", [(READ, "/app/a.py")]),
        ('cat "with space.py"', [(READ, "with space.py")]),
        ("FOO=1 sudo timeout 5 cat a.py", [(READ, "a.py")]),
        ("bash -lc 'cat a.py && pytest -q'", [(READ, "a.py"), (TEST, "")]),
        ("grep -rn 'def f' . | head", [(SEARCH, "")]),
        ("rg pattern", [(SEARCH, "")]),
        ("find . -name '*.py' | xargs grep foo", [(SEARCH, "")]),
        ("git grep foo", [(SEARCH, "")]),
        ("cat a.py | grep foo", [(READ, "a.py")]),
        ("sed -i 's/a/b/' a.py b.py", [(EDIT, "a.py"), (EDIT, "b.py")]),
        ("perl -pi -e 's/a/b/' a.py", [(EDIT, "a.py")]),
        ("cat > a.py <<'EOF'\nimport pytest\ncat b.py\nEOF\npytest a.py", [(EDIT, "a.py"), (TEST, "")]),
        ("cat <<EOF > a.py\nx\nEOF", [(EDIT, "a.py")]),
        ("echo x >> a.py", [(EDIT, "a.py")]),
        ("echo x | tee -a a.py", [(EDIT, "a.py")]),
        ("echo x > /dev/null 2>&1", [(Kind.OTHER, "/dev/null")]),
        ("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n@@\n*** End Patch\nEOF", [(EDIT, "a.py")]),
        ("git apply <<'EOF'\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\nEOF", [(EDIT, "a.py")]),
        ("patch -p1 < fix.diff", [(EDIT, "")]),
        ("python - <<'EOF'\nopen('a.py', 'w').write('x')\nEOF", [(EDIT, "a.py")]),
        ("python -c \"open('a.py').read()\"", []),
        ("pytest", [(TEST, "")]),
        ("python3 -m pytest tests 2>&1 | tail -5", [(TEST, "")]),
        ("python -W ignore -m unittest discover", [(TEST, "")]),
        ("python -m coverage run -m pytest", [(TEST, "")]),
        ("python tests/test_a.py", [(TEST, "")]),
        ("python manage.py test app", [(TEST, "")]),
        ("./tests/runtests.py app", [(TEST, "")]),
        ("uv run pytest -x", [(TEST, "")]),
        ("make test", [(TEST, "")]),
        ("if ! tox -e py312; then echo no; fi", [(TEST, "")]),
        ("pytest --version", []),
        ("python script.py", []),
        ("git diff", []),
        ("echo 'cat a.py'", []),
        ("ls 2>/dev/null # cat a.py", [(SEARCH, ""), (Kind.OTHER, "/dev/null")]),
        ("cat 'unfinished", [(READ, "'"), (READ, "unfinished")]),
        ("", []),
    ],
)
def test_what_a_command_does(command: str, expected: list[tuple[Kind, str]]) -> None:
    found = [(action.kind, action.path) for action in shell_actions(command)]
    assert sorted(found) == sorted(expected)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1))
def test_quoted_words_come_out_as_they_were(words: list[str]) -> None:
    assert [each.words for each in simple_commands(shlex.join(words))] == [words]


@given(st.text("catsed -in'\"\\<>|&;()\n#$EOF/.py"))
def test_any_text_is_read(command: str) -> None:
    shell_actions(command)


@pytest.mark.timeout(10)
def test_a_long_command_is_read_at_once() -> None:
    for text in ("'" * 50_001, "\\" * 50_001, "<<A " * 5_000, '"a' * 20_001, "a=" * 30_000, "(" * 50_000):
        shell_actions(text)
