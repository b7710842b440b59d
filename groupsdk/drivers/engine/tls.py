"""Build the TLS context from the settings, and explain TLS errors."""

import ssl
from pathlib import Path
from typing import Final

from groupsdk.errors import (
    ConfigError,
    DisconnectedError,
    GroupSdkError,
    RequestTimeoutError,
    TlsError,
)
from groupsdk.printable import address_text
from groupsdk.settings.security import SecuritySettings


# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_NAME_MISMATCH_CODES: Final = frozenset({62, 64})
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_VALIDITY_CODES: Final = frozenset({9, 10})
# OpenSSL's names, by release, for bytes that are not a TLS record.
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


def build_ssl_context(settings: SecuritySettings) -> ssl.SSLContext:
    """Build the TLS context: TLS 1.2 or newer, certificate and host name checked.

    Reads the files named in the settings, so it may block.
    """
    if settings.ssl_context is not None:
        if not isinstance(settings.ssl_context, ssl.SSLContext):
            raise ConfigError(
                f"ssl_context must be an ssl.SSLContext, not {type(settings.ssl_context).__name__}"
            )
        return settings.ssl_context
    # Not create_default_context: its flags differ between Python releases, and from 3.13 on they refuse
    # certificates that private authorities of Kafka clusters commonly issue.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = _checks_host_name(settings)
    if settings.ssl_ca_location is not None:
        _check_path("ssl_ca_location", settings.ssl_ca_location)
        try:
            _load_ca_location(context, Path(settings.ssl_ca_location))
        except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
            raise _file_error(
                "ssl_ca_location", settings.ssl_ca_location, "PEM certificates", exc
            ) from exc
    elif settings.ssl_ca_pem is not None:
        try:
            context.load_verify_locations(cadata=settings.ssl_ca_pem)
        except (OSError, TypeError, ValueError) as exc:  # as it is not PEM, empty, not ASCII
            raise ConfigError(f"ssl_ca_pem holds no PEM certificates ({_reason(exc)})") from exc
    else:
        context.load_default_certs()
    if settings.ssl_certificate_location is not None:
        _load_own_certificate(context, settings, settings.ssl_certificate_location)
    return context


def _checks_host_name(settings: SecuritySettings) -> bool:
    return settings.ssl_endpoint_identification_algorithm.lower() not in {"", "none"}


def _load_ca_location(context: ssl.SSLContext, path: Path) -> None:
    if path.is_dir():
        # OpenSSL looks files up by the hash of the subject and ignores all others without a word.
        if not any(path.glob("[0-9a-f]*.[0-9]")):
            raise ConfigError(
                f"ssl_ca_location: the directory {path} holds no hashed certificates; "
                f"run `openssl rehash {path}`, or name one file"
            )
        context.load_verify_locations(capath=str(path))
    else:
        context.load_verify_locations(cafile=str(path))


def _load_own_certificate(
    context: ssl.SSLContext, settings: SecuritySettings, certificate: str
) -> None:
    key = settings.ssl_key_location
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)
        return settings.ssl_key_password or ""

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
            trouble = "is wrong" if settings.ssl_key_password else "is missing"
            raise ConfigError(
                f"ssl_key_password {trouble}: the key in {path} is encrypted"
            ) from exc
        raise ConfigError(
            f"ssl_certificate_location, ssl_key_location: {certificate} and {path} do not hold a PEM "
            f"certificate and its PEM key ({_reason(exc)})"
        ) from exc


def explain_tls_error(exc: BaseException, host: str, port: int) -> GroupSdkError:
    """Explain an error of a TLS handshake, or of the first read after it, and how to solve it.

    It is a `TlsError` where the two sides cannot agree, else retriable: a broker that goes down looks like one
    without TLS. With TLS 1.3 a broker refuses a client's certificate only after the handshake.
    """
    where = address_text(host, port)
    if isinstance(exc, ssl.SSLCertVerificationError):
        return TlsError(f"TLS to {where}: {_explain_certificate(exc, host)}")
    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(
        exc, ssl.SSLError
    ):
        if isinstance(exc, TimeoutError):
            return RequestTimeoutError(f"TLS to {where}: no answer to the handshake in time")
        plain = "PLAINTEXT or SASL_PLAINTEXT"
        return DisconnectedError(
            f"TLS to {where}: the connection was closed before TLS was set up: the broker went down, wants a client "
            f"certificate (ssl_certificate_location), or this port does not speak TLS (set security_protocol to {plain})"
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


def _explain_certificate(exc: ssl.SSLCertVerificationError, host: str) -> str:
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


def _check_path(name: str, path: str) -> None:
    # Before anything else, since the system's errors show the path, and this may be a private key.
    if "\n" in path or "\r" in path:
        raise ConfigError(f"{name}: give the path of a file that holds the PEM, not the PEM itself")


def _check_readable(name: str, path: str) -> None:
    _check_path(name, path)
    try:
        with Path(path).open("rb"):
            pass
    except (OSError, ValueError) as exc:
        raise _file_error(name, path, "PEM", exc) from exc


def _file_error(name: str, path: str, what: str, exc: OSError | ValueError) -> ConfigError:
    if not isinstance(exc, OSError):  # a NUL in it, or what has no place in a file name
        return ConfigError(f"{name}: cannot read {path!r}: {exc}")
    # Only the system's errors carry a text; those of OpenSSL carry a reason.
    if getattr(exc, "reason", None) is None and exc.strerror:
        return ConfigError(f"{name}: cannot read {path}: {exc.strerror}")
    return ConfigError(f"{name}: {path} holds no {what} ({_reason(exc)})")


def _reason(exc: BaseException) -> str:
    return str(getattr(exc, "reason", None) or type(exc).__name__)
