"""Check users by PLAIN and OAUTHBEARER, and choose the server of a mechanism."""

import base64
import binascii
import hmac
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.limits import MAX_INT64


if TYPE_CHECKING:
    from groupsdk.broker.config import BrokerConfig
    from groupsdk.broker.server.scram import ScramCredentials
    from groupsdk.broker.store import Store
    from groupsdk.clock import Clock


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MAX_TOKEN: Final = 64 * 1024


class SaslError(GroupSdkError):
    """A client is not who it says; the text is for the log, not for the client."""


class TokenUser(NamedTuple):
    """Whose a bearer token is, and until when."""

    name: str
    expires_ms: int | None
    """In milliseconds since 1970: the connection ends then, unless its client has proved itself again; None: never."""


TokenValidator = Callable[[str], str | TokenUser]
"""Takes a bearer token and returns the name of its user, or a `TokenUser`; raises where the token is not valid."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    principal: str | None
    """Who it is, once that is proved."""
    expires_ms: int | None
    """Until when that holds, in milliseconds since 1970; None: it does not end by itself."""

    def evaluate(self, message: bytes) -> bytes:
        """Take the client's next message and return the answer.

        Raises:
            GroupSdkError: the client is not who it says.
        """


class PlainServer:
    """The server's side of PLAIN (RFC 4616)."""

    expires_ms: int | None = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.principal: str | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Check a name and a password."""
        try:
            authzid, user, password = message.decode().split("\0")
        except ValueError:
            raise SaslError("a PLAIN message that is not authzid, user and password") from None
        if not user or not password:
            raise SaslError("a PLAIN message without a user or a password")
        expected = self._passwords.get(user)
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not same:
            raise SaslError("an unknown user or a wrong password")
        if authzid and authzid != user:
            raise SaslError("PLAIN for another user than the one who authenticates")
        self.principal = f"User:{user}"
        return b""


class OAuthBearerServer:
    """The server's side of OAUTHBEARER (RFC 7628): a refusal is told, and the exchange ends after that."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refused = False
        self.principal: str | None = None
        self.expires_ms: int | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Check a bearer token."""
        if self._refused:
            raise SaslError("a bearer token that is not valid")
        token = _bearer(message)
        try:
            user = self._validator(token)
        except Exception as error:  # noqa: BLE001 - whatever a validator raises means "not valid"
            self._refused = True
            self.refusal = f"{type(error).__name__}"
            return b'{"status":"invalid_token"}'
        if isinstance(user, TokenUser):
            self.expires_ms = user.expires_ms
            user = user.name
        self.principal = f"User:{user}"
        return b""


def _bearer(message: bytes) -> str:
    try:
        header, *pairs = message.decode().split("\x01")
    except UnicodeDecodeError:
        raise SaslError("an OAUTHBEARER message that is not UTF-8") from None
    values = dict(pair.partition("=")[::2] for pair in pairs if pair)
    scheme, _, token = values.get("auth", "").partition(" ")
    if not header.startswith("n,") or scheme.lower() != "bearer" or not token.strip():
        raise SaslError("an OAUTHBEARER message without a bearer token")
    return token.strip()


def unsecured_token_validator(clock: "Clock") -> TokenValidator:
    """Make a validator that takes unsigned tokens of anyone, for tests: a `sub` and a time not over.

    Args:
        clock: tells the time, in milliseconds since 1970.
    """

    def validate(token: str) -> TokenUser:
        parts = token.split(".")
        if len(token) > _MAX_TOKEN or len(parts) != 3 or parts[2]:
            raise SaslError("not an unsecured token")
        header, claims = (_json(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise SaslError("a token that is signed, where unsigned ones are taken")
        subject, expires = claims.get("sub"), claims.get("exp")
        if not isinstance(subject, str) or not subject:
            raise SaslError("a token without a sub")
        if not isinstance(expires, (int, float)) or not clock.now_ms() < expires * 1000 < MAX_INT64:
            raise SaslError("a token without an exp, or one that has expired")
        return TokenUser(subject, int(expires * 1000))

    return validate


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise SaslError("a token that is not base64-encoded JSON") from None
    if not isinstance(found, dict):
        raise SaslError("a token that is not a JSON object")
    return found


class Authentication:
    """What a broker knows of its users.

    Args:
        config: the settings.
        store: the catalogue, for SCRAM credentials.
        clock: for tokens, in milliseconds since 1970.
        passwords: by user name.
        validator: of bearer tokens; None: `sasl.oauthbearer.unsecured` decides.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        store: "Store",
        clock: "Clock",
        passwords: Mapping[str, str],
        validator: TokenValidator | None = None,
    ) -> None:
        self._store = store
        self._passwords = dict(passwords)
        if validator is None and config.sasl_oauthbearer_unsecured:
            validator = unsecured_token_validator(clock)
        self._validator = validator
        names = [each.strip().upper() for each in config.sasl_enabled_mechanisms.split(",")]
        self.mechanisms = tuple(name for name in names if name)
        """What clients may choose from."""
        for name in self.mechanisms:
            if name not in MECHANISMS:
                raise ConfigError(
                    f"sasl.enabled.mechanisms has {name}; there are {', '.join(MECHANISMS)}"
                )
        if "OAUTHBEARER" in self.mechanisms and validator is None:
            raise ConfigError(
                "sasl.enabled.mechanisms has OAUTHBEARER, which needs a token validator, or"
                " sasl.oauthbearer.unsecured=true for tests"
            )
        self._scram: ScramCredentials | None = None

    @property
    def scram(self) -> "ScramCredentials":
        """The credentials of SCRAM users."""
        if self._scram is None:
            from groupsdk.broker.server.scram import ScramCredentials

            self._scram = ScramCredentials(self._store, self._passwords)
        return self._scram

    def server(self, mechanism: str) -> SaslServer:
        """Begin an exchange with a mechanism that is enabled."""
        if mechanism == "PLAIN":
            return PlainServer(self._passwords)
        if mechanism == "OAUTHBEARER":
            assert self._validator is not None
            return OAuthBearerServer(self._validator)
        from groupsdk.broker.server.scram import ScramServer

        return ScramServer(mechanism, self.scram)
