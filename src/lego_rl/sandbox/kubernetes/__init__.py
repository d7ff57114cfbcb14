"""Kubernetes as a way to isolate: a pod for each phase of a trial, on a cluster that enforces network policies."""
