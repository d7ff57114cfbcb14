#!/usr/bin/env bash
# Whether one GPU does what the embedded path needs: engine in bfloat16, trainer in float32, routing replay, and a segment
# of 32k tokens over a vocabulary of 152k. Prints JSON; at most 8 minutes. Nothing is installed and nothing fetched: the
# Python that is named has torch, transformers and pydantic, and the rest is this checkout's.
# Usage: scripts/gpu_check.sh [--size gpu|tiny] [--device cuda]     (PYTHON=python3)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import pydantic, safetensors, tokenizers, torch, transformers' 2>/dev/null; then
    printf 'gpu_check: %s lacks torch, transformers or pydantic\n  fix: PYTHON=/path/to/python with all of them\n' "$python" >&2
    exit 1
fi
export PYTHONPATH=$PWD/src:$PWD TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
exec "$python" -m scripts.gpu_check "$@"
