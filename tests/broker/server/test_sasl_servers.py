"""Tests PLAIN and OAUTHBEARER, and what mechanisms a broker has."""

import base64
import json
from typing import Any

import pytest

from groupsdk.broker.server.sasl_servers import (
    Authentication,
    OAuthBearerServer,
    PlainServer,
    SaslError,
    unsecured_token_validator,
)
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.store import MemoryStore
from groupsdk.clock import ManualClock
from groupsdk.errors import ConfigError


def test_plain_server_accepts_the_right_password_only() -> None:
    server = PlainServer({"u": "secret"})
    assert server.evaluate(b"\0u\0secret") == b""
    assert server.principal == "User:u"
    assert PlainServer({"u": "secret"}).evaluate(b"u\0u\0secret") == b""


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0u",
        b"\0u\0",
        b"\0\0secret",
        b"\0u\0wrong",
        b"\0v\0secret",
        b"v\0u\0secret",
        b"\xff\0u\0secret",
        b"\0u\0secret\0",
    ],
)
def test_plain_that_is_wrong(message: bytes) -> None:
    server = PlainServer({"u": "secret"})
    with pytest.raises(SaslError) as caught:
        server.evaluate(message)
    assert server.principal is None
    assert "secret" not in str(caught.value)


def token(claims: dict[str, Any], algorithm: str = "none", signature: str = "") -> str:
    """Builds an unsecured token."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
        for each in ({"alg": algorithm}, claims)
    ]
    return ".".join([*parts, signature])


def test_unsecured_token_is_validated_by_its_claims() -> None:
    validate = unsecured_token_validator(ManualClock(1_000_000))
    assert validate(token({"sub": "u", "exp": 1_001})) == ("u", 1_001_000)


@pytest.mark.parametrize(
    "wrong",
    [
        token({"sub": "u", "exp": 1_000}),
        token({"sub": "u"}),
        token({"exp": 2_000}),
        token({"sub": 5, "exp": 2_000}),
        token({"sub": "u", "exp": 2_000}, "RS256"),
        token({"sub": "u", "exp": 2_000}, signature="x"),
        "a.b.",
        "bm8.bm8.",
        "W10.W10.",
        "",
        "x" * 100_000,
    ],
)
def test_tokens_that_are_not_taken(wrong: str) -> None:
    with pytest.raises(SaslError):
        unsecured_token_validator(ManualClock(1_000_000))(wrong)


def test_a_refused_token_is_told_and_then_the_exchange_fails() -> None:
    def refuse(_: str) -> str:
        raise RuntimeError("no")

    server = OAuthBearerServer(refuse)
    assert server.evaluate(b"n,,\x01auth=Bearer abc\x01\x01") == b'{"status":"invalid_token"}'
    with pytest.raises(SaslError):
        server.evaluate(b"\x01")
    assert server.principal is None
    for message in (
        b"",
        b"\xff",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"x\x01auth=Bearer a\x01\x01",
    ):
        with pytest.raises(SaslError):
            OAuthBearerServer(str).evaluate(message)


def test_the_mechanisms_of_a_broker() -> None:
    def made(mechanisms: str, **settings: Any) -> Authentication:
        config = BrokerConfig.of(sasl_enabled_mechanisms=mechanisms, **settings)
        return Authentication(config, MemoryStore(), ManualClock(), {"u": "p"})

    both = made("plain, SCRAM-SHA-256")
    assert both.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert isinstance(both.server("PLAIN"), PlainServer)
    assert both.server("SCRAM-SHA-256").principal is None
    with pytest.raises(ConfigError, match="GSSAPI"):
        made("GSSAPI")
    with pytest.raises(ConfigError, match="token validator"):
        made("OAUTHBEARER")
    assert isinstance(
        made("OAUTHBEARER", sasl_oauthbearer_unsecured=True).server("OAUTHBEARER"),
        OAuthBearerServer,
    )
