"""Fixes found in a history: what of a step between two states makes which of its new tests pass."""
