"""How a run captures: the choices that decide what is in a policy's context and what of it trains."""

from typing import Literal

from lego_rl.gateway.trajectory import CallRole
from lego_rl.settings import Settings


class CaptureSettings(Settings):
    """What the gateway keeps in a policy's context, and which model calls train."""

    reasoning: Literal["keep", "as_sent"] = "keep"
    """Reasoning of earlier turns, where the harness or the chat template leaves it out. ``keep``: it stays in the
    context as it was sampled, so a conversation is one segment. ``as_sent``: it is gone, as with a plain model server;
    each turn that lost it starts a new segment."""
    train_roles: tuple[CallRole, ...] = ("main", "subagent", "compaction")
    """Which calls train: ``main``, ``subagent``, ``compaction``, ``title``. What the others sampled is counted as
    excluded."""


DEFAULT_CAPTURE = CaptureSettings()
