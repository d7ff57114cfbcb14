"""Recipes: typed configuration. A recipe names everything a run depends on."""
