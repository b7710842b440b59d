"""A data directory belongs to one broker, and what is noted in it is Kafka's."""

import logging
import os
import uuid
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.log.directory import LogDirectory, uuid_of
from groupsdk.broker.log.errors import DirectoryLockedError, LogDirectoryError, StorageError
from groupsdk.broker.log.files import DiskFiles, Files, MemoryFiles
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.primitives import kafka_uuid
from tests.broker.log.logs import NOW_MS, SMALL, batch, failing, pairs, read_all


TOPIC_ID = uuid.UUID(int=0x1234567890ABCDEF)


def opened(files: Files, path: str = "data") -> LogDirectory:
    return LogDirectory.open(files, path, cluster_id="cluster", node_id=1)


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """Both kinds of files."""
    return (
        (DiskFiles(), str(tmp_path / "data"))
        if request.param == "disk"
        else (MemoryFiles(), "data")
    )


def test_logs_are_there_again_after_a_clean_end(place: tuple[Files, str]) -> None:
    files, path = place
    directory = opened(files, path)
    assert not directory.was_clean
    log = directory.log("t.a-b", 3, SMALL, NOW_MS, topic_id=TOPIC_ID)
    assert directory.log("t.a-b", 3, SMALL, NOW_MS) is log
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.delete_records(5)
    directory.log("empty", 0, SMALL, NOW_MS)
    directory.close()
    assert files.read(f"{path}/.kafka_cleanshutdown", 0, 99) == b'{"version":0,"brokerEpoch":-1}'
    assert files.read(f"{path}/t.a-b-3/partition.metadata", 0, 99).decode() == (
        f"version: 0\ntopic_id: {kafka_uuid(TOPIC_ID)}\n"
    )
    assert files.read(f"{path}/log-start-offset-checkpoint", 0, 99) == b"0\n1\nt.a-b 3 5\n"
    assert b"t.a-b 3 20\n" in files.read(f"{path}/replication-offset-checkpoint", 0, 99)

    again = opened(files, path)
    assert again.was_clean
    assert not files.exists(f"{path}/.kafka_cleanshutdown")
    assert again.found == {("t.a-b", 3): TOPIC_ID, ("empty", 0): None}
    log = again.log("t.a-b", 3, SMALL, NOW_MS, topic_id=TOPIC_ID)
    assert [offset for offset, _ in pairs(read_all(log))] == list(range(5, 20))
    assert again._logs == {("t.a-b", 3): log}
    again.close()
    # the other log was not opened, and is as clean as it was
    assert opened(files, path).was_clean


def test_after_a_crash_everything_is_read(place: tuple[Files, str]) -> None:
    files, path = place
    log = opened(files, path).log("t", 0, SMALL, NOW_MS)
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.delete_records(5)
    files.unlock(f"{path}/.lock")
    again = opened(files, path)
    assert not again.was_clean
    assert [o for o, _ in pairs(read_all(again.log("t", 0, SMALL, NOW_MS)))] == list(range(5, 20))
    files.unlock(f"{path}/.lock")


def test_a_directory_in_use_is_refused_with_its_holder(place: tuple[Files, str]) -> None:
    files, path = place
    directory = opened(files, path)
    with pytest.raises(DirectoryLockedError, match=r"is in use: .*this process.*\.lock"):
        opened(files, path)
    directory.close()
    opened(files, path).close()


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    files = MemoryFiles()
    opened(files).close()
    text = files.read("data/meta.properties", 0, 999).decode()
    assert "cluster.id=cluster\n" in text
    assert "node.id=1\nversion=1\n" in text
    for cluster, node in (("other", 1), ("cluster", 2)):
        with pytest.raises(LogDirectoryError, match="belongs to node 1 of the cluster cluster"):
            LogDirectory.open(files, "data", cluster_id=cluster, node_id=node)
    opened(files).close()  # the lock was given back


def test_deleted_logs_leave_nothing_to_a_namesake(place: tuple[Files, str]) -> None:
    files, path = place
    directory = opened(files, path)
    log = directory.log("t", 0, SMALL, NOW_MS, topic_id=TOPIC_ID)
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.delete_records(15)
    directory.delete(("t",))
    assert not files.exists(f"{path}/t-0")
    assert directory.found == {}
    log = directory.log("t", 0, SMALL, NOW_MS, topic_id=uuid.UUID(int=7))
    log.append(batch(b"new"), now_ms=NOW_MS)
    files.unlock(f"{path}/.lock")
    again = opened(files, path)
    with pytest.raises(LogDirectoryError, match="another topic of the same name"):
        again.log("t", 0, SMALL, NOW_MS, topic_id=TOPIC_ID)
    assert pairs(read_all(again.log("t", 0, SMALL, NOW_MS))) == [(0, b"new")]
    again.close()


def test_many_logs_are_deleted_a_few_at_a_time() -> None:
    files = MemoryFiles()
    directory = opened(files)
    for partition in range(300):
        directory.log("t", partition, SMALL, NOW_MS)
    changes: list[int] = [0]

    def count(call: str, _path: str) -> None:
        changes[-1] += call in ("rename", "remove_directory")

    files.before = count
    steps = directory.deletion(("t",), lambda _: True)
    while next(steps, steps) is not steps:
        changes += [0]
    assert sum(changes) >= 600
    # checkpoints are renamed, too
    assert max(changes) <= 64 + 4
    assert directory.found == {}
    directory.close()


def test_deleting_many_logs_syncs_a_few_times(tmp_path: Path, mocker: MockerFixture) -> None:
    directory = opened(DiskFiles(), str(tmp_path / "data"))
    for partition in range(100):
        directory.log("t", partition, SMALL, NOW_MS)
    synced = mocker.spy(os, "fsync")
    directory.delete({"t"})
    assert synced.call_count < 20
    directory.close()


def test_a_deletion_that_was_interrupted_is_completed() -> None:
    files = MemoryFiles()
    directory = opened(files)
    directory.log("t", 0, SMALL, NOW_MS).append(batch(b"x"), now_ms=NOW_MS)
    files.before = failing("remove_directory")
    with pytest.raises(StorageError, match="deleting failed"):
        directory.delete(("t",))
    files.before = None
    files.kill()
    assert opened(files).found == {}
    assert not any("delete" in name for name in files.names("data"))


def test_deleting_makes_room_on_a_full_disk() -> None:
    files = MemoryFiles()
    directory = opened(files)
    directory.log("t", 0, SMALL, NOW_MS).append(batch(b"x"), now_ms=NOW_MS)
    directory.log("u", 0, SMALL, NOW_MS).append(batch(b"x"), now_ms=NOW_MS)
    directory.checkpoint()

    def full(call: str, path: str) -> None:
        if call not in ("rename", "remove_directory", "exists", "names"):
            there = any("delete" in name for name in files.names("data"))
            if there or files.exists("data/t-0"):
                raise OSError(28, "No space left on device", path)

    files.before = full
    directory.delete(("t",))
    files.before = None
    assert not any(name.startswith("t") for name in files.names("data"))
    assert "t 0" not in files.read("data/recovery-point-offset-checkpoint", 0, 999).decode()
    directory.close()


def test_a_close_that_failed_is_no_clean_end(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    directory = opened(files)
    directory.log("t", 0, SMALL, NOW_MS).append(batch(b"x"), now_ms=NOW_MS)
    files.capacity_bytes = 0
    with caplog.at_level(logging.WARNING):
        directory.close()
    assert "not closed cleanly" in caplog.text
    files.capacity_bytes = None
    again = opened(files)
    assert not again.was_clean
    assert pairs(read_all(again.log("t", 0, SMALL, NOW_MS))) == [(0, b"x")]


def test_names_are_checked() -> None:
    directory = opened(MemoryFiles())
    for topic, partition in (("../x", 0), ("", 0), ("t", -1)):
        with pytest.raises(LogDirectoryError, match="not a valid topic name"):
            directory.log(topic, partition, LogConfig(), NOW_MS)


def test_ids_are_spelt_as_kafka_does() -> None:
    assert kafka_uuid(TOPIC_ID) == "AAAAAAAAAAASNFZ4kKvN7w"
    assert uuid_of(kafka_uuid(TOPIC_ID)) == TOPIC_ID
