"""Which loss a recipe asks for, and whether the one in effect is it.

Invariant: what cannot be proved to be the recipe's loss stops the run before a weight changes. verl replaces losses in
silence (its bypass mode puts PPO-clip in the place of GSPO), so this is asked where the loss is called, of the very
configuration that the loss is computed from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from lego_rl.train.settings import NoCorrection

LOSS = "lego_gspo"
"""Name of the policy loss."""
AGGREGATION = "seq-mean-token-mean"
KL = "low_var_kl"
LOOP = "lego_rl"
"""Name of the agent loop, whose entry names the recipe."""


@dataclass(frozen=True)
class ExpectedLoss:
    """The loss of a recipe, in verl's words.

    Attributes:
        clip_low: The sequence ratio is clipped below ``1 - clip_low``.
        clip_high: The sequence ratio is clipped above ``1 + clip_high``.
        kl_coefficient: Weight of the low-variance KL; 0 for none.
        importance: Level of the importance weights; ``None`` for none.
        cap: Largest importance weight.
        replayed: Whether the policy's passes replay the recorded experts.
        updates: Optimizer updates a step.
    """

    clip_low: float
    clip_high: float
    kl_coefficient: float
    importance: str | None
    cap: float | None
    replayed: bool
    updates: int

    @classmethod
    def of_recipe(cls, recipe: Recipe) -> Self:
        """What a recipe asks for."""
        loss = recipe.train.loss
        none = isinstance(loss.importance, NoCorrection)
        return cls(
            clip_low=loss.clip_low,
            clip_high=loss.clip_high,
            kl_coefficient=loss.kl_coefficient,
            importance=None if none else loss.importance.kind,
            cap=None if isinstance(loss.importance, NoCorrection) else loss.importance.cap,
            replayed=recipe.train.routing == "replay",
            updates=recipe.train.updates,
        )

    @classmethod
    def of_rollout(cls, rollout: Mapping[str, Any]) -> Self:
        """What the recipe asks for that verl's rollout configuration leads to.

        Args:
            rollout: verl's ``actor_rollout_ref.rollout``.

        Raises:
            ConfigError: It leads to no recipe, or to one that cannot be used.
        """
        return cls.of_recipe(read(Recipe, recipe_path(rollout)))

    def check_actor(self, actor: Any) -> None:
        """Ask an actor's configuration, as the loss is computed from it.

        Args:
            actor: verl's ``ActorConfig``.

        Raises:
            ConfigError: It is not what the recipe asks for.
        """
        found = {
            "policy_loss.loss_mode": actor.policy_loss.get("loss_mode", "vanilla"),
            "loss_agg_mode": actor.loss_agg_mode,
            "clip_ratio_low": actor.clip_ratio_low,
            "clip_ratio_high": actor.clip_ratio_high,
            "entropy_coeff": actor.entropy_coeff,
            "use_kl_loss": actor.use_kl_loss,
            "ppo_epochs": actor.ppo_epochs,
        }
        expected = {
            "policy_loss.loss_mode": LOSS,
            "loss_agg_mode": AGGREGATION,
            "clip_ratio_low": self.clip_low,
            "clip_ratio_high": self.clip_high,
            "entropy_coeff": 0,
            "use_kl_loss": self.kl_coefficient > 0,
            "ppo_epochs": 1,
        }
        if self.kl_coefficient > 0:
            found |= {"kl_loss_type": actor.kl_loss_type, "kl_loss_coef": actor.kl_loss_coef}
            expected |= {"kl_loss_type": KL, "kl_loss_coef": self.kl_coefficient}
        _same(found, expected, "actor_rollout_ref.actor")

    def check_algorithm(self, algorithm: Any) -> None:
        """Ask the algorithm's configuration.

        Args:
            algorithm: verl's ``algorithm`` section.

        Raises:
            ConfigError: It is not what the recipe asks for; or old log-probs would not be recomputed.
        """
        correction = algorithm.get("rollout_correction") or {}
        found = {
            "adv_estimator": algorithm.adv_estimator,
            "norm_adv_by_std_in_grpo": algorithm.get("norm_adv_by_std_in_grpo", True),
            "use_kl_in_reward": algorithm.use_kl_in_reward,
            "rollout_correction.bypass_mode": bool(correction.get("bypass_mode", False)),
            "rollout_correction.rollout_is": correction.get("rollout_is"),
            "rollout_correction.rollout_is_batch_normalize": bool(correction.get("rollout_is_batch_normalize", False)),
            "rollout_correction.rollout_rs": correction.get("rollout_rs"),
        }
        expected: dict[str, object] = {
            "adv_estimator": "grpo",
            "norm_adv_by_std_in_grpo": True,
            "use_kl_in_reward": False,
            "rollout_correction.bypass_mode": False,
            "rollout_correction.rollout_is": self.importance,
            "rollout_correction.rollout_is_batch_normalize": False,
            "rollout_correction.rollout_rs": None,
        }
        if self.importance is not None:
            found["rollout_correction.rollout_is_threshold"] = float(correction.get("rollout_is_threshold", 2.0))
            expected["rollout_correction.rollout_is_threshold"] = self.cap
        _same(found, expected, "algorithm")


def recipe_path(rollout: Mapping[str, Any]) -> Path:
    """Where verl's rollout configuration says that the recipe is.

    Raises:
        ConfigError: It does not say.
    """
    fix = f"name an agent_loop_config_path whose entry {LOOP!r} has the recipe's path"
    path = rollout["agent"].get("agent_loop_config_path")
    if not path:
        raise ConfigError("actor_rollout_ref.rollout.agent names no agent loops", fix)
    entries: Sequence[Mapping[str, Any]] = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    for entry in entries:
        if entry.get("name") == LOOP and "recipe" in entry:
            return Path(entry["recipe"])
    raise ConfigError(f"{path} has no entry {LOOP!r} with a recipe", fix)


def _same(found: Mapping[str, object], expected: Mapping[str, object], section: str) -> None:
    for name, value in expected.items():
        if found[name] != value:
            raise ConfigError(
                f"{section}.{name} is {found[name]!r} where the recipe asks for {value!r}",
                "start verl with the overrides that the recipe makes, and change the recipe instead",
            )
