"""Sign what workers ask of each other, with a key that the leader hands out through the config topic (KIP-507).

The key's record, the headers and the answers are those of Kafka Connect (`InternalRequestSignature`,
`DistributedHerder`), so workers of both kinds accept each other's requests.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from groupsdk.connect.errors import RequestSignatureError
from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT64
from groupsdk.settings.config import check_integer


SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"
SESSION_KEY: Final = "session-key"
"""The key of the record in the config topic."""

_ALGORITHMS: Final = {
    "HmacMD5": ("md5", 512),
    "HmacSHA1": ("sha1", 512),
    "HmacSHA224": ("sha224", 224),
    "HmacSHA256": ("sha256", 256),
    "HmacSHA384": ("sha384", 384),
    "HmacSHA512": ("sha512", 512),
}
"""Java's names of algorithms to Python's, with the bits of a key that Java makes where no size is given."""
_MAX_KEY_BYTES: Final = 1_024
_FIELDS: Final = {
    "inter_worker_key_generation_algorithm": "key_algorithm",
    "inter_worker_key_size": "key_bits",
    "inter_worker_key_ttl_ms": "ttl_ms",
    "inter_worker_signature_algorithm": "signature_algorithm",
    "inter_worker_verification_algorithms": "verification_algorithms",
}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A key that all workers of a group share until the leader rotates it (KIP-507)."""

    key: bytes = field(repr=False)
    algorithm: str
    """By Java's name."""
    created_ms: int
    """In milliseconds since 1970."""

    def record(self) -> tuple[str, object]:
        """Return the key and the value of its record in the config topic."""
        encoded = base64.b64encode(self.key).decode()
        value = {"key": encoded, "algorithm": self.algorithm, "creation-timestamp": self.created_ms}
        return SESSION_KEY, value

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Decode the value of a session key's record; None if it is invalid."""
        if not isinstance(value, dict):
            return None
        encoded, algorithm = value.get("key"), value.get("algorithm")
        created_ms = value.get("creation-timestamp")
        if (
            not isinstance(encoded, str)
            or not isinstance(algorithm, str)
            or not isinstance(created_ms, int)
            or isinstance(created_ms, bool)
        ):
            return None
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
        return cls(key, algorithm, created_ms) if 0 < len(key) <= _MAX_KEY_BYTES else None

    def sign(self, body: bytes, algorithm: str) -> bytes:
        """Return the signature (HMAC) of a request's body; the algorithm has Java's name."""
        return hmac.digest(self.key, body, _ALGORITHMS[algorithm][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """How keys are made and requests signed. Build it with `take`."""

    ttl_ms: int = 3_600_000
    """After how many milliseconds the leader makes another key; 0: never."""
    key_algorithm: str = "HmacSHA256"
    """The algorithm that keys are generated for, by Java's name."""
    key_bits: int | None = None
    """The size of keys; None: what Java takes for the algorithm."""
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    """Which signatures it accepts; its own has to be among them."""

    def __post_init__(self) -> None:
        for key, name in (
            ("inter.worker.key.generation.algorithm", self.key_algorithm),
            ("inter.worker.signature.algorithm", self.signature_algorithm),
            *(("inter.worker.verification.algorithms", n) for n in self.verification_algorithms),
        ):
            if name not in _ALGORITHMS:
                raise ConfigError(f"{key} must be one of {', '.join(_ALGORITHMS)}, not {name!r}")
        if self.signature_algorithm not in self.verification_algorithms:
            raise ConfigError(
                "inter.worker.verification.algorithms must include inter.worker.signature.algorithm,"
                f" {self.signature_algorithm}, among them"
            )
        check_integer("inter.worker.key.ttl.ms", self.ttl_ms, 0)
        if self.key_bits is not None:
            check_integer("inter.worker.key.size", self.key_bits, 40, 8 * _MAX_KEY_BYTES)

    @classmethod
    def take(cls, settings: dict[str, Any]) -> Self:
        """Remove Connect's `inter.worker.*` keys from settings, and build the settings of session keys."""
        given: dict[str, Any] = {}
        for key in [each for each in settings if each.replace(".", "_") in _FIELDS]:
            name, value = _FIELDS[key.replace(".", "_")], settings.pop(key)
            if name == "verification_algorithms" and isinstance(value, str):
                value = tuple(each.strip() for each in value.split(","))
            elif name in ("ttl_ms", "key_bits") and isinstance(value, str):
                value = int(value) if value.isdecimal() else value
            given[name] = value
        return cls(**given)

    def next_key(self, current: SessionKey | None, now_ms: int) -> SessionKey | None:
        """Return the key that the leader has to hand out now; None: the current one will do."""
        size = (self.key_bits or _ALGORITHMS[self.key_algorithm][1]) // 8
        if (
            current is not None
            and current.algorithm == self.key_algorithm
            and len(current.key) == size
            and now_ms < self.expires_ms(current)
        ):
            return None
        return SessionKey(secrets.token_bytes(size), self.key_algorithm, now_ms)

    def expires_ms(self, key: SessionKey) -> int:
        return MAX_INT64 if self.ttl_ms == 0 else key.created_ms + self.ttl_ms

    def headers(self, key: SessionKey, body: bytes) -> dict[str, str]:
        signature = base64.b64encode(key.sign(body, self.signature_algorithm)).decode()
        return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: self.signature_algorithm}

    def signature(self, headers: Mapping[str, str]) -> tuple[bytes, str]:
        """Return the signature in a request's headers, whose keys have any or lower case, and its algorithm.

        Raises RequestSignatureError if there is no valid one; `code` is the status with which Connect answers.
        """
        encoded = headers.get(SIGNATURE_HEADER.lower())
        algorithm = headers.get(ALGORITHM_HEADER.lower())
        if encoded is None or algorithm is None:
            raise RequestSignatureError(
                400, f"a request between workers needs {SIGNATURE_HEADER} and {ALGORITHM_HEADER}"
            )
        if algorithm not in self.verification_algorithms:
            raise RequestSignatureError(
                400,
                f"this worker does not accept the signature algorithm {algorithm[:40]!r}, only "
                f"{', '.join(self.verification_algorithms)} (inter.worker.verification.algorithms)",
            )
        try:
            return base64.b64decode(encoded, validate=True), algorithm
        except (binascii.Error, ValueError):
            raise RequestSignatureError(400, f"{SIGNATURE_HEADER} is not base64") from None

    def verify(self, key: SessionKey | None, headers: Mapping[str, str], body: bytes) -> None:
        """Refuse a request that no worker of the group has signed with the current key; RequestSignatureError has Connect's status."""
        signature, algorithm = self.signature(headers)
        if key is None:
            raise RequestSignatureError(
                503, "this worker has not read a session key from the config topic yet"
            )
        if not hmac.compare_digest(signature, key.sign(body, algorithm)):
            raise RequestSignatureError(
                403, "the request is not signed with this group's session key"
            )
