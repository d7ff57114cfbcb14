"""Files that are whole or not there, whatever happens to the process or the machine."""

import os
from pathlib import Path


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


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
