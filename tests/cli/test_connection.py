"""Tests where the settings of a connection come from: options over --set over the file, and the environment."""

from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.cli.connection import gather_settings, split_pairs
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError


def settings_of(mocker: MockerFixture, *words: str) -> dict[str, Any]:
    """Runs a command; returns the settings that it would connect with."""
    run = mocker.patch("groupsdk.cli.connection.Connection.run", autospec=True, return_value=[])
    assert main(["groups", "list", "--json", *words]) == 0
    found: dict[str, Any] = run.call_args.args[0].settings
    mocker.stop(run)
    return found


def test_options_go_over_pairs_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers: a:1\nsecurity.protocol = SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '  username="u" password="p";\n'
        "group.id=g\n"
    )
    found, others = gather_settings(
        str(path),
        ["bootstrap.servers=b:1"],
        {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": None},
    )
    assert found == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    assert others == {"group.id": "g"}


def test_a_consumers_settings_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("bootstrap.servers=a:1\nfetch.min.bytes=1\nkey.deserializer=x\n")
    others = {"fetch.min.bytes": "1", "key.deserializer": "x"}
    assert gather_settings(str(path), [], {}) == ({"bootstrap.servers": "a:1"}, others)


def test_options_and_environment(mocker: MockerFixture, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("request.timeout.ms=5\n")
    environment = {
        "GROUPSDK_BOOTSTRAP_SERVERS": "e:1",
        "GROUPSDK_SASL_PASSWORD": "secret",
        "GROUPSDK_CONFIG": str(path),
    }
    mocker.patch.dict("os.environ", environment)
    found = settings_of(mocker, "--security-protocol", "sasl_plaintext", "--sasl-username", "u")
    assert found == {
        "bootstrap.servers": "e:1",
        "request.timeout.ms": "5",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": "u",
        "sasl.password": "secret",
    }
    # as Kafka's tools spell them
    words = ("--bootstrap-server", "o:1", "--command-config", str(path))
    assert settings_of(mocker, *words)["bootstrap.servers"] == "o:1"


def test_pairs_are_split() -> None:
    assert split_pairs("--set", ["a = b=c ", "d="]) == {"a": "b=c", "d": ""}
    for text in ("a", "=b"):
        with pytest.raises(ConfigError, match="KEY=VALUE"):
            split_pairs("--set", [text])
