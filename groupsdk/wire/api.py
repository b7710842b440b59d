"""Messages on a connection: frames with a length, headers, and the versions that a broker and a client share."""

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, EncodeError, FrameError, UnsupportedVersionError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32
from groupsdk.wire.compiler import decoder, encoder
from groupsdk.wire.primitives import DECODE_FAILURES, read_unknown_tags
from groupsdk.wire.releases import first_release
from groupsdk.wire.schema import Api, ApiKey, Message, Request, Response


if TYPE_CHECKING:
    from groupsdk.wire.messages.connection import ApiVersionsResponse


R = TypeVar("R", bound=Response)

_HEADER = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
_INT32 = struct.Struct(">i")  # the length of a frame, and a correlation id
_TLS_RECORDS = (0x14, 0x15, 0x16, 0x17)  # change cipher spec, alert, handshake, application data
_REFUSED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)
_FAMILY_OF = {
    key: family
    for family, keys in {
        "connection": (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        "metadata": (ApiKey.METADATA, ApiKey.FIND_COORDINATOR),
        "groups": (
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.DESCRIBE_GROUPS,
        ),
        "consumer_groups": (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT),
        "group_admin": (
            ApiKey.LIST_GROUPS,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_DELETE,
            ApiKey.SHARE_GROUP_DESCRIBE,
        ),
        "streams_groups": (ApiKey.STREAMS_GROUP_DESCRIBE,),
        "offsets": (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
        "transactions": (
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
            ApiKey.DESCRIBE_PRODUCERS,
        ),
        "produce": (ApiKey.PRODUCE,),
        "fetch": (ApiKey.FETCH,),
        "log_offsets": (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS),
        "topics": (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
        "cluster": (
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            ApiKey.DESCRIBE_LOG_DIRS,
        ),
        "configs": (
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.LIST_CONFIG_RESOURCES,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        "security": (
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
    }.items()
    for key in keys
}
"""The module of `groupsdk.wire.messages` that declares an API."""


def frame(*parts: bytes) -> bytes:
    """Put the length in front of a payload, whose parts are copied once, as it may be megabytes.

    Raises EncodeError if the payload is larger than an int32 can tell.
    """
    size = sum(map(len, parts))
    if size > MAX_INT32:
        raise EncodeError(f"a message of {size} bytes does not fit a frame")
    return b"".join((_INT32.pack(size), *parts))


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request.

    Attributes:
        api_version: the version of the request, and of its response.
        correlation_id: the client's number of the request, which the response repeats.
        client_id: the client's name for logs and quotas; None for none.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@cache
def request_class(api_key: int) -> type[Request[Any]]:
    """Return the request class of an API.

    Raises UnsupportedVersionError if the API is not declared here.
    """
    try:
        key = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersionError(f"the API key {api_key} is not declared") from None
    module = import_module(f"groupsdk.wire.messages.{_FAMILY_OF[key]}")
    found = getattr(module, f"{key.name.title().replace('_', '')}Request")
    return cast("type[Request[Any]]", found)


def encode_request(
    message: Request[Any], version: int, correlation_id: int, client_id: str | None = None
) -> bytes:
    """Encode a request with its header as a complete frame, length prefix included.

    Raises EncodeError if the version is not declared, or it cannot carry a value of the message.
    """
    # a codec that exists is taken where it is kept: this runs for each request
    encode = message.codecs.encoders.get(version) or encoder(type(message), version)
    body = encode(message)
    api = message.api
    first_flexible = api.first_flexible
    tags = b"" if first_flexible is None or version < first_flexible else b"\0"
    try:
        if client_id is None:
            head = _HEADER.pack(api.key, version, correlation_id, -1)
            return frame(head, tags, body)
        # an int16 length in every header version, so that a broker can read it before it knows more
        name = client_id.encode()
        head = _HEADER.pack(api.key, version, correlation_id, len(name))
        return frame(head, name, tags, body)
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"{type(message).__name__} v{version}: its header: {error}") from error


def decode_response(request: type[Request[R]], version: int, payload: bytes) -> tuple[int, R]:
    """Decode a response. Return its correlation id and the message.

    An ApiVersions response with UNSUPPORTED_VERSION is in version 0, whatever the version of the request (KIP-511).

    Args:
        payload: the frame without its length prefix.

    Raises:
        DecodeError: the bytes are not a response of this API and version.
    """
    api, response = request.api, cast("type[R]", request.response_class)
    correlation_id = correlation_id_of(payload)
    start = 4
    first_flexible = api.first_flexible
    if api.key is ApiKey.API_VERSIONS:
        # always without tagged fields in its header: the client does not know the broker's versions yet
        if payload[4:6] == _REFUSED:
            version = 0
    elif first_flexible is not None and version >= first_flexible:
        start = _skip_tags(payload, start, response, version)
    decode = response.codecs.decoders.get(version) or decoder(response, version)
    found: R = decode(payload, start)
    return correlation_id, found


def correlation_id_of(payload: bytes) -> int:
    """Return the correlation id of a response.

    Args:
        payload: the frame without its length prefix.

    Raises:
        DecodeError: there are fewer than four bytes.
    """
    try:
        (correlation_id,) = _INT32.unpack_from(payload)
    except struct.error:
        raise DecodeError(f"an answer of {len(payload)} bytes has no correlation id") from None
    return cast("int", correlation_id)


def decode_request(payload: bytes) -> tuple[RequestHeader, Request[Any]]:
    """Decode a request and its header.

    Args:
        payload: the frame without its length prefix.

    Raises:
        UnsupportedVersionError: the API or its version is not declared here.
        DecodeError: the bytes are not a request of that API and version.
    """
    header, start = _read_header(payload)
    message = request_class(header.api_key)
    api, version = message.api, header.api_version
    if version not in api:
        raise UnsupportedVersionError(
            f"{message.__name__} v{version} is not declared, only {api.min_version} to {api.max_version}"
        )
    if api.is_flexible(version):
        start = _skip_tags(payload, start, message, version)
    found: Request[Any] = decoder(message, version)(payload, start)
    return header, found


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """Encode a response with its header as a complete frame, length prefix included.

    Raises EncodeError if the version is not declared, or it cannot carry a value of the message.
    """
    body = encoder(type(message), version)(message)
    api = message.api
    tags = b"\0" if api.is_flexible(version) and api.key is not ApiKey.API_VERSIONS else b""
    try:
        return frame(_INT32.pack(correlation_id), tags, body)
    except struct.error as error:
        raise EncodeError(f"{type(message).__name__} v{version}: its header: {error}") from error


def _read_header(payload: bytes) -> tuple[RequestHeader, int]:
    try:
        key, version, correlation_id, size = _HEADER.unpack_from(payload)
        stop = _HEADER.size + max(size, 0)
        if size < -1 or stop > len(payload):
            raise DecodeError(f"a request's header has a client id of {size} bytes")
        client_id = None if size < 0 else payload[_HEADER.size : stop].decode()
    except struct.error:
        raise DecodeError(f"a request of {len(payload)} bytes ends within its header") from None
    except UnicodeDecodeError as error:
        raise DecodeError("a request's client id is not valid UTF-8") from error
    return RequestHeader(key, version, correlation_id, client_id), stop


def _skip_tags(payload: bytes, position: int, message: type[Message], version: int) -> int:
    if payload[position : position + 1] == b"\0":
        return position + 1
    try:
        return read_unknown_tags(payload, position, len(payload))[1]
    except DECODE_FAILURES as error:
        name = f"{message.__name__} v{version}"
        raise DecodeError(f"{name}: the tagged fields of its header: {error}") from error


class ApiVersionRanges(Mapping[int, tuple[int, int]]):
    """Map API keys to the lowest and highest version that a broker supports.

    Immutable, so threads may share it."""

    __slots__ = ("_chosen", "_ranges")

    def __init__(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._ranges = dict(ranges)
        self._chosen: dict[tuple[type[Request[Any]], int | None], int] = {}

    @classmethod
    def from_response(cls, response: "ApiVersionsResponse") -> "ApiVersionRanges":
        """Read the ranges from a broker's ApiVersions response."""
        return cls({key.api_key: (key.min_version, key.max_version) for key in response.api_keys})

    @override
    def __getitem__(self, api_key: int) -> tuple[int, int]:
        return self._ranges[api_key]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self._ranges)

    @override
    def __len__(self) -> int:
        return len(self._ranges)

    @override
    def __repr__(self) -> str:
        return f"ApiVersionRanges({self._ranges!r})"

    def negotiate(self, request: type[Request[Any]], min_version: int | None = None) -> int:
        """Choose the newest version of a request that both sides support and that names topics.

        Args:
            min_version: the oldest version that will do, for a feature that came with it.

        Raises:
            UnsupportedVersionError: there is none; it names both ranges and, where it is known, the
                Kafka release that would do.
        """
        chosen = self._chosen.get((request, min_version))
        if chosen is not None:
            return chosen
        api = request.api
        ours_from = max(api.min_version, min_version if min_version is not None else 0)
        ours_to = api.client_version
        theirs = self._ranges.get(api.key)
        if theirs is not None and max(ours_from, theirs[0]) <= min(ours_to, theirs[1]):
            chosen = self._chosen[request, min_version] = min(ours_to, theirs[1])
            return chosen
        raise UnsupportedVersionError(
            _no_version(request.__name__, api, ours_from, ours_to, theirs)
        )


def _no_version(
    name: str, api: Api, ours_from: int, ours_to: int, theirs: tuple[int, int] | None
) -> str:
    text = f"{name} is needed in a version from {ours_from} to {ours_to}, but the broker "
    text += "does not have it" if theirs is None else f"has {theirs[0]} to {theirs[1]}"
    if theirs is None or theirs[1] < ours_from:
        release = first_release(api.key, ours_from)
        if release is not None:
            text += f"; Apache Kafka has it from {release} on"
    return text


def next_api_versions_version(response: "ApiVersionsResponse", tried: int) -> int | None:
    """Choose the version of ApiVersions to ask again with, after an answer; None: do not ask again.

    A broker that lacks the version asked for answers UNSUPPORTED_VERSION and lists its range of
    ApiVersions (KIP-511); one from before Kafka 2.4 lists nothing, and version 0 is what it has. Raises
    UnsupportedVersionError if the broker refuses every version that we speak.
    """
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    api = response.api
    theirs = ApiVersionRanges.from_response(response).get(api.key, (0, 0))
    version = min(theirs[1], api.max_version, tried - 1)
    if version < max(theirs[0], api.min_version):
        raise UnsupportedVersionError(
            f"the broker refused ApiVersions v{tried} and offers {theirs[0]} to {theirs[1]};"
            f" {api.min_version} to {api.max_version} are supported here"
        )
    return version


def messages() -> Iterator[type[Message]]:
    """Go through all declared requests and responses; imports them all."""
    for key in ApiKey:
        request = request_class(key)
        yield request
        yield request.response_class


class FrameDecoder:
    """Collect what a socket delivers and hand out complete frames.

    Keeps at most one incomplete frame, whose length it checks as soon as it is known, and takes time in
    proportion to the bytes. For one thread at a time. After a FrameError the stream is lost:
    close the connection.
    """

    __slots__ = ("_buffer", "_failure", "_max_frame_bytes", "_wanted")

    def __init__(self, max_frame_bytes: int) -> None:
        """Create a decoder that refuses frames of more than `max_frame_bytes`, prefix not counted."""
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._wanted = _INT32.size  # bytes that the buffer needs before there is anything to do
        self._failure: str | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take the next bytes of the stream; return the payloads of the frames that are now complete.

        Raises:
            FrameError: a length is negative or over the limit; complete frames before it in the same
                `data` are lost with the stream.
        """
        if self._failure is not None:
            raise FrameError(self._failure)
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        position = 0
        while len(buffer) - position >= self._wanted:
            length = self._length_at(position)
            stop = position + _INT32.size + length
            if stop > len(buffer):
                self._wanted = stop - position
                break
            with memoryview(buffer) as view:
                frames.append(bytes(view[position + _INT32.size : stop]))
            position = stop
            self._wanted = _INT32.size
        if position:
            del buffer[:position]
        return frames

    def _length_at(self, position: int) -> int:
        (length,) = _INT32.unpack_from(self._buffer, position)
        if 0 <= length <= self._max_frame_bytes:
            return int(length)
        self._failure = _why_refused(
            bytes(self._buffer[position : position + 8]), length, self._max_frame_bytes
        )
        self._buffer.clear()
        raise FrameError(self._failure)


def _why_refused(start: bytes, length: int, limit: int) -> str:
    if start[0] in _TLS_RECORDS and start[1] == 3:
        return (
            "the other side speaks TLS on this port: set security.protocol to SSL or SASL_SSL"
            f" (its bytes start with {start.hex(' ')})"
        )
    if start[:4] == b"HTTP":
        return "the other side speaks HTTP on this port, not Kafka's protocol; check the address"
    if length < 0:
        return f"a frame has the negative length {length}; its bytes start with {start.hex(' ')}"
    return f"a frame of {length} bytes is over the limit of {limit}; its bytes start with {start.hex(' ')}"
