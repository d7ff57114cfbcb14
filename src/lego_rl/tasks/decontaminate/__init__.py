"""Decontamination: which tasks of an index are, or come from, what a model is to be evaluated on."""
