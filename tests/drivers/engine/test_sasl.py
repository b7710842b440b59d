"""Test the SASL mechanisms against scramp's server side and hostile brokers."""

import base64
import json
import subprocess
import sys
import traceback
from typing import Any

import pytest
import scramp
from hypothesis import given, strategies as st

from groupsdk.drivers.engine.sasl import (
    MAX_CHALLENGE_BYTES,
    MAX_SCRAM_MESSAGE_BYTES,
    OAuthBearer,
    Plain,
    SaslMechanism,
    Scram,
    mechanism_for,
)
from groupsdk.errors import AuthenticationError, ConfigError
from groupsdk.settings.security import OAuthToken, SecuritySettings


SECRET = "s3cr3t-do-not-show"
NAMES = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SALT = base64.b64encode(b"0123456789abcdef").decode()


def _server(name: str, password: str = SECRET, iterations: int = 4096) -> Any:
    mechanism = scramp.ScramMechanism(name)
    stored = mechanism.make_auth_info(password, iteration_count=iterations)
    users = {"alice": stored, "a=l,ice": stored}
    return mechanism.make_server(users.__getitem__)


def _shows_secret(exc: BaseException) -> bool:
    return SECRET in "".join(traceback.format_exception(exc))


# PLAIN


def test_plain_sends_user_and_password() -> None:
    mechanism = Plain("alice", "pässword")
    assert mechanism.name == "PLAIN"
    assert mechanism.start() == b"\0alice\0p\xc3\xa4ssword"
    assert not mechanism.complete
    assert mechanism.respond(b"") is None
    assert mechanism.complete


@pytest.mark.parametrize(("username", "password"), [("a\0b", "x"), ("a", "x\0y")])
def test_plain_refuses_nul(username: str, password: str) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Plain(username, password)


# SCRAM


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("username", ["alice", "a=l,ice"])
def test_scram_agrees_with_the_server(name: str, username: str) -> None:
    client, server = Scram(name, username, SECRET), _server(name)
    server.set_client_first(client.start().decode())
    proof = client.respond(server.get_server_first().encode())
    assert proof is not None
    assert not client.complete
    server.set_client_final(proof.decode())
    assert client.respond(server.get_server_final().encode()) is None
    assert client.complete


def test_scram_follows_the_exchange_of_rfc_7677() -> None:
    client = Scram("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.respond(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    ) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.complete


@pytest.mark.parametrize("name", NAMES)
def test_scram_nonces_differ(name: str) -> None:
    assert Scram(name, "alice", SECRET).start() != Scram(name, "alice", SECRET).start()


@pytest.mark.parametrize("name", NAMES)
def test_scram_wrong_password(name: str) -> None:
    client, server = Scram(name, "alice", SECRET), _server(name, password="another")
    server.set_client_first(client.start().decode())
    proof = client.respond(server.get_server_first().encode())
    assert proof is not None
    with pytest.raises(scramp.ScramException):
        server.set_client_final(proof.decode())
    with pytest.raises(AuthenticationError, match=r"user 'alice' failed.*invalid-proof") as caught:
        client.respond(server.get_server_final().encode())
    assert not client.complete
    assert not _shows_secret(caught.value)


def _after_proof(name: str = "SCRAM-SHA-256") -> Scram:
    client, server = Scram(name, "alice", SECRET), _server(name)
    server.set_client_first(client.start().decode())
    assert client.respond(server.get_server_first().encode()) is not None
    return client


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "final", ["v=" + base64.b64encode(bytes(32)).decode(), "v=!", "v=", "", "x", "r=1,s=2,i=3"]
)
def test_scram_refuses_a_broker_that_does_not_know_the_password(name: str, final: str) -> None:
    client = _after_proof(name)
    with pytest.raises(AuthenticationError, match="user 'alice' failed"):
        client.respond(final.encode())
    assert not client.complete


def _server_first(client: Scram, *, iterations: str = "4096", nonce: str = "server") -> bytes:
    ours = client.start().decode().rpartition("r=")[2]
    return f"r={ours}{nonce},s={SALT},i={iterations}".encode()


@pytest.fixture
def no_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise AssertionError("a password was hashed")

    monkeypatch.setattr("hashlib.pbkdf2_hmac", refuse)


@pytest.mark.usefixtures("no_hashing")
@pytest.mark.parametrize(
    "iterations",
    [
        "2147483648",
        "1000001",
        "9" * 3000,
        "4095",
        "1",
        "0",
        "-1",
        "+4096",
        "04096",
        "",
        "x",
        "٤٠٩٦",
    ],
)
def test_scram_bounds_the_iterations_before_it_hashes(iterations: str) -> None:
    client = Scram("SCRAM-SHA-256", "alice", SECRET)
    with pytest.raises(AuthenticationError, match="4096 to 1000000 are accepted"):
        client.respond(_server_first(client, iterations=iterations))


def test_scram_accepts_the_bounds_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def note(_name: str, _password: bytes, _salt: bytes, iterations: int) -> bytes:
        counts.append(iterations)
        return bytes(32)

    monkeypatch.setattr("hashlib.pbkdf2_hmac", note)
    for iterations in ("4096", "1000000"):
        client = Scram("SCRAM-SHA-256", "alice", SECRET)
        assert client.respond(_server_first(client, iterations=iterations)) is not None
    assert counts == [4096, 1_000_000]


@pytest.mark.usefixtures("no_hashing")
def test_scram_bounds_the_nonce() -> None:
    client = Scram("SCRAM-SHA-256", "alice", SECRET)
    with pytest.raises(AuthenticationError, match="nonce has 2064 characters, more than 1024"):
        client.respond(_server_first(client, nonce="n" * 2000))


@pytest.mark.usefixtures("no_hashing")
def test_scram_bounds_the_message() -> None:
    client = Scram("SCRAM-SHA-256", "alice", SECRET)
    client.start()
    with pytest.raises(AuthenticationError, match="4097 bytes, more than 4096"):
        client.respond(bytes(MAX_SCRAM_MESSAGE_BYTES + 1))


@pytest.mark.usefixtures("no_hashing")
@pytest.mark.parametrize(
    "message",
    [
        b"r=another-nonce,s=" + SALT.encode() + b",i=4096",
        b"",
        b"\xff\xfe",
        b"e=unknown-user",
        b"r=x",
        b"m=ext,r=x,s=y,i=4096",
    ],
)
def test_scram_refuses_a_bad_first_message(message: bytes) -> None:
    client = Scram("SCRAM-SHA-256", "alice", SECRET)
    client.start()
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-256: the exchange"):
        client.respond(message)
    assert not client.complete


@given(
    message=st.binary(max_size=200)
    | st.text("rsiev=,0123456789AZaz+/", max_size=200).map(str.encode)
)
def test_scram_survives_any_bytes(message: bytes) -> None:
    client = Scram("SCRAM-SHA-256", "alice", SECRET)
    client.start()
    with pytest.raises(AuthenticationError):
        client.respond(message)
    assert not client.complete


@pytest.mark.parametrize("value", ["soft\u00adhyphen", "no\u00a0break", "e\u0301", "Ⅸ"])
def test_scram_refuses_what_kafka_and_the_rfc_hash_differently(value: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl_password.*RFC 4013") as caught:
        Scram("SCRAM-SHA-256", "alice", value)
    assert value not in str(caught.value)
    with pytest.raises(ConfigError, match="sasl_username"):
        Scram("SCRAM-SHA-256", value, SECRET)


@pytest.mark.parametrize(("username", "password"), [("", SECRET), ("alice", "bell\a" + SECRET)])
def test_scram_refuses_what_the_rfc_forbids(username: str, password: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used with SCRAM-SHA-256") as caught:
        Scram("SCRAM-SHA-256", username, password)
    assert not _shows_secret(caught.value)


def test_scramp_is_not_loaded_before_it_is_used() -> None:
    code = (
        "import sys, groupsdk.drivers.engine.sasl; "
        "sys.exit(bool({'scramp', 'ssl'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# OAUTHBEARER


def test_oauthbearer_sends_the_token() -> None:
    mechanism = OAuthBearer(lambda: "abc.def.ghi")
    assert mechanism.name == "OAUTHBEARER"
    assert mechanism.start() == b"n,,\x01auth=Bearer abc.def.ghi\x01\x01"
    assert mechanism.respond(b"") is None
    assert mechanism.complete


def test_oauthbearer_sends_extensions() -> None:
    token = OAuthToken("abc", 1_700_000_000_000, {"logicalCluster": "lkc-1", "pool": "a b"})
    mechanism = OAuthBearer(lambda: token)
    assert mechanism.start() == (
        b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01pool=a b\x01\x01"
    )


def test_oauthbearer_acknowledges_a_refusal_and_then_raises_it() -> None:
    mechanism = OAuthBearer(lambda: SECRET)
    mechanism.start()
    refusal = {"status": "invalid_token", "scope": "kafka", "echo": SECRET}
    assert mechanism.respond(json.dumps(refusal).encode()) == b"\x01"
    assert not mechanism.complete
    failure = mechanism.failure
    assert isinstance(failure, AuthenticationError)
    assert '"status": "invalid_token"' in str(failure)
    with pytest.raises(AuthenticationError, match="invalid_token") as caught:
        mechanism.respond(b"")
    assert caught.value is failure
    assert not _shows_secret(failure)
    assert not mechanism.complete


@pytest.mark.parametrize("challenge", [b"{", b"\xff", b"[" * 60_000, b"1" * 5000])
def test_oauthbearer_survives_a_refusal_that_is_not_json(challenge: bytes) -> None:
    mechanism = OAuthBearer(lambda: "abc")
    mechanism.start()
    assert mechanism.respond(challenge) == b"\x01"
    assert "not JSON" in str(mechanism.failure)


def test_oauthbearer_cuts_a_long_refusal() -> None:
    mechanism = OAuthBearer(lambda: "abc")
    mechanism.start()
    mechanism.respond(json.dumps({"status": "x" * 60_000}).encode())
    assert len(str(mechanism.failure)) < 600


@pytest.mark.parametrize("value", ["", "a b", f"{SECRET}\x01auth=Bearer other", "tök", "abc\n"])
def test_oauthbearer_refuses_what_is_no_token(value: str) -> None:
    with pytest.raises(ConfigError, match="token that is empty or has characters") as caught:
        OAuthBearer(lambda: value).start()
    assert not _shows_secret(caught.value)


def test_oauthbearer_refuses_another_type() -> None:
    def provider() -> Any:
        return None

    with pytest.raises(ConfigError, match="returned NoneType, not a str"):
        OAuthBearer(provider).start()


@pytest.mark.parametrize(
    ("extensions", "match"),
    [
        ({"auth": "x"}, "'auth'"),
        ({"a-b": "x"}, "letters only"),
        ({"": "x"}, "letters only"),
        ({"a": "x\x01y"}, "value of 'a'"),
        ({"a": ""}, "value of 'a'"),
    ],
)
def test_oauthbearer_refuses_bad_extensions(extensions: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        OAuthBearer(lambda: OAuthToken("abc", extensions=extensions)).start()


def test_exception_of_the_token_provider_is_raised() -> None:
    def provider() -> str:
        raise ConnectionRefusedError("identity provider")

    with pytest.raises(ConnectionRefusedError, match="identity provider"):
        OAuthBearer(provider).start()


# all of them


def _all() -> list[SaslMechanism]:
    return [
        Plain("alice", SECRET),
        Scram("SCRAM-SHA-256", "alice", SECRET),
        OAuthBearer(lambda: OAuthToken(SECRET, extensions={"a": SECRET})),
    ]


@pytest.mark.parametrize("mechanism", _all(), ids=lambda mechanism: mechanism.name)
def test_no_repr_shows_a_secret(mechanism: SaslMechanism) -> None:
    mechanism.start()
    assert SECRET not in repr(mechanism)
    assert mechanism.name in repr(mechanism)


def test_no_token_shows_in_a_repr() -> None:
    assert SECRET not in repr(OAuthToken(SECRET, 5, {"a": SECRET}))


@pytest.mark.parametrize("mechanism", [Plain("a", "b"), OAuthBearer(lambda: "abc")], ids=repr)
def test_an_oversized_challenge_is_refused(mechanism: SaslMechanism) -> None:
    mechanism.start()
    with pytest.raises(AuthenticationError, match="more than 65536"):
        mechanism.respond(bytes(MAX_CHALLENGE_BYTES + 1))
    assert not mechanism.complete


@pytest.mark.parametrize("mechanism", [Plain("a", "b"), OAuthBearer(lambda: "abc")], ids=repr)
def test_a_broker_that_goes_on_is_refused(mechanism: SaslMechanism) -> None:
    mechanism.start()
    mechanism.respond(b"")
    with pytest.raises(AuthenticationError, match="went on after the exchange ended"):
        mechanism.respond(b"")


def _settings(mechanism: str) -> SecuritySettings:
    if mechanism.upper() == "OAUTHBEARER":
        return SecuritySettings(
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_oauth_token_provider=lambda: "abc",
        )
    return SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_username="alice",
        sasl_password=SECRET,
    )


@pytest.mark.parametrize("name", ["PLAIN", *NAMES, "OAUTHBEARER", "scram-sha-512"])
def test_the_settings_choose_the_mechanism(name: str) -> None:
    mechanism = mechanism_for(_settings(name))
    assert mechanism.name == name.upper()
    assert mechanism.start() != b""


def test_each_connection_gets_its_own_exchange() -> None:
    settings = _settings("SCRAM-SHA-256")
    assert mechanism_for(settings) is not mechanism_for(settings)


def test_no_mechanism_without_sasl() -> None:
    with pytest.raises(ConfigError, match="security_protocol=SSL uses no SASL"):
        mechanism_for(SecuritySettings(security_protocol="SSL"))


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="needs sasl_password"):
        mechanism_for(
            SecuritySettings(
                security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="alice"
            )
        )
