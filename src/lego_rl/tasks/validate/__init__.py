"""Whether tasks are what they say: their tests fail without the fix and pass with it, every time they are run.

Invariant: a task is judged by the grader of its trials, or not at all. Nothing of a task is run on this machine.
"""
