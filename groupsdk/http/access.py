"""Control access: reject cross-site requests, and require the password where one is set.

A browser on a machine that reaches a server sends requests for any page. Three headers tell them apart, which pages
cannot choose freely: Host (DNS rebinding), Origin (requests across sites) and Content-Type (forms and text/plain, which
need no permission in advance). Passwords are checked against the one user of the settings (RFC 7617), and an address
that guesses is slowed down.
"""

import base64
import binascii
import hmac
import ipaddress
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from groupsdk.clock import Clock, SystemClock
from groupsdk.http.settings import HttpSettings


logger = logging.getLogger(__name__)

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PORTS: Final = {"http": 80, "https": 443}
_FREE: Final = 5
_LONGEST_S: Final = 60.0
_FORGOTTEN_S: Final = 900.0
_MAX_ADDRESSES: Final = 10_000
_PROBED: Final = frozenset({"/health", "/health/live"})
PROBE: Final = "groupsdk.probe"
"""The scope of a request has this key if it may learn whether the worker is healthy, and not why."""


class JsonAnswer(JSONResponse):
    """A response in JSON, also of strings with lone surrogates: names of files, and texts of exceptions."""

    @override
    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # such as `\ud800`, which is an escape of JSON: UTF-8 has no bytes for it
        return text.encode(errors="backslashreplace")


def error_answer(code: int, text: str) -> JSONResponse:
    """Return an error response in JSON.

    Args:
        code: the HTTP status.
        text: the message.
    """
    return JsonAnswer({"error_code": code, "message": text}, code)


class RequestGuard:
    """Accepts only requests whose Host, Origin and Content-Type a page of another site cannot send.

    Args:
        app: the application behind it.
        settings: the hosts that are allowed.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._hosts = settings.hosts()
        self._named = frozenset(each.lower() for each in settings.allowed_hosts)
        self._announced = settings.url
        self._option = settings.option

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        refused = None if scope["type"] != "http" else self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await error_answer(*refused)(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        given = headers.getlist("host")
        host = given[0] if len(given) == 1 else ""
        name, _ = _authority("http://" + host)
        if not self._is_allowed(name):
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
    """Counts wrong passwords by address: after 5, each further one delays the address, by up to a minute.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._wrong: OrderedDict[str, tuple[int, float, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return for how many seconds passwords from an address are still rejected unchecked; 0 if they are checked.

        Args:
            address: the client's IP address; IPv6 addresses of one network count as one.
        """
        _, until_s, _ = self._wrong.get(_network(address), (0, 0.0, 0.0))
        return max(0.0, until_s - self._clock.now_ms() / 1_000)

    def wrong(self, address: str) -> None:
        """Count a wrong password.

        Args:
            address: the client's IP address.
        """
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
        """Reset the count of an address after a correct password.

        Args:
            address: the client's IP address.
        """
        self._wrong.pop(_network(address), None)


def _network(address: str) -> str:
    """Return the network that counts as one client: a single IPv4 address, or an IPv6 /64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False))


class SignedRequests(Protocol):
    """Recognises and verifies requests that carry a signature instead of a password."""

    def are(self, request: Request) -> bool:
        """Return whether a request carries a signature, valid or not.

        Args:
            request: the request; only its headers are read.
        """
        ...

    async def body(self, request: Request) -> bytes | Response:
        """Return the body of a signed request, or the error response if its signature is invalid.

        Args:
            request: the request, whose body is read.
        """
        ...


class BasicAuthentication:
    """Accepts requests with the right password (RFC 7617) or a valid signature.

    Args:
        app: the application behind it.
        settings: the user and the password.
        signed: verifies requests that are signed instead of having a password; None: there are none.
        passes: returns which requests prove further in who they are from.
        brake: slows down those who guess.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        signed: SignedRequests | None = None,
        passes: Callable[[Request], bool] = lambda _: False,
        brake: PasswordBrake | None = None,
    ) -> None:
        self._app = app
        self._passes = passes
        self._signed = signed
        self._brake = brake or PasswordBrake()
        self._expected = f"{settings.user}:{settings.password}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
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
    """Return whether a request is a health probe, such as Kubernetes', which sends no password."""
    return (
        request.method in ("GET", "HEAD")
        and request.url.path in _PROBED
        and "authorization" not in request.headers
    )
