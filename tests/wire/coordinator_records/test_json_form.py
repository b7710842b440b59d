"""Tests the JSON of records: names, base64, and Jackson's way to escape."""

from base64 import urlsafe_b64encode
from uuid import UUID

import pytest

from groupsdk.wire.coordinator_records.formatter import camel, json_line, to_json
from groupsdk.wire.coordinator_records.group_metadata import MemberMetadata
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitValue


def test_fields_that_a_version_lacks_and_tags_at_their_default_are_left_out() -> None:
    value = OffsetCommitValue(1, 2, "m", 3, 4, UUID(int=255))

    assert list(to_json(value, 0)) == ["offset", "metadata", "commitTimestamp"]
    assert list(to_json(value, 1)) == ["offset", "metadata", "commitTimestamp", "expireTimestamp"]
    assert to_json(value, 4)["topicId"] == "AAAAAAAAAAAAAAAAAAAA_w"
    assert "topicId" not in to_json(OffsetCommitValue(), 4)


def test_a_uuid_is_22_characters_that_no_path_minds() -> None:
    value = OffsetCommitValue(topic_id=UUID(int=2**128 - 1))

    assert to_json(value, 4)["topicId"] == urlsafe_b64encode(b"\xff" * 16).decode()[:22]


def test_bytes_are_base64_with_its_padding() -> None:
    shown = to_json(MemberMetadata(subscription=b"\xff\xfe\xfd\xfc", assignment=b""), 3)

    assert (shown["subscription"], shown["assignment"]) == ("//79/A==", "")
    assert shown["groupInstanceId"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x00\x1f", r'"\u0000\u001F"'),
        ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
        ('"\\/', r'"\"\\/"'),
        ("\x7fß\u2028\U0001f600", '"\x7fß\u2028\U0001f600"'),
        # what is an escape only to the eye stays as it is
        ("\\u001f", r'"\\u001f"'),
        ("\\\x1f", r'"\\\u001F"'),
    ],
)
def test_text_is_escaped_as_jackson_does(text: str, expected: str) -> None:
    assert json_line(text) == expected


def test_there_are_no_spaces() -> None:
    assert json_line({"a": [1, None, True], "b": {}}) == '{"a":[1,null,true],"b":{}}'


@pytest.mark.parametrize(
    ("name", "expected"), [("offset", "offset"), ("transaction_timeout_ms", "transactionTimeoutMs")]
)
def test_names_are_spelled_as_kafka_spells_them(name: str, expected: str) -> None:
    assert camel(name) == expected
