from groupsdk.broker.runtime.contract import NOTHING, CoordinatorRecord, Reply
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.messages.heartbeat import HeartbeatResponse


ANSWER = HeartbeatResponse()
RECORD = CoordinatorRecord(GroupMetadataKey("g"), None)


def test_without_anything_to_do_it_is_nothing() -> None:
    assert Turn(5).result() is NOTHING


def test_it_becomes_one_result() -> None:
    turn = Turn(5)
    turn.reply(1, ANSWER)
    turn.promise(2, ANSWER)
    turn.write(RECORD)

    result = turn.result()

    assert result.records == (RECORD,)
    assert result.replies == (Reply(1, ANSWER), Reply(2, ANSWER))
    assert result.producer is None


def test_it_goes_on_once_written_or_refused() -> None:
    turn, again = Turn(5), Turn(6)
    turn.if_failed(lambda after, error: after.reply(1, HeartbeatResponse(error_code=error)))

    for failed in turn.failures:
        failed(again, ErrorCode.NOT_COORDINATOR)

    assert again.replies == [Reply(1, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))]
