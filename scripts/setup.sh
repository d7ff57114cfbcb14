#!/usr/bin/env bash
# Set-up of a checkout: a Python environment, bubblewrap and the demo's harness. Idempotent; a finished step costs nothing.
# Usage: scripts/setup.sh [HARNESS ...]     (default: claude-code)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf '  fix: %s\n' "$2" >&2; exit 1; }

# Debian as root: install what is missing. Anyone else is told the one command.
need() { # need PROGRAM PACKAGE...
    command -v "$1" >/dev/null 2>&1 && return 0
    local program=$1; shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $*"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    else
        die "$program is missing" "sudo apt-get install -y $*"
    fi
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.12 python3.13 python3 \
        /usr/local/bin/python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(not ((3, 12) <= sys.version_info[:2] < (3, 14)))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

need bwrap bubblewrap
need git git

python=$(find_python) || die "no Python 3.12 or 3.13 found" "install python3.12 (Debian 13: apt-get install python3.13 python3.13-venv) or set PYTHON=/path/to/python3.12"

uv_version=0.13.9
if [ ! -x .cache/uv/bin/uv ]; then
    say "installing uv $uv_version"
    "$python" -m venv .cache/uv || die "$python cannot make a virtual environment" "apt-get install -y python3-venv"
    .cache/uv/bin/pip install --quiet --disable-pip-version-check "uv==$uv_version"
fi
uv=$PWD/.cache/uv/bin/uv

if [ ! -x .venv/bin/python ]; then
    "$uv" venv --quiet --python "$python" .venv
fi
stamp=.cache/installed.sha256
want=$(cat pyproject.toml requirements.txt scripts/setup.sh | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
    say "installing Python packages (a few minutes the first time)"
    "$uv" pip install --quiet --python .venv/bin/python --requirement requirements.txt
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --editable .
    printf '%s' "$want" >"$stamp"
fi

.venv/bin/lego-rl check sandbox
for harness in "${@:-claude-code}"; do
    .venv/bin/lego-rl harness install "$harness"
done
say "ready"
