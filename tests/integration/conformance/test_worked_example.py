"""The harness that ``docs/harnesses.md`` adds as an example is one: built, entered and tried as the page says."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from lego_rl.commands import harness
from lego_rl.conformance.situations import SITUATIONS
from lego_rl.harness import registry

PAGE = (Path(__file__).parents[3] / "docs" / "harnesses.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r'"quill": (Registration\([^\n`]*\))')
"""Its line in the registry, wherever on the page."""


@pytest.fixture
def quill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The example as a module of the harnesses' room, and in the registry, with a cache of its own; its name."""
    (adapter,) = [block for block in BLOCKS if "\nclass Quill:\n" in block]
    file = tmp_path / "quill.py"
    file.write_text(adapter, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("lego_rl.harness.quill", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    (entry,) = set(ENTRY.findall(PAGE))
    entered = eval(entry, vars(registry) | vars(module))
    monkeypatch.setitem(registry.REGISTRY, "quill", entered)  # type: ignore[index]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return "quill"


@pytest.mark.timeout(900)
def test_the_seventh_harness_is_installed_and_keeps_every_law(quill: str, capsys: pytest.CaptureFixture[str]) -> None:
    harness.install(quill)
    harness.verify(quill)
    harness.test(quill, [], [], at_once=2)
    printed = capsys.readouterr().out
    for situation in SITUATIONS:
        assert re.search(rf"^{situation.name} ", printed, flags=re.MULTILINE), f"{situation.name} was not tried"
    harness.test(quill, [SITUATIONS[0].name], ["terse=true"], at_once=1)
