"""Staleness, and what is rolled out ahead."""

from lego_rl.config.cluster import SeparateAsyncMode
from lego_rl.config.preflight.rule import Facts, Finding, Rule, fatal, ok, warn


def _staleness(facts: Facts) -> Finding:
    mode = facts.cluster.mode
    if not isinstance(mode, SeparateAsyncMode):
        return ok("synchronous: no trial is stale")
    if mode.staleness < 1:
        return fatal(
            "staleness 0 drops every trial that new weights meet, and prompts are handed out before the weights",
            'set cluster.mode.staleness = 1, or cluster.mode = { kind = "sync" }',
        )
    if mode.staleness > 1:
        return warn(f"staleness {mode.staleness}: trials may be that many versions old", "the published runs use 1")
    return ok("asynchronous: a trial is at most one version behind")


def _warmup(facts: Facts) -> Finding:
    mode = facts.cluster.mode
    if not isinstance(mode, SeparateAsyncMode):
        return ok("nothing is rolled out ahead")
    if mode.warmup_batches > mode.staleness:
        return fatal(
            f"{mode.warmup_batches:g} batches ahead of a staleness of {mode.staleness}: the last are always too old",
            f"set cluster.mode.warmup_batches = {float(mode.staleness)}",
        )
    if mode.warmup_batches == 0:
        return warn("nothing is rolled out ahead: the trainer waits for every batch", "set warmup_batches = 1.0")
    return ok(f"{mode.warmup_batches:g} batch(es) are rolled out ahead")


def _offload(facts: Facts) -> Finding:
    cluster = facts.cluster
    if isinstance(cluster.mode, SeparateAsyncMode) and not cluster.rollout_nodes:
        return fatal("separate_async without a rollout node")
    if isinstance(cluster.mode, SeparateAsyncMode) and cluster.device == "cuda" and cluster.trainer.offload:
        return warn(
            "the trainer's GPUs are its own: what it puts into main memory it waits for at every step",
            "set cluster.trainer.offload = [] where the memory estimate allows",
        )
    return ok(
        "the trainer's GPUs are its own" if cluster.rollout_nodes else "trainer and servers take turns on the same GPUs"
    )


RULES = (
    Rule(
        "staleness",
        "the bound of staleness can be kept",
        "Rollouts go on while the trainer trains. One version is the price of not waiting; more is waste.",
        "set cluster.mode.staleness = 1",
        _staleness,
    ),
    Rule(
        "warm-up",
        "what is rolled out ahead is within the bound of staleness",
        "A batch that is further ahead than the bound is dropped when its turn comes, after it was paid for.",
        "set cluster.mode.warmup_batches to at most cluster.mode.staleness",
        _warmup,
    ),
    Rule(
        "offload",
        "what waits in main memory has a reason to",
        "Offloading makes room for servers on the same GPUs, or for a model that is too large; else it costs time.",
        "leave cluster.trainer.offload empty",
        _offload,
    ),
)
