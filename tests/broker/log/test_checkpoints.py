"""Checkpoint files are Kafka's, and are whole or as before."""

import logging

import pytest

from groupsdk.broker.log import checkpoints
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from tests.broker.log.logs import failing


OFFSETS = {("t", 0): 5, ("a.b-c", 12): 0}


def test_checkpoint_file_has_kafkas_format() -> None:
    files = MemoryFiles()
    checkpoints.write_offsets(files, "c", OFFSETS)
    assert files.read("c", 0, 99) == b"0\n2\nt 0 5\na.b-c 12 0\n"
    assert checkpoints.read_offsets(files, "c") == OFFSETS
    assert checkpoints.read_offsets(files, "none") == {}
    assert checkpoints.read_lines(files, "none") is None
    assert files.names("") == []


@pytest.mark.parametrize(
    "text", ["", "1\n0\n", "0\n2\nt 0 5\n", "0\nx\n", "0", "0\n1\nt zero 5\n", "0\n1\nt 0\n"]
)
def test_incomplete_checkpoint_is_ignored_and_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    files.write("c", 0, text.encode())
    with caplog.at_level(logging.WARNING):
        assert checkpoints.read_offsets(files, "c") == {}
    assert "c: ignored" in caplog.text


def test_a_failed_write_leaves_the_old_file() -> None:
    for call in ("write", "sync", "rename"):
        files = MemoryFiles()
        checkpoints.write_offsets(files, "c", OFFSETS)
        files.before = failing(call)
        with pytest.raises(StorageError, match="c: Input/output error"):
            checkpoints.write_offsets(files, "c", {})
        files.before = None
        assert checkpoints.read_offsets(files, "c") == OFFSETS
        files.crash()
        assert checkpoints.read_offsets(files, "c") == OFFSETS
