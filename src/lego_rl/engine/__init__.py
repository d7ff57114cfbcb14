"""Engines: token ids in, sampled token ids out. They know no HTTP dialect and no task."""
