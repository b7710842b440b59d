"""Going through a file gives whole, right batches only, in pieces or at once."""

import contextlib

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.broker.log import scan as scanning
from groupsdk.broker.log.errors import CorruptLogError, StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.broker.log.scan import Stored, scan, walk
from groupsdk.wire.records.batch import place
from tests.broker.log.logs import batch


def data(count: int = 5, size: int = 10) -> bytes:
    """Batches of one record each, at offsets from 10 on, of leader epoch 1."""
    out = bytearray()
    for number in range(count):
        one = bytearray(batch(b"x" * (size + number)))
        place(one, 10 + number, 1)
        out += one
    return bytes(out)


def scanned(content: bytes, **options: object) -> list[Stored]:
    files = MemoryFiles()
    files.write("f", 0, content)
    return list(scan(files, "f", len(content), **options))  # type: ignore[arg-type]  # as they are


@pytest.mark.parametrize("chunk", [62, 100, 1000])
def test_batches_larger_than_what_is_read_at_once(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", chunk)
    content = data(size=200)
    found = scanned(content)
    assert [each.header.base_offset for each in found] == [10, 11, 12, 13, 14]
    assert b"".join(each.batch for each in found) == content


@pytest.mark.parametrize("chunk", [62, 1000])
def test_a_file_that_ends_within_a_batch(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", chunk)
    content = data(2)
    first = len(data(1))
    for size in range(1, len(content)):
        if size == first:
            assert len(scanned(content[:size])) == 1
            continue
        files = MemoryFiles()
        files.write("f", 0, content)
        found = scan(files, "f", size)
        if size > first:
            assert next(found).position == 0
        with pytest.raises(CorruptLogError, match=f"f: at byte {first if size > first else 0}: "):
            next(found)


def test_offsets_ascend_and_may_have_to_follow() -> None:
    content = data(2)
    assert len(scanned(content, lowest_offset=5)) == 2
    assert len(scanned(content, lowest_offset=10, gaps=False)) == 2
    with pytest.raises(CorruptLogError, match="offset 10 does not follow offset 10"):
        scanned(content, lowest_offset=11)
    with pytest.raises(CorruptLogError, match="offset 10 does not follow offset 4"):
        scanned(content, lowest_offset=5, gaps=False)
    with pytest.raises(CorruptLogError, match="does not follow"):
        scanned(data(1)[:0] + data(1), lowest_offset=-(2**32))


def test_the_leader_epoch_has_to_be_the_known_one() -> None:
    epochs = LeaderEpochs(MemoryFiles(), "d")
    assert len(scanned(data(), epochs=epochs)) == 5
    epochs.assign(1, 10)
    assert len(scanned(data(), epochs=epochs)) == 5
    epochs.assign(2, 13)
    with pytest.raises(
        CorruptLogError, match="has the leader epoch 1, but leader-epoch-checkpoint has 2"
    ):
        scanned(data(), epochs=epochs)


def test_a_file_that_is_gone_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="No such file"):
        list(scan(MemoryFiles(), "f", 10))


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 20))
def test_any_bytes_end_or_are_refused(content: bytes, offset: int) -> None:
    files = MemoryFiles()
    files.write("f", 0, content)
    with contextlib.suppress(CorruptLogError):
        assert scanned(content) == []
    try:
        position, _ = walk(files, "f", len(content), 0, offset)
    except CorruptLogError:
        return
    assert 0 <= position <= len(content)


def test_a_walk_finds_the_batch_of_an_offset() -> None:
    content = data()
    files = MemoryFiles()
    files.write("f", 0, content)
    positions = [each.position for each in scanned(content)]
    for offset in range(8, 17):
        position, size = walk(files, "f", len(content), 0, offset)
        if offset > 14:
            assert (position, size) == (len(content), 0)
        else:
            assert position == positions[max(offset - 10, 0)]
            assert size == scanned(content)[max(offset - 10, 0)].header.size_in_bytes
