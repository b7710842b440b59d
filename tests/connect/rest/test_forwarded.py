"""Holds what a signature of a request that was sent on is good for, and what not."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from groupsdk.connect.connectors.admin import ConnectorAdmin
from groupsdk.connect.errors import RequestSignatureError
from groupsdk.connect.rest.forwarding import FORWARDED_HEADER, ForwardedRequests
from groupsdk.connect.rest.session_key import SessionKey, SessionKeySettings


URL = "https://leader.example:8083"
NOW_MS = 1_700_000_000_000


class Side:
    """A worker that signs or verifies, at a time."""

    def __init__(self, url: str = URL, key: bytes | None = b"k" * 32, signs: bool = True) -> None:
        self.now_ms = NOW_MS
        self.key = None if key is None else SessionKey(key, "HmacSHA256", 0)
        worker = SimpleNamespace(
            signs_requests=signs, configs=lambda: SimpleNamespace(session_key=self.key)
        )
        self.requests = ForwardedRequests(cast(ConnectorAdmin, worker), url, lambda: self.now_ms)

    def header(self, *changed: Any) -> str:
        """Return the header of a request."""
        asked = ("PUT", URL + "/", "/connectors/a b/config", "forward=true", b"{}")
        return self.requests.headers(*(changed or asked))[FORWARDED_HEADER]

    def verify(self, header: str, **changed: Any) -> bytes:
        """Verify a request that is what `header` signs but for what is changed."""
        body = changed.pop("body", b"{}")
        scope = {
            "type": "http",
            "method": "PUT",
            "path": "/connectors/a b/config",
            "query_string": b"forward=true",
            "headers": [(FORWARDED_HEADER.encode(), header.encode())],
            **changed,
        }

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        return asyncio.run(self.requests.verified(Request(scope, receive)))

    def refuses(self, header: str, **changed: Any) -> tuple[int, str]:
        """Return why it is refused."""
        with pytest.raises(RequestSignatureError) as refused:
            self.verify(header, **changed)
        return refused.value.code, str(refused.value)


def test_a_signature_is_good_for_one_request_once() -> None:
    leader, header = Side(), Side().header()
    for changed in (
        {"method": "DELETE"},
        {"path": "/connectors/a/config"},
        {"query_string": b"forward=false"},
        {"body": b"[]"},
    ):
        assert leader.refuses(header, **changed)[0] == 403
    assert leader.verify(header) == b"{}"
    assert leader.refuses(header) == (403, "the request is a repetition of an earlier one")
    assert leader.verify(Side().header()) == b"{}"


def test_forwarded_request_is_refused_by_another_worker_or_group() -> None:
    header = Side().header()
    # a member that announced itself as the leader cannot use it elsewhere
    assert Side(url="https://other.example").refuses(header)[0] == 403
    assert Side(key=b"x" * 32).refuses(header)[0] == 403
    # what is signed in the way of KIP-507 is no signature here, nor the other way round
    key = SessionKey(b"k" * 32, "HmacSHA256", 0)
    _, when, nonce, _ = header.split()
    other = SessionKeySettings().headers(key, b"{}")["X-Connect-Authorization"]
    assert Side().refuses(f"v1 {when} {nonce} {other}")[0] == 403


def test_forwarded_signature_expires_and_is_remembered_until_then() -> None:
    leader, header = Side(), Side().header()
    leader.now_ms = NOW_MS + 300_001
    assert leader.refuses(header)[0] == 403
    leader.now_ms = NOW_MS - 300_000
    assert leader.verify(header) == b"{}"
    leader.now_ms = NOW_MS + 300_000
    assert leader.refuses(header) == (403, "the request is a repetition of an earlier one")
    leader.now_ms += 1
    later = Side()
    later.now_ms = leader.now_ms
    assert leader.verify(later.header()) == b"{}"
    assert len(leader.requests._seen) == 1


@pytest.mark.parametrize("wrong", ["", "v2 1 2 3", "v1 x", "v1 1 " + "0" * 32 + " !", "v1 " * 99])
def test_malformed_signature_is_refused_with_400(wrong: str) -> None:
    assert Side().refuses(wrong)[0] == 400


def test_without_a_key_none_is_made_or_taken() -> None:
    for side, code in ((Side(key=None), 503), (Side(signs=False), 409)):
        assert side.refuses(Side().header())[0] == code
        with pytest.raises(RequestSignatureError):
            side.header()
