"""The index of a pool: one Parquet row a task, with where it comes from; what is kept of it, split and merged."""
