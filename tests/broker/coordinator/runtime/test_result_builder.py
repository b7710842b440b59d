from groupsdk.broker.coordinator.runtime.contract import NOTHING, CoordinatorRecord, Reply
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.messages.groups import HeartbeatResponse


ANSWER = HeartbeatResponse()
RECORD = CoordinatorRecord(GroupMetadataKey("g"), None)


def test_without_anything_to_do_it_is_nothing() -> None:
    assert ResultBuilder(5).result() is NOTHING


def test_result_builder_builds_one_result() -> None:
    builder = ResultBuilder(5)
    builder.reply(1, ANSWER)
    builder.promise(2, ANSWER)
    builder.write(RECORD)

    result = builder.result()

    assert result.records == (RECORD,)
    assert result.replies == (Reply(1, ANSWER), Reply(2, ANSWER))
    assert result.producer is None


def test_failure_callbacks_of_a_result_run_once_it_is_refused() -> None:
    builder, again = ResultBuilder(5), ResultBuilder(6)
    builder.if_failed(lambda after, error: after.reply(1, HeartbeatResponse(error_code=error)))

    for failed in builder.failures:
        failed(again, ErrorCode.NOT_COORDINATOR)

    assert again.replies == [Reply(1, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))]
