#!/usr/bin/env bash
# Docker, for the tests of its sandboxes: installed, not started (scripts/dockerd.sh does that). Idempotent.
set -euo pipefail

command -v dockerd >/dev/null 2>&1 && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    printf 'setup: Docker is missing\n  fix: sudo apt-get install -y docker.io\n' >&2
    exit 1
fi
printf 'setup: installing docker.io\n'
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq docker.io >/dev/null
