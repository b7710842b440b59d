"""Hold what a connection needs to be encrypted and authenticated, and check it before it is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from groupsdk.errors import ConfigError


SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""What `security.protocol` may be."""

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""What `sasl.mechanism` may be."""

_NO_TEXTS: Final = frozenset({"sasl_oauth_token_provider", "ssl_context"})


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """Carry one bearer token and what is known about it."""

    value: str = field(repr=False)
    """The token as it goes over the wire, e.g. a compact JWT."""
    lifetime_ms: int | None = None
    """When it expires, in milliseconds since 1970; None when the provider does not know."""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SASL extensions (KIP-342) sent beside the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """Say how connections are encrypted and authenticated, under Kafka's configuration names.

    The repr shows no secret. `validate` is not called by the constructor, so that all settings of a member
    can be checked in one place.
    """

    security_protocol: str = "PLAINTEXT"
    """One of `SECURITY_PROTOCOLS`, in upper or lower case."""
    sasl_mechanism: str | None = None
    """One of `SASL_MECHANISMS`, in upper or lower case."""
    sasl_username: str | None = None
    """The user's name, for PLAIN and SCRAM."""
    sasl_password: str | None = field(default=None, repr=False)
    """The user's password, for PLAIN and SCRAM."""
    sasl_oauth_token_provider: Callable[[], "str | OAuthToken"] | None = field(
        default=None, repr=False
    )
    """Returns a token that is valid now. Called once per connection; may block."""
    ssl_ca_location: str | None = None
    """File of PEM certificates, or a directory prepared by ``openssl rehash``."""
    ssl_ca_pem: str | None = field(default=None, repr=False)
    """The certificates themselves, in PEM."""
    ssl_certificate_location: str | None = None
    """Our own certificate chain in PEM, for brokers that ask for one."""
    ssl_key_location: str | None = None
    """The key of our own certificate; None when it is in the file of the certificate."""
    ssl_key_password: str | None = field(default=None, repr=False)
    """What the key is encrypted with; None when it is not."""
    ssl_endpoint_identification_algorithm: str = "https"
    """``https`` checks that the broker's certificate names the host we dialled; ``none`` (or "") does not."""
    ssl_context: Any = field(default=None, repr=False)
    """An `ssl.SSLContext` made by the user. It wins over every other ``ssl_*`` setting."""

    @property
    def protocol(self) -> str:
        """Return `security_protocol` in Kafka's spelling."""
        return self.security_protocol.upper()

    @property
    def mechanism(self) -> str | None:
        """Return `sasl_mechanism` in Kafka's spelling."""
        return None if self.sasl_mechanism is None else self.sasl_mechanism.upper()

    @property
    def uses_tls(self) -> bool:
        """Tell whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Tell whether connections authenticate with SASL."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    def validate(self) -> None:
        """Check that the settings fit together.

        Raises:
            ConfigError: naming the setting and what would be right, never a secret.
        """
        self._check_texts()
        if self.protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"security_protocol is {self.security_protocol!r}; "
                f"it must be one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if self.uses_sasl:
            self._validate_sasl()
        else:
            self._refuse("sasl_", "SASL_SSL (or SASL_PLAINTEXT)")
        if self.uses_tls:
            self._validate_tls()
        else:
            self._refuse("ssl_", "SSL or SASL_SSL")

    def _check_texts(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name in _NO_TEXTS or (value is None and setting.default is None):
                continue
            if not isinstance(value, str):  # the value itself may be a secret
                raise ConfigError(f"{setting.name} must be a text, not {type(value).__name__}")

    def _refuse(self, prefix: str, remedy: str) -> None:
        """Refuse settings that would be ignored: the user believes to be safer than he is."""
        for setting in fields(self):
            if setting.name.startswith(prefix) and getattr(self, setting.name) != setting.default:
                if setting.name == "ssl_endpoint_identification_algorithm":
                    continue  # its default says "check", so either value is harmless without TLS
                raise ConfigError(
                    f"{setting.name} is set, but security_protocol={self.protocol} does not use it: "
                    f"set security_protocol to {remedy}, or remove {setting.name}"
                )

    def _validate_sasl(self) -> None:
        mechanism = self.mechanism
        choice = ", ".join(SASL_MECHANISMS)
        if mechanism is None:
            raise ConfigError(
                f"security_protocol={self.protocol} needs sasl_mechanism: one of {choice}"
            )
        if mechanism not in SASL_MECHANISMS:
            raise ConfigError(
                f"sasl_mechanism is {self.sasl_mechanism!r}; it must be one of {choice}"
            )
        if mechanism == "OAUTHBEARER":
            self._need("sasl_oauth_token_provider", "a callable that returns a token")
            if not callable(self.sasl_oauth_token_provider):
                raise ConfigError("sasl_oauth_token_provider must be callable without arguments")
            self._exclude("sasl_username", "sasl_password")
            return
        self._need("sasl_username", "the user's name")
        self._need("sasl_password", "the user's password")
        self._exclude("sasl_oauth_token_provider")
        if mechanism == "PLAIN":
            for name in ("sasl_username", "sasl_password"):
                if "\0" in getattr(self, name):
                    raise ConfigError(f"{name} holds a NUL character, which PLAIN cannot carry")

    def _need(self, name: str, what: str) -> None:
        if not getattr(self, name):
            raise ConfigError(f"sasl_mechanism={self.mechanism} needs {name}: {what}")

    def _exclude(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is set, but sasl_mechanism={self.mechanism} does not use it: remove it"
                )

    def _validate_tls(self) -> None:
        algorithm = self.ssl_endpoint_identification_algorithm
        if algorithm.lower() not in {"https", "none", ""}:
            raise ConfigError(
                f"ssl_endpoint_identification_algorithm is {algorithm!r}; it must be https or none"
            )
        if self.ssl_context is not None:
            # By its shape: importing ssl costs 10 ms that a plaintext user need not pay.
            if not hasattr(self.ssl_context, "wrap_bio"):
                raise ConfigError(
                    f"ssl_context must be an ssl.SSLContext, not {type(self.ssl_context).__name__}"
                )
            return
        if self.ssl_ca_location is not None and self.ssl_ca_pem is not None:
            raise ConfigError("ssl_ca_location and ssl_ca_pem are both set: give one of them")
        for name in ("ssl_key_location", "ssl_key_password"):
            if getattr(self, name) is not None and self.ssl_certificate_location is None:
                raise ConfigError(f"{name} is set without ssl_certificate_location")
