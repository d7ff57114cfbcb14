"""What is sent to a cluster: what it forbids, and that the API has every field that it names."""

import base64
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio import client

from lego_rl.messages import Json
from lego_rl.sandbox.kubernetes import lease, manifests, policies
from lego_rl.sandbox.kubernetes.access import NEEDED
from lego_rl.sandbox.kubernetes.labels import Identity, owner_of
from lego_rl.sandbox.kubernetes.plan import PodPlan
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.sandbox import Phase

DOCS = Path(__file__).parents[4] / "docs" / "kubernetes.md"
LEASE = {"apiVersion": lease.GROUP, "kind": "Lease", "name": "lego-run", "uid": "1"}
IDENTITY = Identity("lego-run", {"lego-rl.io/run": "lego-run"}, LEASE)
EVERYTHING = KubernetesSettings.model_validate(
    {
        "image": "registry/base:1", "runtime_class": "gvisor", "seccomp_profile": "lego.json",
        "pull_secret": "registry", "node_selector": {"pool": "rollouts"},
        "tolerations": [{"key": "rollouts", "operator": "Exists"}],
    }
)  # fmt: skip
PLAN = PodPlan("lego-pod", Phase.AGENT, "registry/base:1", "/app", Limits(), ("/opt/harness",), 7)
PHASES = (Phase.AGENT, Phase.GRADING, None)


def pods() -> Iterator[Mapping[str, Any]]:
    for settings in (KubernetesSettings(), EVERYTHING):
        for namespaces in (True, False):
            for phase in PHASES:
                plan = PodPlan(**{**vars(PLAN), "phase": phase})
                yield manifests.sandbox_pod(IDENTITY, plan, settings, user_namespaces=namespaces)
            yield manifests.sentinel_pod(IDENTITY, "registry/base:1", settings, user_namespaces=namespaces)


def unknown_fields(value: Json, kind: str, path: str = "") -> Iterator[str]:
    """What of `value` the client's model of the API does not have, or lacks."""
    if (inner := re.fullmatch(r"list\[(.*)\]", kind)) is not None:
        assert isinstance(value, list), path
        for number, each in enumerate(value):
            yield from unknown_fields(each, inner[1], f"{path}[{number}]")
    elif (model := getattr(client, kind, None)) is not None and hasattr(model, "attribute_map"):
        assert isinstance(value, dict), path
        names = {outside: name for name, outside in model.attribute_map.items()}
        for key, each in value.items():
            if key not in names:
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(each, model.openapi_types[names[key]], f"{path}.{key}")
        model(**{name: value[outside] for outside, name in names.items() if outside in value})  # what it lacks


@pytest.mark.parametrize("pod", list(pods()))
def test_a_pod_may_do_nothing_that_it_need_not(pod: Mapping[str, Any]) -> None:
    assert list(unknown_fields(dict(pod), "V1Pod")) == []
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is spec["shareProcessNamespace"] is False
    assert spec["securityContext"]["runAsUser"] == 1000 and spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    assert spec["terminationGracePeriodSeconds"] == 0 and spec["activeDeadlineSeconds"] > 0
    assert spec["restartPolicy"] == "Never"
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is security["privileged"] is False
        assert security["capabilities"] == {"drop": ["ALL"]} and security["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert container["resources"]["limits"].keys() == {"memory", "cpu", "ephemeral-storage"}
        assert "env" not in container and "envFrom" not in container
    for volume in spec["volumes"]:
        assert volume.get("configMap") or volume["emptyDir"]["sizeLimit"]


@pytest.mark.parametrize("phase", list(Phase))
def test_the_keeper_shares_nothing_that_it_can_write_with_the_agent(phase: Phase) -> None:
    plan = PodPlan(**{**vars(PLAN), "phase": phase})
    spec = manifests.sandbox_pod(IDENTITY, plan, EVERYTHING, user_namespaces=True)["spec"]
    work, keeper = ({each["name"]: each["readOnly"] for each in one["volumeMounts"]} for one in spec["containers"])
    shared = work.keys() & keeper.keys()
    assert {name for name in shared if not keeper[name]} == {"mounts"} and work["mounts"] is True
    assert keeper["tree"] is keeper["report"] is True and "spool" not in work


@pytest.mark.parametrize("mounts", [(), ("/opt/a", "/opt/b")])
def test_user_namespaces_bound_processes_where_there_are_any(mounts: tuple[str, ...]) -> None:
    plan = PodPlan(**{**vars(PLAN), "mounts": mounts})
    for namespaces, processes in ((True, "512"), (False, "0")):
        spec = manifests.sandbox_pod(IDENTITY, plan, EVERYTHING, user_namespaces=namespaces)["spec"]
        assert spec["containers"][0]["command"][-4] == processes
        assert ("hostUsers" in spec) is namespaces


def test_an_agent_may_reach_one_port_of_one_address() -> None:
    deny, agent = policies.deny_all(IDENTITY), policies.agent_policy(IDENTITY, "lego-pod", "10.0.0.1", 4711)
    for policy in (deny, agent, policies.open_policy(IDENTITY, "lego-pod"), policies.sentinel_policy(IDENTITY)):
        assert list(unknown_fields(policy, "V1NetworkPolicy")) == []
    assert deny["spec"]["podSelector"] == {"matchLabels": {"lego-rl.io/run": "lego-run"}}
    assert deny["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert deny["spec"]["ingress"] == deny["spec"]["egress"] == []
    assert agent["spec"]["policyTypes"] == ["Egress"]
    assert agent["spec"]["podSelector"]["matchLabels"]["lego-rl.io/sandbox"] == "lego-pod"
    assert agent["spec"]["egress"] == [
        {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 4711}]}
    ]


def test_everything_goes_with_the_lease() -> None:
    objects = [*pods(), manifests.programs(IDENTITY), policies.deny_all(IDENTITY), policies.sentinel_policy(IDENTITY)]
    for each in objects:
        assert each["metadata"]["ownerReferences"] == [IDENTITY.owner]
        assert each["metadata"]["labels"].items() >= IDENTITY.labels.items()
    assert list(unknown_fields(manifests.programs(IDENTITY), "V1ConfigMap")) == []
    assert list(unknown_fields(lease.new_lease(IDENTITY), "V1Lease")) == []


def test_a_manifest_with_a_field_that_the_api_lacks_is_found() -> None:
    pod = manifests.sandbox_pod(IDENTITY, PLAN, EVERYTHING, user_namespaces=True)
    pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    assert list(unknown_fields(pod, "V1Pod")) == [".spec.containers[0].securityContext.readOnlyRootFileSystem"]


def test_the_documented_role_is_what_is_needed() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    role = yaml.safe_load(text)
    assert list(unknown_fields(role, "V1Role")) == []
    granted = {
        (group, resource): tuple(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == dict(NEEDED)


@pytest.mark.parametrize("name", ["", "UPPER case", "-dash", "x" * 64])
def test_an_owner_is_the_value_of_a_label(name: str) -> None:
    with pytest.raises(ValueError, match="owner"):
        KubernetesSettings(owner=name)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", owner_of(KubernetesSettings()))


@pytest.mark.parametrize("name", [path.name for path in manifests.PROGRAM_FILES if not path.name.startswith("inside_")])
def test_the_programs_of_pods_find_what_they_import_among_themselves(name: str, tmp_path: Path) -> None:
    data = manifests.programs(IDENTITY)["binaryData"]
    assert isinstance(data, dict)
    for file, content in data.items():
        (tmp_path / file).write_bytes(base64.b64decode(str(content)))
    started = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='imported')"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", started, tmp_path / name], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
