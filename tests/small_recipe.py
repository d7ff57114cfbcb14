"""A recipe that any two cores can run in seconds: the demo's policy in Claude Code, two short turns a trial."""

RECIPE = """
[run]
dir = "runs/unused"
[policy]
path = "builtin:demo"
[harness]
name = "claude-code"
options = {{ bare = true }}
[sandbox]
state = "{state}"
[budget]
turns = 2
context_tokens = 6144
output_tokens = 24
wall_clock_sec = 60
[rollout]
tasks_per_step = 1
group_size = 2
concurrency = 2
"""
