#!/usr/bin/env bash
# Stock verl in .cache/verl, to train with; torch and transformers are those of .venv, and this checkout is installed in
# it, so that verl finds the plug-in by its entry point. Idempotent; a finished one costs nothing.
# Needs scripts/setup.sh before it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -x .venv/bin/python ] || [ ! -x .cache/uv/bin/uv ]; then
    printf 'setup: the environment that verl borrows torch from is missing\n  fix: make setup\n' >&2
    exit 1
fi
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
borrowed=$(.venv/bin/python -c "$purelib")
stamp=.cache/verl/installed.sha256
want=$( (cat requirements-verl.txt pyproject.toml && printf '%s' "$borrowed") | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && .cache/verl/bin/python -c "" 2>/dev/null; then
    exit 0
fi

printf 'setup: installing verl\n'
rm -rf .cache/verl
.cache/uv/bin/uv venv --quiet --python .venv/bin/python .cache/verl
# Of hydra's parser there is a source distribution only; nothing else is built.
.cache/uv/bin/uv pip install --quiet --only-binary :all: --no-binary antlr4-python3-runtime --no-deps \
    --python .cache/verl/bin/python --requirement requirements-verl.txt
# First on the path, before the borrowed one's, this checkout's own metadata names the entry point.
.cache/uv/bin/uv pip install --quiet --no-deps --python .cache/verl/bin/python --editable .
printf '%s\n' "$borrowed" >"$(.cache/verl/bin/python -c "$purelib")/borrowed.pth"
printf '%s' "$want" >"$stamp"
