"""One segment: what is appended is found, and what was found on disk is checked once."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.errors import CorruptLogError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.indexes import CorruptIndexError
from groupsdk.broker.log.segment import Segment, Spans
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import batches, place, read_header
from tests.broker.log.logs import batch


CONFIG = LogConfig(index_interval_bytes=150, segment_bytes=1_000)


def filled(files: MemoryFiles, count: int = 20, base: int = 100) -> Segment:
    """A segment of batches of two records each."""
    segment = Segment(files, "d", base, CONFIG)
    for number in range(count):
        data = bytearray(batch(b"%d" % number, b"", timestamp=1_000 + number))
        offset = base + 2 * number
        place(data, offset, 0)
        segment.files.append(data, segment.size)
        segment.note(read_header(data), offset)
    return segment


def loaded(files: MemoryFiles, end_offset: int | None = None) -> Segment:
    segment = Segment(files, "d", 100, CONFIG)
    segment.load(end_offset)
    return segment


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for header, _ in batches(data)]


def test_every_offset_is_found_before_and_after_a_restart() -> None:
    files = MemoryFiles()
    segment = filled(files)
    segment.save_indexes()
    for each in (segment, loaded(files), loaded(files, 140)):
        assert (each.end_offset, each.max_timestamp, each.max_timestamp_offset) == (140, 1_019, 139)
        assert len(each.offset_index.offsets) > 5
        for offset in range(100, 140):
            position, size = each.locate(offset)
            header = read_header(files.read(each.path, position, size))
            assert header.base_offset == offset - offset % 2
            data, stop = each.read(offset, 200)
            assert offsets(data)[0] == header.base_offset
            assert stop == position + len(data)
        assert each.locate(140) == (each.size, 0)
    assert repr(segment).endswith(f"{segment.size} bytes, to 140)")


def test_reads_stop_before_an_offset() -> None:
    segment = filled(MemoryFiles())
    data, _ = segment.read(110, 10_000, limit_offset=120)
    assert offsets(data) == [110, 112, 114, 116, 118]
    assert segment.read(110, 10_000, limit_offset=110)[0] == b""


def test_a_segment_is_closed_by_size_time_and_index() -> None:
    segment = filled(MemoryFiles(), 3)
    assert not segment.must_roll(10, 106, 1_000, 0)
    assert segment.must_roll(1_000, 106, 1_000, 0)
    assert segment.must_roll(10, 100 + 2**31, 1_000, 0)
    assert segment.must_roll(10, 106, 1_001 + CONFIG.segment_ms, 0)
    segment.configure(LogConfig(segment_index_bytes=8))
    assert segment.must_roll(10, 106, 1_000, 0)
    segment.configure(LogConfig(segment_ms=100, segment_jitter_ms=50))
    assert segment.must_roll(10, 106, 1_101, 0)
    segment.configure(LogConfig())
    segment.sealed = True
    assert segment.must_roll(10, 106, 1_000, 0)
    empty = Segment(MemoryFiles(), "d", 100, CONFIG)
    assert not empty.must_roll(5_000, 100, 10**15, 10**15)


def test_a_damaged_batch_hides_itself_only() -> None:
    files = MemoryFiles()
    segment = filled(files)
    segment.save_indexes()
    position, _ = segment.locate(120)
    files.write(segment.path, position + 61, b"\xff")
    again = loaded(files, 140)
    good = 0
    for offset in range(100, 140):
        try:
            data, _ = again.read(offset, 300)
        except CorruptLogError as error:
            problem = str(error)
            assert f"{again.path}: at byte {position}" in problem
            continue
        assert 120 not in offsets(data)
        good += 1
    assert good > 25


def test_a_damaged_index_is_built_anew(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    filled(files).save_indexes()
    path = "d/00000000000000000100.index"
    data = bytearray(files.read(path, 0, 999))
    data[-1] ^= 1
    files.write(path, 0, data)
    again = loaded(files, 140)
    assert [offsets(again.read(offset, 100)[0])[0] for offset in (139, 100)] == [138, 100]
    assert "index corrupt, rebuilt" in caplog.text


def test_missing_or_impossible_indexes_are_said() -> None:
    files = MemoryFiles()
    segment = filled(files)
    with pytest.raises(CorruptIndexError, match="missing"):
        loaded(files)
    segment.save_indexes()
    files.write("d/00000000000000000100.timeindex", 0, b"\0")
    files.truncate("d/00000000000000000100.timeindex", 1)
    with pytest.raises(CorruptIndexError):
        loaded(files)


def test_a_segment_is_rebuilt_and_cut_at_the_damage() -> None:
    files = MemoryFiles()
    segment = filled(files)
    position, _ = segment.locate(130)
    files.write(segment.path, position + 61, b"\xff")
    again = Segment(files, "d", 100, CONFIG)
    with pytest.raises(CorruptLogError, match=f"at byte {position}"):
        list(again.rebuild())
    assert (again.size, again.end_offset) == (position, 130)
    assert again.cut() == segment.size - position
    assert files.size(again.path) == position
    again.sync()
    again.take_back()
    assert files.size(again.path) == position


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(RANGES, st.integers(0, 30), st.integers(0, 30))
def test_spans_are_the_set_of_their_positions(
    ranges: list[tuple[int, int]], start: int, stop: int
) -> None:
    spans = Spans()
    model: set[int] = set()
    for first, last in ranges:
        spans.add(first, last)
        model |= set(range(first, last))
    assert spans.covers(start, stop) == (set(range(start, stop)) <= model)
    pieces = sum(1 for each in model if each - 1 not in model)
    assert len(spans._starts) == pieces
