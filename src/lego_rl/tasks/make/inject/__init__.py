"""Bugs put into working code: one small change of the source text each, of several families."""
