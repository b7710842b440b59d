"""Checks what is read out of a group's records."""

from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.verdict.group_log import Commits, GroupLog, group_of
from groupsdk.wire.records.record import Record
from tests.verdict.written_log import START_MS, WrittenLog


class Log(WrittenLog):
    def __init__(self, *marks: int) -> None:
        super().__init__()
        self.log = GroupLog("g", START_MS, [START_MS + each for each in marks])

    @override
    def take(self, record: Record) -> None:
        assert group_of(record.key or b"") == b"g"
        self.log.take(record, 7, 0)


def test_commits_are_known_at_each_mark() -> None:
    log = Log(500, 1_500, 2_500)
    log.commit(1_000, 10)
    log.commit(2_000, 20)
    log.commit(2_200, 20)

    _, commits = log.log.close()

    changed_ms = START_MS + 2_000
    assert commits == {TopicPartition("orders", 0): Commits(changed_ms, 20, [None, 10, 20])}


def test_generations_memberships_and_absences_are_told() -> None:
    log = Log()
    log.generation(0, 1, "a")
    log.generation(5_000, 2, "a", "b")
    log.generation(9_000, 3)
    log.generation(60_000, 4, "a")

    past, _ = log.log.close()

    assert [(each.members, each.at_ms - START_MS) for each in past.generations] == [
        *((1, 0), (2, 5_000), (0, 9_000), (1, 60_000))
    ]
    assert past.absences == ((START_MS + 9_000, START_MS + 60_000),)
    stays = {(each.client_id, each.stay_ms) for each in past.memberships}
    assert stays == {("a", 9_000), ("b", 4_000), ("a", None)}


def test_the_timeouts_and_the_silence_of_a_member_that_is_gone_are_told() -> None:
    log = Log()
    log.generation(0, 5, "a", "b")
    for second in range(1, 100):
        log.commit(1_000 * second, second)
    log.generation(400_000, 6, "a")

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
