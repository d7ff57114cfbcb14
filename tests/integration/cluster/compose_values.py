"""verl's side of `test_overrides_compose`: composes overrides with verl's own configuration, and validates it.

Arguments: a JSON file, name → overrides; and where to write what came of each.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from veomni.utils.moe_router_replay import SUPPORTED_MOE_MODEL_TYPES
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

ENGINE = {"fsdp2": "fsdp_config", "veomni": "veomni", "megatron": "megatron"}


def composed(overrides: list[str]) -> dict[str, Any]:
    config = compose("ppo_trainer", overrides=overrides)
    reference, critic = need_reference_policy(config), need_critic(config)
    validate_config(config, use_reference_policy=reference, use_critic=critic)
    parts = config.actor_rollout_ref
    actor = omega_conf_to_dataclass(parts.actor)
    rollout = omega_conf_to_dataclass(parts.rollout)
    engine = ENGINE[parts.ref.strategy]
    omega_conf_to_dataclass(parts.ref[engine])
    OmegaConf.resolve(config)
    return {
        "critic": critic,
        "reference": reference,
        "strategy": actor.strategy,
        "loss": actor.policy_loss.loss_mode,
        "threshold": config.algorithm.rollout_correction.rollout_is_threshold,
        "rollout": [rollout.tensor_model_parallel_size, rollout.n, rollout.max_model_len],
        "tokens": [actor.ppo_max_token_len_per_gpu, parts.ref.log_prob_max_token_len_per_gpu],
        "config": OmegaConf.to_container(config),
        "loss_is_the_recipes": _is_the_recipes(actor, config),
    }


def _is_the_recipes(actor: Any, config: Any) -> bool:
    """Whether the plug-in that asserts the loss agrees; its recipe is the run's own."""
    from lego_rl.cluster.trainer.expected import ExpectedLoss

    expected = ExpectedLoss.of_rollout(config.actor_rollout_ref.rollout)
    expected.check_actor(actor)
    expected.check_algorithm(config.algorithm)
    return True


def main(questions: Path, answers: Path) -> None:
    warnings.simplefilter("ignore")
    asked = json.loads(questions.read_text(encoding="utf-8"))
    with initialize_config_module("verl.trainer.config", version_base=None):
        found = {name: composed(overrides) for name, overrides in asked.items()}
    answers.write_text(json.dumps({"runs": found, "replayed": sorted(SUPPORTED_MOE_MODEL_TYPES)}), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
