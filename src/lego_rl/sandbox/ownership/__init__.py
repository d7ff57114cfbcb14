"""What of a change is the task's own: its tests, and whatever decides which of them run, and how.

`rules` has the decision; every other module knows one thing that decides it.
"""
