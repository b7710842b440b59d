"""Runs the sink from Kafka to Parquet: each record in one file, whoever is killed or paused."""

import fcntl
import os
import signal
from functools import partial
from pathlib import Path

import pyarrow.parquet
import pytest
from confluent_kafka import Producer

from examples.parquet_sink import ParquetSink, PartitionFiles, app
from groupsdk.connect import ConnectorConfigError, TaskFencedError
from tests.connect.workers import eventually
from tests.examples.crew import Crew
from tests.support.topics import create_topic, read_records


PARTITIONS = 2


@pytest.fixture
def topic(servers: str, group_id: str) -> str:
    """A topic of two partitions."""
    name = f"orders-{group_id[-8:]}"
    create_topic(servers, name, PARTITIONS)
    return name


def produce(servers: str, topic: str, begin: int, count: int) -> None:
    """Write numbers to both partitions."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(begin, begin + count):
        for partition in range(PARTITIONS):
            producer.produce(
                topic, str(number), f"{partition}:{number}", partition, headers=[("n", b"x")]
            )
    assert producer.flush(60) == 0


def rows(directory: Path, topic: str, partition: int) -> list[dict[str, object]]:
    """All rows of a partition's files, whose names have to say what is in them."""
    found: list[dict[str, object]] = []
    for path in PartitionFiles(directory, topic, partition).files():
        table = pyarrow.parquet.read_table(path).to_pylist()
        first, last = span(path)
        assert (table[0]["offset"], table[-1]["offset"]) == (first, last)
        found += table
    return found


def span(path: Path) -> tuple[int, int]:
    """The first and the last offset in a file, by its name."""
    first, last = map(int, path.stem.rsplit("-", 2)[1:])
    return first, last


def has(directory: Path, topic: str, count: int, partitions: int = PARTITIONS) -> bool:
    """Whether so many rows are in the files of each partition, by the names of these.

    Reading hundreds of files again and again would take the machine from those that write them.
    """
    counts = [0] * partitions
    for partition in range(partitions):
        for path in PartitionFiles(directory, topic, partition).files():
            first, last = span(path)
            counts[partition] += last - first + 1
    return min(counts) >= count


def check(directory: Path, topic: str, count: int) -> None:
    """Each record is there, once, in order."""
    for partition in range(PARTITIONS):
        found = rows(directory, topic, partition)
        assert [row["offset"] for row in found] == list(range(count))
        assert [row["key"] for row in found] == [f"{partition}:{n}".encode() for n in range(count)]
        assert [row["value"] for row in found] == [str(n).encode() for n in range(count)]


def config(servers: str, topic: str, directory: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "ParquetSink",
        "bootstrap.servers": servers,
        "topics": topic,
        "directory": str(directory),
        "records.per.file": "50",
        "seconds.per.file": "0.3",
        **more,
    }


def test_records_are_in_files_once_over_restarts(servers: str, topic: str, tmp_path: Path) -> None:
    produce(servers, topic, 0, 120)
    settings = config(servers, topic, tmp_path)
    for begin, end in ((0, 120), (120, 150)):
        worker = app.start_standalone(tmp_path / "store.json")
        eventually(partial(getattr, worker, "is_leader"))
        worker.admin.put_connector("archive", settings).result(60)
        eventually(partial(has, tmp_path, topic, 120))
        produce(servers, topic, max(begin, 120), end - max(begin, 120))
        eventually(partial(has, tmp_path, topic, end))
        assert worker.stop(60)
    check(tmp_path, topic, 150)
    (first, *_) = rows(tmp_path, topic, 0)
    assert first["headers"] == [{"key": "n", "value": b"x"}]
    assert len(PartitionFiles(tmp_path, topic, 0).files()) >= 3


def is_locked(directory: Path, topic: str) -> bool:
    """Whether somebody is about to have a file of the topic appear."""
    for partition in range(PARTITIONS):
        with (directory / topic / f".{topic}-{partition}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def pause(crew: Crew, pid: int, directory: Path, topic: str) -> None:
    """Suspend a worker at a moment when it has no partition locked: with a lock it holds up its follower as well."""

    def paused() -> bool:
        crew.send(pid, signal.SIGSTOP)
        # all of its threads
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        if not is_locked(directory, topic):
            return True
        crew.send(pid, signal.SIGCONT)
        return False

    eventually(paused, crew.said)


@pytest.mark.timeout(600)
def test_records_are_in_files_once_whoever_is_killed_or_paused(
    servers: str, topic: str, group_id: str, tmp_path: Path
) -> None:
    total = 0
    paused: list[int] = []
    with Crew("examples.parquet_sink:app", group_id, servers) as crew:
        crew.start()
        crew.start()
        crew.put("archive", config(servers, topic, tmp_path, **{"records.per.file": "7"}))
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            # what is said of a paused one is true until another has taken over
            eventually(lambda: crew.owner("archive") not in paused, crew.said)
            owner = crew.owner("archive")
            produce(servers, topic, total, 400)
            total += 400
            eventually(partial(has, tmp_path, topic, total - 399, partitions=1), crew.said)
            if number is signal.SIGSTOP:
                pause(crew, owner, tmp_path, topic)
                paused.append(owner)
            else:
                crew.send(owner, number)
            crew.start()
            produce(servers, topic, total, 100)
            total += 100
        for owner in paused:
            crew.send(owner, signal.SIGCONT)
        eventually(partial(has, tmp_path, topic, total), crew.said, 90)
    check(tmp_path, topic, total)


def test_a_former_owner_can_add_no_file(servers: str, topic: str, tmp_path: Path) -> None:
    produce(servers, topic, 0, 10)
    records = read_records(servers, topic, 10)
    files = PartitionFiles(tmp_path, topic, 0)
    assert files.take_over(5, 0) == 0
    assert files.publish(5, records[:4]) == 4
    assert files.take_over(6, 0) == 4
    with pytest.raises(TaskFencedError, match="taken over under 6, after 5"):
        files.publish(5, records[4:8])
    with pytest.raises(TaskFencedError, match="taken over"):
        files.take_over(5, 0)
    # an owner whose first run did not end, and its second
    with pytest.raises(TaskFencedError, match="offset 3 is in a file already"):
        files.publish(6, records[3:5])
    assert files.publish(6, records[4:7]) == 7
    # ended between the file and the note of it, and then between the file and its commit
    (tmp_path / topic / f".{topic}-0.fence").write_text('{"token": 6, "next": 4}')
    assert files.take_over(7, 4) == 7
    # files that were taken away meanwhile
    for each in files.files():
        each.unlink()
    assert files.take_over(8, 0) == 7
    assert not list((tmp_path / topic).glob("*.tmp"))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("topics", "", "topics: is missing"),
        ("records.per.file", "0", "records.per.file: must be 1 to"),
        ("seconds.per.file", "x", "seconds.per.file: must be seconds"),
    ],
)
def test_bad_setting_of_the_parquet_sink_is_refused_by_its_name(
    tmp_path: Path, key: str, value: str, text: str
) -> None:
    with pytest.raises(ConnectorConfigError, match=text):
        ParquetSink.validate(config("localhost:1", "t", tmp_path) | {key: value})


def test_files_of_partitions_whose_names_begin_alike_are_told_apart(tmp_path: Path) -> None:
    for topic, name in (("a", "a-1-0-5"), ("a", "a-10-0-7"), ("a-1", "a-1-0-0-3")):
        (tmp_path / topic).mkdir(exist_ok=True)
        (tmp_path / topic / f"{name}.parquet").touch()
    ends = [PartitionFiles(tmp_path, *each).take_over(1, 0) for each in (("a", 1), ("a", 10))]
    assert ends == [6, 8]
    assert PartitionFiles(tmp_path, "a-1", 0).take_over(1, 0) == 4
