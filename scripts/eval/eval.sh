#!/usr/bin/env bash
# Evaluates a model as a file of keys says: bash scripts/eval/eval.sh scripts/eval/configs/my_eval.env [--dry-run]
# Thin over `lego-rl eval env`; docs/evaluation.md has the keys.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -lt 1 ]; then
    printf 'eval: no file is named\n  fix: bash scripts/eval/eval.sh scripts/eval/configs/my_eval.env [--dry-run]\n' >&2
    exit 2
fi
if [ ! -x "$here/.venv/bin/lego-rl" ]; then
    printf 'eval: nothing is set up here\n  fix: bash scripts/setup_env.sh\n' >&2
    exit 1
fi
exec "$here/.venv/bin/lego-rl" eval env "$@"
