"""Authenticate users by PLAIN and OAUTHBEARER, and create the server side of each mechanism."""

import base64
import binascii
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from groupsdk.broker.server.token_threads import TokenThreads, Validated
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.limits import MAX_INT64


if TYPE_CHECKING:
    from groupsdk.broker.server.scram import ScramCredentials
    from groupsdk.broker.settings.table import BrokerConfig
    from groupsdk.broker.store import Store
    from groupsdk.clock import Clock


logger = logging.getLogger(__name__)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MAX_TOKEN: Final = 64 * 1024


class SaslError(GroupSdkError):
    """The authentication failed; the message is for the log, not for the client."""


class TokenUser(NamedTuple):
    """The user of a bearer token, and when the token expires."""

    name: str
    """The name of the user, without "User:"."""
    expires_ms: int | None
    """In milliseconds since 1970; the connection is closed then unless the client re-authenticates. None:
    never.
    """


TokenValidator = Callable[[str], str | TokenUser]
"""Takes a bearer token and returns the name of its user, or a `TokenUser`; raises any exception if the token is
not valid.
"""


class SaslServer(Protocol):
    """The server side of one SASL exchange."""

    principal: str | None
    """The authenticated user, such as "User:alice"; None until the exchange is complete."""
    expires_ms: int | None
    """When the authentication expires, in milliseconds since 1970; None: never."""

    def evaluate(self, message: bytes) -> bytes:
        """Process the client's next message and return the server's; GroupSdkError if the authentication failed."""


class PlainServer:
    """The server side of PLAIN (RFC 4616)."""

    expires_ms: int | None = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.principal: str | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Verify the user name and password in the only message of the exchange."""
        try:
            authzid, user, password = message.decode().split("\0")
        except ValueError:
            raise SaslError(
                "a PLAIN message must be authzid, user and password, separated by NUL"
            ) from None
        if not user or not password:
            raise SaslError("a PLAIN message must have a user and a password")
        expected = self._passwords.get(user)
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not same:
            raise SaslError("unknown user or wrong password")
        if authzid and authzid != user:
            raise SaslError("the authorization id of a PLAIN message must be its user")
        self.principal = f"User:{user}"
        return b""


class OAuthBearerServer:
    """The server side of OAUTHBEARER (RFC 7628): an invalid token is reported to the client, then the exchange fails."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._validated: list[Validated] = []
        self._refused = False
        self.principal: str | None = None
        self.expires_ms: int | None = None

    def validation(self, message: bytes) -> Callable[[], Validated] | None:
        """Return the validation of the token in a message, which may run on any thread; None if there is none to do."""
        try:
            return None if self._refused else partial(_validated, self._validator, _bearer(message))
        except SaslError:
            return None  # `evaluate` says so

    def validated(self, outcome: Validated) -> None:
        """Note the outcome of `validation`, for the next `evaluate`."""
        self._validated = [outcome]

    def evaluate(self, message: bytes) -> bytes:
        """Validate the bearer token in the client's first message, unless that was done.

        Return a JSON error if it is not valid, after which the next message fails; else an empty message.
        """
        if self._refused:
            raise SaslError("the bearer token is invalid")
        token = _bearer(message)
        outcome = self._validated.pop() if self._validated else _validated(self._validator, token)
        if outcome is None:
            self._refused = True
            return b'{"status":"invalid_token"}'
        name, self.expires_ms = outcome
        self.principal = f"User:{name}"
        return b""


def _validated(validator: TokenValidator, token: str) -> Validated:
    try:
        user: object = validator(token)
    except BaseException as error:  # noqa: BLE001 - any exception of a validator means "not valid"
        # without its text, which may hold the token
        logger.warning("token_validator raised %s", type(error).__name__)
        return None
    name, expires_ms = user if isinstance(user, TokenUser) else (user, None)
    if isinstance(name, str) and name:
        return name, expires_ms
    logger.warning("token_validator must return a name or a TokenUser, not %s", type(user).__name__)
    return None


def _bearer(message: bytes) -> str:
    try:
        header, *pairs = message.decode().split("\x01")
    except UnicodeDecodeError:
        raise SaslError("an OAUTHBEARER message must be UTF-8") from None
    values = dict(pair.partition("=")[::2] for pair in pairs if pair)
    scheme, _, token = values.get("auth", "").partition(" ")
    if not header.startswith("n,") or scheme.lower() != "bearer" or not token.strip():
        raise SaslError("an OAUTHBEARER message must have a bearer token")
    return token.strip()


def unsecured_token_validator(clock: "Clock") -> TokenValidator:
    """Create a validator that accepts unsigned tokens with a `sub` and an `exp` in the future; for tests only."""

    def validate(token: str) -> TokenUser:
        parts = token.split(".")
        if len(token) > _MAX_TOKEN or len(parts) != 3 or parts[2]:
            raise SaslError("the token must be unsecured: three parts, the last one empty")
        header, claims = (_json(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise SaslError("only unsigned tokens are accepted (alg must be none)")
        subject, expires = claims.get("sub"), claims.get("exp")
        if not isinstance(subject, str) or not subject:
            raise SaslError("the token must have a sub claim")
        if not isinstance(expires, (int, float)) or not clock.now_ms() < expires * 1000 < MAX_INT64:
            raise SaslError("the token has no exp claim, or has expired")
        return TokenUser(subject, int(expires * 1000))

    return validate


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise SaslError("the token must be base64-encoded JSON") from None
    if not isinstance(found, dict):
        raise SaslError("each part of the token must be a JSON object")
    return found


class Authentication:
    """The users of a broker and the enabled SASL mechanisms.

    Args:
        validator: validates bearer tokens; None: `sasl.oauthbearer.unsecured` decides.
        token_threads: run the validator; None: it runs on the loop.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        store: "Store",
        clock: "Clock",
        passwords: Mapping[str, str],
        validator: TokenValidator | None = None,
        token_threads: TokenThreads | None = None,
    ) -> None:
        self.token_threads = None if validator is None else token_threads
        """Run the user's token validator; None: there is none, or it runs on the loop."""
        self._store = store
        self._passwords = dict(passwords)
        if validator is None and config.sasl_oauthbearer_unsecured:
            validator = unsecured_token_validator(clock)
        self._validator = validator
        names = [each.strip().upper() for each in config.sasl_enabled_mechanisms.split(",")]
        self.mechanisms = tuple(name for name in names if name)
        """The enabled mechanisms, in the order of the configuration."""
        for name in self.mechanisms:
            if name not in MECHANISMS:
                raise ConfigError(
                    f"sasl.enabled.mechanisms must name mechanisms from {', '.join(MECHANISMS)}, not {name}"
                )
        if "OAUTHBEARER" in self.mechanisms and validator is None:
            raise ConfigError(
                "sasl.enabled.mechanisms names OAUTHBEARER, which needs a token validator, or"
                " sasl.oauthbearer.unsecured=true for tests"
            )
        self._scram: ScramCredentials | None = None

    @property
    def scram(self) -> "ScramCredentials":
        if self._scram is None:
            from groupsdk.broker.server.scram import ScramCredentials

            self._scram = ScramCredentials(self._store, self._passwords)
        return self._scram

    def server(self, mechanism: str) -> SaslServer:
        """Create the server side of an exchange; the mechanism must be enabled."""
        if mechanism == "PLAIN":
            return PlainServer(self._passwords)
        if mechanism == "OAUTHBEARER":
            assert self._validator is not None
            return OAuthBearerServer(self._validator)
        from groupsdk.broker.server.scram import ScramServer

        return ScramServer(mechanism, self.scram)
