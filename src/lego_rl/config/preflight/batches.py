"""Sizes of a step: prompts, trials, rows, updates, and how many trials are under way."""

from lego_rl.config.cluster import SeparateAsyncMode
from lego_rl.config.preflight.mesh import data_ranks, model_ranks
from lego_rl.config.preflight.rule import Facts, Finding, Rule, fatal, ok, warn

_MOST_WAVES = 8
"""A step that takes more of its longest trials one after the other leaves the trainer idle most of the time."""


def _rows(facts: Facts) -> Finding:
    recipe, cluster = facts.recipe, facts.cluster
    if cluster.training_gpus < model_ranks(cluster):
        return fatal(f"one row needs {model_ranks(cluster)} GPUs, the trainer has {cluster.training_gpus}")
    ranks = data_ranks(cluster)
    rows = recipe.rollout.tasks_per_step * recipe.rollout.group_size // recipe.train.updates
    if rows < ranks:
        return fatal(
            f"an update of {rows} trials leaves some of {ranks} data-parallel ranks without a row",
            "raise rollout.tasks_per_step, or lower train.updates",
        )
    if rows % ranks:
        return warn(
            f"{rows} trials of an update are no multiple of {ranks} data-parallel ranks: verl fills up with empty rows",
            f"make rollout.tasks_per_step × group_size ÷ train.updates a multiple of {ranks}",
        )
    return ok(f"{rows} trials of an update over {ranks} data-parallel rank(s)")


def _constant_divisor(facts: Facts) -> Finding:
    rollout, updates = facts.recipe.rollout, facts.recipe.train.updates
    prompts = rollout.tasks_per_step // updates
    return ok(f"{rollout.tasks_per_step} tasks × {rollout.group_size} in {updates} update(s) of {prompts} tasks")


def _under_way(facts: Facts) -> Finding:
    recipe, cluster = facts.recipe, facts.cluster
    at_once = cluster.agent_workers * recipe.rollout.concurrency
    step = recipe.rollout.tasks_per_step * recipe.rollout.group_size
    ahead = cluster.mode.staleness if isinstance(cluster.mode, SeparateAsyncMode) else 0
    if at_once < recipe.rollout.group_size:
        return fatal(f"{at_once} trials at a time are less than a group of {recipe.rollout.group_size}")
    if at_once * _MOST_WAVES < step:
        return warn(
            f"{at_once} trials at a time, a step has {step}: it takes {-(-step // at_once)} of the longest trial",
            "raise cluster.agent_workers, or rollout.concurrency where the machines have room",
        )
    if at_once > step * (1 + ahead):
        return warn(
            f"{at_once} trials may run at a time, and no more than {step * (1 + ahead)} ever do",
            "lower cluster.agent_workers",
        )
    return ok(f"{at_once} trials at a time; a step has {step}")


def _checkpoints(facts: Facts) -> Finding:
    cluster, steps = facts.cluster, facts.recipe.run.steps
    if cluster.checkpoint_every > steps:
        return warn(f"a checkpoint every {cluster.checkpoint_every} of {steps} steps: only the last step has one")
    return ok(f"a checkpoint every {cluster.checkpoint_every} of {steps} steps")


def _evaluation(facts: Facts) -> Finding:
    recipe, cluster = facts.recipe, facts.cluster
    if cluster.evaluate_every and not recipe.evaluate.splits:
        return warn("cluster.evaluate_every is set, and evaluate.splits names nothing", "name splits to evaluate")
    if recipe.evaluate.splits and not cluster.evaluate_every:
        return warn("evaluate.splits names tasks, and cluster.evaluate_every is 0", "say how often in evaluate_every")
    return ok(f"every {cluster.evaluate_every} steps" if cluster.evaluate_every else "nothing is evaluated")


RULES = (
    Rule(
        "updates",
        "a step's prompts are split evenly among its updates",
        "verl wants train_batch_size = parameter_sync_step × ppo_mini_batch_size, and the loss a constant divisor.",
        "make rollout.tasks_per_step a multiple of train.updates",
        _constant_divisor,
    ),
    Rule(
        "rows",
        "an update's trials fill the data-parallel ranks evenly",
        "A rank without a row waits in every collective; verl fills up with rows that count nothing and cost time.",
        "make the trials of an update a multiple of the data-parallel ranks",
        _rows,
    ),
    Rule(
        "concurrency",
        "trials under way fit a step",
        "Too few leave servers and trainer idle; more than a step and what may be ahead of it never run.",
        "choose cluster.agent_workers × rollout.concurrency between an eighth of a step's trials and all of them",
        _under_way,
    ),
    Rule(
        "checkpoint-interval",
        "a checkpoint comes before the run ends",
        "A run that is stopped before its first checkpoint begins anew.",
        "lower cluster.checkpoint_every",
        _checkpoints,
    ),
    Rule(
        "evaluation",
        "what is evaluated and how often agree",
        "One without the other evaluates nothing.",
        "set both evaluate.splits and cluster.evaluate_every, or neither",
        _evaluation,
    ),
)
