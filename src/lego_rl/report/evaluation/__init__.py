"""The report of an evaluation, from its folder alone: terminal, JSON, Markdown and one self-contained page."""
