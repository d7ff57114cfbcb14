"""A policy served by stock vLLM in other processes, asked over HTTP. It imports neither vLLM nor torch."""
