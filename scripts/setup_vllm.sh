#!/usr/bin/env bash
# Stock vLLM in .venv-vllm, for the test that compares our tool-call parsers with its own. Its parsers are plain Python:
# the wheel for CPUs has them, needs no GPU and is a tenth of the other's size; torch and transformers are those of .venv.
# So this environment can import vLLM and parse, but it is none to serve a model with.
# Idempotent; a finished one costs nothing. Needs scripts/setup.sh before it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -x .venv/bin/python ] || [ ! -x .cache/uv/bin/uv ]; then
    printf 'setup: the environment that vLLM borrows torch from is missing\n  fix: make setup\n' >&2
    exit 1
fi
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
borrowed=$(.venv/bin/python -c "$purelib")
stamp=.venv-vllm/installed.sha256
want=$( (cat requirements-vllm.txt && printf '%s' "$borrowed") | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && .venv-vllm/bin/python -c "" 2>/dev/null; then
    exit 0
fi

printf "setup: installing vLLM's parsers (150 MB to fetch)\n"
rm -rf .venv-vllm
.cache/uv/bin/uv venv --quiet --python .venv/bin/python .venv-vllm
.cache/uv/bin/uv pip install --quiet --no-build --no-deps --python .venv-vllm/bin/python --requirement requirements-vllm.txt
printf '%s\n' "$borrowed" >"$(.venv-vllm/bin/python -c "$purelib")/borrowed.pth"
printf '%s' "$want" >"$stamp"
