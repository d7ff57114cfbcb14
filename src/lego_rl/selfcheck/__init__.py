"""Attacks on a sandbox and honest work in it, run through the path that every trial takes."""
