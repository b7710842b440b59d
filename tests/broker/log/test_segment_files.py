"""The files of a segment have Kafka's names, and change as a whole or not at all."""

from collections.abc import Callable

import pytest

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.segment_files import SegmentFiles, file_name
from tests.broker.log.logs import failing


def test_names_are_kafkas() -> None:
    assert file_name(12, ".log") == "00000000000000000012.log"
    files = SegmentFiles(MemoryFiles(), "d", 12, ".swap")
    assert files.log == "d/00000000000000000012.log.swap"
    assert files.path(".index") == "d/00000000000000000012.index.swap"


def test_a_failed_append_is_taken_back_at_once_or_later() -> None:
    box = MemoryFiles(capacity_bytes=6)
    files = SegmentFiles(box, "d", 0)
    files.append(b"abcd", 0)
    with pytest.raises(StorageError, match="appending 4 bytes failed"):
        files.append(b"efgh", 4)
    assert files.size() == 4

    box.before = failing("truncate")
    with pytest.raises(StorageError):
        files.append(b"efgh", 4)
    assert files.size() == 6  # cutting failed, too
    with pytest.raises(StorageError):
        files.append(b"e", 4)
    box.before = None
    files.append(b"e", 4)
    assert box.read(files.log, 0, 99) == b"abcde"


def test_indexes_are_replaced_as_a_whole() -> None:
    box = MemoryFiles()
    files = SegmentFiles(box, "d", 0)
    assert files.read_index(".index") is None
    files.write_index(".index", b"one", durable=True)
    files.write_index(".txnindex", b"", durable=False)
    assert files.read_index(".txnindex") is None
    box.capacity_bytes = box.total_bytes + 2
    with pytest.raises(StorageError, match="writing an index failed"):
        files.write_index(".index", b"longer", durable=False)
    assert files.read_index(".index") == b"one"
    assert box.names("d") == ["00000000000000000000.index"]


def test_all_files_are_renamed_cut_and_removed() -> None:
    box = MemoryFiles()
    files = SegmentFiles(box, "d", 0, ".cleaned")
    files.append(b"abcd", 0)
    files.write_index(".index", b"i", durable=False)
    files.rename("")
    assert box.names("d") == ["00000000000000000000.index", "00000000000000000000.log"]
    assert files.cut(1) == 3
    assert files.cut(5) == 0
    files.sync()
    box.crash()
    assert files.size() == 1
    files.remove()
    assert box.names("d") == []
    assert files.size() == 0


def test_every_failure_is_a_storage_error() -> None:
    actions: dict[str, Callable[[SegmentFiles], object]] = {
        "truncate": lambda files: files.cut(0),
        "sync": SegmentFiles.sync,
        "rename": lambda files: files.rename(".swap"),
        "remove": SegmentFiles.remove,
    }
    for call, action in actions.items():
        files = SegmentFiles(MemoryFiles(before=failing(call)), "d", 12)
        files.append(b"x", 0)
        with pytest.raises(StorageError, match="Input/output error"):
            action(files)
