"""Checks what is read out of a group's records."""

from groupsdk.assignment import TopicPartition
from groupsdk.verdict.group_log import Commits, GroupLog, group_of
from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.records.record import Record


START_MS = 1_800_000_000_000


class Log:
    """Writes the records of a group, one after the other."""

    def __init__(self, *marks: int) -> None:
        self.log = GroupLog("g", START_MS, [START_MS + each for each in marks])
        self._offset = 0

    def _write(self, after_ms: int, key: bytes, value: bytes | None) -> None:
        record = Record(self._offset, START_MS + after_ms, key, value)
        assert group_of(key) == b"g"
        self._offset += 1
        self.log.take(record, 7, 0)

    def commit(self, after_ms: int, offset: int, partition: int = 0) -> None:
        key = OffsetCommitKey("g", "orders", partition)
        value = OffsetCommitValue(offset=offset, commit_timestamp=START_MS + after_ms)
        self._write(after_ms, write_key(key), write_value(value, 4))

    def generation(self, after_ms: int, number: int, *members: MemberMetadata) -> None:
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol="range" if members else None,
            leader=members[0].member_id if members else None,
            members=members,
        )
        self._write(after_ms, write_key(GroupMetadataKey("g")), write_value(value, 3))


def of(name: str, **others: object) -> MemberMetadata:
    return MemberMetadata(
        member_id=f"{name}-1",
        client_id=name,
        client_host="/10.0.0.1",
        session_timeout=45_000,
        rebalance_timeout=300_000,
        **others,  # type: ignore[arg-type]
    )


def test_commits_are_known_at_each_mark() -> None:
    log = Log(500, 1_500, 2_500)
    log.commit(1_000, 10)
    log.commit(2_000, 20)
    log.commit(2_200, 20)

    _, commits = log.log.close()

    changed_ms = START_MS + 2_000
    assert commits == {TopicPartition("orders", 0): Commits(changed_ms, 20, (None, 10, 20))}


def test_generations_memberships_and_absences_are_told() -> None:
    log = Log()
    log.generation(0, 1, of("a"))
    log.generation(5_000, 2, of("a"), of("b"))
    log.generation(9_000, 3)
    log.generation(60_000, 4, of("a"))

    past, _ = log.log.close()

    assert [(each.members, each.at_ms - START_MS) for each in past.generations] == [
        *((1, 0), (2, 5_000), (0, 9_000), (1, 60_000))
    ]
    assert past.absences == ((START_MS + 9_000, START_MS + 60_000),)
    stays = {(each.client_id, each.stay_ms) for each in past.memberships}
    assert stays == {("a", 9_000), ("b", 4_000), ("a", None)}


def test_the_timeouts_and_the_silence_of_a_member_that_is_gone_are_told() -> None:
    log = Log()
    log.generation(0, 5, of("a"), of("b"))
    for second in range(1, 100):
        log.commit(1_000 * second, second)
    log.generation(400_000, 6, of("a"))

    past, _ = log.log.close()
    [gone] = [each for each in past.memberships if each.end_ms is not None]

    assert (gone.client_id, gone.session_ms, gone.poll_ms) == ("b", 45_000, 300_000)
    assert gone.silence_ms == 400_000
    assert gone.start_ms is None  # before the first generation that was read


def test_a_record_that_cannot_be_decoded_is_skipped() -> None:
    log = Log()
    log.log.take(Record(0, START_MS, b"\0\1\0\1g\0", b"\0"), 7, 0)
    log.log.take(Record(1, START_MS, b"\0\2\0\1g", b"\0\3\0"), 7, 0)

    past, commits = log.log.close()

    assert past.generations == ()
    assert commits == {}
