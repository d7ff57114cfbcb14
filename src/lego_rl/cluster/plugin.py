"""What verl's entry point ``verl.plugins`` loads, in every process that imports verl.

verl looks a trainer up by its name before it reads anything else of its configuration, so all is registered here, and
not in modules that the configuration names. verl drops the error of a plug-in; it is logged here first.
"""

import logging

_LOG = logging.getLogger(__name__)


def register() -> None:
    """Register trainers, engines, the policy loss, and what runs verl without a GPU."""
    from lego_rl.cluster.cpu import platform

    _LOG.debug("registered by %s", platform.__name__)  # verl asks which platform it is on when engines are imported

    from lego_rl.cluster.cpu import checkpoint, engine, rollout
    from lego_rl.cluster.trainer import losses, modes, replay

    for module in (losses, replay, engine, rollout, checkpoint, modes):
        _LOG.debug("registered by %s", module.__name__)


try:
    register()
except Exception:
    _LOG.exception("the plug-in lego-rl could not be loaded")
    raise
