"""Files that are whole or not there, whatever happens to the process or the machine."""

import os
from pathlib import Path
from typing import BinaryIO


def write_text(path: Path, text: str) -> None:
    """Write a file under another name, force it to the disk and give it its own.

    Raises:
        OSError: The disk does not take it; what was there stays.
    """
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    sync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, which is made if it is not there; half a line that a killed process left stays by itself.

    Raises:
        OSError: The disk does not take it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell() and _last_byte(file) != b"\n":
            file.write(b"\n")
        file.write(f"{line}\n".encode())


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Wait until everything below a folder is on the disk."""
    for path in (*sorted(folder.rglob("*")), folder):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
