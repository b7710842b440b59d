"""Tests encoding and decoding of every message, in every version."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import given, settings

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.limits import MAX_REQUEST_ELEMENTS, MAX_UNKNOWN_TAGS
from groupsdk.wire import compiler
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from groupsdk.wire.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.primitives import TaggedField
from groupsdk.wire.schema import NO_UUID, Api, ApiKey, Message
from tests.wire.strategies import versioned_messages


@settings(max_examples=400)
@given(versioned_messages())
def test_encoded_message_is_decoded_to_itself(case: tuple[int, Message]) -> None:
    version, message = case

    data = compiler.encode(message, version)

    assert compiler.decode(type(message), version, data) == message


@settings(max_examples=200)
@given(versioned_messages())
def test_codecs_in_steps_do_the_same(case: tuple[int, Message]) -> None:
    version, message = case
    kind = type(message)

    pieces, _ = finished(compiler.encoder_in_steps(kind, version)(message))

    data = b"".join(pieces)
    assert data == compiler.encode(message, version)
    read, _ = finished(compiler.lenient_decoder_in_steps(kind, version)(data, 0))
    assert read == compiler.lenient_decoder(kind, version)(data, 0)


def finished(steps: compiler.CodecSteps[Any]) -> tuple[Any, int]:
    """Returns what a codec in steps returned, and after how many pauses."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


def test_codecs_in_steps_pause_and_fail_as_others_do() -> None:
    topics = tuple(DeleteRecordsTopic(str(n), (DeleteRecordsPartition(n),)) for n in range(5_000))
    request = DeleteRecordsRequest(topics)
    pieces, pauses = finished(compiler.encoder_in_steps(DeleteRecordsRequest, 2)(request))
    assert (pauses, len(pieces)) == (9, 10)
    data = b"".join(pieces)
    decode = compiler.lenient_decoder_in_steps(DeleteRecordsRequest, 2)
    assert finished(decode(data, 0)) == (request, 9)
    with pytest.raises(DecodeError, match="topics"):
        finished(decode(data[:70_000], 0))
    wrong = DeleteRecordsRequest((DeleteRecordsTopic("t", (DeleteRecordsPartition(2**40),)),))
    with pytest.raises(EncodeError, match="partition_index"):
        finished(compiler.encoder_in_steps(DeleteRecordsRequest, 2)(wrong))


def test_topics_that_are_given_by_name_share_one_id() -> None:
    request = MetadataRequest((MetadataRequestTopic(name="a"), MetadataRequestTopic(UUID(int=7))))
    first, second = compiler.decode(MetadataRequest, 12, compiler.encode(request, 12)).topics or ()
    assert first.topic_id is NO_UUID
    assert second.topic_id == UUID(int=7)


def test_a_message_on_the_wire() -> None:
    protocols = (JoinGroupRequestProtocol("v0", b"\x01\x02"),)
    message = JoinGroupRequest("g", 10_000, 60_000, "m", None, "sr", protocols, "why")

    assert compiler.encode(message, 4) == (
        b"\x00\x01g\x00\x00\x27\x10\x00\x00\xea\x60\x00\x01m\x00\x02sr"
        b"\x00\x00\x00\x01\x00\x02v0\x00\x00\x00\x02\x01\x02"
    )
    assert compiler.encode(message, 9) == (
        b"\x02g\x00\x00\x27\x10\x00\x00\xea\x60\x02m\x00\x03sr\x02\x03v0\x03\x01\x02\x00\x04why\x00"
    )


def test_decoded_messages_are_as_frozen_as_others() -> None:
    made = HeartbeatRequest("g", 1, "m")

    read = compiler.decode(HeartbeatRequest, 4, compiler.encode(made, 4))

    assert type(read) is HeartbeatRequest
    assert (read, repr(read), hash(read)) == (made, repr(made), hash(made))
    with pytest.raises(AttributeError):
        read.group_id = "other"  # type: ignore[misc]  # what is tested: it cannot be done


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_a_version_that_is_not_declared(version: int) -> None:
    problem = f"HeartbeatRequest is declared for the versions 0 to 4, not for {version}"
    with pytest.raises(EncodeError, match=problem):
        compiler.encode(HeartbeatRequest(), version)
    with pytest.raises(DecodeError, match=problem):
        compiler.decode(HeartbeatRequest, version, b"")


def test_functions_are_compiled_once_and_only_when_needed() -> None:
    @dataclass(frozen=True, slots=True)
    class Lazy(Message):
        api: ClassVar[Api] = Api(ApiKey.HEARTBEAT, 0, 4)
        name: str = ""

    assert not Lazy.codecs.encoders
    assert compiler.encoder(Lazy, 2) is compiler.encoder(Lazy, 2)
    assert compiler.decoder(Lazy, 3) is compiler.decoder(Lazy, 3)
    assert list(Lazy.codecs.encoders) == [2]
    assert list(Lazy.codecs.decoders) == [3]


def test_threads_may_compile_at_the_same_time() -> None:
    @dataclass(frozen=True, slots=True)
    class Shared(Message):
        api: ClassVar[Api] = Api(ApiKey.HEARTBEAT, 0, 4, first_flexible=2)
        name: str = ""

    def round_trip(turn: int) -> bool:
        message = Shared(str(turn))
        data = compiler.encode(message, turn % 5)
        return compiler.decode(Shared, turn % 5, data) == message

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trip, range(200)))


def test_any_buffer_is_decoded() -> None:
    data = compiler.encode(HeartbeatRequest("g"), 4)

    assert compiler.decode(HeartbeatRequest, 4, bytearray(data)) == HeartbeatRequest("g")
    assert compiler.decode(HeartbeatRequest, 4, memoryview(data)) == HeartbeatRequest("g")


@pytest.mark.parametrize("version", [3, 4])
def test_a_broker_leaves_alone_what_is_behind_a_request(version: int) -> None:
    read = compiler.lenient_decoder(HeartbeatRequest, version)
    data = compiler.encode(HeartbeatRequest("g", 7, "m"), version)

    assert read(data, 0) == HeartbeatRequest("g", 7, "m")
    assert read(data + b"\0\0\0", 0) == HeartbeatRequest("g", 7, "m")
    with pytest.raises(DecodeError):
        read(data[:-1], 0)
    with pytest.raises(DecodeError):
        compiler.decode(HeartbeatRequest, version, data + b"\0\0\0")
    with pytest.raises(DecodeError, match="not for 9"):
        compiler.lenient_decoder(HeartbeatRequest, 9)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("length", [3, 200])
def test_a_broker_reads_what_is_no_utf8_as_java_does(version: int, length: int) -> None:
    data = compiler.encode(HeartbeatRequest("g" * length, 7, "m"), version)
    damaged = data.replace(b"gg", b"\xff\xe2", 1)

    read = compiler.lenient_decoder(HeartbeatRequest, version)(damaged, 0)

    assert read == HeartbeatRequest("\ufffd\ufffd" + "g" * (length - 2), 7, "m")
    with pytest.raises(DecodeError, match="UTF-8"):
        compiler.decode(HeartbeatRequest, version, damaged)


def test_a_broker_takes_any_negative_count_for_null() -> None:
    data = b"\xff\xff\xff\xfe"

    assert compiler.lenient_decoder(MetadataRequest, 1)(data, 0) == MetadataRequest(None)
    with pytest.raises(DecodeError, match="count -2"):
        compiler.decode(MetadataRequest, 1, data)


def test_a_broker_takes_a_bounded_number_of_elements() -> None:
    read = compiler.lenient_decoder(DeleteRecordsRequest, 0)
    partitions = (DeleteRecordsPartition(0, 0),) * (MAX_REQUEST_ELEMENTS // 2 - 1)
    full = DeleteRecordsTopic("t", partitions)
    # the topics are elements, too
    most = DeleteRecordsRequest((full, full))
    more = DeleteRecordsRequest((full, full, DeleteRecordsTopic("t", partitions[:1])))

    assert read(compiler.encode(most, 0), 0) == most
    with pytest.raises(DecodeError, match=r"topics\.partitions counts .* more than a request"):
        read(compiler.encode(more, 0), 0)
    assert compiler.decode(DeleteRecordsRequest, 0, compiler.encode(more, 0)) == more


def test_a_broker_counts_tagged_fields_as_well() -> None:
    read = compiler.lenient_decoder(DeleteRecordsRequest, 2)
    tags = tuple(TaggedField(tag, b"") for tag in range(MAX_UNKNOWN_TAGS))
    topics = (DeleteRecordsTopic("t", unknown_tagged_fields=tags),) * 10
    data = compiler.encode(DeleteRecordsRequest(topics), 2)

    with pytest.raises(DecodeError, match="more than a request may have"):
        read(data, 0)
