"""Holds session keys and signatures to KIP-507, and to a published test vector."""

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st

from groupsdk.connect.errors import RequestSignatureError
from groupsdk.connect.rest.session_key import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    SessionKey,
    SessionKeySettings,
)
from groupsdk.errors import ConfigError


KEY = SessionKey(b"\x0b" * 20, "HmacSHA256", 1_000)
SETTINGS = SessionKeySettings()


def lower(headers: dict[str, str]) -> dict[str, str]:
    """Headers as a server hands them on."""
    return {key.lower(): value for key, value in headers.items()}


def refusal(headers: dict[str, str], body: bytes = b"x", key: SessionKey | None = KEY) -> int:
    """The status that a request is refused with."""
    with pytest.raises(RequestSignatureError) as refused:
        SETTINGS.verify(key, lower(headers), body)
    return refused.value.code


def test_a_signature_is_that_of_the_standard() -> None:
    # RFC 4231, test case 1
    assert KEY.sign(b"Hi There", "HmacSHA256").hex() == (
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )
    headers = SETTINGS.headers(KEY, b"Hi There")
    assert headers == {
        "X-Connect-Authorization": "sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c=",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    SETTINGS.verify(KEY, lower(headers), b"Hi There")


def test_unsigned_internal_request_is_refused_as_by_kafka_connect() -> None:
    signed = SETTINGS.headers(KEY, b"x")
    assert refusal({}) == 400
    assert refusal({SIGNATURE_HEADER: signed[SIGNATURE_HEADER]}) == 400
    assert refusal({ALGORITHM_HEADER: "HmacSHA256"}) == 400
    assert refusal({**signed, ALGORITHM_HEADER: "HmacSHA1"}) == 400
    assert refusal({**signed, ALGORITHM_HEADER: "none"}) == 400
    assert refusal({**signed, SIGNATURE_HEADER: "!"}) == 400
    assert refusal(signed, key=None) == 503
    assert refusal(signed, b"y") == 403
    assert refusal({**signed, SIGNATURE_HEADER: ""}) == 403
    # of the key before the last rotation
    assert refusal(signed, key=SessionKey(b"\x0c" * 20, "HmacSHA256", 2_000)) == 403


@given(
    st.text() | st.binary().map(lambda data: base64.b64encode(data).decode()),
    st.text() | st.just("HmacSHA256"),
    st.binary(),
)
def test_no_other_signature_is_taken(signature: str, algorithm: str, body: bytes) -> None:
    headers = {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}
    assert refusal(headers, body) in (400, 403)


def test_a_key_is_kept_as_kafka_connect_keeps_it_and_shown_nowhere() -> None:
    name, value = KEY.record()
    assert (name, value) == (
        "session-key",
        {
            "key": base64.b64encode(KEY.key).decode(),
            "algorithm": "HmacSHA256",
            "creation-timestamp": 1_000,
        },
    )
    assert SessionKey.of(value) == KEY
    assert "0b" not in repr(KEY)


@given(
    st.none()
    | st.text()
    | st.dictionaries(
        st.sampled_from(["key", "algorithm", "creation-timestamp"]),
        st.none() | st.text() | st.integers() | st.booleans(),
    )
)
def test_malformed_session_key_is_ignored(value: Any) -> None:
    key = SessionKey.of(value)
    assert key is None or 0 < len(key.key) <= 1_024


def test_the_leader_makes_a_key_when_there_is_none_or_it_is_over_or_of_another_kind() -> None:
    settings = SessionKeySettings(ttl_ms=1_000)
    first = settings.next_key(None, 5_000)
    assert first is not None
    assert (len(first.key), first.algorithm, first.created_ms) == (32, "HmacSHA256", 5_000)
    assert settings.next_key(first, 5_999) is None
    second = settings.next_key(first, 6_000)
    assert second is not None
    assert second.key != first.key
    assert SessionKeySettings(ttl_ms=0).next_key(first, 10**15) is None
    for other in (
        SessionKeySettings(key_bits=512),
        SessionKeySettings(key_algorithm="HmacSHA512"),
    ):
        made = other.next_key(first, 5_001)
        assert made is not None
        assert len(made.key) == 64


def test_settings_are_connects() -> None:
    given: dict[str, Any] = {
        "inter.worker.key.ttl.ms": "60000",
        "inter.worker.key.size": "128",
        "inter.worker.key.generation.algorithm": "HmacSHA1",
        "inter.worker.signature.algorithm": "HmacSHA512",
        "inter.worker.verification.algorithms": "HmacSHA256, HmacSHA512",
        "group.id": "g",
    }
    settings = SessionKeySettings.take(given)
    assert given == {"group.id": "g"}
    assert settings == SessionKeySettings(
        ttl_ms=60_000,
        key_bits=128,
        key_algorithm="HmacSHA1",
        signature_algorithm="HmacSHA512",
        verification_algorithms=("HmacSHA256", "HmacSHA512"),
    )
    settings.verify(KEY, lower(SETTINGS.headers(KEY, b"x")), b"x")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"inter.worker.key.ttl.ms": "soon"}, "inter.worker.key.ttl.ms must be an integer"),
        ({"inter.worker.key.size": 8}, "inter.worker.key.size must be an integer from 40"),
        (
            {"inter.worker.signature.algorithm": "RSA"},
            "inter.worker.signature.algorithm must be one of",
        ),
        ({"inter.worker.signature.algorithm": "HmacSHA512"}, "HmacSHA512, among them"),
    ],
)
def test_wrong_settings_are_said(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        SessionKeySettings.take(wrong)
