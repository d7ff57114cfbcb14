"""The ways to isolate, by the names that recipes have for them."""

import json
from functools import cache
from typing import get_args

from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.docker.preflight import engine_of
from lego_rl.sandbox.docker.provider import DockerProvider
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State

ENVIRONMENTS: tuple[str, ...] = get_args(SandboxSettings.model_fields["environment"].annotation)
"""Every way there is."""


def state_of(settings: SandboxSettings) -> State:
    """Where sandboxes keep their files."""
    return State(settings.state) if settings.state is not None else State.default()


def provider_of(settings: SandboxSettings) -> Provider:
    """The way that the settings choose."""
    match settings.environment:
        case "bubblewrap":
            return BubblewrapProvider(state_of(settings), settings.rootfs, settings.services)
        case "docker":
            engine = engine_of(settings.docker.host)
            return DockerProvider(state_of(settings), engine, settings.docker.image, settings.services)
        case "kubernetes":
            return KubernetesProvider(state_of(settings), settings.kubernetes)


def reap_once(settings: SandboxSettings) -> None:
    """Remove what killed owners left, the first time that this process asks for sandboxes of these settings.

    Runs do so themselves when they begin; this is for a trial that stock Harbor runs by itself.
    """
    _reap(settings.model_dump_json())


@cache
def _reap(settings: str) -> None:
    provider_of(SandboxSettings.model_validate(json.loads(settings))).reap()
