"""Machines, GPUs, and what Ray and verl make of them."""

from lego_rl.config.cluster import Fsdp2Trainer, SeparateAsyncMode
from lego_rl.config.preflight.rule import Facts, Finding, Rule, fatal, ok, warn


def _node_sums(facts: Facts) -> Finding:
    cluster = facts.cluster
    wanted = cluster.training_nodes + cluster.rollout_nodes
    said = f"{cluster.training_nodes} training + {cluster.rollout_nodes} rollout"
    if wanted != cluster.nodes:
        return fatal(f"{said} nodes are {wanted}, cluster.nodes is {cluster.nodes}", f"set cluster.nodes = {wanted}")
    return ok(f"{said} = {cluster.nodes} node(s) of {cluster.gpus_per_node} GPU(s)")


def _ray_spans_nodes(facts: Facts) -> Finding:
    cluster = facts.cluster
    if cluster.nodes > 1 and cluster.ray_address is None and cluster.device == "cuda":
        return fatal(f"{cluster.nodes} nodes, and the run would start a Ray of one machine")
    return ok(
        f"Ray is joined at {cluster.ray_address}"
        if cluster.ray_address
        else "a Ray of this machine is started for the run"
    )


def _device(facts: Facts) -> Finding:
    cluster, transfer = facts.cluster, facts.cluster.weight_transfer
    if cluster.device == "cuda":
        if transfer == "lego_file":
            return fatal(
                "lego_file carries weights without a GPU, and cluster.device is cuda", 'set weight_transfer = "nccl"'
            )
        return ok("CUDA, served by vLLM")
    if not isinstance(cluster.trainer, Fsdp2Trainer):
        return fatal(f"{cluster.trainer.kind} has no CPU kernels", 'set cluster.trainer.kind = "fsdp2"')
    if cluster.log_probs == "chunked":
        return fatal("chunked log-probs are GPU kernels", 'set cluster.log_probs = "whole"')
    return ok("the CPU, for trying things out")


def _gateway_address(facts: Facts) -> Finding:
    sandbox, cluster = facts.recipe.sandbox, facts.cluster
    if sandbox.environment == "kubernetes" and sandbox.kubernetes.advertise is not None and cluster.nodes > 1:
        return fatal(
            f"agent-loop workers run on {cluster.nodes} nodes, and all their gateways would be sought at "
            f"{sandbox.kubernetes.advertise}"
        )
    where = "of each worker's own machine" if sandbox.environment == "kubernetes" else "on the worker's machine itself"
    return ok(f"a gateway for each worker, reached at an address {where}")


def _transfer(facts: Facts) -> Finding:
    cluster, transfer = facts.cluster, facts.cluster.weight_transfer
    is_async = isinstance(cluster.mode, SeparateAsyncMode)
    if is_async and transfer == "naive":
        fitting = "nccl" if cluster.device == "cuda" else "lego_file"
        return fatal(
            "naive hands weights over within a process, and servers have GPUs of their own",
            f'set cluster.weight_transfer = "{fitting}"',
        )
    if not is_async and transfer != "naive":
        return warn(f"{transfer} carries weights between GPUs where trainer and servers share them")
    return ok(f"weights go to the servers by {transfer}")


RULES = (
    Rule(
        "node-sums",
        "nodes = training nodes + rollout nodes",
        "verl takes trainer and servers from two pools. Where the sum is off it waits for GPUs that never come, or "
        "leaves some idle.",
        "make cluster.nodes the sum of cluster.training_nodes and cluster.mode.rollout_nodes",
        _node_sums,
    ),
    Rule(
        "ray-nodes",
        "several nodes join one Ray",
        "Without an address verl starts a Ray of its own, which has the GPUs of one machine and waits for the others.",
        'start Ray on every node (docs/cluster.md) and set cluster.ray_address = "auto"',
        _ray_spans_nodes,
    ),
    Rule(
        "device",
        "trainer, kernels and transfer of weights fit the device",
        "A GPU kernel on the CPU, or the reverse, is found out when the model is built, minutes into the run.",
        "choose what runs on cluster.device",
        _device,
    ),
    Rule(
        "weight-transfer",
        "how weights go to the servers fits the mode",
        "verl refuses naive where servers are apart. Where they are not, anything else copies in vain.",
        'set cluster.weight_transfer = "naive" with sync, "nccl" with separate_async',
        _transfer,
    ),
    Rule(
        "gateway-address",
        "every worker's gateway is reached at its own address",
        "A gateway listens on the machine of its agent-loop worker. One address for all is the wrong one for most.",
        "leave sandbox.kubernetes.advertise out: each worker finds the address that leads to the cluster",
        _gateway_address,
    ),
)
