"""What cannot be told of a script is refused: every way in which one may run git, patch or text, or write a file."""

import contextlib
import time

import pytest

from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.convert.shell import without_patches

FORBIDDEN = ("src/calc.py", "tests/test_new.py")


@pytest.mark.parametrize(
    "script",
    [
        "x=`git apply y`",
        "((git rebase x); true)",
        "((nice patch) )",
        "x=$((git rebase x); true)",
        "x=$(( $(git rebase x) + 1 ))",
        "(( (git rebase x) ))",
        "nice base64 -d x",
        "echo 'git apply x' | tee /tmp/run.sh",
        "sed '1e git apply x' y",
        "awk 'BEGIN{system(\"git apply x\")}'",
        "env cp -r x .",
        "su -c 'git apply x'",
        "echo fix.patch | xargs git apply",
        "printf '%s' fix.patch | xargs -n1 git apply",
        'echo "$P" | base64 -d | nice git apply',
        "find . -name '*.rej' -exec git apply {} +",
        "echo hi; bash -c 'git apply x'",
        'echo start && eval "git apply x"',
        "printf a > /tmp/p; $GIT apply /tmp/p",
        "python3 - <<'EOF'\nimport subprocess\nsubprocess.run(['git',\n'apply','/tmp/x'])\nEOF",
        'g""it apply x',
        "\\git apply x",
        "G=git; $G apply x",
        'G=/usr/bin/git; "$G" $A x',
        "alias g=git",
        "T=patch; $T < x",
        "nohup patch < x",
        "timeout -s 9 10 patch -p1 < x",
        "cat x | nice patch",
        "git apply x[[`\n`'pytest",
        "x=${A:-$(git apply y)}",
        'eval "$CMD"',
        'bash -c "$CMD"',
        "curl x | bash",
        "echo Z2l0 | base64 -d > /tmp/x",
        "base64 --decode x | sh",
        "bash <(echo x)",
        "source <(echo x)",
        ". /dev/stdin",
        "cp -r /tmp/fix/. .",
        "cp -r /tmp/fix/. /testbed",
        'mv /tmp/x "$F"',
        'sed -i s/a/b/ "$F"',
        'cat > "$F" <<EOF\nx\nEOF',
        "git read-tree -u x",
        "git rebase x",
        "git worktree add x",
        "git $X y",
        'trap "git apply x" EXIT',
        "cat > /tmp/f.sh <<EOF\ngit rebase x\nEOF",
        "cat > /tmp/f <<EOF\n#!/bin/sh\nnice patch\nEOF",
        'python3 -c"open(1,2); import patch"',
        "uv run patch",
        "A=$(which git); $A rebase x",
        "bash <<'EOF'\ngit rebase x\nEOF",
        "bash <<'EOF'\necho ok | xargs patch\nEOF",
        "sh -s < /tmp/x",
        "cat /tmp/x | sh -x",
        "sudo git rebase x",
        "command git rebase",
        "ls | parallel git rebase",
        'echo "git apply x" > /tmp/run.sh; bash /tmp/run.sh',
        "cat <<'EOF' > /tmp/run.sh\ngit apply x\nEOF\nbash /tmp/run.sh",
        "echo 'it is",
        "cat <<EOF\nx",
        "x=$(cat <<EOF\ny\nEOF\n)",
        "export G='git'",
        "hg import x",
        "exec git rebase x",
        "if true; then nice patch -p1; fi",
        "{ nice patch; }",
        "! nice patch",
        "time nice patch",
        "xargs -I{} sh -c 'git rebase {}'",
        "env -S 'git apply x'",
    ],
)
def test_what_may_apply_a_patch_is_refused(script: str) -> None:
    with pytest.raises(RowError, match=r"its script (?:may|runs|writes a file whose|copies|has)"):
        without_patches(f"set -e\n{script}\npytest\n", FORBIDDEN)


@pytest.mark.parametrize(
    "script",
    [
        'timeout 300 python -c \'open("src/calc.py", "w")\'',
        "sudo sed -i s/a/b/ src/calc.py",
        "ls | xargs sed -i s/a/b/ src/calc.py",
        "cat <<'EOF' > src/calc.py\nfixed\nEOF",
        "sed -i 's/a/b/' src/calc.py",
        "tee src/calc.py <<< 'x'",
        "cd src && cat > calc.py <<'EOF'\nfixed\nEOF",
        "cat > \"$PWD/src/calc.py\" <<'EOF'\nfixed\nEOF",
        "cat > ./../testbed/src/calc.py <<'EOF'\nfix\nEOF",
        "python3 -c \"open('src/calc.py','w').write(x)\"",
        'python3 - <<EOF\nopen("src/calc.py","w").write("x")\nEOF',
        "cp /tmp/calc.py src/",
        "perl -pi -e s/a/b/ src/calc.py",
        'cat > /tmp/f.py <<EOF\nopen("src/calc.py","w").write(x)\nEOF',
        "rm -f tests/test_new.py",
        "echo 'fixed' > src/calc.py",
        "printf x >| src/calc.py",
        "echo x &> src/calc.py",
        "dd of=src/calc.py",
        "echo x > src/*.py",
        "echo x > src/c?lc.py",
    ],
)
def test_what_writes_a_file_of_the_patches_is_refused(script: str) -> None:
    with pytest.raises(RowError, match=r"its script (?:writes|copies)"):
        without_patches(f"set -e\n{script}\npytest\n", FORBIDDEN)


@pytest.mark.parametrize(
    ("script", "made"),
    [
        ("gi\\\nt apply x", "true"),
        ("env patch -p1 < x", "true"),
        ('x="$(git apply y)"', 'x="$(true )"'),
        ("f() { git apply x; }; f", "f() { true ; }; f"),
        ("cat /tmp/fix.diff | patch", "cat /tmp/fix.diff | true"),
        ("git diff --quiet || exit 1", "true || exit 1"),
        ("patch;pytest", "true ;pytest"),
    ],
)
def test_what_can_be_told_is_taken_out(script: str, made: str) -> None:
    assert without_patches(script, FORBIDDEN) == f"{made}\n"


@pytest.mark.parametrize(
    "script",
    [
        "echo $(( (a + b) * 2 ))",
        "x=$((RANDOM % 10)); pytest",
        "( (pytest) )",
        "make -j$(( $(nproc) / 2 )) test",
        "git rev-parse HEAD || { echo 'git apply failed'; exit 1; }",
        "pytest # git apply",
        "npm install .",
        "poetry install .",
        "conda run -n testbed python -m pytest",
        "timeout 5 python -c 'print(1)'",
        "if [ \"$rc\" -ne 0 ]; then echo 'git apply failed'; fi",
        "echo 'git apply failed' >&2",
        "go test ./pkg/git",
        "npx jest tests/git",
        'python - <<EOF\nimport pytest\npytest.main(["tests/test_new.py"])\nEOF',
        "if command -v git >/dev/null; then pytest; fi",
        "export X=$(git rev-parse HEAD) && pytest -rA",
        "tee x <<< 'y'",
        "echo $((1<<2))",
        "(( x = 1 << 2 ))\npytest",
        'eval "$(conda shell.bash hook)"',
        'eval "$(/opt/conda/bin/conda shell.bash hook)"\nconda activate testbed',
        "source /opt/miniconda3/bin/activate",
        "bash run_tests.sh",
        "$PYTHON -m pytest tests",
        '"${CMD[@]}" tests',
        "python -m pytest tests/test_calc.py 2>&1 | tee /tmp/log.txt",
        'pytest -rA > "$LOG" 2>&1',
        "echo \"it's applied\" # don't",
        "which git && command -v patch",
        "apt-get install -y git patch",
        '[[ "$f" == *.py ]] && pytest',
        "for f in a b; do pytest $f; done",
        "case $x in a) pytest;; esac",
        "python - <<'EOF'\nimport sys\nprint(sys.version)\nEOF",
        "bash <<'EOF'\ncd x\npytest\nEOF",
        "bash -c 'cd /testbed && pytest -rA'",
        "python -c 'import x; print(x)'",
        'rc=$?\necho "OPENSWE_EXIT_CODE=$rc"',
        "cat > /tmp/conftest.py <<'EOF'\nimport pytest\nEOF",
        "mkdir -p build && cd build && cmake .. && make -j4 test",
        "npx jest --ci",
        "./gradlew test --tests 'x'",
        "python -m pip install -e . --no-deps",
        "timeout 300 pytest -rA",
        "sed -i 's/x/y/' setup.cfg",
        "python -c \"\nimport os\nprint('hi')\n\"",
        "pytest -k 'git and apply'",
        "conda run -n testbed pytest",
        "cp -r tests/data /tmp/x",
        "find . -name '*.pyc' -delete",
        "find . -name '*.pyc' -exec rm {} +",
        "git submodule update --init",
        "python manage.py shell < x.py",
        "rm -rf build .pytest_cache",
    ],
)
def test_what_tests_need_stays(script: str) -> None:
    assert without_patches(f"{script}\n", FORBIDDEN) == f"{script}\n"


@pytest.mark.parametrize(
    "part",
    ["{,", "$(", "${", "`", "((", "eval ", "bash -c '", "<<A ", "git apply", "open('", "a=$(which ", "x[", '"$(', "'"],
)
def test_a_hostile_script_takes_no_square_of_its_length(part: str) -> None:
    started = time.monotonic()
    long = part * (19_000 // len(part))
    for script in (f"{long}\n" * 20, f"python - <<'EOF'\n{long * 20}\nEOF\n", f"bash <<'EOF'\n{long}\nEOF\n"):
        with contextlib.suppress(RowError, RecursionError):
            without_patches(script, FORBIDDEN)
    assert time.monotonic() - started < 20
