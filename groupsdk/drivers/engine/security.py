"""Hold what a connection needs to be encrypted and authenticated, and check it before it is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupsdk.errors import (
    ConfigError,
    DisconnectedError,
    GroupSdkError,
    RequestTimeoutError,
    TlsError,
)


if TYPE_CHECKING:
    import ssl

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""What `security.protocol` may be."""

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""What `sasl.mechanism` may be."""

# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_NAME_MISMATCH_CODES: Final = frozenset({62, 64})
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_VALIDITY_CODES: Final = frozenset({9, 10})
# What OpenSSL, by its release, calls bytes that are no TLS record.
_NOT_TLS_REASONS: Final = frozenset(
    {
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "PACKET_LENGTH_TOO_LONG",
        "RECORD_LAYER_FAILURE",
        "UNEXPECTED_MESSAGE",
        "UNKNOWN_PROTOCOL",
        "WRONG_VERSION_NUMBER",
    }
)
_CLIENT_CERTIFICATE_REASONS: Final = frozenset(
    {
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_NO_CERTIFICATE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_ACCESS_DENIED",
        "TLSV1_ALERT_DECRYPT_ERROR",
        "TLSV1_ALERT_UNKNOWN_CA",
    }
)
_NO_COMMON_GROUND_REASONS: Final = frozenset(
    {
        "NO_PROTOCOLS_AVAILABLE",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV1_ALERT_INSUFFICIENT_SECURITY",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "UNSUPPORTED_PROTOCOL",
    }
)


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
    sasl_password: str | None = field(default=None, repr=False)
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
    ssl_endpoint_identification_algorithm: str = "https"
    """``https`` checks that the broker's certificate names the host we dialled; ``none`` (or "") does not."""
    ssl_context: "ssl.SSLContext | None" = field(default=None, repr=False)
    """A context made by the user. It wins over every other ``ssl_*`` setting."""

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

    def build_ssl_context(self) -> "ssl.SSLContext":
        """Build the TLS context: TLS 1.2 or newer, certificate and host name checked.

        Reads the files named in the settings, so it may block.

        Raises:
            ConfigError: a file is missing, is not PEM, or does not go with the key or password given.
        """
        if self.ssl_context is not None:
            return self.ssl_context
        # The cost of loading OpenSSL is for those who use TLS.
        import ssl

        # Not create_default_context: its flags differ between Python releases, and from 3.13 on they refuse
        # certificates that private authorities of Kafka clusters commonly issue.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self._checks_host_name
        if self.ssl_ca_location is not None:
            self._load_ca_location(context, Path(self.ssl_ca_location))
        elif self.ssl_ca_pem is not None:
            try:
                context.load_verify_locations(cadata=self.ssl_ca_pem)
            except (OSError, TypeError, ValueError) as exc:  # as it is not PEM, empty, not ASCII
                raise ConfigError(f"ssl_ca_pem holds no PEM certificates ({_reason(exc)})") from exc
        else:
            context.load_default_certs()
        if self.ssl_certificate_location is not None:
            self._load_own_certificate(context, self.ssl_certificate_location)
        return context

    @property
    def _checks_host_name(self) -> bool:
        return self.ssl_endpoint_identification_algorithm.lower() not in {"", "none"}

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
            import ssl

            if not isinstance(self.ssl_context, ssl.SSLContext):
                raise ConfigError(
                    f"ssl_context must be an ssl.SSLContext, not {type(self.ssl_context).__name__}"
                )
            return
        if self.ssl_ca_location is not None and self.ssl_ca_pem is not None:
            raise ConfigError("ssl_ca_location and ssl_ca_pem are both set: give one of them")
        for name in ("ssl_key_location", "ssl_key_password"):
            if getattr(self, name) is not None and self.ssl_certificate_location is None:
                raise ConfigError(f"{name} is set without ssl_certificate_location")

    def _load_ca_location(self, context: "ssl.SSLContext", path: Path) -> None:
        if path.is_dir():
            # OpenSSL looks files up by the hash of the subject and ignores all others without a word.
            if not any(path.glob("[0-9a-f]*.[0-9]")):
                raise ConfigError(
                    f"ssl_ca_location: the directory {path} holds no hashed certificates; "
                    f"run `openssl rehash {path}`, or name one file"
                )
            context.load_verify_locations(capath=str(path))
            return
        try:
            context.load_verify_locations(cafile=str(path))
        except OSError as exc:  # ssl.SSLError is one
            raise _file_error("ssl_ca_location", str(path), "PEM certificates", exc) from exc

    def _load_own_certificate(self, context: "ssl.SSLContext", certificate: str) -> None:
        key = self.ssl_key_location
        asked: list[bool] = []

        def password() -> str:
            asked.append(True)
            return self.ssl_key_password or ""

        for name, path in (("ssl_certificate_location", certificate), ("ssl_key_location", key)):
            if path is not None:
                _check_readable(name, path)
        try:
            # Always with a callback: without one OpenSSL asks for the password on the terminal.
            context.load_cert_chain(certificate, key, password)
        except (OSError, ValueError) as exc:
            name, path = ("ssl_key_location", key or certificate)
            if getattr(exc, "reason", None) == "KEY_VALUES_MISMATCH":
                raise ConfigError(
                    f"{name}: the key in {path} does not belong to the certificate in {certificate}"
                ) from exc
            if asked:
                trouble = "is wrong" if self.ssl_key_password else "is missing"
                raise ConfigError(
                    f"ssl_key_password {trouble}: the key in {path} is encrypted"
                ) from exc
            raise ConfigError(
                f"ssl_certificate_location, ssl_key_location: {certificate} and {path} do not hold a PEM "
                f"certificate and its PEM key ({_reason(exc)})"
            ) from exc


def explain_tls_error(exc: BaseException, host: str, port: int) -> GroupSdkError:
    """Say what an error of a TLS connection means, and what to do about it.

    Call it for errors of the handshake and of the first read after it: with TLS 1.3 a broker refuses a
    client's certificate only then.

    Returns:
        A `TlsError` where the two sides cannot agree; a retriable error where the connection just broke,
        since a broker that goes down looks the same as one that does not speak TLS. Raise it `from exc`.
    """
    import ssl

    where = f"{host}:{port}"
    if isinstance(exc, ssl.SSLCertVerificationError):
        return TlsError(f"TLS to {where}: {_explain_certificate(exc, host)}")
    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(
        exc, ssl.SSLError
    ):
        if isinstance(exc, TimeoutError):
            return RequestTimeoutError(f"TLS to {where}: no answer to the handshake in time")
        return DisconnectedError(
            f"TLS to {where}: the connection was closed before TLS was set up: the broker went down or "
            f"dropped us, or this port does not speak TLS (security_protocol)"
        )
    # An error that was not raised by OpenSSL lacks the attribute, whatever its type says.
    reason = getattr(exc, "reason", None) or ""
    if reason in _NOT_TLS_REASONS:
        text = "the port does not speak TLS; check the port, or set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
    elif reason in _CLIENT_CERTIFICATE_REASONS:
        text = (
            "the broker wants a client certificate that it trusts; "
            "check ssl_certificate_location and ssl_key_location"
        )
    elif reason in _NO_COMMON_GROUND_REASONS:
        text = (
            "the two sides share no TLS version (1.2 or newer) or cipher, "
            "or the broker wants a client certificate (ssl_certificate_location)"
        )
    else:
        text = "the handshake failed"
    return TlsError(f"TLS to {where}: {text} [{_reason(exc)}]")


def _explain_certificate(exc: "ssl.SSLCertVerificationError", host: str) -> str:
    # These, too, are only there when OpenSSL raised it.
    code = getattr(exc, "verify_code", 0)
    message = getattr(exc, "verify_message", "") or str(exc)
    if code in _NAME_MISMATCH_CODES:
        return (
            f"the broker's certificate is not for {host!r} ({message}); connect by a name that it holds "
            f"(advertised.listeners), or set ssl_endpoint_identification_algorithm=none"
        )
    if code in _VALIDITY_CODES:
        return f"the broker's certificate is outside its period of validity ({message})"
    return (
        f"the broker's certificate is not trusted ({message}); "
        f"set ssl_ca_location to the certificate of the authority that signed it"
    )


def _check_readable(name: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as exc:
        raise _file_error(name, path, "PEM", exc) from exc


def _file_error(name: str, path: str, what: str, exc: OSError) -> ConfigError:
    # Only the system's errors carry a text; those of OpenSSL carry a reason.
    if getattr(exc, "reason", None) is None and exc.strerror:
        return ConfigError(f"{name}: cannot read {path}: {exc.strerror}")
    return ConfigError(f"{name}: {path} holds no {what} ({_reason(exc)})")


def _reason(exc: BaseException) -> str:
    return str(getattr(exc, "reason", None) or type(exc).__name__)
