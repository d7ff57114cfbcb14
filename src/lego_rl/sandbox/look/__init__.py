"""Programs that look for holes from inside a sandbox; the host sends their text to its first process (`inside.py`).

Each is stand-alone, has a function ``holes(fields)`` that gives pairs of a kind (`hole.HoleKind`) and a sentence, and
imports little beyond what the first process has imported: every trial pays for it. A field is ``kind:value``; a program
reads the kinds that it knows.
"""
