"""What agents do: behaviour of trials in any harness, over one neutral view of their tool calls; and which trials are
good enough to learn from."""
