"""What validation found, one line a task, so that a run that was stopped goes on and a task that is as it was is not
graded again.

Invariant: the last line about a task counts, and only for the very bytes that it was graded with and the sandboxes that
it was graded in. Only what was graded is known: that a task cannot be used may be for want of an extra, or of a flag.
One process at a time validates into a file, so that no task is graded twice at once.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from lego_rl import durable
from lego_rl.errors import TaskError
from lego_rl.tasks.validate.judge import UNGRADED, Validation


class Validations:
    """The findings of a pool, in a file.

    Args:
        path: The file; a line that cannot be read does not count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Validation] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    found = Validation.model_validate_json(line)
                except ValidationError:
                    continue
                self._known[found.task] = found

    @property
    def latest(self) -> Mapping[str, Validation]:
        """Task → the last finding about it, whatever the task holds now."""
        return self._known

    def known(self, task: str, digest: str, sandboxes: str, times: int) -> Validation | None:
        """What is known of a task as it is, graded in such sandboxes and at least so often."""
        found = self._known.get(task)
        if found is None or found.judgement in UNGRADED or found.times < times:
            return None
        return found if (found.digest, found.sandboxes) == (digest, sandboxes) else None

    def recorded_over(self, task: str, digest: str) -> str:
        """What a task held before its tests were recorded, which is all that is changed by it; the same where none
        were."""
        found = self._known.get(task)
        return found.before if found is not None and found.before and found.digest == digest else digest

    def add(self, found: Validation) -> None:
        """Write a finding down.

        Raises:
            OSError: The disk does not take it.
        """
        self._known[found.task] = found
        durable.append_line(self._path, json.dumps(found.model_dump(mode="json")))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other process from validating into a file; the system lifts that when this one ends, however it does.

    Raises:
        TaskError: Another process validates into it.
        OSError: It cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TaskError(
                f"another process is validating into {path}", "wait for it, stop it, or name another --journal"
            ) from error
        yield
