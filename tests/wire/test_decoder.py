"""Tests the decoding of bytes that are wrong, hostile or from a newer peer."""

import random
import sys
import tracemalloc
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire import decoder
from groupsdk.wire.compiler import decode, encode
from groupsdk.wire.decoder import compile_decoder
from groupsdk.wire.messages.cluster import Cursor, DescribeTopicPartitionsRequest
from groupsdk.wire.messages.connection import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from groupsdk.wire.messages.consumer_groups import Assignment, ConsumerGroupHeartbeatResponse
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from groupsdk.wire.primitives import TaggedField, uvarint
from groupsdk.wire.schema import Api, Int16, Message, Struct, nullable, tagged
from tests.conformance.cases import Filling
from tests.support.cases import each_case
from tests.wire.strategies import MESSAGES, versioned_messages


EVERY_VERSION = [
    (declared, version)
    for declared in MESSAGES
    for version in range(declared.api.min_version, declared.api.max_version + 1)
]

CHANGED_IN_PARTS = 12


@each_case(("declared", "version"), EVERY_VERSION)
def test_no_part_of_a_message_is_a_message(declared: type[Message], version: int) -> None:
    data = encode(Filling().struct(declared, version), version)

    for size in range(len(data)):
        with pytest.raises(DecodeError, match=f"{declared.__name__} v{version}: "):
            decode(declared, version, data[:size])


@each_case(("declared", "version"), EVERY_VERSION)
def test_nothing_may_follow_a_message(declared: type[Message], version: int) -> None:
    data = encode(declared(), version)

    with pytest.raises(DecodeError, match=f"2 of {len(data) + 2} bytes are left over"):
        decode(declared, version, data + b"\0\0")


def decodes_or_fails(declared: type[Message], version: int, data: bytes) -> None:
    """Decodes bytes that may be anything: they are a message that can be written and read again, or none."""
    try:
        message = decode(declared, version, data)
    except DecodeError:
        return
    assert type(message) is declared
    try:
        again = encode(message, version)
    except EncodeError as error:
        # Kafka reads tags that are there twice, but does not write them
        assert "twice" in str(error)  # noqa: PT017  # the other outcome is no error at all
        return
    assert len(again) <= len(data)  # a varint may have been longer than it needs to be
    assert encode(decode(declared, version, again), version) == again


@pytest.mark.parametrize("part", range(CHANGED_IN_PARTS))
def test_changed_bytes_give_a_message_or_a_decode_error(
    part: int, subtests: pytest.Subtests
) -> None:
    # in parts, as all of them together take long
    @each_case(("declared", "version"), EVERY_VERSION[part::CHANGED_IN_PARTS])
    def check(declared: type[Message], version: int) -> None:
        _change_each_byte(declared, version)

    check(subtests=subtests)


def _change_each_byte(declared: type[Message], version: int) -> None:
    data = encode(Filling().struct(declared, version), version)
    for at in range(len(data)):
        for byte in {0, 1, 127, 128, 255, data[at] ^ 1, (data[at] + 1) % 256}:
            decodes_or_fails(declared, version, data[:at] + bytes([byte]) + data[at + 1 :])


@settings(max_examples=500)
@given(st.sampled_from(MESSAGES), st.data())
def test_any_bytes_give_a_message_or_a_decode_error(
    declared: type[Message], data: st.DataObject
) -> None:
    version = data.draw(st.integers(declared.api.min_version, declared.api.max_version))
    decodes_or_fails(declared, version, data.draw(st.binary(max_size=200)))


@settings(max_examples=300)
@given(versioned_messages(), st.data())
def test_damaged_messages_give_a_message_or_a_decode_error(
    case: tuple[int, Message], data: st.DataObject
) -> None:
    version, message = case
    damaged = bytearray(encode(message, version))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged)))
        if data.draw(st.booleans()):
            del damaged[at : at + data.draw(st.integers(1, 4))]
        else:
            damaged[at:at] = data.draw(st.binary(min_size=1, max_size=5))
    decodes_or_fails(type(message), version, bytes(damaged))


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, b"\0\0" + b"\0\0\0\0" + b"\0\0" * 3 + b"\x7f\xff\xff\xff" + b"\0" * 90),
        (
            9,
            b"\0\0\0\0\0\0" + b"\0" * 4 + b"\0\0\1\0\1" + b"\xff\xff\xff\xff\x07" + b"\0" * 90,
        ),
    ],
)
def test_a_hostile_count_costs_no_memory(version: int, data: bytes) -> None:
    decode(JoinGroupResponse, version, encode(JoinGroupResponse(), version))  # compiled by now
    tracemalloc.start()
    try:
        with pytest.raises(
            DecodeError, match=r"members counts 214748364\d elements where 90 bytes"
        ):
            decode(JoinGroupResponse, version, data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_memory_of_decoding_is_bounded_by_the_bytes() -> None:
    generator = random.Random(7)
    for declared in MESSAGES:
        version = declared.api.max_version
        decode(declared, version, encode(declared(), version))
        tracemalloc.start()
        for _ in range(20):
            # zeros make the smallest structs there are; a count in front asks for as many as possible
            data = generator.randbytes(generator.randrange(8)) + b"\xff\xff\x03" + b"\0" * 2000
            decodes_or_fails(declared, version, data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000, declared


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_negative_length_of_a_string_is_refused(length: str) -> None:
    with pytest.raises(
        DecodeError, match="HeartbeatRequest v0: group_id has the length or count -"
    ):
        decode(HeartbeatRequest, 0, bytes.fromhex(length) + b"\0" * 20)


@pytest.mark.parametrize("length", ["fffe", "8000"])
def test_only_minus_one_is_null(length: str) -> None:
    data = encode(HeartbeatRequest("g", 1, "m"), 3)
    assert data.endswith(b"\xff\xff")

    with pytest.raises(DecodeError, match="group_instance_id has the length or count -"):
        decode(HeartbeatRequest, 3, data[:-2] + bytes.fromhex(length))


def test_null_where_it_may_not_be() -> None:
    with pytest.raises(DecodeError, match="HeartbeatRequest v4: group_id is null"):
        decode(HeartbeatRequest, 4, b"\0" + b"\0" * 8)
    with pytest.raises(DecodeError, match="SyncGroupResponse v5: assignment is null"):
        decode(SyncGroupResponse, 5, b"\0" * 10)
    with pytest.raises(DecodeError, match="MetadataResponse v12: brokers is null"):
        decode(MetadataResponse, 12, b"\0" * 20)


@pytest.mark.parametrize(("sign", "is_null"), [(0, False), (1, False), (127, False), (128, True)])
def test_a_negative_byte_stands_for_a_struct_that_is_null(sign: int, is_null: bool) -> None:
    # as Kafka reads it; it writes 1 and -1 only
    start = encode(DescribeTopicPartitionsRequest(), 0)[:-2]
    cursor = b"" if is_null else b"\2t\0\0\0\5\0"

    read = decode(DescribeTopicPartitionsRequest, 0, start + bytes([sign]) + cursor + b"\0")

    assert read.cursor == (None if is_null else Cursor("t", 5))


def test_a_field_in_a_struct_is_named() -> None:
    data = encode(DescribeTopicPartitionsRequest(cursor=Cursor("tttt")), 0)

    with pytest.raises(DecodeError, match=r"v0: cursor\.topic_name is not valid UTF-8"):
        decode(DescribeTopicPartitionsRequest, 0, data.replace(b"tttt", b"\xff" * 4))


@dataclass(frozen=True, slots=True)
class Optional(Struct):
    large: Annotated[Assignment | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class Optionals(Message):
    api: ClassVar[Api] = ConsumerGroupHeartbeatResponse.api
    items: tuple[Optional, ...] = ()


def test_structs_that_are_null_take_a_byte_each() -> None:
    # the bound on a count may not take them for the larger structs that they could be
    message = Optionals((Optional(),) * 100)

    assert decode(Optionals, 0, encode(message, 0)) == message
    with pytest.raises(DecodeError, match="items counts 101 elements where 200 bytes are left"):
        decode(Optionals, 0, b"\x66" + b"\xff\0" * 100)


@dataclass(frozen=True, slots=True)
class Small(Struct):
    number: Int16 = 0


@dataclass(frozen=True, slots=True)
class TaggedOptional(Message):
    api: ClassVar[Api] = ConsumerGroupHeartbeatResponse.api
    small: Annotated[Small | None, nullable(), tagged(0)] = Small()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        # as Kafka's generated classes: 0 or 1 as an unsigned varint, not the -1 or 1 of other fields
        (TaggedOptional(None), "01 00 01 00"),
        (TaggedOptional(Small(7)), "01 00 04 01 0007 00"),
        (TaggedOptional(Small()), "00"),
    ],
)
def test_a_tagged_struct_says_in_its_own_way_whether_it_is_there(
    message: TaggedOptional, expected: str
) -> None:
    assert encode(message, 0) == bytes.fromhex(expected)
    assert decode(TaggedOptional, 0, bytes.fromhex(expected)) == message


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_copied_out_of_the_bytes_once(version: int) -> None:
    records = bytes(1 << 20)
    topic = TopicProduceData("t", partition_data=(PartitionProduceData(records=records),))
    data = encode(ProduceRequest(topic_data=(topic,)), version)
    decode(ProduceRequest, version, encode(ProduceRequest(), version))  # compiled by now
    tracemalloc.start()
    try:
        read = decode(ProduceRequest, version, data)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * len(records)
    finally:
        tracemalloc.stop()
    assert read.topic_data == (topic,)


def test_a_string_that_is_not_utf8() -> None:
    data = encode(HeartbeatRequest("gg", 1, "m"), 4)

    with pytest.raises(DecodeError, match="group_id is not valid UTF-8"):
        decode(HeartbeatRequest, 4, data.replace(b"gg", b"\xff\xfe"))


def test_a_field_in_an_array_is_named() -> None:
    data = encode(JoinGroupResponse(members=(JoinGroupResponseMember("aaaa"),)), 9)

    with pytest.raises(DecodeError, match=r"members\.member_id is not valid UTF-8"):
        decode(JoinGroupResponse, 9, data.replace(b"aaaa", b"\xff" * 4))


def test_a_length_over_the_end_is_told() -> None:
    data = encode(SyncGroupResponse(assignment=b"abcd"), 2)

    with pytest.raises(
        DecodeError, match="a length in it runs 3 bytes over the end of its 11 bytes"
    ):
        decode(SyncGroupResponse, 2, data[:-3])


def test_unknown_tagged_fields_are_kept_and_written_back() -> None:
    tags = (TaggedField(1, b"one"), TaggedField(900, b""))
    member = JoinGroupResponseMember("m", unknown_tagged_fields=tags)
    message = JoinGroupResponse(members=(member,), unknown_tagged_fields=tags[1:])

    data = encode(message, 9)
    read = decode(JoinGroupResponse, 9, data)

    assert read == message
    assert read.members[0].unknown_tagged_fields == tags
    assert encode(read, 9) == data


def test_unknown_tagged_fields_may_come_in_any_order() -> None:
    data = (
        encode(HeartbeatResponse(7, 25), 4)[:-1]
        + bytes([3, 5, 1])
        + b"a"
        + bytes([2, 0, 200, 1, 0])
    )

    read = decode(HeartbeatResponse, 4, data)

    assert (read.throttle_time_ms, read.error_code) == (7, 25)
    assert [each.tag for each in read.unknown_tagged_fields] == [5, 2, 200]


def features() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=(ApiVersion(18, 0, 4),),
        supported_features=(SupportedFeatureKey("group.version", 0, 1),),
        finalized_features_epoch=77,
        finalized_features=(FinalizedFeatureKey("group.version", 1, 1),),
        zk_migration_ready=True,
    )


def test_known_tagged_fields_are_read_in_any_order_beside_unknown_ones() -> None:
    start = encode(ApiVersionsResponse(), 4)[:-1]
    data = start + bytes([3, 3, 1, 1, 50, 2]) + b"??" + bytes([1, 8]) + (77).to_bytes(8)

    assert decode(ApiVersionsResponse, 4, data) == ApiVersionsResponse(
        finalized_features_epoch=77,
        zk_migration_ready=True,
        unknown_tagged_fields=(TaggedField(50, b"??"),),
    )


@pytest.mark.parametrize(("size", "content"), [(9, b"\0" * 9), (7, b"\0" * 7), (0, b"")])
def test_a_known_tagged_field_has_to_fill_its_size(size: int, content: bytes) -> None:
    start = encode(ApiVersionsResponse(), 4)[:-1]

    with pytest.raises(DecodeError, match="finalized_features_epoch"):
        decode(ApiVersionsResponse, 4, start + bytes([2, 1, size]) + content + bytes([60, 0]))


def test_many_unknown_tagged_fields_are_read_in_one_list() -> None:
    message = ApiVersionsResponse(
        unknown_tagged_fields=tuple(TaggedField(tag, b"") for tag in range(100, 20_100))
    )

    assert decode(ApiVersionsResponse, 3, encode(message, 3)) == message


def test_a_known_tag_that_is_newer_than_the_declaration_of_its_struct_is_no_error() -> None:
    inner = SupportedFeatureKey("f", 0, 1, unknown_tagged_fields=(TaggedField(4, b"new"),))
    message = ApiVersionsResponse(supported_features=(inner,))

    assert decode(ApiVersionsResponse, 3, encode(message, 3)) == message


def test_error_codes_that_are_not_known_here_survive() -> None:
    assert decode(HeartbeatResponse, 4, encode(HeartbeatResponse(0, 12345), 4)).error_code == 12345


def test_a_string_longer_than_kafka_allows_is_refused() -> None:
    data = uvarint(32769) + b"x" * 32768 + b"\0" * 4 + b"\x01\0\0"

    with pytest.raises(DecodeError, match="group_id has 32768 bytes, over the limit of 32767"):
        decode(HeartbeatRequest, 4, data)


@given(versioned_messages())
def test_without_the_interpreters_lock_the_constructor_makes_the_same(
    case: tuple[int, Message],
) -> None:
    version, message = case
    encoded = encode(message, version)
    expected = decode(type(message), version, encoded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        patch.setattr(decoder, "open_twin", None)  # nothing of it is used
        made = compile_decoder(type(message), version)(encoded, 0)
    assert made == expected
    assert type(made) is type(expected)
    assert repr(made) == repr(expected)


def test_a_compiled_function_starts_where_it_is_told() -> None:
    data = b"header" + encode(HeartbeatResponse(5, 27), 4)

    assert compile_decoder(HeartbeatResponse, 4)(data, 6) == HeartbeatResponse(5, 27)
