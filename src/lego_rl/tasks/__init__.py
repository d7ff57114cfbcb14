"""Tasks: Harbor task directories and the built-in pool of small repositories. They know no model and no token."""
