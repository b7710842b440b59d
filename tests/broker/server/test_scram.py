"""Tests SCRAM by the example of RFC 7677, and with wrong messages."""

import base64
import hashlib
import hmac

import pytest

from groupsdk.broker.server.scram import (
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramCredentials,
    ScramError,
    ScramServer,
    credential,
    from_salted,
)
from groupsdk.broker.store import MemoryStore


def proof(mechanism: str, password: str, first: str, answer: str, without: str) -> str:
    """Computes a client's proof, by the RFC."""
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    fields = dict(part.split("=", 1) for part in answer.split(","))
    salted = hashlib.pbkdf2_hmac(
        name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(
        hashlib.new(name, key).digest(), f"{first},{answer},{without}".encode(), name
    )
    return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()


def log_in(server: ScramServer, mechanism: str, user: str, password: str) -> bytes:
    first = f"n={user},r=abc"
    answer = server.evaluate(f"n,,{first}".encode()).decode()
    nonce = answer.split(",")[0]
    without = f"c=biws,{nonce}"
    given = proof(mechanism, password, first, answer, without)
    return server.evaluate(f"{without},p={given}".encode())


@pytest.mark.parametrize("mechanism", MECHANISM_NUMBERS.values())
def test_the_right_password_is_proved_to_both_sides(mechanism: str) -> None:
    server = ScramServer(mechanism, ScramCredentials(MemoryStore(), {"a,b=c": "secret"}))
    answer = log_in(server, mechanism, "a=2Cb=3Dc", "secret")
    assert answer.startswith(b"v=")
    assert server.principal == "User:a,b=c"
    with pytest.raises(ScramError):
        server.evaluate(b"more")


def test_a_wrong_password_is_not() -> None:
    server = ScramServer("SCRAM-SHA-256", ScramCredentials(MemoryStore(), {"u": "secret"}))
    with pytest.raises(ScramError, match="password"):
        log_in(server, "SCRAM-SHA-256", "u", "guess")
    assert server.principal is None


def test_the_example_of_rfc_7677() -> None:
    # user "user", password "pencil"
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    made = from_salted("SCRAM-SHA-256", salt, salted, 4096)
    messages = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(made.server_key, messages, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "message",
    [
        b"\xff",
        b"",
        b"n=u,r=abc",
        b"p=tls-unique,,n=u,r=abc",
        b"n,,r=abc",
        b"n,,n=u",
        b"n,,n=nobody,r=x",
        b"n,a=z,n=u,r=x",
    ],
)
def test_wrong_first_messages(message: bytes) -> None:
    server = ScramServer("SCRAM-SHA-256", ScramCredentials(MemoryStore(), {"u": "secret"}))
    with pytest.raises(ScramError):
        server.evaluate(message)


@pytest.mark.parametrize("end", ["", ",p=!!", ",p=YWJj", ",x=1,p=YWJj"])
def test_wrong_final_messages(end: str) -> None:
    server = ScramServer("SCRAM-SHA-256", ScramCredentials(MemoryStore(), {"u": "secret"}))
    nonce = server.evaluate(b"n,,n=u,r=abc").decode().split(",")[0]
    with pytest.raises(ScramError):
        server.evaluate(f"c=biws,{nonce}{end}".encode())
    server = ScramServer("SCRAM-SHA-256", ScramCredentials(MemoryStore(), {"u": "secret"}))
    server.evaluate(b"n,,n=u,r=abc")
    with pytest.raises(ScramError, match="does not match the first"):
        server.evaluate(b"c=biws,r=abc,p=YWJj")


def test_credentials_last_and_win_over_a_password() -> None:
    store = MemoryStore()
    first = ScramCredentials(store, {})
    made = credential("SCRAM-SHA-512", "new")
    first.put({("u", "SCRAM-SHA-512"): made})
    second = ScramCredentials(store, {"u": "old"})
    assert second.find("u", "SCRAM-SHA-512") == made
    assert second.stored("u") == {"SCRAM-SHA-512": MIN_ITERATIONS}
    assert second.users() == ["u"]
    second.put({("u", "SCRAM-SHA-512"): None})
    assert ScramCredentials(store, {}).find("u", "SCRAM-SHA-512") is None


def test_no_key_is_in_a_repr() -> None:
    made = ScramCredential(b"salt", b"stored", b"server", 4096)
    assert repr(made) == "ScramCredential(iterations=4096)"
