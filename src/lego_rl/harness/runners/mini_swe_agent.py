"""Run ``mini`` headless: the task on standard input, packages' folder and arguments in one JSON argument.

It runs inside the sandbox in the bundle's own Python and does what the ``mini`` command does, except that the task,
which that command takes as an argument only, comes from standard input. Its output is a log; nobody parses it.
"""

import gc
import importlib
import json
import os
import sys

# It serves the start of this very process and would disturb the programs that the agent runs.
START_ONLY = ("LD_LIBRARY_PATH",)


def main() -> None:
    """Run the command to its end; a failure keeps its traceback and gives exit status 1."""
    site_packages, *arguments = json.loads(sys.argv[1])
    task = sys.stdin.read()
    sys.path.append(site_packages)
    # The import builds thousands of classes that all stay; garbage collection would be a quarter of its time.
    gc.disable()
    mini = importlib.import_module("minisweagent.run.mini")
    importlib.import_module("minisweagent.models.litellm_model")
    gc.freeze()
    gc.enable()
    for name in START_ONLY:
        os.environ.pop(name, None)
    # One argument, as the task may start with a dash.
    mini.app([*arguments, f"--task={task}"], prog_name="mini", standalone_mode=False)


if __name__ == "__main__":
    main()
