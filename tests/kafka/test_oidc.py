"""Tokens of a real authorization server, on a real broker that checks their signatures (KIP-768, KIP-1139)."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flask import Response

from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.errors import AuthenticationError
from groupsdk.testing import LocalKafka
from tests.support.token_server import AUDIENCE, CLIENT_ID, SECRET, TokenServer
from tests.support.workers import TIMEOUT_S, Driven, RecordingMember, await_stable, eventually


_PACKAGE = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def client_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2_048)


@pytest.fixture(scope="module")
def server(client_key: rsa.RSAPrivateKey) -> Iterator[TokenServer]:
    with TokenServer(client_key) as server:
        yield server


@pytest.fixture(scope="module")
def kafka(
    kafka_installed: None, server: TokenServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalKafka]:
    """A broker that takes tokens of the server alone."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    server.write_keys(keys)
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
    listener = "listener.name.sasl_plaintext.oauthbearer"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-D{allowed}.urls=file://{keys} -D{allowed}.files={keys}")
        with LocalKafka(
            listeners=("SASL_PLAINTEXT", "PLAINTEXT"),
            properties={
                f"{listener}.sasl.server.callback.handler.class": f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
                f"{listener}.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
                f"{listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
                f"{listener}.sasl.oauthbearer.expected.issuer": "test",
                "auto.create.topics.enable": "true",
            },
        ) as kafka:
            yield kafka


@pytest.fixture
def common(kafka: LocalKafka, server: TokenServer, group_id: str, tmp_path: Path) -> dict[str, Any]:
    authority = tmp_path / "idp.pem"
    authority.write_text(server.ca_pem)
    return {
        "bootstrap.servers": kafka.bootstrap_servers_of("SASL_PLAINTEXT"),
        "group.id": group_id,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "https.ca.location": str(authority),
    }


@pytest.fixture
def by_secret(common: dict[str, Any]) -> dict[str, Any]:
    """Client credentials, in librdkafka's words."""
    return common | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }


@pytest.fixture
def by_key(
    common: dict[str, Any], server: TokenServer, client_key: rsa.RSAPrivateKey, tmp_path: Path
) -> dict[str, Any]:
    """A JWT bearer grant, in Java's words."""
    file = tmp_path / "key.pem"
    file.write_bytes(client_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return common | {
        "sasl.oauthbearer.jwt.retriever.class": f"{_PACKAGE}.JwtBearerJwtRetriever",
        "sasl.oauthbearer.assertion.private.key.file": str(file),
        "sasl.oauthbearer.assertion.claim.iss": CLIENT_ID,
        "sasl.oauthbearer.assertion.claim.sub": "alice",
        "sasl.oauthbearer.assertion.claim.aud": server.url,
    }


@pytest.fixture
def topic(kafka: LocalKafka, group_id: str) -> str:
    """A topic with one record."""
    topic = f"t-{group_id}"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers_of("PLAINTEXT")})
    producer.produce(topic, b"value")
    assert producer.flush(TIMEOUT_S) == 0
    return topic


def test_members_and_consumers_of_both_grants(
    by_secret: dict[str, Any], by_key: dict[str, Any], topic: str, group_id: str
) -> None:
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(Driven(RecordingMember(**_keywords(by_secret))))
        two = stack.enter_context(Driven(RecordingMember(**_keywords(by_key))))
        three = stack.enter_context(
            Driven(RecordingMember(**_keywords(by_key), heartbeat="process"))
        )
        await_stable(one, two, three)
        for number, settings in enumerate((by_secret, by_key)):
            given = settings | {"group.id": f"{group_id}-{number}", "auto.offset.reset": "earliest"}
            with GroupConsumer(given, logger=logging.getLogger("librdkafka")) as consumer:
                consumer.subscribe(topic)
                message = eventually(lambda consumer=consumer: consumer.poll(0.5))  # type: ignore[misc]
                assert message.value() == b"value"
        assert not one.errors + two.errors + three.errors


def test_the_consumer_for_asyncio(by_key: dict[str, Any], topic: str) -> None:
    async def work() -> bytes | None:
        given = by_key | {"auto.offset.reset": "earliest"}
        async with AsyncGroupConsumer(given, logger=logging.getLogger("librdkafka")) as consumer:
            await consumer.subscribe([topic])
            async with asyncio.timeout(TIMEOUT_S):
                while (message := await consumer.poll(1.0)) is None:
                    pass
            return message.value()

    assert asyncio.run(work()) == b"value"


def test_a_wrong_secret_is_told_to_member_and_consumer(by_secret: dict[str, Any]) -> None:
    wrong = by_secret | {"sasl.oauthbearer.client.secret": "wr0ng-s3cret"}
    with (
        RecordingMember(**_keywords(wrong)) as member,
        pytest.raises(AuthenticationError, match="invalid_client"),
    ):
        member.ensure_active_group(TIMEOUT_S)
    with pytest.raises(AuthenticationError, match="invalid_client"):
        GroupConsumer(wrong, logger=logging.getLogger("librdkafka"))


def test_an_identity_provider_that_is_away_for_a_while_costs_a_while(
    by_secret: dict[str, Any], server: TokenServer
) -> None:
    server.failures = [Response("busy", status=503) for _ in range(5)]
    with RecordingMember(**_keywords(by_secret)) as member:
        assert member.ensure_active_group(TIMEOUT_S)
        assert not server.failures


def _keywords(settings: dict[str, Any]) -> dict[str, Any]:
    return {key.replace(".", "_"): value for key, value in settings.items()}
