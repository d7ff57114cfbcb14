"""The embedded torch engine. Nothing above this package imports torch for sampling."""

from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.policy import load_policy, save_policy
from lego_rl.engine.embedded.stats import EngineStats
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.embedded.weights import Weights, state_digest

__all__ = [
    "EmbeddedEngine",
    "EngineOptions",
    "EngineStats",
    "Geometry",
    "Weights",
    "load_policy",
    "save_policy",
    "state_digest",
]
