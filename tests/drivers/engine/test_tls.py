"""Test TLS contexts, and real TLS handshakes over loopback."""

import asyncio
import datetime
import hashlib
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from groupsdk.drivers.engine.tls import build_ssl_context, explain_tls_error
from groupsdk.errors import (
    AuthenticationError,
    ConfigError,
    DisconnectedError,
    GroupSdkError,
    RequestTimeoutError,
    TlsError,
)
from groupsdk.settings.security import SecuritySettings


SECRET = "s3cr3t-do-not-show"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(scope="module")
def own(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the paths of a client's certificate, its key, and its key encrypted with SECRET."""
    folder = tmp_path_factory.mktemp("own")
    leaf = authority.issue_cert("client@example.org")
    paths = {name: str(folder / f"{name}.pem") for name in ("cert", "key", "encrypted", "both")}
    Path(paths["cert"]).write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(paths["key"])
    leaf.private_key_and_cert_chain_pem.write_to_path(paths["both"])
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    Path(paths["encrypted"]).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRET.encode()),
        )
    )
    return paths


def _tls(**settings: Any) -> SecuritySettings:
    return SecuritySettings(security_protocol="SSL", **settings)


# contexts


def test_the_context_checks_certificate_and_name_by_default(ca_file: str) -> None:
    context = build_ssl_context(_tls(ssl_ca_location=ca_file))
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("algorithm", ["none", "NONE", ""])
def test_without_name_check_the_certificate_is_still_checked(algorithm: str) -> None:
    context = build_ssl_context(_tls(ssl_endpoint_identification_algorithm=algorithm))
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_the_users_context_wins() -> None:
    context = ssl.create_default_context()
    settings = _tls(ssl_context=context, ssl_ca_location="/does/not/exist")
    settings.validate()
    assert build_ssl_context(settings) is context


def test_object_that_only_looks_like_a_context_is_refused() -> None:
    class Context:
        def wrap_bio(self) -> None: ...

    settings = _tls(ssl_context=Context())
    settings.validate()
    with pytest.raises(ConfigError, match=r"ssl_context must be an ssl\.SSLContext, not Context"):
        build_ssl_context(settings)


@pytest.mark.parametrize(
    "name", ["ssl_ca_location", "ssl_certificate_location", "ssl_key_location"]
)
def test_pem_in_the_place_of_a_path_is_refused_and_not_shown(
    own: dict[str, str], name: str
) -> None:
    for pem in (Path(own["both"]).read_text(), "-----BEGIN\rPRIVATE KEY"):
        settings = {"ssl_certificate_location": own["cert"], name: pem}
        with pytest.raises(ConfigError, match=f"^{name}: give the path of a file") as caught:
            build_ssl_context(_tls(**settings))
        assert "BEGIN" not in "".join(traceback.format_exception(caught.value, limit=0))


@pytest.mark.parametrize(
    "name", ["ssl_ca_location", "ssl_certificate_location", "ssl_key_location"]
)
def test_a_path_with_a_nul_is_named(own: dict[str, str], name: str) -> None:
    settings = {"ssl_certificate_location": own["cert"], name: "ca\0.pem"}
    with pytest.raises(ConfigError, match=f"^{name}: .*null (byte|character)"):
        build_ssl_context(_tls(**settings))


def test_a_path_that_may_not_be_looked_at_is_named(
    monkeypatch: pytest.MonkeyPatch, ca_file: str
) -> None:
    def is_dir(_: Path) -> bool:  # as of a path within a directory that is closed to us
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", is_dir)
    with pytest.raises(ConfigError, match=r"^ssl_ca_location: cannot read .*: Permission denied"):
        build_ssl_context(_tls(ssl_ca_location=ca_file))


def test_a_missing_file_is_named(own: dict[str, str], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    for name, settings in (
        ("ssl_ca_location", {"ssl_ca_location": missing}),
        ("ssl_certificate_location", {"ssl_certificate_location": missing}),
        (
            "ssl_key_location",
            {"ssl_certificate_location": own["cert"], "ssl_key_location": missing},
        ),
    ):
        with pytest.raises(ConfigError, match=f"^{name}: cannot read .*missing.pem: No such file"):
            build_ssl_context(_tls(**settings))


def test_a_file_that_is_not_pem_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("not PEM")
    with pytest.raises(ConfigError, match=r"ssl_ca_location: .*bad.pem holds no PEM certificates"):
        build_ssl_context(_tls(ssl_ca_location=str(bad)))
    with pytest.raises(ConfigError, match=r"ssl_certificate_location.*bad\.pem"):
        build_ssl_context(_tls(ssl_certificate_location=str(bad)))


@pytest.mark.parametrize("pem", ["not PEM", "", "ünicode"])
def test_a_ca_pem_that_is_not_pem(pem: str) -> None:
    with pytest.raises(ConfigError, match="ssl_ca_pem holds no PEM"):
        build_ssl_context(_tls(ssl_ca_pem=pem))


def test_the_key_may_be_in_the_file_of_the_certificate(own: dict[str, str]) -> None:
    build_ssl_context(_tls(ssl_certificate_location=own["both"]))


def test_an_encrypted_key_opens_with_its_password(own: dict[str, str]) -> None:
    build_ssl_context(
        _tls(
            ssl_certificate_location=own["cert"],
            ssl_key_location=own["encrypted"],
            ssl_key_password=SECRET,
        )
    )


@pytest.mark.parametrize(
    ("password", "trouble"), [(None, "is missing"), ("wrong-" + SECRET, "is wrong")]
)
def test_a_bad_key_password_is_named(
    own: dict[str, str], password: str | None, trouble: str
) -> None:
    settings = _tls(
        ssl_certificate_location=own["cert"],
        ssl_key_location=own["encrypted"],
        ssl_key_password=password,
    )
    with pytest.raises(ConfigError, match=f"ssl_key_password {trouble}: .*encrypted.pem") as caught:
        build_ssl_context(settings)
    assert SECRET not in str(caught.value)


def test_a_key_of_another_certificate_is_named(
    own: dict[str, str], authority: trustme.CA, tmp_path: Path
) -> None:
    other = str(tmp_path / "other.pem")
    authority.issue_cert("other@example.org").private_key_pem.write_to_path(other)
    with pytest.raises(
        ConfigError, match=r"ssl_key_location: the key in .*other.pem does not belong"
    ):
        build_ssl_context(_tls(ssl_certificate_location=own["cert"], ssl_key_location=other))


def test_a_directory_without_hashed_certificates_is_refused(
    authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=f"openssl rehash {tmp_path}"):
        build_ssl_context(_tls(ssl_ca_location=str(tmp_path)))


# handshakes


def _serve(listener: socket.socket, context: ssl.SSLContext | None, *, hang_up: bool) -> None:
    """Take one connection; echo its first bytes, or answer without TLS, or hang up."""
    raw, _ = listener.accept()
    raw.settimeout(60)
    if context is not None:
        # A blocking socket, since asyncio's server drops the alert of a failed handshake.
        connection = context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        try:
            connection.do_handshake()
            connection.sendall(connection.recv(64))
        except OSError:
            pass
        raw = socket.socket(fileno=connection.detach())
    else:
        raw.recv(1)
        if not hang_up:
            raw.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")
    with raw:
        if not hang_up:
            # Closing with unread bytes would reset the connection and might overtake the alert.
            with suppress(OSError):
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(4096):
                    pass


@contextmanager
def _broker(context: ssl.SSLContext | None, *, hang_up: bool = False) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        thread = threading.Thread(
            target=_serve, args=(listener, context), kwargs={"hang_up": hang_up}
        )
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def _server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("localhost",))).configure_cert(context)
    return context


async def _exchange(settings: SecuritySettings, port: int) -> bytes:
    """Connect as the drivers do, send and read; raise what `explain_tls_error` makes of an error."""
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=build_ssl_context(settings), server_hostname="localhost"
        )
        writer.write(b"ping")
        await writer.drain()
        answer = await reader.read(64)
        if not answer:
            raise ConnectionResetError("closed")
    except OSError as exc:
        raise explain_tls_error(exc, "localhost", port) from exc
    finally:
        if writer is not None:
            writer.transport.abort()
    return answer


def _talk(
    settings: SecuritySettings, context: ssl.SSLContext | None, *, hang_up: bool = False
) -> bytes:
    with _broker(context, hang_up=hang_up) as port:
        return asyncio.run(_exchange(settings, port))


def test_a_trusted_broker(authority: trustme.CA, ca_file: str) -> None:
    assert _talk(_tls(ssl_ca_location=ca_file), _server_context(authority)) == b"ping"


def test_a_ca_given_as_text(authority: trustme.CA) -> None:
    pem = authority.cert_pem.bytes().decode()
    assert _talk(_tls(ssl_ca_pem=pem), _server_context(authority)) == b"ping"


def _subject_hash(pem: bytes) -> str:
    """Name a certificate as ``openssl rehash`` does, since not every machine has that command."""
    digest = hashlib.sha1(usedforsecurity=False)
    for attribute in x509.load_pem_x509_certificate(pem).subject:
        value = " ".join(str(attribute.value).lower().split())
        name = x509.Name([x509.NameAttribute(attribute.oid, value)])
        digest.update(name.public_bytes()[2:])  # without the header of the outer SEQUENCE
    return digest.digest()[3::-1].hex()


def test_a_ca_given_as_a_directory(authority: trustme.CA, tmp_path: Path) -> None:
    name = f"{_subject_hash(authority.cert_pem.bytes())}.0"
    authority.cert_pem.write_to_path(str(tmp_path / name))
    assert _talk(_tls(ssl_ca_location=str(tmp_path)), _server_context(authority)) == b"ping"


def test_an_unknown_authority(ca_file: str) -> None:
    with pytest.raises(TlsError, match=r"is not trusted .*set ssl_ca_location"):
        _talk(_tls(ssl_ca_location=ca_file), _server_context(trustme.CA()))


def test_a_certificate_of_another_host(authority: trustme.CA, ca_file: str) -> None:
    with pytest.raises(
        TlsError, match=r"not for 'localhost'.*ssl_endpoint_identification_algorithm"
    ):
        _talk(_tls(ssl_ca_location=ca_file), _server_context(authority, "kafka.example.org"))


def test_a_certificate_of_another_host_without_name_check(
    authority: trustme.CA, ca_file: str
) -> None:
    settings = _tls(ssl_ca_location=ca_file, ssl_endpoint_identification_algorithm="none")
    context = _server_context(authority, "kafka.example.org")
    assert _talk(settings, context) == b"ping"


def test_an_expired_certificate(authority: trustme.CA, ca_file: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    authority.issue_cert("localhost", not_after=yesterday).configure_cert(context)
    with pytest.raises(TlsError, match="outside its period of validity"):
        _talk(_tls(ssl_ca_location=ca_file), context)


def test_a_port_that_does_not_speak_tls(ca_file: str) -> None:
    with pytest.raises(TlsError, match="the port does not speak TLS"):
        _talk(_tls(ssl_ca_location=ca_file), None)


def test_a_connection_closed_in_the_handshake_is_retriable(ca_file: str) -> None:
    with pytest.raises(DisconnectedError, match="or this port does not speak TLS") as caught:
        _talk(_tls(ssl_ca_location=ca_file), None, hang_up=True)
    assert caught.value.retriable


def _mutual(authority: trustme.CA) -> ssl.SSLContext:
    context = _server_context(authority)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_client_certificate(
    authority: trustme.CA, ca_file: str, version: ssl.TLSVersion
) -> None:
    context = _mutual(authority)
    context.maximum_version = version
    with pytest.raises(TlsError, match=r"client certificate.*ssl_certificate_location"):
        _talk(_tls(ssl_ca_location=ca_file), context)


def test_a_client_certificate_that_the_broker_does_not_trust(
    authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    stranger = str(tmp_path / "stranger.pem")
    trustme.CA().issue_cert("me@example.org").private_key_and_cert_chain_pem.write_to_path(stranger)
    with pytest.raises(TlsError, match="wants a client certificate that it trusts"):
        _talk(_tls(ssl_ca_location=ca_file, ssl_certificate_location=stranger), _mutual(authority))


def test_a_client_certificate_that_the_broker_trusts(
    authority: trustme.CA, ca_file: str, own: dict[str, str]
) -> None:
    settings = _tls(
        ssl_ca_location=ca_file,
        ssl_certificate_location=own["cert"],
        ssl_key_location=own["encrypted"],
        ssl_key_password=SECRET,
    )
    assert _talk(settings, _mutual(authority)) == b"ping"


def test_no_common_cipher(authority: trustme.CA, ca_file: str) -> None:
    server = _server_context(authority)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    server.set_ciphers("ECDHE+AES256+AESGCM")
    client = build_ssl_context(_tls(ssl_ca_location=ca_file))
    client.set_ciphers("ECDHE+CHACHA20")
    with pytest.raises(TlsError, match=r"share no TLS version .* or cipher"):
        _talk(_tls(ssl_context=client), server)


# errors that no loopback server makes


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), RequestTimeoutError),
        (ConnectionAbortedError("handshake"), DisconnectedError),
        (ConnectionResetError(), DisconnectedError),
        (EOFError(), DisconnectedError),
        (ssl.SSLEOFError(8, "EOF occurred"), DisconnectedError),
        (ssl.SSLZeroReturnError(6, "closed"), DisconnectedError),
        (ssl.SSLError(1, "something new"), TlsError),
        (ssl.SSLCertVerificationError(1, "something new"), TlsError),
    ],
)
def test_every_error_gets_a_place_and_a_kind(error: Exception, kind: type[GroupSdkError]) -> None:
    explained = explain_tls_error(error, "kafka-1", 9093)
    assert type(explained) is kind
    assert str(explained).startswith("TLS to kafka-1:9093: ")
    assert explained.retriable is not isinstance(explained, AuthenticationError)
