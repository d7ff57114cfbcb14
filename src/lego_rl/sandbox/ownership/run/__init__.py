"""What a command or a script of the task's runs, and what that leads to."""
