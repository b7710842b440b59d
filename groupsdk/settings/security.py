"""Settings for encrypting and authenticating connections, validated before use."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, replace
from importlib.util import find_spec
from typing import Any, Final

from groupsdk.errors import ConfigError
from groupsdk.lazy_dataclasses import dataclass


SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The values of `security.protocol`."""

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The values of `sasl.mechanism`."""

CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
OAUTH_GRANTS: Final = (CLIENT_CREDENTIALS, JWT_BEARER)
"""The values of `sasl.oauthbearer.grant.type`."""

_RETRIEVERS: Final = {
    "ClientCredentialsJwtRetriever": CLIENT_CREDENTIALS,
    "DefaultJwtRetriever": CLIENT_CREDENTIALS,
    "JwtBearerJwtRetriever": JWT_BEARER,
}
"""What Java's classes for getting tokens ask for."""
_ALGORITHMS: Final = ("RS256", "ES256")
_FLAGS: Final = frozenset(
    {"sasl_oauthbearer_header_urlencode", "sasl_oauthbearer_assertion_claim_jti_include"}
)
_SECONDS: Final = {
    "sasl_oauthbearer_assertion_claim_exp_seconds": 1,
    "sasl_oauthbearer_assertion_claim_nbf_seconds": 0,
}
"""Settings that are numbers, with the least that each may be."""
_PROVIDERS: Final = ("sasl_credentials_provider", "sasl_oauth_token_provider")
_NO_TEXTS: Final = frozenset({*_PROVIDERS, *_FLAGS, *_SECONDS, "ssl_context"})


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A bearer token and its metadata."""

    value: str = field(repr=False)
    """The token as it goes over the wire, e.g. a compact JWT."""
    lifetime_ms: int | None = None
    """When it expires, in milliseconds since 1970; None when the provider does not know."""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SASL extensions (KIP-342) sent beside the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """How connections are encrypted and authenticated, under Kafka's configuration names.

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
    sasl_credentials_provider: Callable[[], tuple[str, str]] | None = field(
        default=None, repr=False
    )
    """Returns user name and password as they are now, in place of the two settings above. Called once per
    connection; may block."""
    sasl_oauth_token_provider: Callable[[], "str | OAuthToken"] | None = field(
        default=None, repr=False
    )
    """Returns a token that is valid now. Called once per connection; may block."""
    sasl_oauthbearer_method: str = "default"
    """``oidc`` gets tokens from a token endpoint, with the settings below (KIP-768); ``default``: from
    sasl.oauth.token.provider."""
    sasl_oauthbearer_jwt_retriever_class: str | None = None
    """Java's name for ``oidc`` and a grant: `ClientCredentialsJwtRetriever` or `JwtBearerJwtRetriever`, with or
    without its package."""
    sasl_oauthbearer_token_endpoint_url: str | None = None
    """The token endpoint, https:// or http://."""
    sasl_oauthbearer_grant_type: str = CLIENT_CREDENTIALS
    """One of `OAUTH_GRANTS`."""
    sasl_oauthbearer_client_id: str | None = None
    """The client's id at the identity provider."""
    sasl_oauthbearer_client_secret: str | None = field(default=None, repr=False)
    """The client's secret."""
    sasl_oauthbearer_scope: str | None = None
    """The scope to request; None: the identity provider's default."""
    sasl_oauthbearer_extensions: str | None = None
    """SASL extensions (KIP-342) for the broker: "key=value,key=value"."""
    sasl_oauthbearer_header_urlencode: bool = False
    """Whether id and secret are URL-encoded in the header, as RFC 6749 has it and few endpoints do."""
    sasl_oauthbearer_assertion_file: str | None = None
    """A file with the assertion of a JWT bearer grant (KIP-1139), read for each token. Without it one is made
    and signed with the settings below."""
    sasl_oauthbearer_assertion_private_key_file: str | None = None
    """The key to sign with, in PEM; read for each token."""
    sasl_oauthbearer_assertion_private_key_pem: str | None = field(default=None, repr=False)
    """The key itself, in PEM."""
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = field(default=None, repr=False)
    """The passphrase of the key; None: it is not encrypted."""
    sasl_oauthbearer_assertion_algorithm: str = "RS256"
    """``RS256`` or ``ES256``."""
    sasl_oauthbearer_assertion_claim_aud: str | None = None
    """The assertion's audience."""
    sasl_oauthbearer_assertion_claim_iss: str | None = None
    """The assertion's issuer."""
    sasl_oauthbearer_assertion_claim_sub: str | None = None
    """The assertion's subject."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int = 300
    """For how many seconds the assertion is valid."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = 60
    """From how many seconds ago it is valid, for clocks that differ."""
    sasl_oauthbearer_assertion_claim_jti_include: bool = False
    """Whether each assertion has a random id."""
    sasl_oauthbearer_assertion_template_file: str | None = None
    """JSON with more of the assertion: {"header": {...}, "payload": {...}}."""
    https_ca_location: str | None = None
    """File or directory of PEM certificates that the token endpoint's is checked with; None: the system's."""
    https_ca_pem: str | None = field(default=None, repr=False)
    """The certificates themselves, in PEM."""
    ssl_ca_location: str | None = None
    """File of PEM certificates, or a directory prepared by ``openssl rehash``."""
    ssl_ca_pem: str | None = field(default=None, repr=False)
    """The certificates themselves, in PEM."""
    ssl_certificate_location: str | None = None
    """The client's certificate chain in PEM, for brokers that require one."""
    ssl_key_location: str | None = None
    """The key of the client's certificate; None: it is in the certificate's file."""
    ssl_key_password: str | None = field(default=None, repr=False)
    """The password of the key; None: it is not encrypted."""
    ssl_endpoint_identification_algorithm: str = "https"
    """``https`` checks that the broker's certificate names the host connected to; ``none`` (or "") does not."""
    ssl_context: Any = field(default=None, repr=False)
    """An `ssl.SSLContext` of the user's. It overrides every other ``ssl_*`` setting."""

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
        """Return whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Return whether connections authenticate with SASL."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    @property
    def uses_oidc(self) -> bool:
        """Return whether tokens come from a token endpoint."""
        asked = self.sasl_oauthbearer_jwt_retriever_class is not None
        return asked or self.sasl_oauthbearer_method.lower() == "oidc"

    @property
    def oauth_grant(self) -> str:
        """Return the grant type of token requests."""
        retriever = (self.sasl_oauthbearer_jwt_retriever_class or "").rpartition(".")[2]
        return _RETRIEVERS.get(retriever, self.sasl_oauthbearer_grant_type)

    def with_token(self, token: "str | OAuthToken") -> "SecuritySettings":
        """Return the same settings with a fixed token in place of its provider.

        Args:
            token: the token; it is not renewed.
        """
        others = {name: default for name, _, default in self._oauth_settings()}
        return replace(self, **{**others, "sasl_oauth_token_provider": lambda: token})

    def _oauth_settings(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the settings of the token endpoint: name, value, default."""
        for each in fields(self):
            if each.name.startswith(("sasl_oauthbearer_", "https_")):
                yield each.name, getattr(self, each.name), each.default

    def with_credentials(self, username: str, password: str) -> "SecuritySettings":
        """Return the same settings with another user name and password, checked.

        Args:
            username: the name for PLAIN or SCRAM.
            password: its password.

        Raises:
            ConfigError: the mechanism has no user names (only PLAIN and SCRAM do), or the values cannot be used.
        """
        if not self.uses_sasl or self.mechanism in (None, "OAUTHBEARER"):
            raise ConfigError(
                "a user name and a password are not used here: security.protocol is"
                f" {self.protocol}, sasl.mechanism {self.mechanism or 'not set'}; PLAIN and SCRAM take them"
            )
        changed = replace(
            self,
            sasl_username=username,
            sasl_password=password,
            sasl_credentials_provider=None,
        )
        changed.validate()
        return changed

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
            self._refuse("https_", "SASL_SSL (or SASL_PLAINTEXT)")
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
                raise ConfigError(f"{setting.name} must be a string, not {type(value).__name__}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")
        for name, least in _SECONDS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
                raise ConfigError(f"{name} must be an integer of at least {least}, not {value!r}")

    def _refuse(self, prefix: str, remedy: str) -> None:
        """Reject settings that would be ignored, since users would believe connections to be safer than they are."""
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
            self._validate_oauth()
            self._exclude("sasl_username", "sasl_password", "sasl_credentials_provider")
            return
        self._exclude("sasl_oauth_token_provider")
        for name, value, default in self._oauth_settings():
            if value != default:
                raise ConfigError(
                    f"{name} is set, but sasl_mechanism={mechanism} does not use it: remove it"
                )
        if self.sasl_credentials_provider is not None:
            self._validate_credentials_provider()
        else:
            self._need("sasl_username", "the user's name")
            self._need("sasl_password", "the user's password")
        self._validate_mechanism()

    def _validate_mechanism(self) -> None:
        if self.mechanism != "PLAIN":
            if find_spec("scramp") is None:
                raise ConfigError(
                    f"sasl_mechanism={self.mechanism} needs the package scramp:"
                    " pip install 'groupsdk[scram]'"
                )
        elif self.sasl_credentials_provider is None:
            for name in ("sasl_username", "sasl_password"):
                if "\0" in getattr(self, name):
                    raise ConfigError(f"{name} holds a NUL character, which PLAIN cannot carry")

    def _validate_oauth(self) -> None:
        if self.sasl_oauthbearer_method.lower() not in ("default", "oidc"):
            raise ConfigError(
                f"sasl_oauthbearer_method is {self.sasl_oauthbearer_method!r}; it must be default or oidc"
            )
        if self.uses_oidc:
            self._validate_oidc()
            return
        for name, value, default in self._oauth_settings():
            if value != default:
                raise ConfigError(
                    f"{name} is set, but nothing uses it without sasl_oauthbearer_method=oidc"
                )
        self._need(
            "sasl_oauth_token_provider",
            "a callable that returns a token; or sasl_oauthbearer_method=oidc for a token endpoint",
        )
        if not callable(self.sasl_oauth_token_provider):
            raise ConfigError("sasl_oauth_token_provider must be callable without arguments")

    def _validate_oidc(self) -> None:
        if self.sasl_oauth_token_provider is not None:
            raise ConfigError(
                "sasl_oauth_token_provider and sasl_oauthbearer_method=oidc are both set: give one of them"
            )
        retriever = self.sasl_oauthbearer_jwt_retriever_class
        if retriever is not None and retriever.rpartition(".")[2] not in _RETRIEVERS:
            raise ConfigError(
                f"sasl_oauthbearer_jwt_retriever_class is {retriever!r}; it must be one of"
                f" {', '.join(_RETRIEVERS)}"
            )
        if self.oauth_grant not in OAUTH_GRANTS:
            raise ConfigError(
                f"sasl_oauthbearer_grant_type is {self.oauth_grant!r}; it must be one of"
                f" {', '.join(OAUTH_GRANTS)}"
            )
        url = self.sasl_oauthbearer_token_endpoint_url or ""
        if not re.fullmatch(r"https?://[^\s/?#@]+([/?][^\s#]*)?", url):
            raise ConfigError(
                f"sasl_oauthbearer_token_endpoint_url is {url!r}; it must be an https:// or http:// URL"
                " without a user or a fragment"
            )
        parse_extensions(self.sasl_oauthbearer_extensions)
        if self.https_ca_location is not None and self.https_ca_pem is not None:
            raise ConfigError("https_ca_location and https_ca_pem are both set: give one of them")
        if self.oauth_grant == JWT_BEARER:
            self._validate_assertion()
        else:
            self._validate_client_credentials()

    def _validate_client_credentials(self) -> None:
        for name in ("sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"):
            if not getattr(self, name):
                raise ConfigError(f"sasl_oauthbearer_grant_type={CLIENT_CREDENTIALS} needs {name}")
        for name, value, default in self._oauth_settings():
            if name.startswith("sasl_oauthbearer_assertion_") and value != default:
                raise ConfigError(
                    f"{name} is set, but sasl_oauthbearer_grant_type={CLIENT_CREDENTIALS} does not use"
                    f" it: remove it, or set {JWT_BEARER}"
                )

    def _validate_assertion(self) -> None:
        prefix = "sasl_oauthbearer_assertion_"
        sources = ("file", "private_key_file", "private_key_pem")
        given = [name for name in sources if getattr(self, prefix + name)]
        if len(given) != 1:
            raise ConfigError(
                f"sasl_oauthbearer_grant_type={JWT_BEARER} needs one of"
                f" {', '.join(prefix + name for name in sources)}; {len(given)} are set"
            )
        if self.sasl_oauthbearer_assertion_algorithm not in _ALGORITHMS:
            raise ConfigError(
                f"{prefix}algorithm is {self.sasl_oauthbearer_assertion_algorithm!r}; it must be"
                f" {' or '.join(_ALGORITHMS)}"
            )

    def _validate_credentials_provider(self) -> None:
        if not callable(self.sasl_credentials_provider):
            raise ConfigError("sasl_credentials_provider must be callable without arguments")
        for name in ("sasl_username", "sasl_password"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} and sasl_credentials_provider are both set: give one of them"
                )

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


def checked_credentials(found: object) -> tuple[str, str]:
    """Return the result of a `sasl_credentials_provider` after checking it.

    Args:
        found: the result: a tuple of user name and password.

    Raises:
        ConfigError: it is something else; the value is not shown.
    """
    if (
        isinstance(found, tuple)
        and len(found) == 2
        and all(isinstance(each, str) for each in found)
    ):
        return found
    raise ConfigError(
        f"sasl_credentials_provider returned {type(found).__name__}, not a tuple of user name and password"
    )


def parse_extensions(text: str | None) -> dict[str, str]:
    """Parse SASL extensions.

    Args:
        text: "key=value,key=value"; None or "" for none.

    Raises:
        ConfigError: a part is not key=value.
    """
    extensions: dict[str, str] = {}
    for part in (text or "").split(","):
        name, equals, value = part.strip().partition("=")
        if name and equals and value:
            extensions[name] = value
        elif part.strip():
            raise ConfigError(
                f"sasl_oauthbearer_extensions: {part!r} must be key=value, parted by commas"
            )
    return extensions


def plain_security(name: str, value: object) -> object:
    """Return the value of a setting in its own type, if a file or the environment gave a string.

    Args:
        name: the setting, with underscores.

    Raises:
        ConfigError: the string cannot be converted.
    """
    if not isinstance(value, str) or name not in (*_FLAGS, *_SECONDS):
        return value
    if name in _FLAGS and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if name in _SECONDS and value.strip().isdecimal():
        return int(value)
    wanted = "true or false" if name in _FLAGS else "an integer"
    raise ConfigError(f"{name.replace('_', '.')} must be {wanted}, not {value!r}")
