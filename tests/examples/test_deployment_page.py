"""Holds docs/deployment.md to formats and to the commands that it names."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from groupsdk.cli.run import RunOptions, run
from tests.examples.process import ROOT


PAGE = ROOT / "docs/deployment.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_stateful_set_selects_its_pods_and_probes_what_the_worker_answers() -> None:
    _, text = blocks("yaml")
    given: Any = yaml.safe_load(text)
    spec = given["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    (container,) = spec["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for kind, path in {"livenessProbe": "/health/live", "readinessProbe": "/health"}.items():
        asked = container[kind]["httpGet"]
        assert asked["path"] == path
        assert f"0.0.0.0:{ports[asked['port']]}" in container["command"]
    volumes = {each["name"] for each in spec["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_services_of_compose_name_each_other() -> None:
    text, _ = blocks("yaml")
    services: Any = yaml.safe_load(text)["services"]
    assert set(services["jobs"]["depends_on"]) <= set(services)
    listener = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    address = services["jobs"]["environment"]["GROUPSDK_BOOTSTRAP_SERVERS"]
    assert listener == f"PLAINTEXT://{address}"
    assert services["jobs"]["stop_grace_period"] == "40s"


def test_the_unit_is_one_and_runs_what_the_image_runs() -> None:
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert set(unit) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.startswith("/")
    (image,) = blocks("dockerfile")
    found = re.search(r"^CMD (\[.*\])$", image, re.MULTILINE)
    assert found is not None
    assert json.loads(found[1]) == [Path(program).name, *words]
    # how long it may take to end is bounded by less than what the supervisors wait
    assert unit["Service"]["TimeoutStopSec"] == "40"
    assert RunOptions().shutdown_timeout < 40
    known = {name for each in run.params for name in each.opts}
    assert {each for each in words if each.startswith("--")} <= known


def test_the_worker_knows_the_options_of_the_page() -> None:
    _, text = blocks("yaml")
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["command"]
    assert command == "groupsdk"
    options = [each for each in arguments if each.startswith("--")]
    said = subprocess.run(
        [sys.executable, "-m", "groupsdk", arguments[0], "--help"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for option in options:
        assert option in said
    names = [each["name"] for each in container["env"] if each["name"].startswith("GROUPSDK_")]
    for name in names:
        assert name in said
