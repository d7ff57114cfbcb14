"""Benchmarks that need no recipe: what the gateway costs."""
