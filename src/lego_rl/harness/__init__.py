"""Harnesses: one thin adapter a file. They know no reward and no training."""
