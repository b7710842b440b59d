"""Tests `groupsdk doctor`: on clusters that are well, out of reach, secured, and with settings that are wrong."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Producer

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock, WallClock
from groupsdk.testing import LocalKafka
from tests.cli.conftest import Run


pytestmark = pytest.mark.timeout(300)


def levels(found: list[dict[str, Any]]) -> dict[str, str]:
    """The worst level of each check."""
    order = ("ok", "warning", "error")
    worst: dict[str, str] = {}
    for each in found:
        name = each["check"]
        worst[name] = max(worst.get(name, "ok"), each["level"], key=order.index)
    return worst


def test_a_cluster_that_is_well(run: Run) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", 1)
        servers = ("--bootstrap-servers", broker.bootstrap_servers)
        found = run("doctor", "--group", "g", "--topic", "t", "--json", *servers).json
        assert set(levels(found).values()) == {"ok"}
        assert {each["check"] for each in found} == {
            *("reach", "versions", "topics", "rights", "clock", "timeouts", "group")
        }
        shown = run("doctor", *servers, "--topic", "none", code=4).out
        assert "there is no topic 'none'" in shown
        assert "-> create it, or allow it" in shown


def test_a_cluster_that_is_out_of_reach(run: Run) -> None:
    shown = run("doctor", "--bootstrap-servers", "127.0.0.1:1", code=4).out
    assert "Connection refused" in shown
    assert "check host and port" in shown
    told = run("doctor", code=2).err
    assert "give --bootstrap-servers" in told


@pytest.mark.parametrize(
    ("port", "protocol"), [("SASL_PLAINTEXT", "PLAINTEXT"), ("PLAINTEXT", "SASL_PLAINTEXT")]
)
def test_a_port_of_another_security_protocol(run: Run, port: str, protocol: str) -> None:
    settings = {"listeners": f"{port}://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    with EmbeddedBroker(settings, users={"alice": "secret"}) as broker:
        servers = ("--bootstrap-servers", broker.bootstrap_servers, "--timeout", "0.5")
        options = ["--security-protocol", protocol]
        if protocol == "SASL_PLAINTEXT":
            options += ["--sasl-mechanism", "PLAIN", "--sasl-username", "alice"]
            options += ["--set", "sasl.password=secret"]
        found = run("doctor", *servers, *options, "--json", code=4).json
    assert (found[-1]["check"], found[-1]["level"]) == ("security", "error")
    assert f"set security.protocol to {port}" in found[-1]["text"]
    assert "set security.protocol" in found[-1]["remedy"]


def test_a_broker_that_accepts_and_never_answers_is_a_finding(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        shown = run(
            "doctor", "--bootstrap-servers", servers, "--timeout", "0.5", "--all-groups", code=4
        )
    assert "no answer within 0.5 s" in shown.out
    assert "a broker accepts connections and does not answer" in shown.out


def test_groups_are_judged_by_name_by_pattern_and_all(run: Run) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", 1)
        servers = ("--bootstrap-servers", broker.bootstrap_servers)
        for group in ("orders-1", "orders-2", "payments"):
            run("groups", "reset", group, "--topic", "t", "--to-latest", "--execute", *servers)

        def judged(*words: str) -> list[str]:
            found = run("doctor", *words, "--json", *servers).json
            return [each["group"] for each in found if each["group"] is not None]

        assert judged("--group", "orders-*") == ["orders-1", "orders-2"]
        assert judged("--all-groups") == ["orders-1", "orders-2", "payments"]
        shown = run("doctor", "--group", "none", *servers).out
        assert "group 'none': it does not exist" in shown


def test_the_exit_code_tells_records_that_are_not_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # looked at two minutes from now, so that a deployment is over
    later = ManualClock(WallClock().now_ms() + 120_000)
    monkeypatch.setattr("groupsdk.verdict.collecting.WallClock", lambda: later)
    with EmbeddedBroker() as broker:
        broker.create_topic("t", 1)
        servers = ("--bootstrap-servers", broker.bootstrap_servers)
        run("groups", "reset", "g", "--topic", "t", "--to-latest", "--execute", *servers)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(1_194):
            producer.produce("t", b"x")
        assert not producer.flush(60)

        shown = run("doctor", "--group", "g", *servers, code=5).out

    assert "lag_without_members g: 1,194 records behind in 1 partition, and no members" in shown
    assert "nothing is read" in shown
    assert "-> start the consumers" in shown


def test_settings_of_a_consumer_are_checked(run: Run, tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        path = tmp_path / "consumer.properties"
        path.write_text(
            f"bootstrap.servers={broker.bootstrap_servers}\ngroup.id=g\nsession.timeout.ms=9000\n"
            "heartbeat.interval.ms=4000\nfetch.min.bytes=1\n"
        )
        found = run("doctor", "--config", str(path), "--json", code=4).json
        assert levels(found)["timeouts"] == "warning"
        assert "joining group 'g' is allowed" in {each["text"] for each in found}
        path.write_text(f"{path.read_text()}heartbeat.interval.ms=9000\n")
        found = run("doctor", "--config", str(path), "--json", code=4).json
        assert "must be less than" in found[-1]["text"]


def test_a_secured_kafka(
    secure_kafka: LocalKafka, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doctor(protocol: str, user: str, password: str, *words: str) -> list[dict[str, Any]]:
        monkeypatch.setenv("GROUPSDK_SASL_PASSWORD", password)
        servers = secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT")
        options = ("--security-protocol", protocol, "--sasl-username", user)
        given = ("--sasl-mechanism", "PLAIN", "--bootstrap-servers", servers, "--timeout", "20")
        found: list[dict[str, Any]] = run(
            "doctor", *options, *given, *words, "--json", code=None
        ).json
        return found

    found = doctor("SASL_PLAINTEXT", "alice", "alice-secret", "--group", "g")
    assert levels(found)["reach"] == levels(found)["rights"] == "ok"
    found = doctor("SASL_PLAINTEXT", "alice", "wrong")
    assert (found[-1]["check"], found[-1]["level"]) == ("security", "error")
    assert "sasl.username" in found[-1]["remedy"]
    found = doctor("SASL_PLAINTEXT", "mallory", "mallory-secret", "--group", "g", "--topic", "t")
    assert levels(found)["rights"] == "error"
    assert any("kafka-acls.sh" in each["remedy"] for each in found)
    # TLS to a port without
    found = doctor("SASL_SSL", "alice", "alice-secret")
    assert found[-1]["level"] == "error"


def test_doctor_explains_certificate_errors(run: Run, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = trustme.CA()
    for name, each in (("ca", authority), ("other", trustme.CA())):
        each.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    trusted = {"ca": "ca.pem"}

    def findings(
        names: tuple[str, ...], ends: datetime, ca: str, **settings: str
    ) -> dict[str, dict[str, str]]:
        issued = authority.issue_cert(*names, not_before=now - timedelta(99), not_after=ends)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
        broker_settings = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(tmp_path / "server.pem"),
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            **settings,
        }
        with EmbeddedBroker(broker_settings) as broker:
            servers = ("--bootstrap-servers", broker.bootstrap_servers, "--timeout", "20")
            words = ("--security-protocol", "SSL", "--ssl-ca-location", str(tmp_path / ca))
            told: list[dict[str, str]] = run("doctor", *servers, *words, "--json", code=None).json
        return {each["check"]: each for each in told}

    local, later = ("127.0.0.1", "localhost"), now + timedelta(365, 60)
    found = findings(local, later, **trusted)["security"]
    assert found["level"] == "ok"
    assert f"valid until {later:%Y-%m-%d}, 365 days" in found["text"]
    found = findings(local, now + timedelta(10), **trusted)["security"]
    assert (found["level"], "renew it" in found["remedy"]) == ("warning", True)
    for refused, text in (
        (findings(local, later, "other.pem"), "is not trusted"),
        (findings(("broker.example",), later, **trusted), "is not for '127.0.0.1'"),
        (findings(local, now - timedelta(1), **trusted), "outside its period of validity"),
    ):
        assert set(refused) == {"security"}, refused
        assert refused["security"]["level"] == "error"
        assert text in refused["security"]["text"]
        assert "ssl.c" in refused["security"]["remedy"]
    # the embedded broker closes the connection without an alert
    refused = findings(local, later, **trusted, **{"ssl.client.auth": "required"})
    assert "wants a client certificate (ssl_certificate_location)" in refused["reach"]["text"]
