"""Let only those ask who know the password, and slow down those who guess it."""

import base64
import binascii
import hmac
import ipaddress
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupsdk.clock import Clock, SystemClock
from groupsdk.connect.errors import RequestSignatureError
from groupsdk.connect.rest.forwarding import FORWARDED_HEADER, ForwardedRequests
from groupsdk.connect.rest.messages import BadRequestError, error_answer
from groupsdk.connect.rest.settings import RestSettings


logger = logging.getLogger(__name__)

_FREE: Final = 5
_LONGEST_S: Final = 60.0
_FORGOTTEN_S: Final = 900.0
_MAX_ADDRESSES: Final = 10_000
_PROBED: Final = frozenset({"/health", "/health/live"})
PROBE: Final = "groupsdk.probe"
"""The scope of a request has this key if it may learn whether the worker is healthy, and not why."""


class PasswordBrake:
    """Counts wrong passwords by address: after 5, each further one makes the address wait, up to a minute.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._wrong: OrderedDict[str, tuple[int, float, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return for how many seconds no password of an address is looked at; 0: it is."""
        _, until_s, _ = self._wrong.get(_network(address), (0, 0.0, 0.0))
        return max(0.0, until_s - self._clock.now_ms() / 1_000)

    def wrong(self, address: str) -> None:
        """Take note of a wrong password."""
        key, now_s = _network(address), self._clock.now_ms() / 1_000
        count, _, last_s = self._wrong.pop(key, (0, 0.0, now_s))
        count = 1 if now_s - last_s > _FORGOTTEN_S else count + 1
        wait_s = 0.0 if count < _FREE else min(2.0 ** min(count - _FREE, 10), _LONGEST_S)
        if wait_s:
            logger.warning(
                "%d wrong passwords from %s, which has to wait for %g s", count, key, wait_s
            )
        self._wrong[key] = count, now_s + wait_s, now_s
        if len(self._wrong) > _MAX_ADDRESSES:
            self._wrong.popitem(last=False)

    def right(self, address: str) -> None:
        """Forget what was wrong before."""
        self._wrong.pop(_network(address), None)


class BasicAuthentication:
    """Lets those in who know the password (RFC 7617), and what other workers have signed.

    Args:
        app: what is behind.
        settings: the user and the password.
        forwarded: verifies the requests that other workers send on; None: nobody sends any.
        passes: tells which requests prove by themselves who they are from.
        brake: slows down those who guess.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: RestSettings,
        forwarded: ForwardedRequests | None = None,
        passes: Callable[[Request], bool] = lambda _: False,
        brake: PasswordBrake | None = None,
    ) -> None:
        self._app = app
        self._passes = passes
        self._forwarded = forwarded
        self._brake = brake or PasswordBrake()
        self._expected = f"{settings.user}:{settings.password}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        request = Request(scope, receive)
        if scope["type"] != "http" or self._passes(request):
            await self._app(scope, receive, send)
        elif _is_probe(request):
            await self._app({**scope, PROBE: True}, receive, send)
        elif self._forwarded is not None and FORWARDED_HEADER in request.headers:
            await self._take_forwarded(self._forwarded, request, receive, send)
        else:
            await self._ask_password(request, receive, send)

    async def _take_forwarded(
        self, forwarded: ForwardedRequests, request: Request, receive: Receive, send: Send
    ) -> None:
        try:
            body = await forwarded.verified(request)
        except (RequestSignatureError, BadRequestError) as error:
            await error_answer(error.code, str(error))(request.scope, receive, send)
            return
        unread = [body]

        async def receive_again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await self._app(request.scope, receive_again, send)

    async def _ask_password(self, request: Request, receive: Receive, send: Send) -> None:
        address = request.client.host if request.client else ""
        given = request.headers.get("authorization")
        wait_s = 0.0 if given is None else self._brake.wait_s(address)
        if wait_s:
            # not even looked at: otherwise guesses would go on, and the right one would show
            answer = error_answer(429, f"too many wrong passwords: wait for {math.ceil(wait_s)} s")
            answer.headers["retry-after"] = str(math.ceil(wait_s))
            await answer(request.scope, receive, send)
        elif given is not None and self._is_right(given):
            self._brake.right(address)
            await self._app(request.scope, receive, send)
        else:
            if given is not None:
                self._brake.wrong(address)
            answer = error_answer(401, "a user and a password are needed")
            answer.headers["www-authenticate"] = 'Basic realm="groupsdk"'
            await answer(request.scope, receive, send)

    def _is_right(self, header: str) -> bool:
        kind, _, given = header.partition(" ")
        try:
            decoded = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(decoded, self._expected)


def _is_probe(request: Request) -> bool:
    """Return whether a request is a health probe, as of Kubernetes, which knows no password."""
    return (
        request.method in ("GET", "HEAD")
        and request.url.path in _PROBED
        and "authorization" not in request.headers
    )


def _network(address: str) -> str:
    """Return what one client has of addresses: one of IPv4, and 2**64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False))
