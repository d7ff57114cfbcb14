"""What scripts, Makefiles and programs of a run compute of paths, as far as their texts tell."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.run.makefile import run_for
from lego_rl.sandbox.ownership.run.shell_texts import ShellTexts
from lego_rl.sandbox.verdict import Change

HERE = 'HERE=$(cd "$(dirname "$0")" && pwd)\nLIB=$HERE/lib\n. "$LIB/common"\n'
DONE = "test: scripts/prepare.done\n\tpython -m pytest tests\n%.done: %.txt\n\tsh $<\n\ttouch $@\n"
READS = "from pathlib import Path\n\nROOT = Path(__file__).parent\nSAID = ROOT / 'dev' / 'fixtures.inc'\n"
KEPT = {
    "place of its own": ("sh x/run.sh", "x/lib/common", {"x/run.sh": HERE, "x/lib/common": ""}),
    "braces": ("sh x/run.sh", "x/lib/a", {"x/run.sh": "D=${0%/*}/lib\nbash ${D}/a\n", "x/lib/a": ""}),
    "default": ("sh run.sh", "ci/1.txt", {"run.sh": "sh ${SUITE:-ci/1.txt}\n", "ci/1.txt": ""}),
    "either": ("sh run.sh", "ci/2.txt", {"run.sh": "S=ci/1.txt\n[ -e x ] && S=ci/2.txt\nsh $S\n", "ci/2.txt": ""}),
    "set elsewhere": ("sh run.sh", "ci/tools/go", {
        "run.sh": ". ./env.sh\nsh $T/go\n", "env.sh": "T=ci/tools\n", "ci/tools/go": ""}),
    "of make": ("make test", "dev/go", {"Makefile": "D := dev\ntest:\n\tsh $(D)/go\n", "dev/go": ""}),
    "of a call": ("make test S=dev/go", "dev/go", {"Makefile": "test:\n\tsh $(S)\n", "dev/go": ""}),
    "included": ("make test", "dev/new.inc", {"Makefile": "include $(wildcard dev/*.inc)\ntest:\n\ttrue\n"}),
    "pattern rule": ("make test", "scripts/prepare.txt", {"Makefile": DONE, "scripts/prepare.txt": ""}),
    "needed": ("make test", "go.txt", {"Makefile": "test: go.txt\n\tsh $^\n", "go.txt": ""}),
    "read by conftest": ("pytest tests", "dev/fixtures.inc", {
        "conftest.py": f"{READS}exec(SAID.read_text())\n", "dev/fixtures.inc": ""}),
    "names of plugins": ("pytest tests", "plugins.json", {
        "conftest.py": "import json\npytest_plugins = json.loads(open('plugins.json').read())\n", "plugins.json": ""}),
    "arguments": ("python dev/go.py", "dev/args.json", {
        "dev/go.py": "import json, pytest\npytest.main(json.load(open(HERE / 'args.json')))\n", "dev/args.json": ""}),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_is_led_to_by_what_a_text_says_of_paths_is_the_tasks(tmp_path: Path, case: str) -> None:
    command, path, files = KEPT[case]
    assert owner(tmp_path, files, command=command).owns(Change(path, "file"))


FREE = {
    "data of the product": ("pytest tests", "pkg/data.json", {
        "conftest.py": "DATA = open('pkg/data.json').read()\n", "pkg/__init__.py": "", "pkg/data.json": "",
        "tests/test_b.py": "import pkg\n"}),
    "what a generator reads": ("python tools/gen.py && pytest tests", "grammar.txt", {
        "tools/gen.py": "open('grammar.txt')\n", "grammar.txt": ""}),
    "a rule for something else": ("make test", "x.txt", {"Makefile": f"{DONE}x.out: x.txt\n\tsh $<\n", "x.txt": ""}),
    "sources": ("make test", "src/new.c", {"Makefile": "SRC = $(wildcard src/*.c)\ntest: $(SRC)\n\tgcc $^\n"}),
    "a variable of another name": ("sh run.sh", "ci/1.txt", {"run.sh": "S=ci/1.txt\nsh $T\n", "ci/1.txt": ""}),
}  # fmt: skip


@pytest.mark.parametrize("case", FREE)
def test_what_a_text_only_names_is_the_agents(tmp_path: Path, case: str) -> None:
    command, path, files = FREE[case]
    hidden = {"tests/test_a.py": "import pkg\n"}
    assert owner(tmp_path, files, hidden=hidden, command=command).owns(Change(path, "file")) is None


def test_what_is_expanded_is_bounded() -> None:
    texts = ShellTexts()
    doubling = "\n".join(f"A{n}=$A{n + 1}$A{n + 1}/x" for n in range(40)) + "\nA=$A\nsh $A0 $A1 $A2\n"
    assert len(texts.read(doubling, ["."])) < 1_000
    assert sum(len(said) for said, _ in texts.again()) == 0
    assert len(run_for("%: %.x\n\tsh $<\n", {"a"})) < 100_000
