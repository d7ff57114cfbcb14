"""Sandboxes: where the agent works, how its change is taken out, and where that change is graded."""
