"""Tasks: Harbor task directories, and the built-in pool of small repositories with a bug. They know no model and no token."""
