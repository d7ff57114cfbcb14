#!/usr/bin/env bash
# Set-up of a checkout: a Python environment, bubblewrap and the demo's harness. Idempotent; a finished step costs nothing.
# Usage: scripts/setup.sh [HARNESS ...]     (default: claude-code)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf '  fix: %s\n' "$2" >&2; exit 1; }

# Debian as root: install what is missing. Anyone else is told the one command.
need_package() { # need_package PACKAGE
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $1"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null
    else
        die "$1 is missing" "sudo apt-get install -y $1"
    fi
}

need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 || need_package "$2"
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
if [ "$(.cache/uv/bin/uv --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    say "installing uv $uv_version"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || need_package "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    "$python" -m venv --clear .cache/uv
    .cache/uv/bin/pip install --quiet --disable-pip-version-check "uv==$uv_version"
fi
uv=$PWD/.cache/uv/bin/uv

if ! .venv/bin/python -c "" 2>/dev/null; then
    rm -rf .venv
    "$uv" venv --quiet --python "$python" .venv
fi
stamp=.venv/installed.sha256
want=$(cat pyproject.toml requirements.txt | sha256sum)
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
