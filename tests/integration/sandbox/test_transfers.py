"""Files in and out of a sandbox whose agent is hostile."""

import os
from pathlib import Path

import pytest
from sandbox_tools import shell

from lego_rl.errors import SandboxError
from lego_rl.sandbox.records import Record, read_tree, write_tree
from lego_rl.sandbox.sandbox import Sandbox
from lego_rl.sandbox.transfer import TransferError


async def test_round_trip(box: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "sub").mkdir()
    (source / "sub" / "blob").write_bytes(bytes(range(256)) * 5000)
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("sub/blob")
    await box.put("/app/in", read_tree(source))
    assert (
        await shell(box, "/app/in/run; readlink /app/in/link; stat -c %s /app/in/link -L")
    ).stdout == "ran\nsub/blob\n1280000\n"
    write_tree(await box.get("/app/in"), tmp_path / "target")
    assert {path.relative_to(tmp_path / "target").as_posix() for path in (tmp_path / "target").rglob("*")} == {
        "empty", "sub", "sub/blob", "run", "link",
    }  # fmt: skip
    assert (tmp_path / "target" / "sub" / "blob").read_bytes() == (source / "sub" / "blob").read_bytes()
    assert os.access(tmp_path / "target" / "run", os.X_OK)


async def test_links_below_a_target_are_replaced_not_followed(box: Sandbox) -> None:
    await shell(box, "mkdir /tmp/out; ln -s /tmp/out /app/sub; ln -s /tmp/out/file /app/file; mkfifo /app/pipe")
    await box.put("/app", [Record(name, "file", b"new") for name in ("sub/inner", "file", "pipe")])
    done = await shell(box, "ls /tmp/out; cat /app/sub/inner /app/file /app/pipe; test -L /app/sub || echo real")
    assert done.stdout == "newnewnewreal\n"


async def test_deletions_stay_below_the_target(box: Sandbox) -> None:
    await shell(box, "mkdir -p /tmp/out/d; touch /tmp/out/d/kept; ln -s /tmp/out /app/sub; mkdir -p /app/tree/a/b")
    await box.put("/app", [Record(name, "deleted") for name in ("sub/d/kept", "tree", "absent/x", "calc/data.txt")])
    assert (await shell(box, "ls /tmp/out/d; ls /app/tree /app/calc/data.txt")).stdout == "kept\n"


async def test_what_comes_out_is_written_below_its_target(box: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    await shell(
        box, f"mkdir /app/o; ln -s {outside} /app/o/d; ln -s /etc/passwd /app/o/p; mkfifo /app/o/f; echo x > /app/o/r"
    )
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "r").symlink_to(outside / "r")
    write_tree(await box.get("/app/o"), tmp_path / "target")
    assert str((tmp_path / "target" / "p").readlink()) == "/etc/passwd"
    assert not (tmp_path / "target" / "f").exists()
    assert (tmp_path / "target" / "r").read_text() == "x\n"
    assert not list(outside.iterdir())
    # The same name first as a link, then as a folder with something in it: a stream that no honest sandbox sends.
    hostile = [Record("d", "symlink", os.fsencode(outside)), Record("d/x", "file", b"x")]
    write_tree(hostile, tmp_path / "target")
    assert not list(outside.iterdir())
    with pytest.raises(SandboxError, match="sent a file named"):
        write_tree([Record("../x", "file", b"x")], tmp_path / "target")


async def test_what_is_not_there_is_an_error(box: Sandbox) -> None:
    with pytest.raises(TransferError, match="No such file"):
        await box.get("/app/absent")
    with pytest.raises(TransferError, match="Read-only"):
        await box.put("/usr", [Record("x", "file", b"")])
    assert [record.content for record in await box.get("/app/calc/data.txt")] == [b"one\n"]
