"""Files that decide which tests run, or how, by their names alone, whatever it is that runs them.

Those of a runner that a task names are in `runners`, and those of a program that runs nothing by itself in `launchers`.
"""

CONFIGURATION = frozenset({
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "toxfile.py",
    "noxfile.py", "sitecustomize.py", "usercustomize.py", ".coveragerc.toml", "tox.toml", "hatch.toml", "pixi.toml",
    "poe_tasks.toml", "poe_tasks.yaml", "poe_tasks.json",
})  # fmt: skip
"""Files that a test runner or the interpreter reads by name, in whatever folder they are, and nothing else does."""

ENVIRONMENT = frozenset({".env", ".envrc", ".flaskenv", ".python-version", ".tool-versions", ".pdbrc"})
"""Files from which tools take environment variables, or the interpreter to run."""

INI_FILES, TOML_FILES = frozenset({"setup.cfg", "tox.ini"}), frozenset({"pyproject.toml"})
MERGED = INI_FILES | TOML_FILES
"""Files of which some sections do, and the rest is the product's (`configuration`)."""
