#!/usr/bin/env bash
# Stock verl in .cache/verl, for the test that compares our losses with it; torch and transformers are those of .venv.
# Idempotent; a finished one costs nothing. Needs scripts/setup.sh before it.
set -euo pipefail
cd "$(dirname "$0")/.."

purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
borrowed=$(.venv/bin/python -c "$purelib")
stamp=.cache/verl/installed.sha256
want=$( (cat requirements-verl.txt && printf '%s' "$borrowed") | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && .cache/verl/bin/python -c "" 2>/dev/null; then
    exit 0
fi

printf 'setup: installing verl\n'
rm -rf .cache/verl
.cache/uv/bin/uv venv --quiet --python .venv/bin/python .cache/verl
.cache/uv/bin/uv pip install --quiet --no-build --no-deps --python .cache/verl/bin/python --requirement requirements-verl.txt
printf '%s\n' "$borrowed" >"$(.cache/verl/bin/python -c "$purelib")/borrowed.pth"
printf '%s' "$want" >"$stamp"
