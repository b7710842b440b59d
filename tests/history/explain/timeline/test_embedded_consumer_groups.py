"""The log of the embedded broker's consumer groups (KIP-848), followed as Kafka's own is."""

from pathlib import Path

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.wire.coordinator_records.offsets_log import read_key
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from tests.broker.coordinator.consumer.members import WireMember
from tests.history.explain.timelines import (
    causes,
    departures,
    follow_groups,
    generations,
    members,
    memberships,
)


def logged(path: Path) -> list[GroupRecord]:
    """Reads the records of the one group that there is."""
    found = []
    for file in sorted(path.glob("__consumer_offsets-*/*.log")):
        partition = int(file.parent.name.rpartition("-")[2])
        data = file.read_bytes()
        for header, position in batches(data):
            for offset, timestamp, key, value, _ in read_records(data, position):
                if key is not None and getattr(read_key(key), "group_id", None) == "g":
                    epoch = header.partition_leader_epoch
                    found.append(GroupRecord("g", partition, offset, timestamp, epoch, key, value))
    return found


def test_the_tables_explain_what_was_done_to_the_group(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": 1}
    with (
        EmbeddedBroker(settings, topics={"t": 4}, data_dir=tmp_path) as broker,
        WireMember(broker, "g", "a") as first,
        WireMember(broker, "g", "b") as second,
    ):
        first.until(4)
        second.heartbeat()
        first.until(2)
        second.until(2)
        assert first.heartbeat(-1).error_code == 0
        second.until(4)
        assert second.heartbeat(-1).error_code == 0
    rows = list(follow_groups(logged(tmp_path)))
    found = [(each.generation, each.n_members, each.n_partitions) for each in generations(rows)]
    assert found == [(2, 1, 4), (3, 2, 4), (4, 1, 4), (5, 0, 0)]
    assert causes(rows) == [["join"], ["join"], [], []]
    current = [
        (row.generation, row.member.member_id, row.member.n_partitions)
        for row in members(rows)
        if row.phase == "current"
    ]
    assert current == [(2, "a", 4), (3, "a", 2), (3, "b", 2), (4, "b", 4)]
    assert [(each.generation, each.member.member_id) for each in departures(rows)] == [
        (4, "a"),
        (5, "b"),
    ]
    assert [each.member.member_id for each in memberships(rows)] == ["a", "b"]
