"""Files of which a part is the task's and the rest the agent's."""
