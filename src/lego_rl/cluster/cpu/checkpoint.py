"""How weights go from trainer to separate inference servers on the CPU: one file in a folder that all nodes share.

``rollout.checkpoint_engine.backend=lego_file`` and ``…checkpoint_engine.engine_kwargs.lego_file.directory=FOLDER``.

Invariant: a file has its name when it is whole. The files of the present and the last version are kept at least, since
a server may still be reading the last one. Files of an earlier start of the run, whose versions have the same names,
are gone before anybody looks for one: every process prepares before any sends or receives.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

NAME = "lego_file"
_POLL_SEC = 0.05


@CheckpointEngineRegistry.register(NAME)
class FileCheckpointEngine(CheckpointEngine):  # type: ignore[misc]  # verl is not there where types are checked
    """Implements verl's checkpoint engine; see there for what each method is.

    Args:
        bucket_size: Not used: everything goes at once.
        directory: The folder.
        keep: How many versions are kept; at least 2.
        is_master: Whether this rank writes.
    """

    # ruff: noqa: D102
    def __init__(self, bucket_size: int, directory: str, keep: int = 2, is_master: bool = False) -> None:
        del bucket_size
        self._directory, self._keep = Path(directory), max(2, keep)
        self._is_master = is_master
        self._begun = False

    def prepare(self) -> dict[str, Any]:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._is_master and not self._begun:
            self._begun = True
            for earlier in self._directory.iterdir():
                earlier.unlink()
        return {}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        del metadata
        ranks = list(range(actor_wg_world_size + rollout_world_size))
        return {"rank": ranks[:actor_wg_world_size]}, {"rank": ranks[actor_wg_world_size:]}

    def init_process_group(self, rank: int) -> None:
        del rank

    def finalize(self) -> None:
        pass

    async def send_weights(self, weights: Iterable[tuple[str, Tensor]], global_steps: int | None = None) -> None:
        state = {name: weight.detach().cpu().contiguous() for name, weight in weights}
        if self._is_master:
            assert global_steps is not None
            await asyncio.to_thread(self._write, state, global_steps)

    def _write(self, state: dict[str, Tensor], step: int) -> None:
        path = self._path(step)
        partial = path.with_suffix(".partial")
        save_file(state, partial)
        partial.rename(path)
        for old in sorted(self._directory.glob("*.safetensors"), key=lambda old: int(old.stem))[: -self._keep]:
            old.unlink()

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, Tensor]]:
        assert global_steps is not None
        path = self._path(global_steps)
        while not path.exists():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(_POLL_SEC)
        for name, weight in (await asyncio.to_thread(load_file, path)).items():
            yield name, weight

    def _path(self, step: int) -> Path:
        return self._directory / f"{step}.safetensors"
