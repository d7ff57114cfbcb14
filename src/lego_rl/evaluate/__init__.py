"""Evaluation: which tasks, how many trials, and what may be concluded. It knows nothing of training."""
