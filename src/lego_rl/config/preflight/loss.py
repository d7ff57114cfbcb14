"""The loss: that it is GSPO, as the recipe says it, and stays so."""

from lego_rl.config.cluster import SeparateAsyncMode
from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn
from lego_rl.train.settings import NoCorrection

DECIDES_THE_LOSS = (
    "algorithm.rollout_correction",
    "algorithm.adv_estimator",
    "actor_rollout_ref.actor.policy_loss",
    "actor_rollout_ref.actor.loss_agg_mode",
    "trainer.use_v1",
    "trainer.v1.trainer_mode",
    "async_training",
)
"""Keys of verl under which GSPO is replaced without a word."""
_LARGEST_CLIP = 0.01
_LARGEST_RATE = 1e-4
_SMALL_POLICY = 10**8


def _in_effect(facts: Facts) -> Finding:
    for override in facts.cluster.verl:
        key = override.partition("=")[0].lstrip("+~")
        if key.startswith(DECIDES_THE_LOSS):
            return fatal(
                f"cluster.verl says {override}: the loss would be another one than GSPO of the trainer's log-probs"
            )
    return ok("GSPO, against log-probs that the trainer computes again; asserted where the loss is called")


def _clip(facts: Facts) -> Finding:
    loss = facts.recipe.train.loss
    said = f"clip {loss.clip_low:g} and {loss.clip_high:g}"
    if max(loss.clip_low, loss.clip_high) > _LARGEST_CLIP:
        return warn(f"{said} are PPO's: the ratio of a whole sequence never gets that far", "use 3e-4 and 4e-4")
    return ok(f"{said} of the sequence ratio")


def _importance(facts: Facts) -> Finding:
    importance, mode = facts.recipe.train.loss.importance, facts.cluster.mode
    stale = mode.staleness if isinstance(mode, SeparateAsyncMode) else 0
    if not isinstance(importance, NoCorrection):
        return ok(f"one weight a {importance.kind}, capped at {importance.cap:g}")
    if stale:
        return fatal(f"trials may be {stale} version(s) behind, and no importance weight corrects for it")
    return warn("no importance weights: what servers and trainer differ in stays in the gradient")


def _optimizer(facts: Facts) -> Finding:
    chosen = facts.recipe.train.optimizer
    if chosen.eps != 1e-8:
        return fatal(f"verl has no key for train.optimizer.eps = {chosen.eps:g}", "leave it at 1e-8")
    size = facts.shape.parameters if facts.shape is not None else None
    if chosen.lr > _LARGEST_RATE or (chosen.lr > 1e-5 and size is not None and size > _SMALL_POLICY):
        return warn(f"a learning rate of {chosen.lr:g} is large for this policy", "use about 1e-6")
    return ok(f"AdamW, {chosen.lr:g} at every step")


def _tower(facts: Facts) -> Finding:
    decay, tower = facts.recipe.train.optimizer.weight_decay, facts.model.vision
    if not tower:
        return ok("there is no vision tower")
    if decay:
        return fatal(f"weight decay of {decay:g} moves a vision tower that no gradient ever reaches")
    return ok("without decay the vision tower stays what it was, bit by bit")


RULES = (
    Rule(
        "gspo",
        "nothing replaces GSPO",
        "verl's bypass mode and its older trainers put PPO-clip in the place of the chosen loss, and say nothing. "
        "Bypass also takes the servers' log-probs for the trainer's: neither gate nor importance weights see a gap.",
        "take the override out; what it is for is a key of the recipe",
        _in_effect,
    ),
    Rule(
        "clip",
        "the clip is one for sequences",
        "GSPO's ratio is the geometric mean over a sequence's tokens. With PPO's 0.2 it is never clipped.",
        "set train.loss.clip_low = 3e-4 and clip_high = 4e-4",
        _clip,
    ),
    Rule(
        "importance",
        "staleness is corrected",
        "A token that older weights sampled is trained as if the present ones had.",
        'set train.loss.importance = { kind = "token", cap = 2.0 }',
        _importance,
    ),
    Rule(
        "optimizer",
        "the optimizer is one that verl has, and its rate is sane",
        "A key that verl lacks would be dropped; a rate of a small policy breaks a large one in a step.",
        "see docs/reference/recipe.md",
        _optimizer,
    ),
    Rule(
        "tower-decay",
        "nothing moves a vision tower in text-only training",
        "verl's engines hold the tower and decay it with all weights, though it has no gradient: a long run wears the "
        "policy's sight away.",
        "set train.optimizer.weight_decay = 0.0",
        _tower,
        frozenset({Need.CLUSTER, Need.SHAPE}),
    ),
)
