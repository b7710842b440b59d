"""Replace segments by compacted ones, safely across crashes.

The new files are written as `.cleaned`, synced, and renamed to `.swap`, the .log file last: once that has its
name, a restart completes the replacement. Files still named `.cleaned` are removed (Kafka:
LocalLog.replaceSegments, LogLoader).
"""

import logging
import re
from collections.abc import Sequence
from typing import Final

from groupsdk.broker.log.errors import CorruptLogError, storage_errors
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.scan import scan
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.log.segment_files import SegmentFiles


logger = logging.getLogger(__name__)
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_SWAPPED_LOG: Final = re.compile(r"(\d{20})\.log\.swap")
_LOG_NAME: Final = re.compile(r"(\d{20})\.log")
_LEFT_OVER: Final = re.compile(r".*\.(cleaned|swap|deleted|tmp)")


def replace(cleaned: Segment, replaced: Sequence[Segment]) -> None:
    """Replace segments, in ascending order, by a compacted one with the first base offset and files named `.cleaned`.

    Where this fails, the next start completes or undoes it. In this order a crash never leaves an older record
    without the one that replaced it.
    """
    cleaned.save_indexes(durable=True)
    # even if no records are left: the segment keeps its name, since the start of the log does not change
    cleaned.files.append(b"", cleaned.size)
    cleaned.files.sync()
    cleaned.files.rename(SWAP)
    for segment in replaced:
        segment.files.remove()
    cleaned.files.rename("")


def finish(files: Files, directory: str) -> list[str]:
    """Complete replacements decided before a crash, and undo the others. Return the directory's names, sorted."""
    names = _names(files, directory)
    if not any(_LEFT_OVER.fullmatch(name) for name in names):
        return names
    logs = sorted(int(match[1]) for name in names if (match := _LOG_NAME.fullmatch(name)))
    for name in names:
        match = _SWAPPED_LOG.fullmatch(name)
        if match is not None:
            _complete(files, directory, int(match[1]), logs)
    for name in _names(files, directory):
        if _LEFT_OVER.fullmatch(name):
            path = f"{directory}/{name}"
            with storage_errors("removing", path):
                files.remove(path)
    return _names(files, directory)


def _complete(files: Files, directory: str, base_offset: int, logs: list[int]) -> None:
    swap = SegmentFiles(files, directory, base_offset, SWAP)
    end_offset = base_offset + 1
    try:
        for stored in scan(files, swap.log, swap.size(), lowest_offset=base_offset):
            end_offset = stored.header.last_offset + 1
    except CorruptLogError as error:
        if base_offset in logs:
            logger.warning(
                "%s; discarding the compacted segment, as the original ones are still there", error
            )
            swap.remove()
            return
        logger.warning(
            "%s; keeping the compacted segment, as the original ones are already deleted", error
        )
    logger.info("%s: completing the compaction up to offset %d", swap.log, end_offset)
    for base in logs:
        if base_offset <= base < end_offset:
            SegmentFiles(files, directory, base).remove()
    swap.rename("")


def _names(files: Files, directory: str) -> list[str]:
    with storage_errors("listing", directory):
        return files.names(directory)
