"""The ways to isolate, by the names that recipes have for them."""

from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.docker.preflight import engine_of
from lego_rl.sandbox.docker.provider import DockerProvider
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.sandbox import Provider
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State


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
