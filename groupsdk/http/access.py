"""Control access: reject cross-site requests, and require the password where one is set.

A browser on a machine that reaches a server sends requests for any page. Four headers tell them apart, which pages
cannot choose freely: Host (DNS rebinding), Origin and Sec-Fetch-Site (requests across sites) and Content-Type (forms and
text/plain, which need no permission in advance). Passwords are checked against the one user of the settings (RFC 7617),
and an address that guesses is slowed down.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import logging
import math
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupsdk.clock import Clock, SystemClock
from groupsdk.http.server import RepeatedWarnings
from groupsdk.http.settings import HttpSettings
from groupsdk.lazy_imports import override
from groupsdk.printable import printable_json


logger = logging.getLogger(__name__)
logger.addFilter(RepeatedWarnings())

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PORTS: Final = {"http": 80, "https": 443}
_OTHER_SITES: Final = ("cross-site", "same-site")
"""The values of Sec-Fetch-Site (W3C Fetch Metadata) for pages of another origin."""
_FREE: Final = 5
"""How many wrong passwords of an address are answered without a delay."""
_HIGHEST: Final = 8
_LONGEST_S: Final = 8.0
_FORGIVEN_S: Final = 10.0
"""One wrong password is forgiven so many seconds later."""
_MAX_WAITING: Final = 8
"""How many passwords of an address wait at a time: they hold connections."""
_MAX_KNOWN: Final = 16
_MAX_ADDRESSES: Final = 10_000
_PROBED: Final = frozenset({"/health", "/health/live"})
PROBE: Final = "groupsdk.probe"
"""The scope of a request has this key if it may learn whether the worker is healthy, and not why."""


class JsonAnswer(JSONResponse):
    """A response in JSON, also of strings with lone surrogates: names of files, and texts of exceptions."""

    @override
    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # lone surrogates among them: UTF-8 has no bytes for these
        return printable_json(text).encode()


def error_answer(code: int, text: str) -> JSONResponse:
    return JsonAnswer({"error_code": code, "message": text}, code)


class RequestGuard:
    """Accepts only requests whose Host, Origin and Content-Type a page of another site cannot send."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._hosts = settings.hosts()
        self._named = frozenset(each.lower() for each in settings.allowed_hosts)
        self._announced = settings.url
        self._option = settings.option

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None if scope["type"] != "http" else self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
            return
        answer = error_answer(*refused)
        # what comes behind may be a part of this one
        answer.headers["connection"] = "close"
        await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        given = headers.getlist("host")
        host = given[0] if len(given) == 1 else ""
        name, _ = _authority("http://" + host)
        # no browser leaves it out, but some probes do, in HTTP/1.0
        if not self._is_allowed(name) and (given or scope.get("http_version") != "1.0"):
            return 421, (
                f"Host {host[:100]!r} is not an address of this server; allowed are IP addresses and"
                f" {', '.join(sorted(self._hosts))}: add others with {self._option}-allowed-hosts"
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host):
            return 403, (
                f"Origin {origin[:100]!r} is another site: requests from its pages are not allowed"
                f" ({self._option}-allowed-hosts)"
            )
        if _is_chunked(headers) and "content-length" in headers:
            return 400, "Content-Length beside Transfer-Encoding: where the body ends is not clear"
        if origin is None and _is_embedded(headers):
            return 403, "pages of other sites may link here, and embed nothing"
        return None if scope["method"] in _READING else _wrong_type(headers)

    def _is_allowed(self, name: str) -> bool:
        # an address cannot be rebound: the page would have to come from there itself
        return bool(name) and ("*" in self._named or name in self._hosts or _is_address(name))

    def _is_own(self, origin: str, host: str) -> bool:
        scheme = origin.partition(":")[0].lower()
        asked = _authority(origin)
        # a proxy in front may end TLS, and may have changed the Host
        return bool(asked[0]) and (
            asked in (_authority(f"{scheme}://{host}"), _authority(self._announced))
            or asked[0] in self._named
        )


def _authority(url: str) -> tuple[str, int | None]:
    """Return the host, in lower case, and the port of a URL; "" if it has none."""
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
            return "", None
        port = parts.port if parts.port is not None else _PORTS.get(parts.scheme)
    except ValueError:
        return "", None
    return (parts.hostname or "").removesuffix("."), port


def _is_embedded(headers: Headers) -> bool:
    """Return whether a page of another site embeds the request, as an image: these have no Origin."""
    return headers.get("sec-fetch-site") in _OTHER_SITES and not (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _wrong_type(headers: Headers) -> tuple[int, str] | None:
    """Return the response to a body that is not JSON; browsers send a preflight request before cross-site JSON."""
    kind = headers.get("content-type")
    if kind is None and headers.get("content-length", "0") == "0" and not _is_chunked(headers):
        return None
    plain = (kind or "").partition(";")[0].strip().lower()
    if plain == "application/json":
        return None
    return 415, f"Content-Type must be application/json, not {plain[:100]!r}"


def _is_chunked(headers: Headers) -> bool:
    return "transfer-encoding" in headers


class PasswordBrake:
    """Delays the passwords of an address that sends wrong ones, and so limits guesses to about one a second.

    Others may share the address, behind a proxy or a gateway. So the right password is always taken, late at worst. A
    wrong one that is repeated, as by a program with an old password, tells nobody anything new and is not counted."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()
        self._key = secrets.token_bytes(32)

    def is_known(self, address: str, given: str) -> bool:
        """Return whether an address has sent this wrong password before; IPv6 addresses of one network count as one."""
        guesser = self._guessers.get(_network(address))
        return guesser is not None and self._digest(given) in guesser.digests

    def delay_s(self, address: str) -> float:
        """Return how long a password from an address waits before it is checked, in seconds."""
        guesser = self._guessers.get(_network(address))
        level = 0.0 if guesser is None else self._level(guesser)
        return 0.0 if level < _FREE else min(2.0 ** int(level - _FREE), _LONGEST_S)

    @contextmanager
    def waiting(self, address: str) -> Iterator[bool]:
        """Count a password that waits. Enter with whether it may, since only some of an address wait at a time."""
        guesser = self._guessers.get(_network(address), _Guesser())
        if guesser.waiting >= _MAX_WAITING:
            yield False
            return
        guesser.waiting += 1
        try:
            yield True
        finally:
            guesser.waiting -= 1

    def wrong(self, address: str, given: str) -> None:
        key = _network(address)
        guesser = self._guessers.setdefault(key, _Guesser())
        self._guessers.move_to_end(key)
        before = self._level(guesser)
        guesser.level = min(before + 1, _HIGHEST)
        guesser.since_s = self._clock.now_ms() / 1_000
        guesser.digests.append(self._digest(given))
        if before < _FREE <= guesser.level:
            logger.warning("%d wrong passwords from %s: further ones are delayed", _FREE, key)
        if len(self._guessers) > _MAX_ADDRESSES:
            self._guessers.popitem(last=False)

    def _level(self, guesser: "_Guesser") -> float:
        passed_s = self._clock.now_ms() / 1_000 - guesser.since_s
        return max(0.0, guesser.level - passed_s / _FORGIVEN_S)

    def _digest(self, given: str) -> bytes:
        return hmac.digest(self._key, given.encode(errors="surrogateescape"), "sha256")


@dataclass(slots=True)
class _Guesser:
    level: float = 0.0
    """The number of wrong passwords of one address; one is forgiven at a time."""
    since_s: float = 0.0
    waiting: int = 0
    digests: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_KNOWN))


def _network(address: str) -> str:
    """Return the network that counts as one client, an IPv4 address or an IPv6 /64; "" if `address` is not one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False))


class SignedRequests(Protocol):
    """Recognises and verifies requests that carry a signature instead of a password."""

    def are(self, request: Request) -> bool:
        """Return whether a request carries a signature, valid or not."""
        ...

    async def body(self, request: Request) -> bytes | Response:
        """Return the body of a signed request, or the error response if its signature is invalid."""
        ...


class BasicAuthentication:
    """Accepts requests with the right password (RFC 7617) or a valid signature.

    `passes` returns which requests prove further in who they are from.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        signed: SignedRequests | None = None,
        passes: Callable[[Request], bool] = lambda _: False,
        brake: PasswordBrake | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._app = app
        self._passes = passes
        self._signed = signed
        self._brake = brake or PasswordBrake()
        self._sleep = sleep
        self._expected = f"{settings.user}:{settings.password}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if scope["type"] != "http" or self._passes(request):
            await self._app(scope, receive, send)
        elif _is_probe(request):
            await self._app({**scope, PROBE: True}, receive, send)
        elif self._signed is not None and self._signed.are(request):
            await self._take_signed(self._signed, request, receive, send)
        else:
            await self._ask_password(request, receive, send)

    async def _take_signed(
        self, signed: SignedRequests, request: Request, receive: Receive, send: Send
    ) -> None:
        body = await signed.body(request)
        if isinstance(body, Response):
            await body(request.scope, receive, send)
            return
        unread = [body]

        async def receive_again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await self._app(request.scope, receive_again, send)

    async def _ask_password(self, request: Request, receive: Receive, send: Send) -> None:
        given = request.headers.get("authorization")
        if given is None:
            await _unauthorized()(request.scope, receive, send)
            return
        address = request.client.host if request.client else ""
        if self._brake.is_known(address, given):
            await _unauthorized()(request.scope, receive, send)
            return
        if delay_s := self._brake.delay_s(address):
            # before it is looked at: a client that does not wait for the answer has learnt nothing
            with self._brake.waiting(address) as may_wait:
                if not may_wait:
                    answer = error_answer(429, "too many passwords from this address are waiting")
                    answer.headers["retry-after"] = str(math.ceil(delay_s))
                    await answer(request.scope, receive, send)
                    return
                await self._sleep(delay_s)
        if self._is_right(given):
            await self._app(request.scope, receive, send)
        else:
            self._brake.wrong(address, given)
            await _unauthorized()(request.scope, receive, send)

    def _is_right(self, header: str) -> bool:
        kind, _, given = header.partition(" ")
        try:
            decoded = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(decoded, self._expected)


def _unauthorized() -> Response:
    answer = error_answer(401, "a user and a password are needed")
    answer.headers["www-authenticate"] = 'Basic realm="groupsdk"'
    return answer


def _is_probe(request: Request) -> bool:
    """Return whether a request is a health probe, such as Kubernetes', which sends no password."""
    return (
        request.method in ("GET", "HEAD")
        and request.url.path in _PROBED
        and "authorization" not in request.headers
    )
