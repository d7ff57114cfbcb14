#!/usr/bin/env bash
# Sets a machine up for its roles. Idempotent; run it on each node, from the same path of a checkout.
# Usage: scripts/setup_env.sh [--dry-run] [--cpu] [--harness NAME]... [ROLE...]
#   laptop   the whole loop on one machine: embedded engine and trainer, a harness, bubblewrap; where no role is named
#   driver   where lego-rl train --backend verl is started; Ray's head
#   train    a node with GPUs for the trainer: Ray's worker
#   rollout  a node with GPUs for inference servers and agent loops: Ray's worker
#   sandbox  a node where agents run in bubblewrap or Docker; one of a Kubernetes needs its container runtime alone
#   serve    a node where vLLM serves an exported policy, in an environment of its own
# --dry-run prints what would be done. --cpu: driver, train and rollout without a GPU, to try things out.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'setup: %s\n' "$1" >&2; printf '  fix: %s\n' "$2" >&2; exit 1; }
usage='scripts/setup_env.sh [--dry-run] [--cpu] [--harness NAME]... [laptop|driver|train|rollout|sandbox|serve ...]'

dry='' device=gpu
harnesses=() roles=()
while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry=yes ;;
        --cpu) device=cpu ;;
        --harness)
            [ $# -gt 1 ] || die '--harness has no name' "$usage"
            harnesses+=("$2")
            shift
            ;;
        laptop | driver | train | rollout | sandbox | serve) roles+=("$1") ;;
        *) die "there is no role or option $1" "$usage" ;;
    esac
    shift
done
[ ${#roles[@]} -gt 0 ] || roles=(laptop)
[ ${#harnesses[@]} -gt 0 ] || harnesses=(claude-code)

uv=.cache/uv/bin/uv

run() { # run COMMAND ARGUMENT...
    printf '%s\n' "$*"
    [ -n "$dry" ] || "$@"
}

# Steps that several roles share are done once.
done_steps=' '
once() { # once STEP
    case $done_steps in *" $1 "*) return ;; esac
    done_steps="$done_steps$1 "
    "$1"
}

base() { run scripts/setup.sh "${harnesses[@]}"; }

docker() { run scripts/setup_docker.sh; }

cluster_cpu() { run scripts/setup_verl.sh; }

# One environment for all of Ray's nodes: its processes are sent from one to another. VeOmni's own pins, of its data
# loaders, contradict verl's and ours; what the trainer imports of it needs none of them.
cluster_gpu() {
    local stamp=.venv-cluster/installed.sha256 want
    want=$(cat pyproject.toml requirements-cluster-overrides.txt scripts/setup_env.sh | sha256sum)
    if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ]; then
        printf '%s\n' '# .venv-cluster is installed'
        return
    fi
    run "$uv" venv --quiet --clear --python .venv/bin/python .venv-cluster
    run "$uv" pip install --quiet --python .venv-cluster/bin/python --override requirements-cluster-overrides.txt \
        --editable '.[kubernetes,verl]' 'verl[vllm]==0.9.1'
    run "$uv" pip install --quiet --python .venv-cluster/bin/python --no-deps veomni==0.1.12
    [ -n "$dry" ] || printf '%s' "$want" >"$stamp"
}

serving() {
    run "$uv" venv --quiet --clear --python .venv/bin/python .venv-serve
    run "$uv" pip install --quiet --python .venv-serve/bin/python --group vllm
}

for role in "${roles[@]}"; do
    once base
    case $role in
        laptop) ;;
        driver | train | rollout) once "cluster_$device" ;;
        sandbox) once docker ;;
        serve) once serving ;;
    esac
done
if [ -n "$dry" ]; then printf "setup: nothing was done: this was a dry run\n"; else printf "setup: ready\n"; fi
