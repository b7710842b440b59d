"""The AlterUserScramCredentials API: set and remove SCRAM credentials (KIP-554)."""

from dataclasses import field
from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


API = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResponse(Response):
    """The results of the change, user by user."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ScramCredentialDeletion(Struct):
    """One credential to remove; `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str = ""
    mechanism: Int8 = 0


@dataclass(frozen=True, slots=True)
class ScramCredentialUpsertion(Struct):
    """One credential to set; salt and salted password are kept out of the repr.

    `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. `salted_password` is the result of `iterations` rounds of PBKDF2
    (RFC 5802).
    """

    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = field(default=b"", repr=False)
    salted_password: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Set and remove SCRAM credentials."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AlterUserScramCredentialsResponse

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()
