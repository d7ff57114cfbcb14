"""Writes the tables of how rows without a test command are tested: ``tasks/convert/classic_tables.json``.

Rows of SWE-bench's classic schema name a repository and a version; the command was looked up in tables that swebench
had until 4.1.0 (MIT). SWE-smith's rows name a repository; its profile in swesmith 0.0.9 (MIT) knows the command.
Neither package is a dependency: both are installed beside each other in an environment of their own, and their own
Python runs this script, which imports nothing of Lego-RL:

    python3 -m venv /tmp/tables
    /tmp/tables/bin/pip install swebench==4.1.0
    /tmp/tables/bin/pip install --no-deps swesmith==0.0.9
    /tmp/tables/bin/python scripts/classic_tables.py

Kept are Python repositories: what tests one, what goes before, how it is installed again, which parser reads the log.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

TABLES = Path(__file__).resolve().parent.parent / "src" / "lego_rl" / "tasks" / "convert" / "classic_tables.json"
SWEBENCH, SWESMITH = "4.1.0", "0.0.9"
READS_VERBOSE_LINES = "log_parser"
"""SWE-smith's method; a profile with one of its own prints what nobody else reads."""


def swebench_tables() -> dict[str, list[dict[str, object]]]:
    """Repository → its versions, those that are tested alike together."""
    from swebench.harness.constants import MAP_REPO_TO_EXT, MAP_REPO_VERSION_TO_SPECS
    from swebench.harness.log_parsers import MAP_REPO_TO_PARSER

    tables: dict[str, list[dict[str, object]]] = {}
    for repository, versions in sorted(MAP_REPO_VERSION_TO_SPECS.items()):
        parser = MAP_REPO_TO_PARSER.get(repository)
        if MAP_REPO_TO_EXT.get(repository) != "py" or parser is None:
            continue
        alike: dict[str, list[str]] = defaultdict(list)
        for version, spec in versions.items():
            if "test_cmd" in spec:
                kept = {key: spec[key] for key in ("test_cmd", "eval_commands", "install") if key in spec}
                alike[json.dumps(kept, sort_keys=True)].append(version)
        tables[repository] = [
            {"versions": sorted(versions), "parser": parser.__name__, **json.loads(kept)}
            for kept, versions in sorted(alike.items())
        ]
    return tables


def swesmith_tables() -> dict[str, str]:
    """Repository and commit, as SWE-smith's mirrors are called → the test command."""
    from swesmith.profiles import python

    base = python.PythonProfile
    profiles = [value() for value in vars(python).values() if isinstance(value, type) and issubclass(value, base)]
    return {
        profile.repo_name: profile.test_cmd
        for profile in sorted(profiles, key=lambda profile: str(profile.repo_name))
        if type(profile) is not base
        and getattr(type(profile), READS_VERBOSE_LINES) is getattr(base, READS_VERBOSE_LINES)
    }


def main() -> int:
    """Write the tables."""
    from importlib.metadata import version

    found = (version("swebench"), version("swesmith"))
    if found != (SWEBENCH, SWESMITH):
        print(f"swebench {SWEBENCH} and swesmith {SWESMITH} are needed, not {' and '.join(found)}", file=sys.stderr)
        return 1
    source = {"swebench": f"swebench {SWEBENCH} (MIT)", "swesmith": f"swesmith {SWESMITH} (MIT)"}
    tables = {"source": source, "swebench": swebench_tables(), "swesmith": swesmith_tables()}
    TABLES.write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
