"""Sandboxes as containers of a Docker daemon on this machine."""
