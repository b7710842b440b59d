"""Compacted segments take the place of others, as a whole, whatever crash comes between."""

import logging

import pytest

from groupsdk.broker.log import segment_replacement
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import place, read_header
from tests.broker.log.logs import Countdown, PowerLossError, batch


def segment(files: MemoryFiles, base: int, *offsets: int, suffix: str = "") -> Segment:
    """A segment of batches at these offsets."""
    made = Segment(files, "d", base, LogConfig(), suffix=suffix)
    for offset in offsets:
        data = bytearray(batch(b"%d" % offset))
        place(data, offset, 0)
        made.files.append(data, made.size)
        made.note(read_header(data), offset)
    if not suffix:
        made.sync()
        made.save_indexes(durable=True)
    return made


def contents(files: MemoryFiles) -> dict[str, list[int]]:
    found = {}
    for name in files.names("d"):
        if name.endswith(".log"):
            one = Segment(files, "d", int(name[:20]), LogConfig())
            found[name[18:]] = [stored.header.base_offset for stored in one.rebuild()]
    return found


BEFORE = {"10.log": [10, 11], "20.log": [20, 21], "30.log": [30]}
AFTER = {"10.log": [11, 21], "30.log": [30]}


def test_every_crash_leaves_the_old_ones_or_the_new_one() -> None:
    seen = []
    for calls in range(60):
        files = MemoryFiles()
        old = [segment(files, 10, 10, 11), segment(files, 20, 20, 21)]
        segment(files, 30, 30)
        cleaned = segment(files, 10, 11, 21, suffix=segment_replacement.CLEANED)
        files.before = Countdown(calls)
        try:
            segment_replacement.replace(cleaned, old)
        except PowerLossError:
            files.before = None
            files.crash()
            names = segment_replacement.finish(files, "d")
            assert names == files.names("d")
            assert contents(files) in (BEFORE, AFTER)
            seen.append(contents(files) == AFTER)
            assert not any(name.endswith((".cleaned", ".swap", ".tmp")) for name in names)
        else:
            assert contents(files) == AFTER
            # once it is decided, it stays decided
            assert seen == sorted(seen)
            assert {*seen} == {False, True}
            return
    pytest.fail("the change never came to an end")


def test_damaged_swap_is_dropped_while_the_old_segments_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    segment(files, 10, 10, 11)
    segment(files, 10, 11, suffix=segment_replacement.SWAP)
    files.write("d/00000000000000000010.log.swap", 65, b"\xff")
    with caplog.at_level(logging.WARNING):
        segment_replacement.finish(files, "d")
    assert "discarding the compacted segment" in caplog.text
    assert contents(files) == {"10.log": [10, 11]}


def test_a_segment_of_which_nothing_is_left_keeps_its_name() -> None:
    files = MemoryFiles()
    old = segment(files, 10, 10, 11)
    segment_replacement.replace(segment(files, 10, suffix=segment_replacement.CLEANED), [old])
    assert files.names("d") == ["00000000000000000010.log"]
    assert files.size("d/00000000000000000010.log") == 0
