"""Speak SASL as a client, without I/O: bytes of the broker in, bytes for the broker out."""

import json
import re
import stringprep
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from groupsdk.errors import AuthenticationError, ConfigError
from groupsdk.lazy_imports import override
from groupsdk.settings.security import SASL_MECHANISMS, OAuthToken, SecuritySettings


MAX_CHALLENGE_BYTES: Final = 64 * 1024
MAX_SCRAM_MESSAGE_BYTES: Final = 4096
MAX_SCRAM_NONCE_CHARS: Final = 1024
MIN_SCRAM_ITERATIONS: Final = 4096
"""Kafka's own minimum; fewer would make a stolen exchange cheap to crack."""
MAX_SCRAM_ITERATIONS: Final = 1_000_000
"""About half a second of CPU; a hostile broker could ask for hours."""

_MAX_STATUS_CHARS: Final = 500
_ITERATIONS: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
# RFC 6750, section 2.1.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)
# RFC 7628, section 3.1, as Kafka's OAuthBearerClientInitialResponse reads it.
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+", re.ASCII)
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+", re.ASCII)
_KV_SEPARATOR: Final = "\x01"


class SaslMechanism(ABC):
    """One exchange over one connection; make a new one per connection. Not thread-safe.

    The driver sends `start()`, then what `respond` returns for each answer, until it returns None. It may
    use the connection only when `complete` is true.
    """

    __slots__ = ("complete", "failure", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        """The name for SaslHandshake, e.g. ``SCRAM-SHA-256``."""
        self.complete = False
        """Whether the exchange succeeded, with the broker's proof verified if the mechanism has one."""
        self.failure: AuthenticationError | None = None
        """The reason for the broker's refusal, if given: raised in place of a bare SASL_AUTHENTICATION_FAILED."""

    @abstractmethod
    def start(self) -> bytes:
        """Return the first message."""

    @abstractmethod
    def respond(self, challenge: bytes) -> bytes | None:
        """Process the broker's message, and return the response to it.

        None: the exchange is complete, and the broker verified. An AuthenticationError says that the broker refused the
        credentials, or sent an invalid message.
        """

    @override
    def __repr__(self) -> str:
        return f"<{self.name} complete={self.complete}>"

    def _check(self, challenge: bytes, limit: int) -> None:
        if self.failure is not None:
            raise self.failure
        if self.complete:
            raise AuthenticationError(f"{self.name}: the broker went on after the exchange ended")
        if len(challenge) > limit:
            raise AuthenticationError(
                f"{self.name}: the broker's message has {len(challenge)} bytes, more than {limit}"
            )


class Plain(SaslMechanism):
    """PLAIN (RFC 4616): sends user and password, which cannot have a NUL, as they are, so use it over TLS."""

    __slots__ = ("_password", "_username")

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise ConfigError(
                "PLAIN cannot carry a NUL character in sasl_username or sasl_password"
            )
        super().__init__("PLAIN")
        self._username = username
        self._password = password

    @override
    def start(self) -> bytes:
        """Return user and password."""
        return f"\0{self._username}\0{self._password}".encode()

    @override
    def respond(self, challenge: bytes) -> bytes | None:
        """End the exchange. The broker proves nothing in PLAIN, so there is nothing to verify."""
        self._check(challenge, MAX_CHALLENGE_BYTES)
        self.complete = True
        return None


class Scram(SaslMechanism):
    """SCRAM-SHA-256 or SCRAM-SHA-512 (RFC 5802, RFC 7677), with the library scramp.

    The broker's signature is verified: a broker that does not know the password is refused. `respond` may
    take half a second of CPU (with the GIL released) where the broker asks for many iterations.
    """

    __slots__ = ("_client", "_error", "_step", "_username")

    def __init__(
        self, mechanism: str, username: str, password: str, *, nonce: str | None = None
    ) -> None:
        super().__init__(mechanism)
        # Optional, and it loads some 150 modules. `SecuritySettings.validate` has looked for it.
        import scramp

        for key, value in (("sasl_username", username), ("sasl_password", password)):
            if not _is_prepared(value):
                # Kafka's broker takes them as they are, scramp (as the RFC asks) maps them first.
                raise ConfigError(
                    f"{key} holds characters that SCRAM's string preparation (RFC 4013) would change, "
                    f"so a Kafka broker would not recognise it: use their normalised form (NFKC)"
                )
        self._error: Any = scramp.ScramException
        self._username = username
        self._step = 0
        try:
            self._client: Any = scramp.ScramClient([mechanism], username, password, c_nonce=nonce)
        except scramp.ScramException as exc:
            raise ConfigError(
                f"sasl_username or sasl_password cannot be used with {mechanism}: {exc}"
            ) from None

    @override
    def start(self) -> bytes:
        """Return the client-first message: the user and our nonce."""
        message: str = self._client.get_client_first()
        return message.encode()

    @override
    def respond(self, challenge: bytes) -> bytes | None:
        """Return the client's proof for the server-first message; None once the broker's proof is verified."""
        self._check(challenge, MAX_SCRAM_MESSAGE_BYTES)
        self._step += 1
        try:
            message = challenge.decode()
            if self._step == 1:
                return self._prove(message)
            self._client.set_server_final(message)
        except (self._error, ValueError) as exc:
            raise AuthenticationError(
                f"{self.name}: the exchange for user {self._username!r} failed: {exc}"
            ) from exc
        self.complete = True
        return None

    def _prove(self, message: str) -> bytes:
        for attribute in message.split(","):
            if attribute.startswith("i="):
                self._check_iterations(attribute[2:])
            elif attribute.startswith("r=") and len(attribute) - 2 > MAX_SCRAM_NONCE_CHARS:
                raise AuthenticationError(
                    f"{self.name}: the broker's nonce has {len(attribute) - 2} characters, "
                    f"more than {MAX_SCRAM_NONCE_CHARS}"
                )
        self._client.set_server_first(message)
        proof: str = self._client.get_client_final()
        return proof.encode()

    def _check_iterations(self, text: str) -> None:
        """Reject an iteration count that is too high or too low, before computing with it."""
        count = int(text) if _ITERATIONS.fullmatch(text) else 0
        if not MIN_SCRAM_ITERATIONS <= count <= MAX_SCRAM_ITERATIONS:
            raise AuthenticationError(
                f"{self.name}: the broker asks for {text[:20]!r} iterations; "
                f"{MIN_SCRAM_ITERATIONS} to {MAX_SCRAM_ITERATIONS} are accepted"
            )


class OAuthBearer(SaslMechanism):
    """OAUTHBEARER (RFC 7628): sends a token that the user's callable returns.

    `start` calls that callable, on the calling thread; its exceptions propagate.
    """

    __slots__ = ("_provider", "_token")

    def __init__(self, provider: Callable[[], str | OAuthToken]) -> None:
        super().__init__("OAUTHBEARER")
        self._provider = provider
        self._token: OAuthToken | None = None

    @override
    def start(self) -> bytes:
        """Return the token and its extensions; the ConfigError about an invalid one does not show it."""
        token = self._provider()
        if isinstance(token, str):
            token = OAuthToken(token)
        if not isinstance(token, OAuthToken):
            raise ConfigError(
                f"sasl_oauth_token_provider returned {type(token).__name__}, not a str or an OAuthToken"
            )
        if not _TOKEN.fullmatch(token.value):
            raise ConfigError(
                "sasl_oauth_token_provider returned a token that is empty or has characters "
                "other than A-Z a-z 0-9 - . _ ~ + / ="
            )
        for name, value in token.extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
                raise ConfigError(
                    f"OAuthToken.extensions: the name {name!r} must be letters only, and not 'auth'"
                )
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ConfigError(
                    f"OAuthToken.extensions: the value of {name!r} must be printable ASCII"
                )
        self._token = token
        pairs = [f"auth=Bearer {token.value}"]
        pairs += [f"{name}={value}" for name, value in token.extensions.items()]
        body = _KV_SEPARATOR.join(pairs)
        return f"n,,{_KV_SEPARATOR}{body}{_KV_SEPARATOR}{_KV_SEPARATOR}".encode()

    @override
    def respond(self, challenge: bytes) -> bytes | None:
        """End the exchange, or acknowledge the broker's refusal.

        A refusal comes as a JSON object. RFC 7628 wants it acknowledged, after which the broker ends the
        exchange: the first call returns that acknowledgement and sets `failure`, a second one raises it.
        """
        self._check(challenge, MAX_CHALLENGE_BYTES)
        if challenge:
            self.failure = AuthenticationError(f"OAUTHBEARER: {self._explain(challenge)}")
            return _KV_SEPARATOR.encode()
        self.complete = True
        return None

    def _explain(self, challenge: bytes) -> str:
        try:
            document = json.loads(challenge)
        except (ValueError, RecursionError):
            return "the broker refused the token, with a reason that is not JSON"
        status = json.dumps(document)
        if self._token is not None:
            status = status.replace(self._token.value, "<token>")
        return f"the broker refused the token: {status[:_MAX_STATUS_CHARS]}"


def mechanism_for(settings: SecuritySettings) -> SaslMechanism:
    """Create the mechanism for one connection."""
    settings.validate()
    mechanism = settings.mechanism
    if not settings.uses_sasl or mechanism is None:
        raise ConfigError(
            f"security_protocol={settings.protocol} uses no SASL mechanism; "
            f"SASL_SSL with one of {', '.join(SASL_MECHANISMS)} does"
        )
    if mechanism == "OAUTHBEARER" and settings.sasl_oauth_token_provider is not None:
        return OAuthBearer(settings.sasl_oauth_token_provider)
    username, password = settings.sasl_username or "", settings.sasl_password or ""
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram(mechanism, username, password)


def preload(mechanism: str) -> None:
    """Import the package that a mechanism needs; if it is missing, the exchange raises the error."""
    if mechanism.startswith("SCRAM-"):
        with suppress(ImportError):
            import scramp  # noqa: F401  # some 150 modules


def _is_prepared(text: str) -> bool:
    """Return whether RFC 4013 would leave the string unchanged (or refuse it, which scramp does)."""
    if any(stringprep.in_table_b1(char) or stringprep.in_table_c12(char) for char in text):
        return False
    return unicodedata.ucd_3_2_0.normalize("NFKC", text) == text
