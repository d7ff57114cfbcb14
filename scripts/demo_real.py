"""``make demo TASKS=real``: tasks of real packages, from source distributions to what a policy makes of them.

Fetches pinned source distributions with pip, and then gives the commands that a user would: make, index, decontaminate,
validate, rollout, filter. At the end stands how often no change, the solution and the policy solved the tasks, whatever
that is. Running it again goes on where it was stopped.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.durable import write_text

REFERENCE = "swe-bench-verified"
TIMES, TRIALS, BAND = 3, 4, "1..3"


@dataclass(frozen=True)
class Package:
    """A package of the Python package index, and what is made of it.

    Attributes:
        name: As the index has it.
        releases: Version → SHA-256 of its source distribution; the newest is what bugs are put into.
        inject: Tasks with a bug put into it.
        mine: Tasks of fixes between its releases.
    """

    name: str
    releases: dict[str, str]
    inject: int
    mine: int


PACKAGES = (
    Package("cachetools", {"5.5.2": "1a661caa9175d26759571b2e19580f9d6393969e5dfca11fdb1f947a23e640d4"}, 6, 0),
    Package("jmespath", {"1.0.1": "90261b206d6defd58fdd5e85f478bf633a2901798906be2ad389150c5c60edbe"}, 4, 0),
    Package("tabulate", {"0.9.0": "0095b12bf5966de529c0feb1fa08671671b3368eec77d7ef7ab114be2c068b3c"}, 4, 0),
    Package(
        "parse",
        {
            "1.20.0": "bd28bae37714b45d5894d77160a16e2be36b64a3b618c81168b3684676aa498b",
            "1.20.1": "09002ca350ad42e76629995f71f7b518670bcf93548bdde3684fd55d2be51975",
            "1.20.2": "b41d604d16503c79d81af5165155c0b20f6c8d6c559efa66b4b695c3e5a0a0ce",
        },
        4,
        3,
    ),
    Package(
        "xmltodict",
        {
            "0.14.2": "201e7c28bb210e374999d1dde6382923ab0ed1a8a5faeece48ab525b7810a553",
            "1.0.0": "f50eb9020d28c673b40bbe3f43458ee165f0267c67f8ad8df0d70d9a4f3ac824",
            "1.0.2": "54306780b7c2175a3967cad1db92f218207e5bc1aba697d887807c0fb68b7649",
        },
        2,
        4,
    ),
)
"""Small, well-known, of Python alone and tested by pytest alone; all MIT."""


class Demo:
    """The commands, and their folder.

    Args:
        run: Folder of everything.
        recipe: Policy and harness.
        pip: A pip.
        overrides: ``sandbox.key=value`` strings.
    """

    def __init__(self, run: Path, recipe: Path, pip: Path, overrides: Sequence[str]) -> None:
        self._run, self._recipe, self._pip = run, recipe, pip
        self._sets = [word for each in overrides for word in ("--set", each)]

    def __call__(self) -> None:
        """Run what is left of it, and print the figures."""
        run, pool = self._run, self._run / "pool"
        for package in PACKAGES:
            sources = self._fetched(package)
            counts = ("--inject", str(package.inject), "--mine", str(package.mine))
            self._lego("tasks", "make", *sources, "--out", pool, *counts, *self._sets)
        clean, valid, band = (run / f"{name}.parquet" for name in ("clean", "valid", "band"))
        self._lego("tasks", "index", pool, "--out", run / "all.parquet")
        self._lego("tasks", "decontaminate", run / "all.parquet", "--against", REFERENCE, "--out", clean)
        self._lego("tasks", "validate", clean, "--times", str(TIMES), "--out", valid, *self._sets)
        self._lego("rollout", self._recipe, valid, "--out", run / "rollout", "-n", str(TRIALS), *self._sets)
        found = ("--outcomes", run / "rollout", "--solved", BAND, "--of", str(TRIALS))
        self._lego("tasks", "filter", valid, *found, "--out", band)
        self._lego("tasks", "decontaminate", band, "--against", REFERENCE, "--check")
        figures = figures_of(run / "validation.jsonl", run / "rollout")
        write_text(run / "figures.json", json.dumps(figures, indent=2) + "\n")
        print(f"\n{'who':<14}{'tries':>7}{'solved':>8}{'rate':>8}{'unknown':>9}")
        for who, row in figures.items():
            rate = f"{row['solved'] / row['tries']:.3f}" if row["tries"] else "-"
            print(f"{who:<14}{row['tries']:>7}{row['solved']:>8}{rate:>8}{row['unknown']:>9}")
        print(f"figures in {run / 'figures.json'}; trials: lego-rl inspect {run / 'rollout'}")

    def _fetched(self, package: Package) -> list[Path]:
        """Its source distributions, oldest first."""
        folder = self._run / "sdists"
        folder.mkdir(parents=True, exist_ok=True)
        for version, digest in package.releases.items():
            if not self._archive(package.name, version).is_file():
                print(f"fetching {package.name} {version}", flush=True)
                wanted = folder / f"{package.name}.txt"
                wanted.write_text(f"{package.name}=={version} --hash=sha256:{digest}\n", encoding="utf-8")
                options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
                _call(self._pip, "download", *options, "--require-hashes", "--dest", folder, "--requirement", wanted)
        return [self._archive(package.name, version) for version in package.releases]

    def _archive(self, name: str, version: str) -> Path:
        return self._run / "sdists" / f"{name}-{version}.tar.gz"

    def _lego(self, *arguments: str | Path) -> None:
        print(f"\n$ lego-rl {shlex.join(map(str, arguments))}", flush=True)
        _call(sys.executable, "-c", "from lego_rl.cli import main; main()", *arguments)


def figures_of(validations: Path, rollout: Path) -> dict[str, dict[str, int]]:
    """Who tried → tries that were graded, those that solved a task, and those of which nothing is known: they did not
    run to their end, or did not come to be."""
    gradings: Counter[tuple[str, int | None]] = Counter()
    last = {line["task"]: line for line in map(json.loads, validations.read_text(encoding="utf-8").splitlines())}
    for line in last.values():
        for attempt in line["attempts"]:
            gradings[attempt["variant"], attempt["reward"] if attempt["ended"] == "completed" else None] += 1
        for variant in ("empty", "gold"):
            made = sum(attempt["variant"] == variant for attempt in line["attempts"])
            gradings[variant, None] += max(0, line["times"] - made)
    rewards = Counter(read_outcomes([rollout]).table["reward"].to_pylist())
    figures = {
        who: {
            "tries": gradings[variant, 0] + gradings[variant, 1],
            "solved": gradings[variant, 1],
            "unknown": gradings[variant, None],
        }
        for who, variant in (("empty patch", "empty"), ("gold patch", "gold"))
    }
    policy = {"tries": rewards[0] + rewards[1], "solved": rewards[1], "unknown": rewards[None]}
    return figures | {"policy": policy}


def _call(*command: str | Path) -> None:
    """Run a command, and end as it does where it fails."""
    if status := subprocess.run(list(map(str, command)), check=False).returncode:
        sys.exit(status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make tasks of real packages and let a policy try them.")
    parser.add_argument("run", type=Path, help="folder of everything")
    parser.add_argument("recipe", type=Path, help="policy and harness")
    parser.add_argument("--pip", type=Path, default=Path(".cache/uv/bin/pip"), help="what fetches the packages")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of [sandbox]")
    given = parser.parse_args()
    Demo(given.run, given.recipe, given.pip, given.set)()
