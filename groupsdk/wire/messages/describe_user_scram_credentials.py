"""The DescribeUserScramCredentials API: list SCRAM credentials (KIP-554)."""

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


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class CredentialInfo(Struct):
    """The mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and iterations of one credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResponse(Response):
    """The credentials, without their secrets."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class UserName(Struct):
    """One user."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """List the credentials of some users; None and () for all."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeUserScramCredentialsResponse

    users: Annotated[tuple[UserName, ...] | None, nullable()] = ()
