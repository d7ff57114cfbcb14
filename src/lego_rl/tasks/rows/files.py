"""Which files of an input hold rows: itself, or those of a folder that ``datasets`` wrote or a hub gave."""

from pathlib import Path

from lego_rl.documents import read_json
from lego_rl.errors import TaskError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
"""In whatever case."""
_NO_ROWS = frozenset({"dataset_info.json", "dataset_dict.json", "state.json", "dataset_infos.json"})


def files_of(given: Path) -> list[Path]:
    """The files of an input, in their order.

    Raises:
        TaskError: There are none.
    """
    if given.is_file():
        if not _is_known(given):
            raise TaskError(
                f"{given} is of no kind that is known", f"name a folder, or a file of {', '.join(SUFFIXES)}"
            )
        return [given]
    if not given.is_dir():
        raise TaskError(f"there is no file or folder {given}", "name the rows that are to be read")
    if (given / "state.json").is_file():  # datasets' save_to_disk
        return _saved(given)
    found = [
        path
        for path in sorted(given.rglob("*"))
        if path.is_file()
        and _is_known(path)
        and path.name not in _NO_ROWS
        and not any(part.startswith(".") for part in path.relative_to(given).parts)
    ]
    if not found:
        raise TaskError(f"{given} holds no rows", f"it needs files of {', '.join(SUFFIXES)}")
    return found


def _is_known(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES


def _saved(folder: Path) -> list[Path]:
    """The files of a data set that was saved to disk, in its order."""
    try:
        names = [entry["filename"] for entry in read_json((folder / "state.json").read_text())["_data_files"]]
        files = [folder / str(name) for name in names]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(
            f"{folder / 'state.json'} says nothing of its files: {error}", "save the data set again"
        ) from error
    if strange := [file for file in files if file.parent != folder or not file.is_file()]:
        raise TaskError(f"{folder} lacks its file {strange[0].name}", "save the data set again")
    return files
