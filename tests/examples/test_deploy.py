"""Holds the files of examples/deploy to their formats and to the command that they run."""

import asyncio
import configparser
import copy
import json
import re
import shlex
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.groups import committed_offsets, describe_group
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.health import HealthServer
from groupsdk.cli.run import RunOptions, run
from groupsdk.testing.ports import ReservedPorts
from tests.cli.peers import produce
from tests.examples.manifest_schemas import COMPOSE, name_of, problems, schemas
from tests.examples.process import ROOT, ExampleProcess
from tests.support.cases import each_case
from tests.support.go import installed_go
from tests.support.topics import create_topic
from tests.support.workers import eventually


FOLDER = ROOT / "examples/deploy"
PAGE = ROOT / "docs/deployment.md"
MANIFESTS: Final = ("deployment.yaml", "statefulset.yaml", "scaledobject.yaml")
KUBECONFORM: Final = "v0.8.0"
RUN: Final = ["groupsdk", "run", "jobs:handle", "--group", "jobs", "--topic", "orders"]
OPTIONS: Final = {name for each in run.params for name in each.opts}
VARIABLES: Final = {each.envvar for each in run.params if each.envvar}


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def workload(name: str) -> dict[str, Any]:
    (found,) = (each for each in manifests(name) if each["kind"] in ("Deployment", "StatefulSet"))
    return found


def container(given: dict[str, Any]) -> dict[str, Any]:
    (found,) = given["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]  # of YAML


WORKLOADS = pytest.mark.parametrize("name", ["deployment.yaml", "statefulset.yaml"])


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_valid_by_the_schemas_of_kubernetes_and_keda(name: str) -> None:
    for each in manifests(name):
        assert problems(name_of(each), each) == []


def test_yaml_of_the_page_is_valid_by_the_same_schemas() -> None:
    found = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for each in map(yaml.safe_load, found):
        assert problems(name_of(each) if "kind" in each else COMPOSE, each) == []


FAULTS: Final[tuple[tuple[Callable[[Any], Any], str], ...]] = (
    (lambda c: c.update(livenesProbe={}), "'livenesProbe' was unexpected"),
    (lambda c: c.pop("name"), "'name' is a required property"),
    (lambda c: c["ports"][0].update(containerPort="8080"), "'8080' is not of type"),
    (lambda c: c.update(env={"A": "b"}), "is not of type 'array'"),
    (lambda c: c["resources"].update(limits=[]), "is not of type 'object'"),
)


@each_case(("plant", "told"), FAULTS)
def test_fault_that_is_planted_in_a_deployment_is_found(
    plant: Callable[[Any], Any], told: str
) -> None:
    broken = copy.deepcopy(workload("deployment.yaml"))
    plant(container(broken))
    (problem,) = problems(name_of(broken), broken)
    assert told in problem


def test_fault_that_is_planted_in_a_scaled_object_or_compose_file_is_found() -> None:
    (scaled,) = manifests("scaledobject.yaml")
    scaled["spec"]["triggers"][0]["metadata"].update(lagTreshold="5", offsetResetPolicy="none")
    scaled["spec"]["minReplicas"] = 1
    assert {each.split(": ")[0] for each in problems(name_of(scaled), scaled)} == {
        "$.spec",
        "$.spec.triggers[0].metadata",
        "$.spec.triggers[0].metadata.offsetResetPolicy",
    }
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    compose["services"]["jobs"]["enviroment"] = {}
    (problem,) = problems(COMPOSE, compose)
    assert "'enviroment' was unexpected" in problem


@pytest.mark.go
@pytest.mark.slow  # it is compiled first
def test_kubeconform_accepts_the_manifests_and_finds_a_planted_fault(tmp_path: Path) -> None:
    program = installed_go("github.com/yannh/kubeconform/cmd/kubeconform", KUBECONFORM, tmp_path)
    for name, schema in schemas().items():
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))
    places = f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    broken = tmp_path / "broken.yaml"
    broken.write_text((FOLDER / "deployment.yaml").read_text().replace("replicas: 3", "replica: 3"))

    def checked(*files: Path) -> tuple[int, str]:
        command = [str(program), "-strict", "-schema-location", places, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert checked(*(FOLDER / each for each in MANIFESTS)) == (0, "")
    code, told = checked(broken)
    assert code == 1
    assert "'replica' not allowed" in told


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
    assert spec["scaleTargetRef"]["name"] == workload("deployment.yaml")["metadata"]["name"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "kafka"
    metadata = trigger["metadata"]
    ran = container(workload("deployment.yaml"))
    assert [metadata["consumerGroup"], metadata["topic"]] == [RUN[4], RUN[6]]
    assert metadata["bootstrapServers"] == ran["env"][0]["value"]


def test_compose_file_builds_the_image_and_waits_for_kafka() -> None:
    compose: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    assert problems(COMPOSE, compose) == []
    services = compose["services"]
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


@dataclass(frozen=True)
class Ran:
    """What a file of the folder has a container or a service run."""

    command: list[str]
    environment: dict[str, str]


def of_workload(name: str) -> Ran:
    given = container(workload(name))
    return Ran(given["command"], {e["name"]: e.get("value", "jobs-0") for e in given["env"]})


def of_compose() -> Ran:
    (line,) = re.findall(r"^CMD (.*)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    services: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return Ran(json.loads(line), services["jobs"]["environment"])


def of_unit() -> Ran:
    text = (FOLDER / "jobs@.service").read_text().replace("%i", "0")
    found = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    program, *words = shlex.split(unit()["Service"]["ExecStart"])
    return Ran([Path(program).name, *words], found)


SOURCES: Final[Mapping[str, Callable[[], Ran]]] = {
    "deployment": lambda: of_workload("deployment.yaml"),
    "statefulset": lambda: of_workload("statefulset.yaml"),
    "compose": of_compose,
    "unit": of_unit,
}


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def offsets(printed: list[str]) -> list[int]:
    """Return the offsets of the records that jobs.py has printed."""
    found = [re.fullmatch(r"\S+ (\d+) b'0'", each) for each in printed]
    return [int(each[1]) for each in found if each is not None]


def read_one(servers: str, topic: str, process: ExampleProcess) -> list[int]:
    produce(servers, topic, {0: 1})
    return offsets(process.lines)


async def left_behind(servers: str, group_id: str, topic: str) -> tuple[list[str | None], int]:
    """Return the instance ids of a group's members, and its committed offset."""
    async with ClusterClient({"bootstrap.servers": servers}, timeout_s=30) as client:
        group = await describe_group(client, group_id)
        committed = await committed_offsets(client, group_id)
    return [each.instance_id for each in group.members], committed[TopicPartition(topic, 0)].offset


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.mark.timeout(300)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fixture", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_command_answers_its_probes_reads_and_drains_on_sigterm(
    source: str, fixture: str, request: pytest.FixtureRequest, group_id: str
) -> None:
    servers = request.getfixturevalue(fixture).bootstrap_servers
    create_topic(servers, group_id)
    ran = SOURCES[source]()
    with closing(ReservedPorts(1)) as reserved:
        (port,) = reserved.ports
        here = {"jobs": group_id, "orders": group_id, "0.0.0.0:8080": f"127.0.0.1:{port}"}
        assert ran.command[0] == "groupsdk"
        command = ["-m", "groupsdk", *(here.get(each, each) for each in ran.command[1:])]
        # it prints a record at once, and no line of the log comes between its words
        mine = {"GROUPSDK_BOOTSTRAP_SERVERS": servers, "PYTHONUNBUFFERED": ""}
        environment = {**ran.environment, **mine}
        with ExampleProcess(*command, cwd=FOLDER, environment=environment) as process:
            if "--health" in command:
                eventually(lambda: status(f"http://127.0.0.1:{port}/health/ready") == 200)
                assert status(f"http://127.0.0.1:{port}/health/live") == 200
            # a consumer that begins at the end reads what is written after it began
            eventually(lambda: read_one(servers, group_id, process))
            assert process.end(signal.SIGTERM) == 0
    read = offsets(process.lines)
    instance = ran.environment.get("GROUPSDK_INSTANCE_ID")
    members = [] if instance is None else [instance]
    assert asyncio.run(left_behind(servers, group_id, group_id)) == (members, read[-1] + 1)
