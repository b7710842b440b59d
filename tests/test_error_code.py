"""Tests the list of error codes; tests/conformance compares it with Kafka's own."""

import pytest

from groupsdk.error_code import ErrorCode, describe
from tests.support.cases import each_case


def test_a_code_is_its_number() -> None:
    assert int(ErrorCode.UNKNOWN_MEMBER_ID) == 25
    assert ErrorCode.of(25) is ErrorCode.UNKNOWN_MEMBER_ID
    assert ErrorCode.of(-1) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("code", [-2, 999, 32767])
def test_an_unknown_number_is_a_server_error_that_keeps_its_number(code: int) -> None:
    assert ErrorCode.of(code) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert describe(code) == f"unknown error code {code}"


def test_a_description_names_the_code_its_number_and_its_meaning() -> None:
    assert describe(25) == "UNKNOWN_MEMBER_ID (25): the group does not know this member id"
    assert describe(ErrorCode.NONE) == "NONE (0): no error"


def test_error_answered_by_joining_again_is_not_retriable() -> None:
    again = (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
    )

    assert not any(code.retriable for code in again)
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable


@each_case("code", ErrorCode)
def test_every_code_has_a_short_text_of_its_own(code: ErrorCode) -> None:
    assert 5 < len(code.text) < 110
    assert not code.text.endswith(".")
    assert [other for other in ErrorCode if other.text == code.text] == [code]
