"""Holds docs/deployment.md to formats and to the commands that it names."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import yaml

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
    assert listener == f"PLAINTEXT://{services['jobs']['environment']['BOOTSTRAP']}"


def test_the_unit_is_one_and_the_image_starts_python_itself() -> None:
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert set(unit) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    assert shlex.split(unit["Service"]["ExecStart"])[0].startswith("/")
    (image,) = blocks("dockerfile")
    assert re.search(r'^CMD \["python", ', image, re.MULTILINE)


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
