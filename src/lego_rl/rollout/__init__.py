"""Rollouts: trials, retries, resume and the fault table. Everyone else only builds specifications."""
