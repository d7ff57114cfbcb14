"""What only the machine can tell: the installed harness, the policy's template, tasks, sandboxes, packages."""

from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn

REQUIRED = {
    "verl": ("0.9.1",),
    "TransferQueue": ("0.1.11",),
    "ray": None,
    "hydra-core": None,
    "tensordict": None,
}
"""Packages of a cluster's run → the versions that it was tried with; any where ``None``."""
VEOMNI = "veomni", "0.1.12"
BELOW = "transformers", (5, 11)
"""verl 0.9.1 was published for versions below."""
LEAST_VLLM = (0, 22, 0)
"""The first whose recorded routes are right for policies with linear attention; verl refuses older ones."""
_HERE = frozenset({Need.MACHINE})
_CLUSTER_HERE = frozenset({Need.CLUSTER, Need.MACHINE})


def _bundle(facts: Facts) -> Finding:
    return ok(facts.here.bundle())


def _template(facts: Facts) -> Finding:
    return ok(facts.here.parser())


def _tasks(facts: Facts) -> Finding:
    count = facts.here.tasks()
    return ok(f"split {facts.recipe.tasks.train!r} has {count}, each can be tried here, as what is evaluated can")


def _passes(facts: Facts) -> Finding:
    recipe, cluster = facts.recipe, facts.cluster
    tasks, batch = facts.here.tasks(), recipe.rollout.tasks_per_step
    steps = cluster.epochs * (tasks // batch)
    said = f"{cluster.epochs} passes over {tasks} tasks are {steps} steps of {batch}"
    if steps < recipe.run.steps:
        return fatal(f"{said}, run.steps is {recipe.run.steps}", f"set run.steps = {steps}, or raise cluster.epochs")
    return ok(f"{said}; run.steps is {recipe.run.steps}")


def _sandbox(facts: Facts) -> Finding:
    return ok(facts.here.sandbox())


def _room(facts: Facts) -> Finding:
    note = facts.here.room()
    return ok("there is room for all trials that run at the same time") if note is None else warn(note)


def _versions(facts: Facts) -> Finding:
    found = facts.here.versions()
    wanted = dict(REQUIRED)
    if facts.cluster.trainer.kind == "veomni":
        wanted[VEOMNI[0]] = (VEOMNI[1],)
    for name, versions in wanted.items():
        version = found.get(name)
        if version is None:
            return fatal(f"{name} is not installed where verl is to run")
        if versions is not None and version not in versions:
            return fatal(f"{name} is {version}, the plug-in was made for {', '.join(versions)}")
    name, bound = BELOW
    version = found.get(name)
    if version is None or _numbers(version) >= bound:
        return fatal(f"{name} is {version or 'not installed'}, verl needs one below {'.'.join(map(str, bound))}")
    return _of_servers(facts, found.get("vllm")) or ok(", ".join(f"{name} {found[name]}" for name in wanted))


def _of_servers(facts: Facts, vllm: str | None) -> Finding | None:
    if facts.cluster.device == "cpu":
        return None
    if vllm is None:
        return fatal("vllm is not installed where verl is to run")
    least = ".".join(map(str, LEAST_VLLM))
    if facts.recipe.train.routing == "replay" and _numbers(vllm) < LEAST_VLLM:
        return fatal(f"vllm is {vllm}; routing replay needs {least} or later")
    return None


def _numbers(version: str) -> tuple[int, ...]:
    release = version.partition("+")[0].split(".")
    return tuple(int(part) for part in release[:3] if part.isdecimal())


RULES = (
    Rule(
        "harness-bundle",
        "the harness is installed",
        "Every trial starts from its bundle.",
        "lego-rl harness install NAME",
        _bundle,
        _HERE,
    ),
    Rule(
        "template",
        "the policy fits, and the parser reads what its template writes",
        "The template decides what the policy was taught to write; a published name says less than the file does.",
        "set policy.tool_parser to the template's format",
        _template,
        _HERE,
    ),
    Rule(
        "tasks",
        "tasks can be read and tried, and their images are reachable",
        "An index that is older than its tasks, a task without its tests or its image is an infrastructure fault of "
        "every trial of it.",
        "mend the task it names, or make the index anew with lego-rl tasks index",
        _tasks,
        _HERE,
    ),
    Rule(
        "passes",
        "the training split has enough tasks for the steps",
        "verl stops with the last pass, whatever run.steps says; the schedule would end early without a word.",
        "make run.steps at most cluster.epochs × (tasks ÷ rollout.tasks_per_step)",
        _passes,
        _CLUSTER_HERE,
    ),
    Rule(
        "sandbox",
        "agents can be isolated here",
        "Isolation that cannot be established is an infrastructure fault, never a weaker rollout.",
        "lego-rl check sandbox says what to mend",
        _sandbox,
        _HERE,
    ),
    Rule(
        "room",
        "the machine has room for the trials at a time",
        "Memory and processes of sandboxes are the policy's limits; they have to be there to be given.",
        "lower rollout.concurrency",
        _room,
        _HERE,
    ),
    Rule(
        "versions",
        "verl and what it needs are the versions that were tried",
        "The plug-in goes by public names of verl, whose meaning changes between versions.",
        "set up verl's environment with scripts/setup_verl.sh, and name its Python in cluster.python",
        _versions,
        _CLUSTER_HERE,
    ),
)
