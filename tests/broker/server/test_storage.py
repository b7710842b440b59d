"""Tests a data directory being taken."""

from pathlib import Path

import pytest

from groupsdk.broker.coordinators import CatalogueBlockStore
from groupsdk.broker.log.directory import LogDirectory
from groupsdk.broker.log.errors import DirectoryLockedError, LogDirectoryError
from groupsdk.broker.log.files import DiskFiles, MemoryFiles
from groupsdk.broker.server.storage import open_storage
from groupsdk.broker.store import MemoryStore, StoreError
from groupsdk.wire.primitives import kafka_uuid


def test_a_new_directory_and_its_catalogue_have_one_cluster_id(tmp_path: Path) -> None:
    directory, catalogue = open_storage(DiskFiles(), tmp_path / "new", None)
    text = (tmp_path / "new" / "meta.properties").read_text(encoding="utf-8")
    assert f"cluster.id={catalogue.cluster_id}" in text
    directory.close()
    catalogue.store.close()


def test_a_directory_in_use_is_not_touched(tmp_path: Path) -> None:
    directory, catalogue = open_storage(DiskFiles(), tmp_path, None)
    with pytest.raises(DirectoryLockedError):
        open_storage(DiskFiles(), tmp_path, None)
    directory.close()
    catalogue.store.close()


def test_a_broken_catalogue_gives_the_directory_back(tmp_path: Path) -> None:
    (tmp_path / "catalogue.sqlite").write_bytes(b"no database at all" * 100)
    for _ in range(2):
        with pytest.raises(StoreError):
            open_storage(DiskFiles(), tmp_path, None)


def test_memory_of_another_cluster_is_refused() -> None:
    files = MemoryFiles()
    directory, _ = open_storage(files, None, MemoryStore())
    directory.close()
    other = MemoryStore()
    other.write([("cluster", "id", "another-cluster-id-000")])
    with pytest.raises(LogDirectoryError, match="belongs to"):
        open_storage(files, None, other)


def test_a_directory_that_kafka_wrote_is_taken_with_its_ids() -> None:
    from uuid import uuid4

    files, topic_id = MemoryFiles(), uuid4()
    files.make_directory("data")
    meta = "node.id=7\nversion=1\ncluster.id=kafkas-own-id\n"
    files.write("data/meta.properties", 0, meta.encode())
    for name in ("t-0", "t-2", "__consumer_offsets-49", "__cluster_metadata-0"):
        files.make_directory(f"data/{name}")
        if name.startswith("t-"):
            text = f"version: 0\ntopic_id: {kafka_uuid(topic_id)}\n"
            files.write(f"data/{name}/partition.metadata", 0, text.encode())
    directory, catalogue = open_storage(files, None, MemoryStore())
    assert isinstance(directory, LogDirectory)
    assert catalogue.cluster_id == "kafkas-own-id"
    assert {name: len(each.partitions) for name, each in catalogue.topics.items()} == {
        "t": 3,
        "__consumer_offsets": 50,
    }
    assert catalogue.topics["t"].topic_id == topic_id
    assert catalogue.config("topic", "__consumer_offsets") == {"cleanup.policy": "compact"}
    # Kafka's producer ids are not told by these files: ours begin where it never comes to
    first = CatalogueBlockStore(catalogue.store).next_start()
    assert 2**60 < first < 2**62


def test_taking_over_again_goes_on_with_further_producer_ids() -> None:
    files, store = MemoryFiles(), MemoryStore()
    starts = []
    for name in ("t", "u"):
        files.make_directory(f"data/{name}-0")
        directory, catalogue = open_storage(files, None, store)
        blocks = CatalogueBlockStore(catalogue.store)
        starts.append(blocks.next_start())
        assert blocks.claim(starts[-1], starts[-1] + 2**40)
        directory.close()
    assert starts[1] >= starts[0] + 2**40

    directory, catalogue = open_storage(files, None, store)
    assert CatalogueBlockStore(catalogue.store).next_start() == starts[1] + 2**40
    directory.close()
