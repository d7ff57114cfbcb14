"""A policy at work on somebody's own folder: what it is handed, what comes back, and how that is applied."""
