"""Whether it fits: GPUs of the trainer, GPUs of the servers, both on the same GPU, and the disk."""

from lego_rl.config.cluster import SyncMode
from lego_rl.config.preflight.estimate import GB, MEAN_SHARE, server_memory, storage, trainer_memory
from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn

_TIGHT = 0.92
_SHAPED = frozenset({Need.CLUSTER, Need.SHAPE})


def _trainer(facts: Facts) -> Finding:
    cluster = facts.cluster
    memory = trainer_memory(facts.recipe, cluster, facts.model)
    said = f"{memory.peak / GB:.0f} of {cluster.gpu_memory_gb:g} GB a GPU ({memory.shown()})"
    share = memory.peak / (cluster.gpu_memory_gb * GB)
    if share > 1:
        whole = cluster.log_probs == "whole" and memory.logits > memory.working
        return fatal(said, 'set cluster.log_probs = "chunked"' if whole else None)
    return warn(said) if share > _TIGHT else ok(said)


def _servers(facts: Facts) -> Finding:
    cluster = facts.cluster
    memory = server_memory(facts.recipe, cluster, facts.model)
    said = f"{memory.allowed / GB:.0f} of {cluster.gpu_memory_gb:g} GB a GPU ({memory.shown()})"
    return fatal(said) if memory.contexts < 1 else ok(said)


def _caches(facts: Facts) -> Finding:
    recipe, cluster = facts.recipe, facts.cluster
    memory = server_memory(recipe, cluster, facts.model)
    room = int(memory.replicas * max(0.0, memory.contexts) * MEAN_SHARE)
    at_once = cluster.agent_workers * recipe.rollout.concurrency
    said = f"room for {room} trials of a quarter of the context, {at_once} at a time"
    if at_once > room:
        return warn(said, f"lower cluster.agent_workers × rollout.concurrency to about {room}")
    return ok(said)


def _together(facts: Facts) -> Finding:
    cluster = facts.cluster
    if not isinstance(cluster.mode, SyncMode) or cluster.device == "cpu":
        return ok("trainer and servers share no GPU")
    resident = trainer_memory(facts.recipe, cluster, facts.model).resident
    allowed = server_memory(facts.recipe, cluster, facts.model).allowed
    said = (
        f"while servers sample: {resident / GB:.1f} GB of the trainer + {allowed / GB:.1f} of the server "
        f"of {cluster.gpu_memory_gb:g}"
    )
    if resident + allowed > cluster.gpu_memory_gb * GB:
        return fatal(said)
    return ok(said)


def _disk(facts: Facts) -> Finding:
    use = storage(facts.recipe, facts.model)
    said = (
        f"checkpoints {use.checkpoints / GB:,.4g} GB (one is {use.checkpoint / GB:,.4g}), trials with routes "
        f"{use.trials / GB:,.4g} GB ({use.trial / 10**6:.3g} MB each)"
    )
    if facts.machine is None:
        return ok(said)
    free = facts.machine.free_bytes()
    said += f"; {free / GB:,.0f} GB are free"
    if free < use.checkpoints:
        return fatal(said)
    return warn(said) if free < use.checkpoints + use.trials else ok(said)


def _queue(facts: Facts) -> Finding:
    queued = storage(facts.recipe, facts.model).queued
    return ok(f"rows that wait for the trainer take about {queued / GB:,.3g} GB of main memory over all machines")


RULES = (
    Rule(
        "trainer-memory",
        "the trainer fits its GPUs at a full micro-batch",
        "A long trial is rare: without the sum a run finds out hours later, in the middle of a step.",
        "train on more GPUs, share a sequence among more ranks, lower cluster.microbatch_tokens, or offload",
        _trainer,
        _SHAPED,
    ),
    Rule(
        "server-memory",
        "a server has room for its weights and one whole context",
        "vLLM refuses to start when one sequence of the longest context does not fit its cache.",
        "raise cluster.servers.tensor_parallel or gpu_memory_fraction, or lower budget.context_tokens",
        _servers,
        _SHAPED,
    ),
    Rule(
        "shared-memory",
        "trainer and servers fit the same GPU",
        "What of the trainer stays while servers sample is memory that they were promised.",
        'set cluster.trainer.offload = ["parameters", "optimizer"], or lower cluster.servers.gpu_memory_fraction',
        _together,
        _SHAPED,
    ),
    Rule(
        "cache-room",
        "caches hold the trials that are under way",
        "Where they do not, prefixes are thrown out and computed again at every turn: long contexts many times over.",
        "lower the trials at a time, or add replicas",
        _caches,
        _SHAPED,
    ),
    Rule(
        "queue",
        "how much main memory waiting rows take",
        "verl keeps the rows of a step, their routes above all, in the nodes' memory until they are trained.",
        "lower rollout.tasks_per_step or budget.context_tokens where machines have less",
        _queue,
        _SHAPED,
    ),
    Rule(
        "disk",
        "the disk holds checkpoints and trials",
        "A full disk ends the run, and the checkpoint that it was writing.",
        "free space, set run.dir on a larger disk, or lower run.keep_checkpoints",
        _disk,
        _SHAPED,
    ),
)
