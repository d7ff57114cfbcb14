"""Isolation by bubblewrap: namespaces, overlays, control groups and a seccomp filter, without a daemon."""
