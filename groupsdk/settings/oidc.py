"""Get bearer tokens from an OAuth 2.0 / OpenID Connect token endpoint (KIP-768, KIP-1139).

Two grants: client credentials (RFC 6749, section 4.4), and JWT bearer (RFC 7523), for which an assertion is read
from a file or signed here with PyJWT. The settings are `sasl.oauthbearer.*`, in librdkafka's or Java's words.
"""

import base64
import binascii
import contextlib
import json
import socket
import ssl
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

import tenacity

from groupsdk.clock import Clock, SystemClock, WallClock
from groupsdk.errors import (
    AuthenticationError,
    ConfigError,
    CredentialsUnavailableError,
    GroupSdkError,
    TlsError,
)
from groupsdk.lazy_imports import override
from groupsdk.printable import printable
from groupsdk.settings.security import JWT_BEARER, OAuthToken, SecuritySettings, parse_extensions


_TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 3
_MAX_BYTES: Final = 1_000_000  # of an answer, and of each file
_MAX_TOLD: Final = 300  # characters of what the endpoint says about an error
_REFRESH_AT: Final = 0.8  # of a token's life, as Java's and librdkafka's clients do
_PASSING: Final = frozenset({408, 425, 429})  # and all from 500 on


class OidcTokenProvider:
    """Asks the token endpoint that the settings name, and keeps the token for 80 % of its life. Thread-safe.

    Calls block: each attempt takes 10 s at most, and there are three where the failure may pass.

    Args:
        security: checked settings with `sasl.oauthbearer.method=oidc`.
    """

    def __init__(self, security: SecuritySettings, clock: Clock | None = None) -> None:
        self._security = security
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._token: OAuthToken | None = None
        self._fresh_until_ms = 0

    def __call__(self) -> OAuthToken:
        """Return a token that is valid now.

        Raises:
            AuthenticationError: the endpoint refuses us, or answers what is no token.
            CredentialsUnavailableError: it cannot be reached, or says that the failure passes.
            ConfigError: a file of the settings cannot be used, or PyJWT is not installed.
        """
        with self._lock:
            if self._token is None or self._clock.now_ms() >= self._fresh_until_ms:
                self._token = self._fetch()
            return self._token

    def forget(self) -> None:
        """Ask for another token the next time, as the broker has refused this one."""
        with self._lock:
            self._token = None

    def _fetch(self) -> OAuthToken:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CredentialsUnavailableError),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=0.1, max=1),
            reraise=True,
        )
        answer: Mapping[str, Any] = retrying(_ask, self._security)
        value = answer.get("access_token")
        url = self._security.sasl_oauthbearer_token_endpoint_url
        if not isinstance(value, str) or not value:
            raise AuthenticationError(f"{url}: the response has no access_token")
        date_ms = WallClock().now_ms()
        lifetime_ms = _lifetime_ms(value, answer.get("expires_in"), date_ms)
        left_ms = 0 if lifetime_ms is None else max(0, lifetime_ms - date_ms)
        self._fresh_until_ms = self._clock.now_ms() + int(left_ms * _REFRESH_AT)
        extensions = parse_extensions(self._security.sasl_oauthbearer_extensions)
        return OAuthToken(value, lifetime_ms, extensions)


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST would become a GET, and carry credentials to wherever it is led."""

    @override
    def redirect_request(self, *_: Any) -> None:
        return None


class _Sockets:
    """The sockets of one exchange, which another thread can end: a timeout of a socket is one of each read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] | None = []

    def connect(self, address: tuple[str, int], *args: Any, **keywords: Any) -> socket.socket:
        """Open a connection, as `socket.create_connection`."""
        connection = socket.create_connection(address, *args, **keywords)
        with self._lock:
            if self._open is None:
                connection.close()
                raise TimeoutError
            # TLS takes the descriptor out of the socket
            self._open.append(connection.dup())
        return connection

    def end(self) -> None:
        """Shut down all connections: a blocked read or handshake fails at once."""
        with self._lock:
            ending, self._open = self._open or [], None
        for each in ending:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def opener(self, tls: ssl.SSLContext) -> OpenerDirector:
        """Return what sends requests over these connections."""
        outer = self

        def made(kind: Any) -> Any:
            def make(*args: Any, **keywords: Any) -> Any:
                connection = kind(*args, **keywords)
                connection._create_connection = outer.connect  # noqa: SLF001  # http.client's, meant to be replaced
                return connection

            return make

        class Http(HTTPHandler):
            @override
            def http_open(self, req: Request) -> HTTPResponse:
                return self.do_open(made(HTTPConnection), req)

        class Https(HTTPSHandler):
            @override
            def https_open(self, req: Request) -> HTTPResponse:
                return self.do_open(made(HTTPSConnection), req, context=tls)

        return build_opener(_NoRedirects(), Http(), Https())


def _ask(security: SecuritySettings) -> Mapping[str, Any]:
    """Send one request for a token and return the answer, all of it within `_TIMEOUT_S`."""
    sockets = _Sockets()
    future: Future[Mapping[str, Any]] = Future()

    def exchange() -> None:
        try:
            future.set_result(_exchange(security, sockets))
        except BaseException as error:  # noqa: BLE001  # raised by the caller
            future.set_exception(error)

    # a thread, as a name server may hang as well, and files may be pipes
    thread = threading.Thread(target=exchange, name="groupsdk-token", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise CredentialsUnavailableError(f"cannot get a token: {error}") from error
    try:
        return future.result(_TIMEOUT_S)
    except TimeoutError:
        url = security.sasl_oauthbearer_token_endpoint_url
        raise CredentialsUnavailableError(
            f"cannot get a token from {url}: no complete response within {_TIMEOUT_S:g} s"
        ) from None
    finally:
        sockets.end()


def _exchange(security: SecuritySettings, sockets: _Sockets) -> Mapping[str, Any]:
    url = security.sasl_oauthbearer_token_endpoint_url or ""
    body, secrets = _body(security)
    request = Request(
        url,
        data=urlencode(body).encode(),
        headers={
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            **_authorization(security),
        },
    )
    try:
        with sockets.opener(_tls(security)).open(request, timeout=_TIMEOUT_S) as response:
            data = response.read(_MAX_BYTES + 1)
    except HTTPError as error:
        with error:
            raise _refused(url, error, secrets) from error
    except (OSError, HTTPException) as error:  # URLError and TimeoutError are OSErrors
        raise _unreachable(url, error) from error
    return _json_object(data, f"{url}: the answer")


def _body(security: SecuritySettings) -> tuple[dict[str, str], list[str]]:
    """Return the form to send, and what of it must not be repeated."""
    body = {"grant_type": security.oauth_grant}
    secrets = [security.sasl_oauthbearer_client_secret or ""]
    if security.oauth_grant == JWT_BEARER:
        body["assertion"] = _assertion(security)
        secrets.append(body["assertion"])
    if security.sasl_oauthbearer_scope:
        body["scope"] = security.sasl_oauthbearer_scope
    return body, secrets


def _authorization(security: SecuritySettings) -> dict[str, str]:
    user, secret = security.sasl_oauthbearer_client_id, security.sasl_oauthbearer_client_secret
    if not user or not secret:
        return {}
    if security.sasl_oauthbearer_header_urlencode:
        user, secret = quote_plus(user), quote_plus(secret)
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}"}


def _tls(security: SecuritySettings) -> ssl.SSLContext:
    location, pem = security.https_ca_location, security.https_ca_pem
    try:
        if location is None:
            return ssl.create_default_context(cadata=pem)
        directory = Path(location).is_dir()
        return ssl.create_default_context(
            cafile=None if directory else location, capath=location if directory else None
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        name = "https_ca_pem" if location is None else f"https_ca_location: {location}"
        raise ConfigError(f"{name} holds no PEM certificates ({type(error).__name__})") from error


def _unreachable(url: str, error: Exception) -> GroupSdkError:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return TlsError(
            f"{url}: the certificate of the token endpoint is not trusted ({reason.verify_message});"
            " check https_ca_location or https_ca_pem"
        )
    return CredentialsUnavailableError(
        f"cannot get a token from {url}: {_told(str(reason)) or type(reason).__name__}"
    )


def _refused(url: str, error: HTTPError, secrets: list[str]) -> GroupSdkError:
    """Return what an answer with an error status means (RFC 6749, section 5.2)."""
    told = ""
    try:
        answer = _json_object(error.read(_MAX_BYTES + 1), url)
        told = ": ".join(
            str(answer[key]) for key in ("error", "error_description") if answer.get(key)
        )
    except (AuthenticationError, OSError, HTTPException):
        pass  # then the status has to do
    for secret in filter(None, secrets):
        told = told.replace(secret, "<secret>")
    text = f"{url} answered HTTP {error.code}{f' ({_told(told)})' if told else ''}"
    if error.code in _PASSING or error.code >= 500:
        return CredentialsUnavailableError(f"no token: {text}")
    return AuthenticationError(
        f"no token: {text}; check sasl_oauthbearer_token_endpoint_url, the client's id and secret or its key,"
        " and the scope"
    )


def _told(text: str) -> str:
    """Return the beginning of the endpoint's words as they may be logged."""
    return printable(text[:_MAX_TOLD])


def _json_object(data: bytes, what: str) -> Mapping[str, Any]:
    if len(data) > _MAX_BYTES:
        raise AuthenticationError(f"{what} has more than {_MAX_BYTES} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise AuthenticationError(f"{what} is not a JSON object")
    return content


def _lifetime_ms(token: str, expires_in: object, date_ms: int) -> int | None:
    """Return when a token expires, in milliseconds since 1970: the earlier of what is said about it."""
    known = []
    left_s = _seconds(expires_in)
    if left_s is not None:
        known.append(date_ms + int(left_s * 1_000))
    expires_s = _seconds(_claims(token).get("exp"))
    if expires_s is not None:
        known.append(int(expires_s * 1_000))
    return min(known, default=None)


def _seconds(value: object) -> float | None:
    """Return a number of seconds, which some endpoints send as a string; None: it is none that can be."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return value


def _claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a token that is a JWT, unverified; empty for any other."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


# The assertion of a JWT bearer grant.


def _assertion(security: SecuritySettings) -> str:
    """Return what proves who we are: a JWT out of a file, read each time, or one that is signed now."""
    file = security.sasl_oauthbearer_assertion_file
    if file is not None:
        return _read("sasl_oauthbearer_assertion_file", file).decode("ascii", "replace").strip()
    try:
        # Optional, and it loads the package cryptography.
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise ConfigError(
            "signing an assertion needs the packages PyJWT and cryptography: pip install groupsdk[oidc]"
        ) from error
    pem, where = _private_key(security)
    passphrase = security.sasl_oauthbearer_assertion_private_key_passphrase
    headers, claims = _contents(security, WallClock().now_ms() // 1_000)
    try:
        key: Any = load_pem_private_key(pem, passphrase.encode() if passphrase else None)
        return jwt.encode(
            claims, key, algorithm=security.sasl_oauthbearer_assertion_algorithm, headers=headers
        )
    except Exception as error:  # noqa: BLE001  # of two libraries; not its text, which may tell of the key
        raise ConfigError(
            f"{where} cannot sign with {security.sasl_oauthbearer_assertion_algorithm}"
            f" ({type(error).__name__}): it must be a PEM private key, RSA for RS256 and P-256 for ES256; an"
            " encrypted one needs sasl_oauthbearer_assertion_private_key_passphrase"
        ) from None


def _private_key(security: SecuritySettings) -> tuple[bytes, str]:
    pem = security.sasl_oauthbearer_assertion_private_key_pem
    if pem is not None:
        return pem.encode(), "sasl_oauthbearer_assertion_private_key_pem"
    name = "sasl_oauthbearer_assertion_private_key_file"
    file = security.sasl_oauthbearer_assertion_private_key_file or ""
    return _read(name, file), f"{name}: {file}"


def _contents(security: SecuritySettings, now_s: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return headers and claims: those of the settings, those of the template over them, then the times."""
    claims: dict[str, Any] = {
        name: value
        for name in ("aud", "iss", "sub")
        if (value := getattr(security, f"sasl_oauthbearer_assertion_claim_{name}")) is not None
    }
    headers: dict[str, Any] = {}
    file = security.sasl_oauthbearer_assertion_template_file
    if file is not None:
        name = "sasl_oauthbearer_assertion_template_file"
        template = _template(_read(name, file), f"{name}: {file}")
        headers |= template.get("header", {})
        claims |= template.get("payload", {})
    claims |= {
        "iat": now_s,
        "exp": now_s + security.sasl_oauthbearer_assertion_claim_exp_seconds,
        "nbf": now_s - security.sasl_oauthbearer_assertion_claim_nbf_seconds,
    }
    if security.sasl_oauthbearer_assertion_claim_jti_include:
        claims["jti"] = str(uuid.uuid4())
    return headers, claims


def _template(data: bytes, where: str) -> Mapping[str, dict[str, Any]]:
    try:
        template = _json_object(data, where)
    except AuthenticationError as error:
        raise ConfigError(str(error)) from None
    for name, value in template.items():
        if name not in ("header", "payload") or not isinstance(value, dict):
            raise ConfigError(
                f'{where}: {name!r} is not allowed; a template is {{"header": {{...}}, "payload": {{...}}}}'
            )
    return template


def _read(name: str, file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name}: cannot read {file} ({type(error).__name__})") from error
    if not data or len(data) > _MAX_BYTES:
        raise ConfigError(f"{name}: {file} is empty, or has more than {_MAX_BYTES} bytes")
    return data
