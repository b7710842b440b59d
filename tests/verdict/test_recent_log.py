"""Checks what is kept of many groups' records, and that as much is told of it as of the records themselves."""

from collections.abc import Iterator
from pathlib import Path

from typing_extensions import override

from groupsdk.verdict.group_log import GroupLog, Leaders, group_of
from groupsdk.verdict.log_reader import records_from
from groupsdk.verdict.recent_log import KEPT_MS, RecentLog, RecentLogs
from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.records.record import Record
from tests.history.expected_tables import unpack
from tests.verdict.written_log import START_MS, WrittenLog


def recorded(folder: Path) -> Iterator[tuple[int, Record, int]]:
    """The records of a real log: its partition, each record, and the leader's epoch."""
    for segment in sorted(unpack(("recorded", "polling"), folder).glob("*/*.log")):
        number = int(segment.parent.name.rpartition("-")[2])
        for record, leader_epoch in records_from(segment.read_bytes(), 0):
            yield number, record, leader_epoch


def test_a_real_log_tells_the_same_with_its_commits_summed_up(tmp_path: Path) -> None:
    whole: dict[str, GroupLog] = {}
    logs, leaders = RecentLogs(lambda _: True), Leaders()
    for number, record, leader_epoch in recorded(tmp_path):
        name = group_of(record.key or b"").decode()
        leaders.take(record, number, leader_epoch)
        log = whole.setdefault(name, GroupLog(name, 0, leaders=leaders))
        log.take(record, number, leader_epoch)
        logs.take(record, number, leader_epoch, 0)

    told = {name: log.close() for name, log in whole.items()}

    known = logs.known()
    assert len(known) > 10
    assert {name: each.past for name, each in known.items()} == {
        name: past for name, (past, _) in told.items()
    }
    assert {name: each.committed_ms for name, each in known.items()} == {
        name: max((each.changed_ms for each in commits.values()), default=None)
        for name, (_, commits) in told.items()
    }


class Written(WrittenLog):
    def __init__(self) -> None:
        super().__init__()
        self.leader_epoch = 0
        self._leaders = Leaders()
        self.log = RecentLog("g", 3, START_MS, self._leaders)

    @override
    def take(self, record: Record) -> None:
        self._leaders.take(record, 3, self.leader_epoch)
        self.log.take(record, self.leader_epoch)


def test_what_was_over_an_hour_ago_is_forgotten_but_not_who_is_in_the_group() -> None:
    written = Written()
    for number in range(10):
        written.generation(number * 1_000, number + 1, *"abc"[: 1 + number % 3])
    written.generation(KEPT_MS, 11, "a", "b")
    written.log.forget(START_MS + KEPT_MS)

    past = written.log.known().past

    # the state before the hour, the last step of it, and what came since
    assert [each.members for each in past.generations] == [3, 1, 2]
    assert past.since_ms == START_MS + KEPT_MS
    assert {each.client_id for each in past.memberships if each.end_ms is None} == {"a", "b"}


def test_absence_is_remembered_for_longer_than_its_records() -> None:
    written = Written()
    written.generation(0, 1, "a")
    written.generation(60_000, 2)
    written.generation(600_000, 3, "a")
    absence = (START_MS + 60_000, START_MS + 600_000)
    assert written.log.known().past.absences == (absence,)

    written.generation(2 * KEPT_MS, 4)
    written.log.forget(START_MS + 2 * KEPT_MS)

    assert written.log.known().past.absences == (absence,)


def test_the_last_progress_counts_and_not_the_last_commit() -> None:
    written = Written()
    written.commit(1_000, 10)
    written.generation(2_000, 1, "a")
    written.commit(3_000, 10)
    assert written.log.known().committed_ms == START_MS + 1_000

    written.commit(4_000, 11)
    written.commit(5_000, 11)

    assert written.log.known().committed_ms == START_MS + 4_000
    # empty since its members left, or since somebody without membership went on
    written.generation(6_000, 2)
    assert written.log.known().emptied_ms == START_MS + 6_000
    written.commit(7_000, 12)
    assert written.log.known().emptied_ms == START_MS + 7_000


def test_removed_offset_counts_as_progress_when_it_is_committed_again() -> None:
    written = Written()
    written.generation(0, 1, "a")
    written.commit(1_000, 10)
    written.remove(2_000)
    written.generation(3_000, 2, "a")
    assert [each.members for each in written.log.known().past.generations] == [1, 1]
    written.commit(60_000, 10)
    assert written.log.known().committed_ms == START_MS + 60_000


def test_clients_that_lost_their_coordinator_did_not_restart() -> None:
    written = Written()
    written.generation(0, 1, "a")
    written.commit(1_000, 1)
    written.leader_epoch = 2
    written.commit(50_000, 2)
    written.generation(60_000, 2, "a", again=True)
    assert written.log.known().past.generations[-1].cause == "coordinator_restart"


def test_group_that_was_deleted_is_forgotten_in_the_end() -> None:
    written = Written()
    written.generation(0, 1, "a")
    written.log.forget(START_MS + KEPT_MS)
    assert not written.log.is_over

    written.delete(KEPT_MS + 1_000)
    written.log.forget(START_MS + KEPT_MS)
    assert not written.log.is_over

    written.log.forget(START_MS + 2 * KEPT_MS)
    assert written.log.is_over


def test_memory_is_bounded_at_the_expense_of_the_busiest_group() -> None:
    logs = RecentLogs(lambda name: name != "other", most_bytes=100_000)

    def write(name: str, count: int) -> None:
        for number in range(count):
            value = GroupMetadataValue("consumer", number, None, None, members=())
            key = write_key(GroupMetadataKey(name))
            logs.take(Record(number, START_MS + number, key, write_value(value, 3)), 0, 0, START_MS)

    write("busy", 5_000)
    write("calm", 3)
    write("other", 3)
    logs.forget(START_MS)

    known = logs.known()
    assert set(known) == {"busy", "calm"}
    assert len(known["calm"].past.generations) == 3
    assert 100 < len(known["busy"].past.generations) < 400
    assert known["busy"].past.since_ms > START_MS
    logs.lose([0])
    assert not logs.known()
