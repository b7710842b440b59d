"""Holds the bytes of the protocol of shards: version 0, what comes back, and that what is read is bounded."""

import math
import re
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.shards.protocol import (
    GREATEST_EPOCH,
    MemberState,
    Progress,
    ShardAssignment,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
    epoch_of,
    role_digest,
    weights_bytes,
)


NAMES = st.one_of(
    st.integers(0, 40).map(lambda number: f"shard-{number}"),
    st.integers(0, 40).map(lambda number: f"shard-{number:03d}"),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=10),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
EPOCHS = st.one_of(st.integers(0, GREATEST_EPOCH), st.integers(0, 3))
LEASES = st.dictionaries(NAMES, EPOCHS, max_size=20)
LOADS = st.floats(0, 2**49, width=32).filter(lambda load: load == 0 or load > 1e-30)
STATES = st.builds(
    MemberState,
    progress=st.builds(
        Progress, st.integers(-1, 2**32 - 1), st.integers(-1, 2**31 - 1), st.booleans()
    ),
    held=LEASES,
    releasing=LEASES,
    standbys=st.dictionaries(NAMES, st.booleans(), max_size=20),
    loads=st.dictionaries(NAMES, LOADS, max_size=20),
    endpoint=TEXTS,
    zone=st.none() | TEXTS,
    capabilities=st.frozensets(TEXTS, max_size=4),
    capacity=st.floats(0.001, 1e6),
    max_shards=st.none() | st.integers(0, 10**6),
    draining=st.booleans(),
    instance_id=st.none() | TEXTS,
    client_id=TEXTS,
)
WEIGHTS = st.floats(1e-9, 1e15).filter(lambda weight: weight != 1) | st.sampled_from((2.5, 10.0))


@st.composite
def weighed(draw: st.DrawFn, assignments: st.SearchStrategy[ShardAssignment]) -> ShardAssignment:
    """Give some of the owned shards a weight."""
    assignment = draw(assignments)
    if not assignment.owned:
        return assignment
    names = st.sampled_from(sorted(assignment.owned))
    return replace(assignment, weights=draw(st.dictionaries(names, WEIGHTS, max_size=20)))


ASSIGNMENTS = st.builds(
    ShardAssignment,
    incarnation=st.integers(-1, 2**32 - 1),
    generation=st.integers(-1, 2**31 - 1),
    owned=LEASES,
    standbys=st.sets(NAMES, max_size=20).map(tuple),
    shard_count=st.integers(0, 10**6),
    shard_digest=st.integers(0, 2**64 - 1),
    unplaceable=st.integers(0, 10**6),
    pending=st.integers(0, 10**6),
    again_ms=st.none() | st.integers(0, 60_000),
    role_digest=st.integers(0, 2**32 - 1),
    error=TEXTS,
)
STATE = MemberState(
    progress=Progress(1_800_000_000, 7),
    held={"shard-1": epoch_of(1_800_000_000, 5), "shard-2": epoch_of(1_800_000_000, 7), "mail": 9},
    releasing={"shard-9": 8},
    standbys={"day-007": True, "day-010": False, "day-011": True},
    loads={"shard-1": 1.5, "mail": 1000.0, "shard-9": 0.25},
    endpoint="http://10.0.0.3:80",
    zone="a",
    capabilities=frozenset({"gpu", "ssd"}),
    capacity=2.0,
    max_shards=100,
    draining=True,
    instance_id="worker-3",
    client_id="crawler",
)
ASSIGNMENT = ShardAssignment(
    incarnation=1_800_000_000,
    generation=8,
    owned={"shard-1": epoch_of(1_800_000_000, 5), "shard-3": epoch_of(1_800_000_000, 8)},
    standbys=("day-007", "day-012", "day-013"),
    shard_count=300,
    shard_digest=0x0123456789ABCDEF,
    unplaceable=2,
    pending=1,
    again_ms=10,
    role_digest=role_digest(STATE),
    error="",
)
EMPTY_STATE = "00 00 00 00 02 00 00 00 00 00 3f f0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
EMPTY_ASSIGNMENT = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
MANY = MemberState(
    held={f"shard-{number}": number % 7 for number in range(0, 3000, 3)}
    | {f"{number:05d}": 2**50 + number for number in range(90, 110)}
    | dict.fromkeys(("é1", "é", "日本-01", "日本-02", "1" * 30, "a\n1"), 1),
    standbys={f"shard-{number}": number % 2 == 0 for number in range(1, 3000, 300)},
    loads={f"shard-{number}": number / 7 for number in range(0, 3000, 5)},
)
MANY_DIGEST = "d3d09193a7ff2bce"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "shards-format.md"


def bytes_of_the_page() -> list[bytes]:
    """Return the bytes of each table of the page's examples."""
    _, _, examples = PAGE.read_text(encoding="utf-8").partition("## An example")
    tables = examples.partition("## ")[0].split("| Bytes |")[1:]
    return [
        b"".join(map(bytes.fromhex, re.findall(r"^\| `([0-9a-f ]+)` \|", table, re.MULTILINE)))
        for table in tables
    ]


def test_the_examples_of_the_page_are_what_is_written_and_read() -> None:
    member, assignment = bytes_of_the_page()

    assert encode_member(STATE) == member
    assert decode_member(member) == STATE
    assert encode_assignment(ASSIGNMENT) == assignment
    assert decode_assignment(assignment) == ASSIGNMENT


def test_the_bytes_of_version_0_stay_what_they_are() -> None:
    # beside the page's examples: everything that is there by default
    assert encode_member(MemberState()).hex(" ") == EMPTY_STATE
    assert encode_assignment(ShardAssignment(-1, -1)).hex(" ") == EMPTY_ASSIGNMENT
    digest = blake2b(encode_member(MANY), digest_size=8).hexdigest()
    assert digest == MANY_DIGEST


@given(STATES)
def test_member_state_is_decoded_to_itself(state: MemberState) -> None:
    data = encode_member(state)
    back = decode_member(data)

    assert back.loads.keys() == state.loads.keys()
    assert all(
        math.isclose(back.loads[name], load, rel_tol=1 / 256) for name, load in state.loads.items()
    )
    assert replace(back, loads={}) == replace(state, loads={})
    assert back.size == len(data)


@given(weighed(ASSIGNMENTS))
def test_shard_assignment_is_decoded_to_itself(assignment: ShardAssignment) -> None:
    back = decode_assignment(encode_assignment(assignment))

    assert set(back.standbys) == set(assignment.standbys)
    assert replace(back, standbys=()) == replace(assignment, standbys=())


@given(weighed(ASSIGNMENTS))
def test_weights_take_as_many_bytes_as_is_said(assignment: ShardAssignment) -> None:
    plain = encode_assignment(replace(assignment, weights={}))

    assert len(encode_assignment(assignment)) == len(plain) + weights_bytes(assignment)


def test_bytes_after_the_fields_and_newer_versions_are_left_alone() -> None:
    newer = b"\0\x02" + encode_member(STATE)[2:] + b"more"
    weights = replace(ASSIGNMENT, weights={"shard-3": 2.5})
    assignment = b"\0\x02" + encode_assignment(weights)[2:] + b"more"

    assert decode_member(newer) == decode_member(encode_member(STATE))
    assert decode_assignment(assignment) == weights


def test_weights_stand_behind_all_that_a_reader_of_version_0_knows() -> None:
    plain = encode_assignment(ASSIGNMENT)
    told = encode_assignment(replace(ASSIGNMENT, weights={"shard-3": 2.5}))

    assert told == b"\0\x01" + plain[2:] + bytes.fromhex("01 40 04 00 00 00 00 00 00 40")
    # which ignores what follows
    assert decode_assignment(b"\0\0" + told[2:]) == ASSIGNMENT


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ("03", "3 weights, at most 2 are allowed"),
        ("01 00 00 00 00 00 00 00 00 40", "a weight must be over 0 and at most 1e"),
        ("01 7f f8 00 00 00 00 00 00 40", "a weight must be over 0 and at most 1e"),
        ("02 40 04 00 00 00 00 00 00 40 24 00 00 00 00 00 00 f0", "a weight that is not there"),
        ("01 40 04 00 00 00 00 00 00", "1 bytes were expected, 0 are left"),
    ],
)
def test_weights_out_of_bounds_are_refused(weights: str, problem: str) -> None:
    data = b"\0\x01" + encode_assignment(ASSIGNMENT)[2:] + bytes.fromhex(weights)

    with pytest.raises(DecodeError, match=problem):
        decode_assignment(data)
    with pytest.raises(EncodeError, match="a weight must be over 0"):
        encode_assignment(replace(ASSIGNMENT, weights={"shard-3": math.nan}))


def test_a_message_that_ends_early_is_refused() -> None:
    member, assignment = encode_member(STATE), encode_assignment(ASSIGNMENT)
    for size in range(len(member)):
        with pytest.raises(DecodeError, match="the metadata of a member"):
            decode_member(member[:size])
    for size in range(len(assignment)):
        with pytest.raises(DecodeError, match="an assignment of shards"):
            decode_assignment(assignment[:size])


@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_member, decode_assignment):
        for given_bytes in (data, b"\0\0" + data):
            try:
                decode(given_bytes)
            except DecodeError:
                continue


@given(st.data())
def test_a_damaged_message_is_read_or_refused(data: st.DataObject) -> None:
    member = bytearray(encode_member(STATE))
    for _ in range(data.draw(st.integers(1, 4))):
        member[data.draw(st.integers(0, len(member) - 1))] = data.draw(st.integers(0, 255))
    try:
        state = decode_member(bytes(member))
    except DecodeError:
        return
    assert state.capacity > 0
    assert all(0 <= epoch <= GREATEST_EPOCH for epoch in state.held.values())


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (replace(STATE, endpoint="x" * 5000), "an endpoint must have at most 4096 bytes"),
        (replace(STATE, held={"a": 2**53}), "an epoch must be below 2"),
        (replace(STATE, held={"a": -1}), "a number must be"),
        (replace(STATE, loads={"a": math.nan}), "the load of shard 'a'"),
        (replace(STATE, loads={"a": 1e16}), "the load of shard 'a'"),
        (replace(STATE, held={"\ud800": 1}), "cannot be encoded"),
        (replace(STATE, capabilities=frozenset(map(str, range(2000)))), "capabilities must be at"),
    ],
)
def test_a_state_out_of_bounds_is_not_written(state: MemberState, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        encode_member(state)


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(DecodeError, match="versions start at 0, not at -1"):
        decode_member(b"\xff\xff" + encode_member(STATE)[2:])


def test_100_000_shards_on_200_members_with_a_standby_and_a_load_each_fit_one_record() -> None:
    # one of the 200, whose shards are from all over the list
    random = Random(1)
    mine, others = (random.sample(range(100_000), 500) for _ in range(2))
    held = {f"shard-{number}": epoch_of(1_800_000_000, random.randrange(8)) for number in mine}
    standbys = dict.fromkeys((f"shard-{number}" for number in others), True)
    loads = {name: random.uniform(0.5, 1.5) for name in held}
    state = MemberState(held=held, standbys=standbys, loads=loads, endpoint="http://10.0.0.3:80")
    told = ShardAssignment(1_800_000_000, 9, owned=held, standbys=tuple(standbys))

    size = len(encode_member(state)) + len(encode_assignment(told))

    assert 200 * (size + 150) < 950_000, "the rest is member ids, hosts and client ids"


def test_a_long_error_is_cut() -> None:
    back = decode_assignment(encode_assignment(replace(ASSIGNMENT, error="é" * 5000)))

    assert back.error == "é" * 2048


def test_epochs_rise_with_the_generation_and_with_the_incarnation() -> None:
    assert epoch_of(1, 0) > epoch_of(0, 2**21 - 1)
    assert epoch_of(5, 8) == epoch_of(5, 7) + 1
    assert epoch_of(2**32 - 1, 2**21 - 1) == GREATEST_EPOCH
