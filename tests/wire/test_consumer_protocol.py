"""Compares the messages of consumers with Kafka's ConsumerProtocol; reads what it cannot, and bytes at random."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
    is_subscription,
)
from tests.conformance.golden import shorten
from tests.support.cases import each_case
from tests.wire.consumer_cases import (
    ASSIGNMENT_BYTES,
    ASSIGNMENTS,
    GOLDEN,
    RELEASES,
    SUBSCRIPTION_BYTES,
    SUBSCRIPTIONS,
    ask,
    assignment_fields,
    questions,
    subscription_fields,
)


REFUSED = "refused"


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return answers


def as_json(fields: dict[str, Any]) -> Any:
    return json.loads(json.dumps(fields))


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return ConsumerProtocolDecoder().subscription(data)


def test_every_question_has_kafkas_answer(golden: dict[str, Any]) -> None:
    assert list(golden) == [name for name, _ in questions()]


@each_case("version", range(4))
@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_subscriptions_are_written_as_by_kafka(
    golden: dict[str, Any], name: str, version: int
) -> None:
    data = ConsumerProtocolEncoder().subscription(SUBSCRIPTIONS[name], version)

    assert shorten(data.hex()) == golden[f"subscription {version} {name}"]


@each_case("version", range(4))
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments_are_written_as_by_kafka(
    golden: dict[str, Any], name: str, version: int
) -> None:
    data = ConsumerProtocolEncoder().assignment(ASSIGNMENTS[name], version)

    assert shorten(data.hex()) == golden[f"assignment {version} {name}"]


@pytest.mark.parametrize("name", SUBSCRIPTION_BYTES)
def test_subscriptions_are_read_as_by_kafka(golden: dict[str, Any], name: str) -> None:
    data, answer = bytes.fromhex(SUBSCRIPTION_BYTES[name]), golden[f"read subscription {name}"]

    if answer == REFUSED:
        with pytest.raises(DecodeError):
            read_subscription(data)
    else:
        assert as_json(subscription_fields(read_subscription(data))) == answer


@pytest.mark.parametrize("name", ASSIGNMENT_BYTES)
def test_assignments_are_read_as_by_kafka(golden: dict[str, Any], name: str) -> None:
    data, answer = bytes.fromhex(ASSIGNMENT_BYTES[name]), golden[f"read assignment {name}"]

    if answer == REFUSED:
        with pytest.raises(DecodeError):
            ConsumerProtocolDecoder().assignment(data)
    else:
        read = ConsumerProtocolDecoder().assignment(data)
        assert as_json(assignment_fields(read)) == answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0001 00000001 0001 74 ffffffff", ConsumerProtocolSubscription(("t",))),
        ("0003 00000001 0001 74 00000001 07", ConsumerProtocolSubscription(("t",), b"\x07")),
        (
            "0003 00000000 ffffffff 00000001 0001 74 00000001 00000002",
            ConsumerProtocolSubscription(owned_partitions={"t": (2,)}),
        ),
        (
            "0003 00000000 ffffffff 00000000 00000005",
            ConsumerProtocolSubscription(generation_id=5),
        ),
    ],
)
def test_fields_missing_at_the_end_are_empty(
    text: str, expected: ConsumerProtocolSubscription
) -> None:
    # Kafka's class refuses these, of which some clients send the first
    assert read_subscription(bytes.fromhex(text)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the 0 bytes of the subscription end within the field at or after byte 0"),
        ("ffff", "version of the consumer protocol must not be negative, but is -1"),
        ("0000 7fffffff 0000", "'topics' has the count 2147483647 with 2 bytes left"),
        ("0000 ffffffff", "'topics' has the count -1 with 0 bytes left"),
        ("0000 00000001 0009 7400", "a name of 9 bytes at byte 8, where 10 end the data"),
        ("0000 00000001 0002 c328 ffffffff", "string at or after byte 2 that is not valid UTF-8"),
        ("0000 00000000 00000003 0102", "'user_data' has the count 3 with 2 bytes left"),
        ("0003 00000000 ffffffff 00000000 00000001 0009 61", "'rack_id' has the length 9 with 1"),
        ("0001 00000000 ffffffff 00000001 0001 74 00000002 00000000", "'t' has the count 2 with 4"),
    ],
)
def test_malformed_subscription_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_subscription(bytes.fromhex(text))
    assert problem in str(caught.value)


def test_a_wrong_assignment_is_said_to_be_one() -> None:
    with pytest.raises(DecodeError, match="the 1 bytes of the assignment end within"):
        ConsumerProtocolDecoder().assignment(b"\x00")


names = st.text(max_size=4)
partitions = st.dictionaries(
    names, st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=4).map(tuple), max_size=4
)
subscriptions = st.builds(
    ConsumerProtocolSubscription,
    topics=st.lists(names, max_size=5).map(tuple),
    user_data=st.none() | st.binary(max_size=5),
    owned_partitions=partitions,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | st.text(min_size=1, max_size=3),
)


@given(st.lists(subscriptions, max_size=4))
def test_encoded_subscription_is_decoded_to_itself(
    group: list[ConsumerProtocolSubscription],
) -> None:
    encoder, decoder = ConsumerProtocolEncoder(), ConsumerProtocolDecoder()

    for each in [*group, *group]:
        data = encoder.subscription(each)
        read = decoder.subscription(data)
        assert sorted(read.topics) == sorted(each.topics)
        assert (read.user_data, read.generation_id, read.rack_id) == (
            *(each.user_data, each.generation_id),
            each.rack_id,
        )
        assert {t: sorted(p) for t, p in read.owned_partitions.items()} == {
            t: sorted(p) for t, p in each.owned_partitions.items()
        }
        # what one decoder remembers of others makes no difference
        assert read == read_subscription(data)
        assert encoder.subscription(read) == data


@given(partitions, st.none() | st.binary(max_size=5))
def test_assignments_are_read_back(
    assigned: dict[str, tuple[int, ...]], user_data: bytes | None
) -> None:
    assignment = ConsumerProtocolAssignment(assigned, user_data)

    data = ConsumerProtocolEncoder().assignment(assignment)

    assert ConsumerProtocolDecoder().assignment(data) == assignment


@given(st.binary(max_size=60))
@example(bytes.fromhex(SUBSCRIPTION_BYTES["version 3"]))
def test_no_bytes_raise_anything_but_a_decode_error(data: bytes) -> None:
    decoder = ConsumerProtocolDecoder()
    for read in (decoder.subscription, decoder.assignment):
        with suppress(DecodeError):
            read(data)


@given(subscriptions, st.data())
def test_no_changed_message_raises_anything_but_a_decode_error(
    subscription: ConsumerProtocolSubscription, data: st.DataObject
) -> None:
    message = bytearray(ConsumerProtocolEncoder().subscription(subscription))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    for changed in (bytes(message), bytes(message[:cut])):
        with suppress(DecodeError):
            read_subscription(changed)


def test_equal_lists_of_topics_are_one_object() -> None:
    encoder, decoder = ConsumerProtocolEncoder(), ConsumerProtocolDecoder()
    long = tuple(f"a-topic-with-a-long-name-{number:03}" for number in range(100))
    other = (*long[:-1], "another")

    def read(topics: tuple[str, ...], generation_id: int) -> ConsumerProtocolSubscription:
        message = ConsumerProtocolSubscription(topics, b"u", {"t": (1,)}, generation_id)
        return decoder.subscription(encoder.subscription(message))

    first = read(long, 1)

    assert read(long, 2).topics is first.topics
    assert read(other, 2).topics == tuple(sorted(other))
    assert read(("t",), 300).topics is read(("t",), 7).topics
    assert read(("t",), 1).topics[0] is next(iter(read(("u",), 1).owned_partitions))


def test_more_lists_with_one_beginning_than_are_compared() -> None:
    encoder, decoder = ConsumerProtocolEncoder(), ConsumerProtocolDecoder()
    head = "a" * 60
    lists = [(f"{head}{number:02}", f"{head}{number:02}z") for number in range(30)]

    for topics in [*lists, *lists]:
        message = encoder.subscription(ConsumerProtocolSubscription(topics))
        assert decoder.subscription(message).topics == topics


def test_a_topic_named_again_and_again_is_read_in_linear_time() -> None:
    # copied anew for each of them, this would take minutes
    again = 100_000
    message = bytes.fromhex("0001 00000000 ffffffff") + again.to_bytes(4)
    message += bytes.fromhex("0001 74 00000001 00000005") * again

    assert read_subscription(message).owned_partitions == {"t": (5,) * again}


@pytest.mark.parametrize(
    ("subscription", "problem"),
    [
        (ConsumerProtocolSubscription(("y" * 32768,)), "has 32768 bytes in UTF-8, over the limit"),
        (ConsumerProtocolSubscription(owned_partitions={"t": (2**31,)}), "cannot encode"),
        (ConsumerProtocolSubscription(generation_id=2**31), "cannot encode"),
        (ConsumerProtocolSubscription(("\ud800",)), "cannot encode"),
    ],
)
def test_subscription_that_does_not_fit_is_refused(
    subscription: ConsumerProtocolSubscription, problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        ConsumerProtocolEncoder().subscription(subscription)


def test_an_assignment_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="cannot encode the assignment"):
        ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment({"t": (-(2**31) - 1,)}))


@pytest.mark.parametrize("version", [-1, 4])
def test_versions_that_are_not_known_are_not_written(version: int) -> None:
    with pytest.raises(EncodeError, match=f"from 0 to 3, not {version}"):
        ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(), version)
    with pytest.raises(EncodeError, match=f"from 0 to 3, not {version}"):
        ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment(), version)


@given(st.binary(max_size=60))
@example(b"")
@example(b'{"shards": [1, 2]}')
@example(bytes(10))
def test_only_a_subscription_is_taken_for_one(data: bytes) -> None:
    known = ConsumerProtocolSubscription(("t", "u"), data, {"t": (0, 1)}, 3, "rack")
    for version in range(4):
        written = ConsumerProtocolEncoder().subscription(known, version)
        assert is_subscription(written)
        assert not is_subscription(written + b"x")
        assert not is_subscription(written[:-1])
    with_odd_name = ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(("a b",)))
    assert not is_subscription(with_odd_name)
    assert not is_subscription(
        ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription())
    )
    assert not is_subscription(data)


def test_topics_without_partitions_are_left_out_as_kafka_knows_none() -> None:
    encoder = ConsumerProtocolEncoder()

    with_empty = encoder.assignment(ConsumerProtocolAssignment({"a": (), "t": (1,)}))

    assert with_empty == encoder.assignment(ConsumerProtocolAssignment({"t": (1,)}))


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
@pytest.mark.parametrize("release", RELEASES)
def test_the_golden_answers_are_what_this_release_says(
    release: str, golden: dict[str, Any]
) -> None:
    assert as_json(ask(release)) == golden
