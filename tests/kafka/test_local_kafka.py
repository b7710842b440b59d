"""LocalKafka starts a real broker, ends it, breaks it and lets in who may come in."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types miss its __all__
    AdminClient,
    ConfigResource,
)

from groupsdk.testing import BrokerStartError, LocalKafka, LocalKafkaError
from groupsdk.testing.probe import Probe
from tests.support.cases import with_long
from tests.support.topics import create_topic, read_records
from tests.support.workers import eventually


StartKafka = Callable[..., LocalKafka]
_TIMEOUT_S = 60.0


def _settings(servers: str, **settings: str) -> dict[str, Any]:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return {"bootstrap.servers": servers, "log_level": 0, **dotted}


def _brokers(servers: str, **settings: str) -> set[int]:
    return set(AdminClient(_settings(servers, **settings)).list_topics(timeout=_TIMEOUT_S).brokers)


def _produce(kafka: LocalKafka, topic: str, *values: bytes) -> None:
    failed: list[object] = []
    producer = Producer(_settings(kafka.bootstrap_servers))

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(_TIMEOUT_S) == 0
    assert not failed


def _values(kafka: LocalKafka, topic: str, count: int) -> list[bytes | None]:
    return [each.value() for each in read_records(kafka.bootstrap_servers, topic, count)]


def _refuses(servers: str, *codes: int, **settings: str) -> bool:
    """Return whether a client gets no metadata, and is told so with one of the codes.

    A broker that refuses also closes: librdkafka sees now the one first and now the other, and tries again.
    """
    seen: set[int] = set()
    client = AdminClient(
        _settings(servers, **settings) | {"error_cb": lambda error: seen.add(error.code())}
    )
    for _ in range(int(_TIMEOUT_S / 1.5)):
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1.5)
        client.poll(0)
        if seen & set(codes):
            return True
    return False


def test_local_kafka_answers(kafka: LocalKafka) -> None:
    assert _brokers(kafka.bootstrap_servers) == {1}


def test_settings_for_tests_reach_the_broker_and_can_be_overridden(own_kafka: StartKafka) -> None:
    kafka = own_kafka(properties={"group.max.session.timeout.ms": "77777"})
    with Probe("127.0.0.1", int(kafka.nodes[0].address("PLAINTEXT").split(":")[1])) as probe:
        assert probe.broker_ids() == {1}
    text = (kafka.directory / "node-1.properties").read_text()
    assert "group.max.session.timeout.ms=77777" in text
    assert "group.min.session.timeout.ms=1\n" in text


def _session_timeout(kafka: LocalKafka) -> str | None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    (found,) = admin.describe_configs([resource]).values()
    value: str | None = found.result()["broker.session.timeout.ms"].value
    return value


def test_halted_machine_costs_a_single_broker_nothing_until_it_is_started_again(
    own_kafka: StartKafka,
) -> None:
    """The first process may be halted for long; a later one waits for its session to end."""
    kafka = own_kafka()
    assert _session_timeout(kafka) == "30000"
    kafka.kill()
    kafka.start()
    assert _session_timeout(kafka) == "3000"
    given = own_kafka(properties={"broker.session.timeout.ms": "4567"})
    given.restart()
    assert _session_timeout(given) == "4567"


def test_restart_keeps_ports_and_data(own_kafka: StartKafka) -> None:
    kafka = own_kafka()
    servers = kafka.bootstrap_servers
    create_topic(kafka.bootstrap_servers, "kept")
    _produce(kafka, "kept", b"one", b"two")
    kafka.restart()
    assert kafka.bootstrap_servers == servers
    assert _values(kafka, "kept", 2) == [b"one", b"two"]


def test_kill_and_start_keep_data(own_kafka: StartKafka) -> None:
    kafka = own_kafka()
    create_topic(kafka.bootstrap_servers, "kept")
    _produce(kafka, "kept", b"one")
    kafka.kill()
    assert not kafka.nodes[0].running
    with pytest.raises(ConnectionRefusedError), kafka.nodes[0].probe():
        pass
    kafka.start()
    assert _values(kafka, "kept", 1) == [b"one"]


def test_paused_broker_is_silent_and_goes_on_when_resumed(own_kafka: StartKafka) -> None:
    kafka = own_kafka()
    with kafka.nodes[0].probe() as probe:
        probe.broker_ids()
        probe._socket.settimeout(0.5)
        kafka.pause()
        with pytest.raises(TimeoutError):
            probe.broker_ids()
    kafka.resume()
    kafka.wait_ready()
    assert _brokers(kafka.bootstrap_servers) == {1}


def test_paused_broker_can_be_killed_and_stopped(own_kafka: StartKafka) -> None:
    kafka = own_kafka()
    kafka.pause()
    kafka.kill()
    kafka.start()
    kafka.pause()
    kafka.stop()
    assert not kafka.nodes[0].running


def test_data_dir_is_kept_and_used_again(kafka_installed: None, tmp_path: Path) -> None:
    with LocalKafka(data_dir=tmp_path) as kafka:
        create_topic(kafka.bootstrap_servers, "kept")
        _produce(kafka, "kept", b"one")
    with LocalKafka(data_dir=tmp_path) as kafka:
        assert _values(kafka, "kept", 1) == [b"one"]


def test_temporary_directory_is_removed(own_kafka: StartKafka) -> None:
    kafka = own_kafka()
    directory = kafka.directory
    assert directory.is_dir()
    kafka.close()
    assert not directory.exists()


# The first time it fetches another Kafka.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    # the command line tools of the second are not on Maven Central
    "version",
    with_long(["4.1.0", "4.4.0"], "4.1.0"),
)
def test_local_kafka_of_another_version_answers(own_kafka: StartKafka, version: str) -> None:
    kafka = own_kafka(version=version)
    assert _brokers(kafka.bootstrap_servers) == {1}


def test_failed_start_shows_the_log(kafka_installed: None) -> None:
    kafka = LocalKafka(properties={"log.segment.bytes": "none"})
    with pytest.raises(
        BrokerStartError, match=r"(?s)ended with status 1.*log\.segment\.bytes"
    ) as raised:
        kafka.start()
    assert "node-1.log" in str(raised.value)


def test_coordinator_log_on_request(own_kafka: StartKafka, group_id: str) -> None:
    kafka = own_kafka(log=True)
    consumer = Consumer(_settings(kafka.bootstrap_servers, group_id=group_id))
    try:
        create_topic(kafka.bootstrap_servers, "watched")
        consumer.subscribe(["watched"])
        consumer.poll(0)
        while group_id not in kafka.nodes[0].log_file.read_text():
            consumer.poll(0.1)
    finally:
        consumer.close()


def test_use_before_start_and_bad_arguments() -> None:
    with pytest.raises(LocalKafkaError, match="call start"):
        _ = LocalKafka().bootstrap_servers
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        LocalKafka(nodes=0)
    with pytest.raises(ValueError, match=r"must be one of PLAINTEXT, SSL, .* not 'TLS'"):
        LocalKafka(listeners={"SECURE": "TLS"})
    with pytest.raises(ValueError, match="is not a listener"):
        LocalKafka(advertised={"OTHER": [("127.0.0.1", 1)]})
    with pytest.raises(ValueError, match="letters, digits"):
        LocalKafka(users={"admin": 'a"b'})
    with pytest.raises(ValueError, match=r"form 4\.3\.1"):
        LocalKafka(version="latest").start()


def test_broker_does_not_outlive_its_process(kafka_installed: None) -> None:
    program = textwrap.dedent("""
        import sys
        from groupsdk.testing import LocalKafka
        kafka = LocalKafka()
        kafka.start()
        kafka.pause()
        node = kafka.nodes[0]
        print(node.pid, node.layout.internal_port, kafka.directory, flush=True)
        sys.stdin.read()
    """)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=-1, stdout=-1, text=True, cwd=root
    ) as parent:
        assert parent.stdout is not None
        pid, port, directory = parent.stdout.readline().split()
        with socket.create_connection(("127.0.0.1", int(port)), timeout=_TIMEOUT_S) as connection:
            parent.send_signal(signal.SIGKILL)
            # The end of the broker's process ends its connections; a paused one would keep them.
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
    eventually(lambda: not _alive(int(pid)) and not Path(directory).exists())


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that waits to be reaped by its parent does not."""
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


class TestCluster:
    def test_local_kafka_of_three_brokers_answers(self, kafka_cluster: LocalKafka) -> None:
        assert _brokers(kafka_cluster.bootstrap_servers) == {1, 2, 3}
        assert len(kafka_cluster.bootstrap_servers.split(",")) == 3

    @pytest.mark.parametrize("how", ["kill", "stop", "pause"])
    def test_groups_move_to_another_node(
        self, kafka_cluster: LocalKafka, group_id: str, how: str
    ) -> None:
        before = kafka_cluster.coordinator_of(group_id)
        getattr(before, how)()
        kafka_cluster.wait_ready()
        after = kafka_cluster.coordinator_of(group_id)
        assert after.node_id != before.node_id

    def test_committed_offsets_move_with_the_group(
        self, kafka_cluster: LocalKafka, group_id: str
    ) -> None:
        topic = f"moving-{uuid.uuid4().hex}"
        create_topic(kafka_cluster.bootstrap_servers, topic)
        consumer = Consumer(_settings(kafka_cluster.bootstrap_servers, group_id=group_id))
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 42)], asynchronous=False)
            kafka_cluster.coordinator_of(group_id).kill()
            kafka_cluster.wait_ready()
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=_TIMEOUT_S)
            assert found.offset == 42
        finally:
            consumer.close()


_SASL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class TestSecurity:
    def test_plaintext_listener_of_local_kafka_answers(self, secure_kafka: LocalKafka) -> None:
        assert _brokers(secure_kafka.bootstrap_servers_of("PLAINTEXT")) == {1}

    def test_tls_listener_of_local_kafka_answers(self, secure_kafka: LocalKafka) -> None:
        servers = secure_kafka.bootstrap_servers_of("SSL")
        ca = str(secure_kafka.ca_file)
        assert _brokers(servers, security_protocol="SSL", ssl_ca_location=ca) == {1}

    def test_tls_refuses_who_does_not_know_the_authority(self, secure_kafka: LocalKafka) -> None:
        servers = secure_kafka.bootstrap_servers_of("SSL")
        assert _refuses(servers, KafkaError._SSL, security_protocol="SSL")

    @pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
    @pytest.mark.parametrize("mechanism", _SASL)
    def test_password_listener_of_local_kafka_answers(
        self, secure_kafka: LocalKafka, protocol: str, mechanism: str
    ) -> None:
        settings = {
            "security_protocol": protocol,
            "ssl_ca_location": str(secure_kafka.ca_file),
            "sasl_mechanism": mechanism,
            "sasl_username": "alice",
        }
        servers = secure_kafka.bootstrap_servers_of(protocol)
        assert _brokers(servers, **settings, sasl_password="alice-secret") == {1}
        assert _refuses(servers, KafkaError._AUTHENTICATION, **settings, sasl_password="wrong")

    @pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
    def test_token_listener_of_local_kafka_answers(
        self, secure_kafka: LocalKafka, protocol: str
    ) -> None:
        settings = {
            "security.protocol": protocol,
            "ssl.ca.location": str(secure_kafka.ca_file),
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        }
        servers = secure_kafka.bootstrap_servers_of(protocol)
        client = AdminClient(_settings(servers) | settings)
        assert set(client.list_topics(timeout=_TIMEOUT_S).brokers) == {1}

    def test_expired_token_is_refused_by_local_kafka(self, secure_kafka: LocalKafka) -> None:
        servers = secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT")
        errors: list[KafkaError] = []
        # librdkafka checks the life time that it is told, and the broker the one in the token (2001).
        token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImlhdCI6MTAwMDAwMDAwMCwiZXhwIjoxMDAwMDAwMTAwfQ."
        client = AdminClient(
            _settings(servers)
            | {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (token, 4_102_444_800.0),
                "error_cb": errors.append,
            }
        )
        client.poll(0)

        def refused() -> bool:
            with pytest.raises(KafkaException):
                client.list_topics(timeout=1.5)
            client.poll(0)
            return KafkaError._AUTHENTICATION in [error.code() for error in errors]

        eventually(refused, lambda: errors)

    def test_authorizer_refuses_a_group(self, secure_kafka: LocalKafka, group_id: str) -> None:
        settings = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "mallory",
            "sasl_password": "mallory-secret",
        }
        servers = secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT")
        client = AdminClient(_settings(servers, **settings))
        described = client.describe_consumer_groups([group_id], request_timeout=_TIMEOUT_S)
        with pytest.raises(KafkaException) as raised:
            described[group_id].result(_TIMEOUT_S)
        assert raised.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    def test_users_survive_a_restart(self, own_kafka: StartKafka) -> None:
        kafka = own_kafka(listeners="SASL_PLAINTEXT")
        kafka.kill()
        kafka.start()
        assert _brokers(
            kafka.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="alice",
            sasl_password="alice-secret",
        ) == {1}

    def test_client_certificate_is_asked_for(self, own_kafka: StartKafka) -> None:
        kafka = own_kafka(listeners="SSL", ssl_client_auth="required")
        settings = {"security_protocol": "SSL", "ssl_ca_location": str(kafka.ca_file)}
        pem = str(kafka.client_certificate_file)
        assert _brokers(
            kafka.bootstrap_servers,
            **settings,
            ssl_certificate_location=pem,
            ssl_key_location=pem,
        ) == {1}
        # In TLS 1.3 the client has finished its handshake when the broker refuses.
        codes = (KafkaError._SSL, KafkaError._TRANSPORT)
        assert _refuses(kafka.bootstrap_servers, *codes, **settings)
