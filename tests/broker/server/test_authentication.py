"""Tests who may connect: each mechanism with librdkafka, and what a client may do before it is known."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.authentication import certificate_name
from groupsdk.broker.server.sasl_servers import TokenUser
from groupsdk.clock import ManualClock
from groupsdk.errors import ConfigError
from groupsdk.wire.messages.connection import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, connect


USERS = {"alice": "wonder,land=1", "bob": "builder"}
SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}


@pytest.fixture
def secured() -> Iterator[EmbeddedBroker]:
    """A broker that knows two users."""
    with EmbeddedBroker(
        {
            **SASL,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.unsecured": True,
        },
        users=USERS,
        topics={"t": 1},
    ) as broker:
        yield broker


def topics(broker: EmbeddedBroker, **settings: Any) -> set[str]:
    """Lists the topics with librdkafka; raises where it may not."""
    errors: list[str] = []
    given: dict[str, Any] = {key.replace("_", "."): value for key, value in settings.items()}
    given["bootstrap.servers"] = broker.bootstrap_servers
    given["error_cb"] = lambda error: errors.append(str(error))
    admin = AdminClient(given)
    try:
        # whoever is refused waits for all of it
        return set(admin.list_topics(timeout=10).topics)
    except KafkaException as error:
        admin.poll(0)
        raise PermissionError(f"{error} {errors}") from error


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_the_password_is_let_in(secured: EmbeddedBroker, mechanism: str) -> None:
    for user, password in USERS.items():
        assert "t" in topics(
            secured,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_username=user,
            sasl_password=password,
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [("alice", "builder"), ("carol", "builder")])
def test_nobody_else_is(secured: EmbeddedBroker, mechanism: str, user: str, password: str) -> None:
    with pytest.raises(PermissionError, match=r"(?i)authentication failed|invalid credentials"):
        topics(
            secured,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_username=user,
            sasl_password=password,
        )


def test_unsigned_tokens_are_taken_where_that_is_set(secured: EmbeddedBroker) -> None:
    assert "t" in topics(
        secured,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        enable_sasl_oauthbearer_unsecure_jwt="true",
        sasl_oauthbearer_config="principal=alice",
    )


def test_a_validator_decides_about_tokens() -> None:
    def validate(token: str) -> str:
        if token != "right":
            raise ValueError(token)
        return "alice"

    settings = {**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER"}
    with EmbeddedBroker(settings, token_validator=validate, topics={"t": 1}) as broker:
        assert "t" in raw_oauth(broker, "right")
        with pytest.raises(ConnectionError):
            raw_oauth(broker, "wrong")
    with pytest.raises(ConfigError, match="token validator"):
        EmbeddedBroker(settings).start()


def raw_oauth(broker: EmbeddedBroker, token: str) -> set[str]:
    """Authenticates with a bearer token over one connection and lists the topics."""
    with connect(broker) as client:
        assert client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1).error_code == 0
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = client.ask(SaslAuthenticateRequest(first), 2)
        if answer.auth_bytes:
            assert answer.auth_bytes == b'{"status":"invalid_token"}'
            assert client.ask(SaslAuthenticateRequest(b"\x01"), 2).error_code == 58
            assert client.is_closed()
            raise ConnectionError("the token is not valid")
        return {each.name or "" for each in client.ask(MetadataRequest(None), 12).topics}


def test_before_authentication_there_is_nothing_else(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert client.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
        client.send(MetadataRequest(None), 12)
        assert client.is_closed()
    with connect(secured) as client:
        refused = client.ask(SaslHandshakeRequest("GSSAPI"), 1)
        assert refused.error_code == 33
        assert "SCRAM-SHA-512" in refused.mechanisms
    with connect(secured) as client:
        assert client.ask(SaslAuthenticateRequest(b"\0alice\0x"), 2).error_code == 34


def plain(client: Client, user: str, password: str) -> int:
    """Authenticates with PLAIN; returns the error."""
    assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    return client.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2).error_code


def test_a_failure_ends_the_connection(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert plain(client, "bob", "x") == 58
        assert client.is_closed()


def test_a_connection_stays_with_its_user(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert plain(client, "bob", "builder") == 0
        assert client.ask(MetadataRequest(None), 12).topics
        assert plain(client, "bob", "builder") == 0
        assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        other = client.ask(SaslAuthenticateRequest(b"\0alice\0wonder,land=1"), 2)
        assert other.error_code == 58
        assert client.is_closed()


def test_messages_without_headers_are_taken_after_handshake_0(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert client.ask(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
        client.socket.sendall(b"\0\0\0\x0c\0bob\0builder")
        assert client.frame() == b""
        assert client.ask(MetadataRequest(None), 12).topics
    with connect(secured) as client:
        assert client.ask(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
        client.socket.sendall(b"\0\0\0\x06\0bob\0x")
        assert client.is_closed()


def test_a_session_runs_out() -> None:
    clock = ManualClock(1_000_000)
    settings = {**SASL, "connections.max.reauth.ms": 1_000}
    with EmbeddedBroker(settings, users=USERS, clock=clock) as broker, connect(broker) as client:
        assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        answer = client.ask(SaslAuthenticateRequest(b"\0bob\0builder"), 2)
        assert answer.session_lifetime_ms == 1_000
        broker.advance(999)
        assert client.ask(MetadataRequest(()), 12).brokers
        broker.advance(1)
        client.send(MetadataRequest(()), 12)
        assert client.is_closed()


def test_a_session_ends_with_its_token() -> None:
    clock = ManualClock(1_000_000)

    def validate(token: str) -> TokenUser:
        return TokenUser("alice", None if token == "endless" else clock.now_ms() + int(token))

    def authenticated(client: Client, token: str) -> SaslAuthenticateResponse:
        assert client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1).error_code == 0
        message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        return client.ask(SaslAuthenticateRequest(message), 2)

    settings = {**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER"}
    with (
        EmbeddedBroker(settings, token_validator=validate, clock=clock) as broker,
        connect(broker) as client,
        connect(broker) as endless,
    ):
        assert authenticated(client, "5000").session_lifetime_ms == 5_000
        assert authenticated(endless, "endless").session_lifetime_ms == 0
        broker.advance(4_999)
        assert client.ask(MetadataRequest(()), 12).brokers
        # a new token in time, and then none
        assert authenticated(client, "300").session_lifetime_ms == 300
        broker.advance(299)
        assert client.ask(MetadataRequest(()), 12).brokers
        broker.advance(1)
        client.send(MetadataRequest(()), 12)
        assert client.is_closed()
        broker.advance(10**9)
        assert endless.ask(MetadataRequest(()), 12).brokers
    # one that is over already is refused, a little later by the machine's clock
    with EmbeddedBroker(settings, token_validator=validate) as broker, connect(broker) as late:
        assert authenticated(late, "0").error_code == 58
    both = settings | {"connections.max.reauth.ms": 1_000}
    with EmbeddedBroker(both, token_validator=validate, clock=clock) as broker:
        for token, lifetime_ms in (("700", 700), ("7000", 1_000), ("endless", 1_000)):
            with connect(broker) as client:
                assert authenticated(client, token).session_lifetime_ms == lifetime_ms


def test_tls_and_client_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = authority.issue_cert("127.0.0.1", "localhost")
    server.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    ours = authority.issue_cert("client.example", common_name="alice")
    ours.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
        "authorizer.class.name": "standard",
        "super.users": "User:CN=alice",
    }
    shared = {"security_protocol": "SSL", "ssl_ca_location": str(tmp_path / "ca.pem")}
    with EmbeddedBroker(settings, topics={"t": 1}) as broker:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / "client.pem")
        with connect(broker) as client:
            subject = context.wrap_socket(client.socket, server_hostname="localhost")
            client.socket = subject
            assert client.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
        with pytest.raises(PermissionError):
            topics(broker, **shared)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        EmbeddedBroker(listeners="SSL://127.0.0.1:0").start()


def test_a_certificate_is_named_as_java_does() -> None:
    subject = (
        (("countryName", "CH"),),
        (("organizationName", "A, B"),),
        (("commonName", "alice"),),
    )
    assert certificate_name({"subject": subject}) == "CN=alice,O=A\\, B,C=CH"
    assert certificate_name(None) is None
    assert certificate_name({}) is None


def test_an_unknown_client_gets_no_memory(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        client.socket.sendall((600_000).to_bytes(4))
        assert client.is_closed()
    with connect(secured) as client:
        assert plain(client, "bob", "builder") == 0
        client.socket.sendall((600_000).to_bytes(4))
        with connect(secured) as other:
            assert plain(other, "bob", "builder") == 0
        client.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.frame()
