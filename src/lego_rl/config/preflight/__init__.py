"""Preflight: what a recipe can be wrong about, as rules with a reason and a fix, asked before a machine is paid for."""
