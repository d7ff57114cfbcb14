"""What Harbor fetches from a sandbox: files, and no link that would lead a reader of logs to the host's own files."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lego_rl.sandbox.environment import SealedEnvironment
from lego_rl.sandbox.records import Record

SENT = [
    Record("agent", "directory"),
    Record("agent/log", "file", b"text"),
    Record("agent/out", "symlink", b"/etc/passwd"),
    Record("agent/up", "symlink", b"../../secret"),
    Record("agent/in", "symlink", b"log"),
]


@pytest.mark.parametrize("source", ["/logs", "/app"])
def test_a_link_becomes_a_file_that_says_where_it_leads(tmp_path: Path, source: str) -> None:
    async def send(_: str) -> list[Record]:
        return SENT

    running: Any = SimpleNamespace(sandbox=SimpleNamespace(logs=send, get=send))
    asyncio.run(SealedEnvironment.download_dir(running, source, tmp_path / "got"))
    got = {path.name: path for path in (tmp_path / "got" / "agent").iterdir()}
    assert not any(path.is_symlink() for path in got.values())
    assert {name: path.read_bytes() for name, path in got.items()} == {
        "log": b"text",
        "out": b"[a link to /etc/passwd]\n",
        "up": b"[a link to ../../secret]\n",
        "in": b"[a link to log]\n",
    }
