"""Holds Connect's bytes to those of Kafka's own classes, and reading to its bounds."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.connect_protocol import (
    CONFIG_MISMATCH,
    ConnectAssignment,
    ConnectorTaskId,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)


URL = "http://w:8083"
V0 = ConnectAssignment(
    leader="L",
    leader_url=URL,
    offset=12,
    connectors=("c1",),
    tasks=(ConnectorTaskId("c1", 0), ConnectorTaskId("c2", 1)),
)
V2 = ConnectAssignment(
    leader="L",
    leader_url=URL,
    offset=12,
    connectors=("c1",),
    tasks=(ConnectorTaskId("c1", 0), ConnectorTaskId("c2", 1)),
    revoked_connectors=("c3",),
    revoked_tasks=(ConnectorTaskId("c3", 0),),
    delay_ms=1500,
)
URL_HEX = "000d687474703a2f2f773a38303833"
# written by Kafka 4.1's ConnectProtocol and IncrementalCooperativeConnectProtocol
_GIVEN = "000000020002633100000002ffffffff00000000000263320000000100000001"
_REVOKED = "000000010002633300000002ffffffff00000000000005dc"
ASSIGNMENT_V0 = f"0000000000014c{URL_HEX}000000000000000c{_GIVEN}"
ASSIGNMENT_V1 = f"0001000000014c{URL_HEX}000000000000000c{_GIVEN}{_REVOKED}"
ASSIGNMENT_V2 = f"0002000000014c{URL_HEX}000000000000000c{_GIVEN}{_REVOKED}"

names = st.text(max_size=12)
tasks = st.builds(ConnectorTaskId, names, st.integers(0, 2**31 - 1))
assignments = st.builds(
    ConnectAssignment,
    error=st.integers(0, 1),
    leader=names,
    leader_url=names,
    offset=st.integers(-1, 2**62),
    connectors=st.lists(names, unique=True).map(tuple),
    tasks=st.lists(tasks, unique=True).map(tuple),
    revoked_connectors=st.lists(names, unique=True).map(tuple),
    revoked_tasks=st.lists(tasks, unique=True).map(tuple),
    delay_ms=st.integers(0, 2**31 - 1),
)


@pytest.mark.parametrize(
    ("version", "expected"), [(0, ASSIGNMENT_V0), (1, ASSIGNMENT_V1), (2, ASSIGNMENT_V2)]
)
def test_assignments_are_written_as_kafkas_classes_write_them(version: int, expected: str) -> None:
    assert encode_assignment(V2 if version else V0, version).hex() == expected


@pytest.mark.parametrize(("data", "read"), [(ASSIGNMENT_V0, V0), (ASSIGNMENT_V2, V2)])
def test_assignments_are_read_whatever_their_version(data: str, read: ConnectAssignment) -> None:
    assert decode_assignment(bytes.fromhex(data)) == read


@pytest.mark.parametrize(
    ("version", "held", "expected"),
    [
        (0, None, f"0000{URL_HEX}000000000000000c"),
        (1, None, f"0001{URL_HEX}000000000000000cffffffff"),
        (1, V2, f"0001{URL_HEX}000000000000000c00000056{ASSIGNMENT_V1}"),
    ],
)
def test_metadata_is_written_as_kafkas_classes_write_it(
    version: int, held: ConnectAssignment | None, expected: str
) -> None:
    data = encode_metadata(WorkerState(URL, 12, held), version)
    assert data.hex() == expected
    assert decode_metadata(data) == WorkerState(URL, 12, held)


def test_an_error_is_told_from_success() -> None:
    assert ConnectAssignment(error=CONFIG_MISMATCH).failed
    assert not V2.failed


@given(assignments, st.sampled_from([1, 2]))
def test_encoded_connect_assignment_is_decoded_to_itself(
    assignment: ConnectAssignment, version: int
) -> None:
    read = decode_assignment(encode_assignment(assignment, version))
    assert set(read.connectors) == set(assignment.connectors)
    assert set(read.tasks) == set(assignment.tasks)
    assert set(read.revoked_connectors) == set(assignment.revoked_connectors)
    assert set(read.revoked_tasks) == set(assignment.revoked_tasks)
    assert (read.error, read.leader, read.leader_url, read.offset, read.delay_ms) == (
        *(assignment.error, assignment.leader, assignment.leader_url),
        *(assignment.offset, assignment.delay_ms),
    )
    # what was read is in the order of the bytes, so it is written as it was
    assert encode_assignment(read, version) == encode_assignment(assignment, version)


def read_or_refused(decode: Callable[[bytes], object], data: bytes) -> str:
    """Return what was read, or why nothing was, in words."""
    try:
        return repr(decode(data))
    except DecodeError as error:
        return str(error)


@given(st.binary(max_size=80))
def test_any_bytes_of_connect_metadata_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_metadata, decode_assignment):
        # any other exception, or one without a text, fails
        assert read_or_refused(decode, data)


@given(st.data())
def test_bytes_that_were_cut_off_or_changed_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(encode_metadata(WorkerState(URL, 12, V2)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    assert read_or_refused(decode_metadata, cut)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ffff", "must not be negative, but is -1"),
        ("0001", "end within the field at byte 2"),
        ("00010004aabb", "'text' of the worker's state has the size 4 with 2 bytes left"),
        ("00010001ff", "not valid UTF-8"),
        ("00010000000000000000000c7fffffff", "'allocation'"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(data: str, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode_metadata(bytes.fromhex(data))


def test_a_count_beyond_the_bytes_is_refused_before_anything_is_made() -> None:
    head = f"0001000000014c{URL_HEX}000000000000000c"
    with pytest.raises(DecodeError, match="'assignment' of the assignment has the size 2147483647"):
        decode_assignment(bytes.fromhex(head + "7fffffff"))
    with pytest.raises(DecodeError, match="tasks of 'c1'"):
        decode_assignment(bytes.fromhex(head + "00000001000263317fffffff"))


def test_connect_metadata_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="from 0 to 2, not 3"):
        encode_metadata(WorkerState(URL, 12), 3)
    with pytest.raises(EncodeError, match="over the limit"):
        encode_metadata(WorkerState("x" * 40_000, 12))
    with pytest.raises(EncodeError, match="cannot encode"):
        encode_assignment(ConnectAssignment(tasks=(ConnectorTaskId("c", 2**31),)))
    with pytest.raises(EncodeError, match="cannot encode"):
        encode_metadata(WorkerState(URL, 2**63))
