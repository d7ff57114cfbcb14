"""Routing replay (R3): which policies, engines and records it is possible with."""

from lego_rl.config.cluster import Fsdp2Trainer, VeOmniTrainer
from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn

VEOMNI_FAMILIES = ("qwen3_moe", "qwen3_5_moe", "deepseek_v4")
"""Architectures that VeOmni 0.1.12 replays (``SUPPORTED_MOE_MODEL_TYPES``)."""
FSDP2_FAMILIES = ("qwen3_moe", "qwen3_5_moe")
"""Architectures whose routers this plug-in's hooks know (`lego_rl.train.replay`)."""
MOST_EXPERTS = 256
"""A recorded route is one byte."""
_VEOMNI, _OWN = 'set cluster.trainer.kind = "veomni"', 'set train.routing = "own"'
_SHAPED = frozenset({Need.CLUSTER, Need.SHAPE})


def _family(facts: Facts) -> Finding:
    routing, model, trainer = facts.recipe.train.routing, facts.model, facts.cluster.trainer
    if routing == "own":
        return _own(facts)
    if not model.experts:
        return fatal(f"{model.model_type} has no experts whose routing could be replayed", _OWN)
    families = {VeOmniTrainer: VEOMNI_FAMILIES, Fsdp2Trainer: FSDP2_FAMILIES}.get(type(trainer))
    if families is None:
        return warn(f"R3 of {model.model_type} with {trainer.kind} was never tried here", _VEOMNI)
    if model.model_type not in families:
        return fatal(
            f"{trainer.kind} replays {', '.join(families)}, not {model.model_type}",
            'set cluster.trainer.kind = "veomni"' if model.model_type in VEOMNI_FAMILIES else _OWN,
        )
    return ok(f"{trainer.kind} replays {model.model_type}")


def _own(facts: Facts) -> Finding:
    if not facts.model.experts:
        return ok("a dense policy has nothing to replay")
    return warn(
        f"{facts.model.experts} experts without replay: trainer and servers route some tokens differently",
        'set train.routing = "replay"',
    )


def _record(facts: Facts) -> Finding:
    model = facts.model
    if facts.recipe.train.routing == "own":
        return ok("no routes are recorded for training")
    if model.experts > MOST_EXPERTS:
        return fatal(f"{model.experts} experts do not fit the byte that a recorded route is", _OWN)
    if model.top_k < 2:
        return fatal("a route of one expert a token cannot be told from verl's padding", _OWN)
    return ok(f"routes of {model.layers} layers × {model.top_k} experts are as many bytes a token")


RULES = (
    Rule(
        "replay-family",
        "routing replay × policy × trainer",
        "verl ignores the key with an engine that cannot replay: a MoE is then trained as another policy than sampled. "
        "Measured in bfloat16, 6.7 % of tokens are routed differently somewhere, and log-probs differ by up to 0.2.",
        "choose a trainer that replays the policy's architecture",
        _family,
        _SHAPED,
    ),
    Rule(
        "replay-record",
        "routes can be recorded",
        "Routes are kept as one byte an expert, for every position, layer and choice; verl pads with zeros, which only "
        "two or more experts a token tell from a route.",
        _OWN,
        _record,
        _SHAPED,
    ),
)
