"""Programs that run inside the sandbox, in a harness's own Python; nothing here is imported by Lego-RL."""
