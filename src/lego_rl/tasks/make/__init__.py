"""Tasks from a source tree that somebody has: bugs put into it, and fixes found in its history.

Invariant: nothing of the tree is imported or executed on this machine. Its tests run where `running.Runner` runs them,
and its history is read as data.
"""
