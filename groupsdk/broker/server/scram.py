"""Authenticate users by SCRAM (RFC 5802), and store their credentials, never their passwords."""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from groupsdk.broker.store import Store
from groupsdk.errors import GroupSdkError
from groupsdk.lazy_imports import override


MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""
MECHANISM_NUMBERS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanism of each number in AlterUserScramCredentials (KIP-554)."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
_KIND: Final = "scram"
_CHANNEL_BINDINGS: Final = ("n,", "y,")


class ScramError(GroupSdkError):
    """A message of the client is not valid SCRAM, or its proof is wrong."""


class ScramCredential(NamedTuple):
    """The salted and hashed form of a password (Kafka: `ScramCredential`)."""

    salt: bytes
    stored_key: bytes
    """RFC 5802's StoredKey, which verifies the client's proof."""
    server_key: bytes
    """RFC 5802's ServerKey, which proves the server's identity."""
    iterations: int

    @override
    def __repr__(self) -> str:
        """Show no key."""
        return f"ScramCredential(iterations={self.iterations})"


def credential(mechanism: str, password: str) -> ScramCredential:
    """Derive a credential from a password, with a new random salt and 4,096 iterations."""
    salt = os.urandom(24)
    name = MECHANISMS[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, MIN_ITERATIONS)
    return from_salted(mechanism, salt, salted, MIN_ITERATIONS)


def from_salted(mechanism: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """Derive a credential from a salted password, as sent in AlterUserScramCredentials."""
    name = MECHANISMS[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    server_key = hmac.digest(salted, b"Server Key", name)
    return ScramCredential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


class ScramCredentials:
    """The credentials of all users: those in the store, or else those derived on demand from given passwords."""

    def __init__(self, store: Store, passwords: dict[str, str]) -> None:
        self._store = store
        self._passwords = passwords
        self._made: dict[tuple[str, str], ScramCredential] = {}
        self._stored: dict[tuple[str, str], ScramCredential] = {}
        for _, key, value in store.facts(_KIND):
            mechanism, _, user = key.partition(":")
            salt, stored_key, server_key = (bytes.fromhex(part) for part in value[:3])
            self._stored[user, mechanism] = ScramCredential(
                salt, stored_key, server_key, int(value[3])
            )

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism; None if there is none. Deriving one takes some milliseconds."""
        found = self._stored.get((user, mechanism)) or self._made.get((user, mechanism))
        if found is None and user in self._passwords:
            found = self._made[user, mechanism] = credential(mechanism, self._passwords[user])
        return found

    def put(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Store credentials by (user, mechanism), or remove those that are None, atomically."""
        self._store.write(
            [
                (_KIND, f"{mechanism}:{user}", None if value is None else _fact(value))
                for (user, mechanism), value in changes.items()
            ]
        )
        for place, value in changes.items():
            if value is None:
                self._stored.pop(place, None)
            else:
                self._stored[place] = value

    def stored(self, user: str) -> dict[str, int]:
        """Return the iterations of a user's stored credentials, by mechanism."""
        return {
            mechanism: self._stored[user, mechanism].iterations
            for mechanism in MECHANISMS
            if (user, mechanism) in self._stored
        }

    def users(self) -> list[str]:
        return sorted({user for user, _ in self._stored})


def _fact(value: ScramCredential) -> list[str | int]:
    return [*(part.hex() for part in value[:3]), value.iterations]


class ScramServer:
    """The server side of one SCRAM exchange, as a `SaslServer`."""

    def __init__(self, mechanism: str, credentials: ScramCredentials) -> None:
        self._mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._credentials = credentials
        self._credential: ScramCredential | None = None
        self._user = ""
        self._header = ""
        self._nonce = ""
        self._messages = ""
        self.principal: str | None = None
        self.expires_ms: int | None = None
        """None: the authentication does not expire by itself."""

    def evaluate(self, message: bytes) -> bytes:
        """Process the client's next message. Return the server's; the second one authenticates the client."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise ScramError("a SCRAM message must be UTF-8") from None
        if self.principal is not None:
            raise ScramError("unexpected SCRAM message after the final one")
        return self._final(text) if self._credential is not None else self._first(text)

    def _first(self, text: str) -> bytes:
        if not text.startswith(_CHANNEL_BINDINGS):
            raise ScramError(
                "the first SCRAM message must start with a GS2 header without channel binding"
            )
        flag, authzid, bare = (*text.split(",", 2), "", "")[:3]
        self._header = f"{flag},{authzid},"
        fields = _fields(bare)
        user, nonce = fields.get("n"), fields.get("r")
        if not user or not nonce:
            raise ScramError("the first SCRAM message must have a user and a nonce")
        self._user = user.replace("=2C", ",").replace("=3D", "=")
        wanted = authzid.removeprefix("a=")
        if wanted and wanted != user:
            raise ScramError("the authorization id of a SCRAM message must be its user")
        found = self._credentials.find(self._user, self._mechanism)
        if found is None:
            raise ScramError("the user is unknown, or has no credential for this mechanism")
        self._credential = found
        self._nonce = nonce + base64.b64encode(os.urandom(18)).decode()
        salt = base64.b64encode(found.salt).decode()
        answer = f"r={self._nonce},s={salt},i={found.iterations}"
        self._messages = f"{bare},{answer}"
        return answer.encode()

    def _final(self, text: str) -> bytes:
        found = self._credential
        assert found is not None
        without, separator, proof_text = text.rpartition(",p=")
        fields = _fields(without)
        binding = base64.b64encode(self._header.encode()).decode()
        if not separator or fields.get("c") != binding or fields.get("r") != self._nonce:
            raise ScramError("the final SCRAM message does not match the first one")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise ScramError("the SCRAM proof must be base64") from None
        messages = f"{self._messages},{without}".encode()
        signature = hmac.digest(found.stored_key, messages, self._hash)
        if len(proof) != len(signature):
            raise ScramError("the SCRAM proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, found.stored_key):
            raise ScramError("wrong password")
        self.principal = f"User:{self._user}"
        server_signature = hmac.digest(found.server_key, messages, self._hash)
        return b"v=" + base64.b64encode(server_signature)


def _fields(text: str) -> dict[str, str]:
    fields = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        fields[name] = value
    return fields
