"""Programs that run nothing of their own but what a file of the folder they are started in says."""

from collections.abc import Mapping

MAKEFILES = frozenset({"Makefile", "makefile", "GNUmakefile"})
_NPM = frozenset({"package.json", ".npmrc"})
_TASK = frozenset(f"{name}.{suffix}" for name in ("Taskfile", "taskfile", "Taskfile.dist", "taskfile.dist")
                  for suffix in ("yml", "yaml"))  # fmt: skip
_INVOKE = frozenset({"tasks.py", "invoke.yaml", "invoke.yml", "invoke.json", "invoke.py"})

LAUNCHERS: Mapping[str, frozenset[str]] = {
    "make": MAKEFILES,
    "gmake": MAKEFILES,
    "nox": frozenset({"noxfile.py"}),
    "tox": frozenset({"tox.ini", "tox.toml", "toxfile.py"}),
    "invoke": _INVOKE,
    "inv": _INVOKE,
    "just": frozenset({"justfile", "Justfile", ".justfile"}),
    "hatch": frozenset({"hatch.toml"}),
    "pixi": frozenset({"pixi.toml"}),
    "poe": frozenset({"poe_tasks.toml", "poe_tasks.yaml", "poe_tasks.json"}),
    "pdm": frozenset({"pdm.toml", ".pdm.toml"}),
    "pipenv": frozenset({"Pipfile"}),
    "uv": frozenset({"uv.toml"}),
    "doit": frozenset({"dodo.py"}),
    "task": _TASK,
    "npm": _NPM,
    "npx": _NPM,
    "yarn": frozenset({*_NPM, ".yarnrc", ".yarnrc.yml"}),
    "pnpm": frozenset({*_NPM, ".pnpmfile.cjs", "pnpm-workspace.yaml"}),
    "bun": frozenset({*_NPM, "bunfig.toml"}),
    "deno": frozenset({"deno.json", "deno.jsonc", "package.json"}),
    "composer": frozenset({"composer.json"}),
    "bundle": frozenset({"Gemfile", ".bundle/config"}),
    "rake": frozenset({"Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"}),
    "mage": frozenset({"magefile.go"}),
    "cargo-make": frozenset({"Makefile.toml"}),
    "mise": frozenset({"mise.toml", ".mise.toml"}),
    "scons": frozenset({"SConstruct"}),
    "waf": frozenset({"wscript"}),
}
"""Program → the files that tell it what to do."""
