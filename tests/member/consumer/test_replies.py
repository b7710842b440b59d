from groupsdk.error_code import ErrorCode
from groupsdk.member.consumer.replies import (
    HEARTBEAT_REPLIES,
    ConsumerReaction,
    heartbeat_reply,
)
from tests.support.cases import each_case


@each_case("code", HEARTBEAT_REPLIES)
def test_codes_in_the_table_are_found_by_their_number(code: ErrorCode) -> None:
    assert heartbeat_reply(code.value) is HEARTBEAT_REPLIES[code]


def test_codes_that_are_not_in_the_table_go_by_what_kafka_calls_them() -> None:
    assert heartbeat_reply(ErrorCode.REQUEST_TIMED_OUT).reaction is ConsumerReaction.RETRY
    assert heartbeat_reply(ErrorCode.INVALID_TOPIC_EXCEPTION).reaction is ConsumerReaction.FAIL


def test_a_number_of_a_later_broker_is_not_taken_for_an_unknown_server_error() -> None:
    assert heartbeat_reply(-1).reaction is ConsumerReaction.REPORT
    assert heartbeat_reply(9_999).reaction is ConsumerReaction.FAIL
