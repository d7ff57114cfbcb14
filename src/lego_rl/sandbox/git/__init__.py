"""The git history of a task: cut down to the base commit for the agent, whole where grading needs it."""
