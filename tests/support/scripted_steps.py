"""Say what a scripted broker does to a request, and what the releases of Kafka offer."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.wire.messages.groups import JoinGroupRequest, JoinGroupResponse
from groupsdk.wire.messages.metadata import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from groupsdk.wire.schema import ApiKey, Request, Response


Versions = dict[ApiKey, tuple[int, int]]
_APIS: Final = (
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
)


def _up_to(*newest: int) -> Versions:
    return {api: (0, last) for api, last in zip(_APIS, newest, strict=True) if last >= 0}


KAFKA_0_10: Final = _up_to(1, 0, 0, 0, 0, 0, 0, 0, -1)
KAFKA_1_0: Final = _up_to(5, 1, 2, 1, 1, 1, 1, 1, 0)
KAFKA_2_3: Final = _up_to(8, 2, 5, 3, 2, 3, 1, 2, 1)
KAFKA_4_3: Final = _up_to(13, 6, 9, 4, 5, 5, 1, 4, 2)
"""What these releases offer to members of a group."""

_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one request. Without any of these it is answered as by a broker in good health."""

    error: int | None = None
    """Answer with this error code, and change nothing in the group; UNKNOWN_MEMBER_ID forgets the member."""
    answer: Response | None = None
    """Answer with this, of whatever API it is."""
    change: Callable[[Any], Response] | None = None
    """Send what this makes of the true answer."""
    garble: Callable[[bytes], bytes] | None = None
    """Send what this makes of the answer's bytes, length prefix included."""
    delay_ms: int = 0
    held: bool = False
    """Wait with the answer for `release`."""
    trickled: bool = False
    """Send the answer byte by byte."""
    silent: bool = False
    """Send nothing."""
    closes: bool = False
    """Close the connection after that."""


def fail(code: int) -> Step:
    """Answer with an error code."""
    return Step(error=code)


def cut(after_bytes: int) -> Step:
    """Send so many bytes of the answer and close the connection."""
    return Step(garble=lambda frame: frame[:after_bytes], closes=True)


def hang_up() -> Step:
    """Close the connection instead of answering."""
    return Step(silent=True, closes=True)


def raw(data: bytes) -> Step:
    """Send these bytes for an answer."""
    return Step(garble=lambda _: data)


def shortened(missing_bytes: int) -> Step:
    """Leave out the end of the answer, with a length prefix that says so."""
    return Step(garble=lambda frame: reframed(frame[4:-missing_bytes]))


def oversized(length: int) -> Step:
    """Claim this length for the answer."""
    return Step(garble=lambda frame: _LENGTH.pack(length) + frame[4:])


def wrong_correlation_id() -> Step:
    """Answer a request that was never sent."""
    return Step(garble=lambda frame: frame[:4] + b"\x7f\xff\xff\xff" + frame[8:])


def twice() -> Step:
    return Step(garble=lambda frame: frame + frame)


def reframed(payload: bytes) -> bytes:
    """Put the true length in front."""
    return _LENGTH.pack(len(payload)) + payload


def failed(request: Request[Any], code: int, version: int) -> Response:
    """Return an answer that carries an error code where the version has it, and else nothing."""
    match request:
        case FindCoordinatorRequest() if version >= 4:
            return FindCoordinatorResponse(
                coordinators=tuple(
                    Coordinator(key=key, node_id=-1, port=-1, error_code=code)
                    for key in request.coordinator_keys
                )
            )
        case JoinGroupRequest():
            # a coordinator that wants a member id (79) gives one
            return JoinGroupResponse(error_code=code, member_id="given" if code == 79 else "")
        case MetadataRequest() if version < 13:
            return MetadataResponse()
        case _:
            return request.response_class(error_code=code)  # type: ignore[call-arg]  # all others have it
