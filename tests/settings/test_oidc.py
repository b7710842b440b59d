"""Test how tokens are got from a token endpoint: a real authorization server, and answers that are none."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from flask import Response
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.clock import ManualClock
from groupsdk.errors import (
    AuthenticationError,
    ConfigError,
    CredentialsUnavailableError,
    GroupSdkError,
    TlsError,
)
from groupsdk.settings import oidc
from groupsdk.settings.config import MemberConfig
from groupsdk.settings.oidc import OidcTokenProvider
from groupsdk.settings.security import CLIENT_CREDENTIALS, JWT_BEARER, SecuritySettings
from tests.support.cases import each_case
from tests.support.token_server import CLIENT_ID, SCOPE, SECRET, TokenServer


@pytest.fixture(scope="module")
def client_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2_048)


@pytest.fixture(scope="module")
def _server(client_key: rsa.RSAPrivateKey) -> Iterator[TokenServer]:
    with TokenServer(client_key) as server:
        yield server


@pytest.fixture
def server(_server: TokenServer) -> TokenServer:
    """An identity provider that has issued nothing yet."""
    _server.tokens.clear()
    _server.failures.clear()
    _server.lifetime_s = 3_600
    return _server


def settings(url: str, **given: Any) -> SecuritySettings:
    found = SecuritySettings(
        **{
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_method": "oidc",
            "sasl_oauthbearer_token_endpoint_url": url,
            **given,
        }
    )
    found.validate()
    return found


def by_secret(server: TokenServer, **given: Any) -> SecuritySettings:
    return settings(
        server.url,
        **{
            "https_ca_pem": server.ca_pem,
            "sasl_oauthbearer_client_id": CLIENT_ID,
            "sasl_oauthbearer_client_secret": SECRET,
            **given,
        },
    )


def by_key(server: TokenServer, **given: Any) -> SecuritySettings:
    return settings(
        server.url,
        **{
            "https_ca_pem": server.ca_pem,
            "sasl_oauthbearer_grant_type": JWT_BEARER,
            "sasl_oauthbearer_assertion_claim_iss": CLIENT_ID,
            "sasl_oauthbearer_assertion_claim_sub": "alice",
            "sasl_oauthbearer_assertion_claim_aud": server.url,
            **given,
        },
    )


def pem_of(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: bytes | None = None
) -> str:
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


# Tokens.


@pytest.mark.parametrize("place", ["pem", "file", "directory"])
def test_client_credentials_get_a_token(server: TokenServer, place: str, tmp_path: Path) -> None:
    authority: dict[str, Any] = {}
    if place == "file":
        (tmp_path / "ca.pem").write_text(server.ca_pem)
        authority = {"https_ca_pem": None, "https_ca_location": str(tmp_path / "ca.pem")}
    if place == "directory":
        hashed = tmp_path / "not-a-hash.pem"
        hashed.write_text(server.ca_pem)
        authority = {"https_ca_pem": None, "https_ca_location": str(tmp_path)}
        provider = OidcTokenProvider(by_secret(server, **authority))
        with pytest.raises(TlsError, match="not trusted"):  # a directory has to be rehashed
            provider()
        return
    given = by_secret(
        server,
        sasl_oauthbearer_scope=f"{SCOPE} other",
        sasl_oauthbearer_extensions="logicalCluster=lkc-1, poolId=p",
        **authority,
    )
    token = OidcTokenProvider(given)()
    claims = claims_of(token.value)
    assert claims["grant"] == CLIENT_CREDENTIALS
    assert server.validate(token.value) == "orders"
    assert token.lifetime_ms == claims["exp"] * 1_000
    assert token.extensions == {"logicalCluster": "lkc-1", "poolId": "p"}


@pytest.mark.parametrize("kind", ["file", "pem", "encrypted", "template", "ES256", "ready"])
def test_jwt_bearer_assertion_gets_a_token(
    server: TokenServer, client_key: rsa.RSAPrivateKey, kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "key.pem"
    file.write_text(pem_of(client_key))
    prefix = "sasl_oauthbearer_assertion_"
    given: dict[str, Any] = {f"{prefix}private_key_file": str(file)}
    if kind == "pem":
        given = {
            f"{prefix}private_key_pem": pem_of(client_key),
            f"{prefix}claim_jti_include": True,
        }
    if kind == "encrypted":
        file.write_text(pem_of(client_key, b"open sesame"))
        given[f"{prefix}private_key_passphrase"] = "open sesame"
    if kind == "template":
        template = tmp_path / "template.json"
        template.write_text(json.dumps({"header": {"kid": "7"}, "payload": {"sub": "bob"}}))
        given[f"{prefix}template_file"] = str(template)
    if kind == "ready":
        claims = {"iss": CLIENT_ID, "sub": "carol", "aud": server.url, "exp": 4_000_000_000}
        file.write_text(jwt.encode(claims, client_key, algorithm="RS256") + "\n")
        given = {f"{prefix}file": str(file)}
    if kind == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
        with TokenServer(key) as other:
            given = {
                f"{prefix}private_key_pem": pem_of(key),
                f"{prefix}algorithm": "ES256",
            }
            assert other.validate(OidcTokenProvider(by_key(other, **given))().value) == "alice"
        return
    token = OidcTokenProvider(by_key(server, **given))()
    who = {"template": "bob", "ready": "carol"}.get(kind, "alice")
    assert server.validate(token.value) == who
    assert claims_of(token.value)["grant"] == JWT_BEARER


def test_a_token_is_kept_for_most_of_its_life_and_forgotten_when_it_is_refused(
    server: TokenServer,
) -> None:
    clock = ManualClock()
    provider = OidcTokenProvider(by_secret(server), clock)
    first = provider()
    clock.advance(2_870_000)
    assert provider() is first
    clock.advance(10_001)
    second = provider()
    assert second.value != first.value
    provider.forget()
    assert provider().value != second.value
    assert len(server.tokens) == 3


# Failures.


def test_a_wrong_secret_is_told_and_not_shown(server: TokenServer) -> None:
    wrong = "wr0ng-s3cret"
    provider = OidcTokenProvider(by_secret(server, sasl_oauthbearer_client_secret=wrong))
    with pytest.raises(AuthenticationError, match=r"HTTP 401 \(invalid_client") as raised:
        provider()
    assert wrong not in str(raised.value)
    assert not raised.value.retriable


def test_a_wrong_key_is_told(server: TokenServer) -> None:
    other = rsa.generate_private_key(65_537, 2_048)
    given = {"sasl_oauthbearer_assertion_private_key_pem": pem_of(other)}
    with pytest.raises(AuthenticationError, match=r"HTTP 400 .*invalid_grant"):
        OidcTokenProvider(by_key(server, **given))()


def test_an_endpoint_whose_certificate_is_not_trusted(server: TokenServer) -> None:
    with pytest.raises(TlsError, match="check https_ca_location or https_ca_pem"):
        OidcTokenProvider(by_secret(server, https_ca_pem=None))()


def test_passing_oidc_failure_is_retried_and_then_raised_as_retriable(
    server: TokenServer, mocker: MockerFixture
) -> None:
    mocker.patch("time.sleep")
    provider = OidcTokenProvider(by_secret(server))
    server.failures = [Response("busy", status=503), Response("slow down", status=429)]
    assert server.validate(provider().value) == "orders"
    provider.forget()
    server.failures = [Response("busy", status=503) for _ in range(3)]
    with pytest.raises(CredentialsUnavailableError, match="HTTP 503") as raised:
        provider()
    assert raised.value.retriable
    nobody = settings(
        "http://127.0.0.1:1/token",
        sasl_oauthbearer_client_id="c",
        sasl_oauthbearer_client_secret="s",
    )
    with pytest.raises(CredentialsUnavailableError, match="Connection refused"):
        OidcTokenProvider(nobody)()


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (Response("[]"), AuthenticationError, "not a JSON object"),
        (Response("{"), AuthenticationError, "not a JSON object"),
        (Response("[" * 100_000), AuthenticationError, "not a JSON object"),
        (Response("{}"), AuthenticationError, "no access_token"),
        (Response('{"access_token": 5}'), AuthenticationError, "no access_token"),
        (Response("x" * 2_000_000), AuthenticationError, "more than 1000000 bytes"),
        (
            Response(status=302, headers={"Location": "https://evil.invalid/"}),
            AuthenticationError,
            "HTTP 302",
        ),
        (
            Response(json.dumps({"error": f"you said {SECRET}"}), status=400),
            AuthenticationError,
            "you said <secret>",
        ),
    ],
    ids=["list", "half", "deep", "empty", "number", "large", "redirect", "echo"],
)
def test_answers_that_are_no_token(
    server: TokenServer, answer: Response, error: type[GroupSdkError], text: str
) -> None:
    server.failures = [answer]
    with pytest.raises(error, match=text) as raised:
        OidcTokenProvider(by_secret(server))()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("body", "lifetime"),
    [
        ({"access_token": "opaque"}, None),
        ({"access_token": "opaque", "expires_in": True}, None),
        ({"access_token": "opaque", "expires_in": -1}, None),
        ({"access_token": "opaque", "expires_in": "60"}, 60),
        ({"access_token": "opaque", "expires_in": 60}, 60),
        ({"access_token": "a.b.c", "expires_in": 60}, 60),
    ],
)
def test_token_lifetime_is_read_from_the_answer(
    server: TokenServer, body: dict[str, Any], lifetime: int | None
) -> None:
    server.failures = [Response(json.dumps(body)), Response(json.dumps(body))]
    provider = OidcTokenProvider(by_secret(server))
    first = provider()
    assert (first.lifetime_ms is None) == (lifetime is None)
    provider()
    asked_twice = not server.failures
    assert asked_twice == (lifetime is None), "without an end, nobody knows how long it can be kept"


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n"


class Answering:
    """An endpoint that answers each connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                with peer:
                    peer.recv(10_000)
                    peer.sendall(self._answer)


class Dripping:
    """An endpoint that sends a byte at a time, for ever, from some point of its answer on.

    Args:
        at_once: what it sends before.
    """

    def __init__(self, at_once: bytes) -> None:
        self._at_once = at_once
        self._server = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self.ended = threading.Event()
        """Set when a client has hung up."""
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()

    def _run(self) -> None:
        with suppress(OSError):
            while not self._over.is_set():
                peer, _ = self._server.accept()
                with peer, suppress(OSError):
                    peer.sendall(self._at_once)
                    while not self._over.wait(0.02):
                        peer.sendall(b"a")
                self.ended.set()


@each_case(
    ("scheme", "at_once"),
    (
        ("http", b""),
        ("http", _HEAD),
        ("http", _HEAD + b"\r\n"),
        ("http", b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n"),
        # of a TLS handshake: a record of 1,000 bytes
        ("https", b"\x16\x03\x03\x03\xe8"),
    ),
)
def test_an_endpoint_that_drips_is_given_up_at_a_deadline(scheme: str, at_once: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch, Dripping(at_once) as endpoint:
        patch.setattr(oidc, "_TIMEOUT_S", 0.2)
        patch.setattr("time.sleep", lambda _: None)
        url = f"{scheme}://127.0.0.1:{endpoint.port}/token"
        given = settings(url, sasl_oauthbearer_client_id="c", sasl_oauthbearer_client_secret="s")
        with pytest.raises(CredentialsUnavailableError, match=r"no complete response within 0.2 s"):
            OidcTokenProvider(given)()
        assert endpoint.ended.wait(60), "its connection is closed"


def test_the_endpoints_words_are_escaped(server: TokenServer) -> None:
    said = {"error": "no\x1b[2J\nERROR forged line", "error_description": "\u202e" + "x" * 1_000}
    server.failures = [Response(json.dumps(said), status=400)]
    with pytest.raises(AuthenticationError) as raised:
        OidcTokenProvider(by_secret(server))()
    assert r"(no\x1b[2J\x0aERROR forged line: \u202exxx" in str(raised.value)
    assert len(str(raised.value)) < 700
    with Answering(b"\x1b[2J\x07\r\n") as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/token"
        given = settings(url, sasl_oauthbearer_client_id="c", sasl_oauthbearer_client_secret="s")
        with pytest.raises(CredentialsUnavailableError, match=re.escape(r"\x1b[2J\x07")):
            OidcTokenProvider(given)()


def test_files_that_cannot_be_used(server: TokenServer, tmp_path: Path) -> None:
    prefix = "sasl_oauthbearer_assertion_"
    bad = tmp_path / "bad.pem"
    bad.write_text("not a key: hunter2")
    empty = tmp_path / "empty"
    empty.touch()
    template = tmp_path / "template.json"
    template.write_text('{"claims": {}}')
    key = pem_of(rsa.generate_private_key(65_537, 2_048), b"x")
    for given, text in (
        ({f"{prefix}private_key_file": "/no/such"}, r"cannot read /no/such \(FileNotFoundError\)"),
        ({f"{prefix}private_key_file": str(bad)}, "cannot sign with RS256 .* PEM private key"),
        ({f"{prefix}private_key_pem": key}, "an encrypted one needs .*passphrase"),
        ({f"{prefix}file": str(empty)}, "is empty"),
        (
            {f"{prefix}private_key_pem": key, f"{prefix}template_file": str(template)},
            "'claims' is not allowed",
        ),
    ):
        with pytest.raises(ConfigError, match=text) as raised:
            OidcTokenProvider(by_key(server, **given))()
        assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigError, match="https_ca_pem holds no PEM certificates"):
        OidcTokenProvider(by_secret(server, https_ca_pem="nonsense"))()


def test_the_request_has_the_form_that_endpoints_expect() -> None:
    """What a header is made of shows only where it goes in the clear."""
    seen: list[tuple[str | None, dict[str, list[str]]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            seen.append((self.headers["Authorization"], parse_qs(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"access_token": "t"}')

        @override
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as plain:
        thread = threading.Thread(target=plain.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{plain.server_port}/token?tenant=a"
        given: dict[str, Any] = {
            "sasl_oauthbearer_client_id": "a b",
            "sasl_oauthbearer_client_secret": "c/d",
            "sasl_oauthbearer_scope": "one two",
        }
        OidcTokenProvider(settings(url, **given))()
        OidcTokenProvider(settings(url, sasl_oauthbearer_header_urlencode=True, **given))()
        plain.shutdown()
        thread.join()
    form = {"grant_type": ["client_credentials"], "scope": ["one two"]}
    assert seen == [("Basic YSBiOmMvZA==", form), ("Basic YStiOmMlMkZk", form)]


# Settings.


def test_librdkafkas_and_javas_keys_mean_the_same() -> None:
    common = {
        "bootstrap.servers": "b:9092",
        "group.id": "g",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.oauthbearer.scope": "kafka",
    }
    librdkafka = MemberConfig.of(
        common
        | {
            "sasl.oauthbearer.method": "OIDC",
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": "s",
        }
    ).security
    package = "org.apache.kafka.common.security.oauthbearer"
    java = MemberConfig.of(
        common
        | {
            "sasl.oauthbearer.jwt.retriever.class": f"{package}.ClientCredentialsJwtRetriever",
            "sasl.oauthbearer.client.credentials.client.id": "c",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
            "sasl.oauthbearer.header.urlencode": "false",
        }
    ).security
    for each in (librdkafka, java):
        assert each.uses_oidc
        assert each.oauth_grant == CLIENT_CREDENTIALS
        assert (each.sasl_oauthbearer_client_id, each.sasl_oauthbearer_client_secret) == ("c", "s")
        assert "secret='s'" not in repr(each)
    signed = {
        "sasl.oauthbearer.assertion.private.key.file": "/k",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "60",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
    }
    one = MemberConfig.of(
        common
        | signed
        | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.grant.type": JWT_BEARER,
            "sasl.oauthbearer.assertion.jwt.template.file": "/t",
        }
    ).security
    other = MemberConfig.of(
        common
        | signed
        | {
            "sasl.oauthbearer.jwt.retriever.class": "JwtBearerJwtRetriever",
            "sasl.oauthbearer.assertion.template.file": "/t",
        }
    ).security
    for each in (one, other):
        assert each.oauth_grant == JWT_BEARER
        assert each.sasl_oauthbearer_assertion_claim_exp_seconds == 60
        assert each.sasl_oauthbearer_assertion_claim_jti_include is True
        assert each.sasl_oauthbearer_assertion_template_file == "/t"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"sasl_oauthbearer_method": "oauth"}, "must be default or oidc"),
        ({"sasl_oauthbearer_method": "default"}, "nothing uses it without"),
        ({"sasl_oauth_token_provider": lambda: "t"}, "are both set"),
        ({"sasl_oauthbearer_token_endpoint_url": None}, "token_endpoint_url is ''"),
        ({"sasl_oauthbearer_token_endpoint_url": "file:///t"}, "https:// or http:// URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://u:p@h/"}, "without a user"),
        ({"sasl_oauthbearer_grant_type": "password"}, "grant_type is 'password'"),
        ({"sasl_oauthbearer_jwt_retriever_class": "FileJwtRetriever"}, "must be one of"),
        ({"sasl_oauthbearer_client_secret": None}, "needs sasl_oauthbearer_client_secret"),
        ({"sasl_oauthbearer_assertion_file": "/f"}, "does not use it"),
        ({"sasl_oauthbearer_extensions": "novalue"}, "must be key=value"),
        ({"sasl_oauthbearer_grant_type": JWT_BEARER}, "needs one of .*; 0 are set"),
        (
            {
                "sasl_oauthbearer_grant_type": JWT_BEARER,
                "sasl_oauthbearer_assertion_file": "/f",
                "sasl_oauthbearer_assertion_private_key_file": "/k",
            },
            "2 are set",
        ),
        (
            {
                "sasl_oauthbearer_grant_type": JWT_BEARER,
                "sasl_oauthbearer_assertion_file": "/f",
                "sasl_oauthbearer_assertion_algorithm": "none",
            },
            "must be RS256 or ES256",
        ),
        ({"https_ca_pem": "p", "https_ca_location": "/c"}, "are both set"),
        ({"sasl_oauthbearer_header_urlencode": "yes"}, "must be true or false"),
        ({"sasl_oauthbearer_assertion_claim_exp_seconds": 0}, "an integer of at least 1"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism=PLAIN does not use it"),
        ({"sasl_username": "u"}, "sasl_username is set, but"),
        ({"security_protocol": "SSL", "sasl_mechanism": None}, "does not use it"),
    ],
)
def test_settings_that_do_not_fit(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        settings(
            **{
                "url": "https://idp.example/token",
                "sasl_oauthbearer_client_id": "c",
                "sasl_oauthbearer_client_secret": "s",
                **given,
            }
        )


def test_without_pyjwt_the_error_says_what_to_install(
    server: TokenServer, client_key: rsa.RSAPrivateKey, mocker: MockerFixture
) -> None:
    mocker.patch.dict("sys.modules", {"jwt": None})
    given = {"sasl_oauthbearer_assertion_private_key_pem": pem_of(client_key)}
    with pytest.raises(ConfigError, match=r"pip install groupsdk\[oidc\]"):
        OidcTokenProvider(by_key(server, **given))()
