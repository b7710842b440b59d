"""Tests the message formatters against Kafka's own, as they answered and live where a JDK is."""

from typing import Any

import pytest

from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.formatter import (
    format_group_metadata,
    format_offset,
    format_transaction,
)
from tests.support.cases import each_case
from tests.wire.coordinator_records.golden import answers
from tests.wire.coordinator_records.record_cases import FORMATTERS, ask, formatted
from tests.wire.coordinator_records.vectors import (
    GROUP_KEY,
    GROUP_VALUES,
    OFFSET_KEY,
    OFFSET_VALUES,
    TRANSACTION_KEY,
    TRANSACTION_VALUES,
)


FORMATTED = list(formatted())


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@each_case(("name", "question"), FORMATTED)
def test_record_is_printed_as_kafka_prints_it(name: str, question: dict[str, Any]) -> None:
    printed = FORMATTERS[question["format"]](as_bytes(question["key"]), as_bytes(question["value"]))

    assert printed == answers()[name]


def test_offset_record_is_formatted_as_by_kafka() -> None:
    printed = format_offset(bytes.fromhex(OFFSET_KEY), bytes.fromhex(OFFSET_VALUES[3][2]))

    assert printed == (
        '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":2}},"value":{"version":3,'
        '"data":{"offset":5,"leaderEpoch":3,"metadata":"m","commitTimestamp":1000}}}'
    )


def test_group_record_is_formatted_as_by_kafka() -> None:
    printed = format_group_metadata(bytes.fromhex(GROUP_KEY), bytes.fromhex(GROUP_VALUES[3]))

    assert printed == (
        '{"key":{"type":2,"data":{"group":"g"}},"value":{"version":3,"data":{"protocolType":'
        '"consumer","generation":1,"protocol":"range","leader":"m","currentStateTimestamp":1000,'
        '"members":[{"memberId":"m","groupInstanceId":null,"clientId":"c","clientHost":"/127.0.0.1",'
        '"rebalanceTimeout":300000,"sessionTimeout":45000,"subscription":"AAAAAAABAAF0/////w==",'
        '"assignment":"AAAAAAABAAF0AAAAAgAAAAAAAAAC/////w=="}]}}}'
    )


def test_transaction_record_is_formatted_as_by_kafka() -> None:
    printed = format_transaction(
        bytes.fromhex(TRANSACTION_KEY), bytes.fromhex(TRANSACTION_VALUES[1][2])
    )

    assert printed == (
        '{"key":{"type":0,"data":{"transactionalId":"x"}},"value":{"version":1,"data":{"producerId":5,'
        '"producerEpoch":1,"transactionTimeoutMs":60000,"transactionStatus":1,"transactionPartitions":'
        '[{"topic":"t","partitionIds":[0,2]}],"transactionLastUpdateTimestampMs":1000,'
        '"transactionStartTimestampMs":900,"clientTransactionVersion":2}}}'
    )


def test_a_version_that_is_not_known_is_an_error() -> None:
    with pytest.raises(DecodeError, match="OffsetCommitValue has version 5; 0 to 4 are known"):
        format_offset(bytes.fromhex(OFFSET_KEY), bytes.fromhex("0005"))


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
def test_the_golden_answers_are_what_kafka_says() -> None:
    assert ask() == answers()
