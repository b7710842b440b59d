"""Refuse requests that a web page of another site may have sent, before anything of them is looked at.

A browser on a machine that reaches a worker sends requests for any page. Three headers tell them apart, which pages
cannot choose freely: Host (DNS rebinding), Origin (requests across sites) and Content-Type (forms and text/plain, which
need no permission in advance).
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from groupsdk.connect.rest.messages import error_answer
from groupsdk.connect.rest.settings import RestSettings


_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PORTS: Final = {"http": 80, "https": 443}


class RequestGuard:
    """Lets requests in whose Host, Origin and Content-Type a page of another site cannot have.

    Args:
        app: what is behind.
        settings: the hosts that are allowed.
    """

    def __init__(self, app: ASGIApp, settings: RestSettings) -> None:
        self._app = app
        self._hosts = settings.hosts()
        self._named = frozenset(each.lower() for each in settings.allowed_hosts)
        self._announced = settings.url

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
                f"Host {host[:100]!r} is not an address of this worker; allowed are IP addresses and"
                f" {', '.join(sorted(self._hosts))}: add others with --rest-allowed-hosts"
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host):
            return 403, (
                f"Origin {origin[:100]!r} is another site: requests from its pages are not allowed"
                " (--rest-allowed-hosts)"
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
    """Return the host, in lower case, and the port of a URL; "" for what is none."""
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
    """Return what to answer to a body that is not JSON; browsers ask first before they send JSON elsewhere."""
    kind = headers.get("content-type")
    if kind is None and headers.get("content-length", "0") == "0" and not _is_chunked(headers):
        return None
    plain = (kind or "").partition(";")[0].strip().lower()
    if plain == "application/json":
        return None
    return 415, f"Content-Type must be application/json, not {plain[:100]!r}"


def _is_chunked(headers: Headers) -> bool:
    return "transfer-encoding" in headers
