"""The user data is what Kafka's own classes write and read, and no bytes do harm."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from assignors.sticky import user_data
from assignors.sticky.user_data import (
    NO_CLAIM,
    Claim,
    ClaimReader,
    UserDataError,
    decode_claim,
    encode_claim,
    encode_generation,
    read_generation,
)
from tests.support.java import JavaProgram


_JAVA = Path(__file__).parent / "java" / "StickyUserData.java"
_CLIENTS = "org.apache.kafka:kafka-clients:4.1.0"
_CLAIMS = st.builds(
    Claim,
    st.dictionaries(
        st.text(st.characters(codec="ascii", exclude_characters=" ,:\n\r"), min_size=1, max_size=8),
        st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple),
        max_size=5,
    ),
    st.integers(-1, 2**31 - 1),
)

# What StickyAssignor of kafka-clients 4.1.0 wrote: see the test that asks it.
_GOLDEN = {
    "000000020001740000000200000000000000030001750000000100000001 00000007": (
        {"t": (0, 3), "u": (1,)},
        7,
    ),
    "00000000ffffffff": ({}, -1),
    "0000000400027a7a0000000100000001000161000000010000000300016200000002000000000000000100017900"
    "0000010000000400000007": ({"zz": (1,), "a": (3,), "b": (0, 1), "y": (4,)}, 7),
}


@pytest.fixture(scope="module")
def kafka(_java: None) -> Iterator[JavaProgram]:
    with JavaProgram(_JAVA, [_CLIENTS]) as program:
        yield program


@pytest.mark.parametrize("written", _GOLDEN)
def test_bytes_are_those_of_java(written: str) -> None:
    partitions, generation_id = _GOLDEN[written]
    data = bytes.fromhex(written.replace(" ", ""))
    assert encode_claim(partitions, generation_id) == data
    assert decode_claim(data) == Claim(partitions, generation_id)


def test_generation_alone_is_encoded_and_read() -> None:
    assert encode_generation(-1) == b"\xff\xff\xff\xff"
    assert encode_generation(5) == b"\0\0\0\5"
    assert read_generation(b"\0\0\0\5", "m") == 5
    assert read_generation(b"\0\0\0\5 and more", "m") == 5
    assert read_generation(None, "m") == -1


def test_no_bytes_at_all_are_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    assert read_generation(b"", "librdkafka's, as it joins first") == -1
    assert not caplog.records


def test_kafka_pythons_version_before_it() -> None:
    claim = {"t": (0, 3), "u": (1,)}
    theirs = StickyAssignorUserData([("t", [0, 3]), ("u", [1])], 7).encode()
    none = StickyAssignorUserData([], -1).encode()

    assert theirs == b"\0\1" + encode_claim(claim, 7)
    assert decode_claim(theirs) == Claim(claim, 7)
    assert decode_claim(none) == Claim({}, -1)
    reader = ClaimReader()
    # in a group where some members write it and others do not
    for data in (theirs, theirs[2:]) * 4:
        assert reader.read(data, "m") == Claim(claim, 7)


def test_javas_format_comes_first_where_both_could_be_meant() -> None:
    # 65,536 topics: the same first bytes as kafka-python's version 1
    many = {f"t{number}": (number,) for number in range(1 << 16)}
    data = encode_claim(many, 7)
    assert data[:2] == b"\0\1"
    assert decode_claim(data) == Claim(many, 7)


def test_version_0_has_no_generation() -> None:
    data = bytes.fromhex("00000001 000174 00000002 00000000 00000003")
    assert decode_claim(data) == Claim({"t": (0, 3)}, -1)


def test_topic_that_comes_twice_is_put_together() -> None:
    data = bytes.fromhex("00000002 000174 00000001 00000000 000174 00000001 00000003 00000009")
    assert decode_claim(data) == Claim({"t": (0, 3)}, 9)


def test_the_same_topic_is_the_same_string() -> None:
    names: dict[bytes, str] = {}
    first, second = (
        next(iter(decode_claim(encode_claim({"topic one": (0,)}, 1), names).partitions))
        for _ in range(2)
    )
    assert first is second


@settings(deadline=None)
@given(_CLAIMS)
def test_encoded_claim_is_decoded_to_itself(claim: Claim) -> None:
    assert decode_claim(encode_claim(claim.partitions, claim.generation_id)) == claim


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_claim_or_an_error(data: bytes) -> None:
    try:
        claim = decode_claim(data)
    except UserDataError:
        assert ClaimReader().read(data, "m") == NO_CLAIM
    else:
        assert sum(map(len, claim.partitions.values())) * 4 <= len(data)
    read_generation(data, "m")


@settings(deadline=None)
@given(_CLAIMS, st.data())
def test_bytes_cut_off_are_version_0_or_an_error(claim: Claim, data: st.DataObject) -> None:
    whole = encode_claim(claim.partitions, claim.generation_id)
    cut = data.draw(st.integers(0, len(whole) - 1))
    if cut >= len(whole) - 4:
        assert decode_claim(whole[:cut]) == Claim(claim.partitions, -1)
    else:
        with pytest.raises(UserDataError):
            decode_claim(whole[:cut])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "ends at byte 0 in the number of topics"),
        ("ffffffff", "-1 topics"),
        ("7fffffff", "2147483647 topics at byte 0 of 4"),
        ("00000001 ff", "ends at byte 5 in the length of a topic"),
        ("00000001 ffff 00", "topic of -1 bytes at byte 6"),
        ("00000001 7fff 00", "topic of 32767 bytes"),
        ("00000001 0001 ff 00000000", "not UTF-8"),
        ("00000001 0001 74 7fffffff", "2147483647 partitions at byte 7 of 11"),
        ("00000001 0001 74 ffffffff", "-1 partitions"),
    ],
)
def test_errors_say_what_and_where(data: str, message: str) -> None:
    with pytest.raises(UserDataError, match=message):
        decode_claim(bytes.fromhex(data))


def test_bytes_that_do_not_parse_are_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ClaimReader().read(b"zz", "m-1") == NO_CLAIM
        assert read_generation(b"zz", "m-2") == -1
    first, second = (record.getMessage() for record in caplog.records)
    assert "m-1" in first
    assert "sticky cannot read" in first
    assert "m-2" in second
    assert "2 bytes" in second
    caplog.clear()
    assert ClaimReader().read(None, "m") == ClaimReader().read(b"", "m") == NO_CLAIM
    assert not caplog.records


_ALIKE = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "ä", "long"]),
        st.lists(st.integers(-1, 3), max_size=2).map(tuple),
        max_size=3,
    ),
    max_size=30,
)


@settings(deadline=None)
@given(_ALIKE, st.data())
def test_a_group_is_read_as_its_members_are_alone(
    claims: list[dict[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    reader = ClaimReader()
    for generation_id, claim in enumerate(claims):
        written = bytearray(encode_claim(claim, generation_id))
        change = data.draw(st.sampled_from(["none", "cut", "more", "twice", "broken"]))
        if change == "cut":
            del written[-4:]
        elif change == "more":
            written += b"more"
        elif change == "twice" and claim:
            written[3] += 1
            written[-4:] = written[4:-4] + written[-4:]
        elif change == "broken":
            written[data.draw(st.integers(0, len(written) - 1))] ^= 1
        try:
            alone = decode_claim(bytes(written))
        except UserDataError:
            alone = NO_CLAIM
        read = reader.read(bytes(written), "m")
        assert read == alone
        assert list(read.partitions) == list(alone.partitions)


def test_members_alike_are_read_by_one_layout_and_a_new_layout_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = []

    def counted(data: bytes, names: dict[bytes, str] | None = None) -> Claim:
        alone.append(data)
        return decode_claim(data, names)

    monkeypatch.setattr(user_data, "decode_claim", counted)
    reader = ClaimReader()
    for topic in ("t", "u"):
        for number in range(100):
            data = encode_claim({topic: (number, 7), "v": ()}, number)
            assert reader.read(data, "m") == Claim({topic: (number, 7), "v": ()}, number)
    assert len(alone) == 4


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"t": (1, 2), "v": (3,)}, id="another topic"),
        pytest.param({"t": (1,), "u": (2, 3)}, id="more of another topic"),
    ],
)
def test_bytes_of_the_same_length_and_first_topic_are_not_taken_for_alike(
    other: dict[str, tuple[int, ...]],
) -> None:
    reader = ClaimReader()
    claim = {"t": (1, 2), "u": (3,)}
    for data in [encode_claim(claim, 1)] * 3:
        assert reader.read(data, "m") == Claim(claim, 1)
    assert reader.read(encode_claim(other, 1), "m") == Claim(other, 1)


@pytest.mark.kafka
@settings(deadline=None)
@given(claim=_CLAIMS)
def test_java_writes_what_we_read_and_reads_what_we_write(kafka: JavaProgram, claim: Claim) -> None:
    wanted = [f"{topic}:{n}" for topic, numbers in claim.partitions.items() for n in numbers]
    written = kafka.ask(f"write-sticky {claim.generation_id} {','.join(wanted)}")
    read = decode_claim(bytes.fromhex(written))
    assert read == claim
    # Java's topics stand in the order of its hash map; in that order our bytes are its bytes.
    ours = encode_claim(read.partitions, claim.generation_id).hex()
    assert ours == written
    generation, _, partitions = kafka.ask(f"read-sticky {ours}").partition(" ")
    assert int(generation) == claim.generation_id
    assert sorted(filter(None, partitions.split(","))) == sorted(wanted)


@pytest.mark.kafka
def test_java_agrees_on_generations_and_on_bad_bytes(kafka: JavaProgram) -> None:
    assert kafka.ask("write-cooperative ") == encode_generation(-1).hex()
    for generation_id in (-1, 0, 5, 2**31 - 1):
        data = encode_generation(generation_id)
        assert kafka.ask(f"write-cooperative {generation_id}") == data.hex()
        assert kafka.ask(f"read-cooperative {data.hex()}") == f"{generation_id} "
    for bad in ("0000", "7fffffff", "000000010001ff"):
        # -1 there stands for what is missing
        assert kafka.ask(f"read-sticky {bad}") in ("-1 ", "none ")
        assert ClaimReader().read(bytes.fromhex(bad), "m") == NO_CLAIM
    for written in _GOLDEN:
        partitions, generation_id = _GOLDEN[written]
        text = ",".join(f"{t}:{n}" for t, numbers in partitions.items() for n in numbers)
        assert kafka.ask(f"write-sticky {generation_id} {text}") == written.replace(" ", "")
