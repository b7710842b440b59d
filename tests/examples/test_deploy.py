"""Holds the files of examples/deploy to their formats and to the command that they run."""

import configparser
import copy
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from groupsdk.cli.health import HealthServer
from groupsdk.cli.run import RunOptions, run
from tests.examples.kubernetes_types import problems
from tests.examples.process import ROOT


FOLDER = ROOT / "examples/deploy"
RUN: Final = ["groupsdk", "run", "jobs:handle", "--group", "jobs", "--topic", "orders"]
OPTIONS: Final = {name for each in run.params for name in each.opts}
VARIABLES: Final = {each.envvar for each in run.params if each.envvar}

SCALED_OBJECT: Final[dict[str, Any]] = {
    "scaleTargetRef": {"apiVersion", "kind", "name", "envSourceContainerName"},
    "pollingInterval": int,
    "cooldownPeriod": int,
    "initialCooldownPeriod": int,
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "idleReplicaCount": int,
    "fallback": {"failureThreshold", "replicas", "behavior"},
    "advanced": {
        "restoreToOriginalReplicaCount",
        "horizontalPodAutoscalerConfig",
        "scalingModifiers",
    },
    "triggers": list,
}
KAFKA_TRIGGER: Final = {
    "required": {"bootstrapServers", "consumerGroup"},
    "optional": {
        *("topic", "lagThreshold", "activationLagThreshold", "offsetResetPolicy", "version"),
        *("allowIdleConsumers", "scaleToZeroOnInvalidOffset", "excludePersistentLag"),
        *("limitToPartitionsWithLag", "partitionLimitation", "sasl", "tls"),
    },
}
"""The fields of a ScaledObject and of its Kafka trigger, in KEDA 2.22."""
SERVICE_KEYS: Final = {
    *("build", "command", "depends_on", "deploy", "environment", "healthcheck", "image", "ports"),
    *("restart", "stop_grace_period", "volumes"),
}
"""The keys of a service that the compose file may use, all of the Compose Specification."""


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def workload(name: str) -> dict[str, Any]:
    (found,) = (each for each in manifests(name) if each["kind"] in ("Deployment", "StatefulSet"))
    return found


def container(given: dict[str, Any]) -> dict[str, Any]:
    (found,) = given["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]  # of YAML


WORKLOADS = pytest.mark.parametrize("name", ["deployment.yaml", "statefulset.yaml"])


@WORKLOADS
def test_manifest_has_the_fields_and_types_of_kubernetes(name: str) -> None:
    for each in manifests(name):
        assert problems(each) == []


def test_fault_that_is_planted_in_a_manifest_is_found() -> None:
    for plant, told in (
        (lambda c: c.update(livenesProbe={}), "livenesProbe is unknown"),
        (lambda c: c.pop("name"), "name is missing"),
        (lambda c: c["ports"][0].update(containerPort="8080"), "must be of type int, not '8080'"),
        (lambda c: c.update(env={}), "env must be a list"),
        (lambda c: c["resources"].update(limits=[]), "limits must be a mapping"),
    ):
        broken = copy.deepcopy(workload("deployment.yaml"))
        plant(container(broken))  # type: ignore[no-untyped-call]
        (problem,) = problems(broken)
        assert told in problem


@WORKLOADS
def test_pods_are_selected_probed_where_they_answer_and_given_time_to_end(name: str) -> None:
    given = workload(name)
    template = given["spec"]["template"]
    assert given["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    ran = container(given)
    (port,) = ran["ports"]
    command = ran["command"]
    assert f"0.0.0.0:{port['containerPort']}" == command[command.index("--health") + 1]
    for probe, path in (("livenessProbe", "/health/live"), ("readinessProbe", "/health/ready")):
        assert ran[probe]["httpGet"] == {"path": path, "port": port["name"]}
        assert path in (HealthServer.__doc__ or "")
    limit = float(command[command.index("--shutdown-timeout") + 1])
    assert limit < template["spec"]["terminationGracePeriodSeconds"]


@WORKLOADS
def test_command_and_its_variables_are_known(name: str) -> None:
    ran = container(workload(name))
    assert ran["command"][: len(RUN)] == RUN
    assert {each for each in ran["command"] if each.startswith("--")} <= OPTIONS
    assert {each["name"] for each in ran["env"]} <= VARIABLES


def test_pods_of_the_stateful_set_are_static_members_by_their_names() -> None:
    by_name = {each["name"]: each for each in container(workload("statefulset.yaml"))["env"]}
    instance = by_name["GROUPSDK_INSTANCE_ID"]
    assert instance["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    service, given = manifests("statefulset.yaml")
    assert given["spec"]["serviceName"] == service["metadata"]["name"]


def test_scaled_object_scales_the_deployment_by_the_lag_of_its_group() -> None:
    (given,) = manifests("scaledobject.yaml")
    assert (given["apiVersion"], given["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = given["spec"]
    assert set(spec) <= set(SCALED_OBJECT)
    for key, value in spec.items():
        kind = SCALED_OBJECT[key]
        assert isinstance(value, kind) if isinstance(kind, type) else set(value) <= kind, key
    assert spec["scaleTargetRef"]["name"] == workload("deployment.yaml")["metadata"]["name"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "kafka"
    metadata = trigger["metadata"]
    assert KAFKA_TRIGGER["required"] <= set(metadata)
    assert set(metadata) <= KAFKA_TRIGGER["required"] | KAFKA_TRIGGER["optional"]
    assert all(isinstance(each, str) for each in metadata.values())
    ran = container(workload("deployment.yaml"))
    assert [metadata["consumerGroup"], metadata["topic"]] == [RUN[4], RUN[6]]
    assert metadata["bootstrapServers"] == ran["env"][0]["value"]


def test_compose_file_builds_the_image_and_waits_for_kafka() -> None:
    services: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    for each in services.values():
        assert set(each) <= SERVICE_KEYS
    jobs, kafka = services["jobs"], services["kafka"]
    address = jobs["environment"]["GROUPSDK_BOOTSTRAP_SERVERS"]
    assert kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{address}"
    assert jobs["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    assert "healthcheck" in kafka
    assert RunOptions().shutdown_timeout < int(jobs["stop_grace_period"].removesuffix("s"))
    assert set(jobs["environment"]) <= VARIABLES


def test_image_runs_the_command() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    (line,) = (each for each in text.splitlines() if each.startswith("CMD "))
    words = yaml.safe_load(line.removeprefix("CMD "))
    assert words[: len(RUN)] == RUN
    assert {each for each in words if each.startswith("--")} <= OPTIONS


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(FOLDER / "jobs@.service")
    return found


def test_unit_runs_the_command_and_waits_for_longer_than_it_may_take() -> None:
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.startswith("/")
    assert [Path(program).name, *words] == RUN
    assert RunOptions().shutdown_timeout < int(service["TimeoutStopSec"])


def test_unit_is_valid_for_systemd(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        return  # the other test of the unit runs everywhere
    text = (FOLDER / "jobs@.service").read_text()
    here = tmp_path / "jobs@.service"
    here.write_text(text.replace("/srv/jobs/.venv/bin/groupsdk", shutil.which("true") or ""))
    done = subprocess.run([program, "verify", here], capture_output=True, text=True, check=False)
    mine = [line for line in done.stderr.splitlines() if "jobs@" in line]
    assert (done.returncode, mine) == (0, [])
