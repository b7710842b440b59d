"""Read and write Kafka's checkpoint files: a version, a count, and one line of text for each entry.

A file is written under a temporary name and then renamed, so a crash leaves either the old file or the new one.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

from groupsdk.broker.log.errors import storage_errors
from groupsdk.broker.log.files import Files, replace_file


logger = logging.getLogger(__name__)
_VERSION: Final = "0"
_MAX_BYTES: Final = 64 * 1024 * 1024
_OFFSET_LINE: Final = re.compile(r"(\S+) (\d+) (-?\d+)")


def write_text(files: Files, path: str, text: str) -> None:
    """Write a text file atomically; after a failure the old file is still there."""
    with storage_errors("writing a checkpoint", path):
        replace_file(files, path, text.encode())


def read_text(files: Files, path: str) -> str | None:
    """Read at most 64 MiB of a text file; None if it does not exist."""
    with storage_errors("reading a checkpoint", path):
        if not files.exists(path):
            return None
        return files.read(path, 0, _MAX_BYTES).decode(errors="replace")


def read_properties(files: Files, path: str) -> dict[str, str] | None:
    """Read a file of lines `key=value`, as Java's properties; None if it does not exist."""
    text = read_text(files, path)
    if text is None:
        return None
    pairs = (line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def write_lines(files: Files, path: str, lines: Iterable[str]) -> None:
    entries = list(lines)
    write_text(files, path, "\n".join([_VERSION, str(len(entries)), *entries, ""]))


def read_lines(files: Files, path: str) -> list[str] | None:
    """Read the entries of a checkpoint file; None if it is missing or incomplete.

    An incomplete file is logged and ignored: its content can be recomputed, with more work.
    """
    text = read_text(files, path)
    if text is None:
        return None
    lines = text.splitlines()
    if lines[:1] != [_VERSION] or not lines[1:] or lines[1] != str(len(lines) - 2):
        logger.warning("%s: ignored, not a complete checkpoint file of version %s", path, _VERSION)
        return None
    return lines[2:]


def write_offsets(files: Files, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write a checkpoint of one offset for each (topic, partition), such as its recovery point."""
    write_lines(
        files,
        path,
        (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    )


def read_offsets(files: Files, path: str) -> dict[tuple[str, int], int]:
    """Read a checkpoint of one offset for each (topic, partition); empty if it is missing, incomplete or malformed."""
    found: dict[tuple[str, int], int] = {}
    for line in read_lines(files, path) or ():
        match = _OFFSET_LINE.fullmatch(line)
        if match is None:
            logger.warning("%s: ignored, line %r is not an offset", path, line[:200])
            return {}
        found[match[1], int(match[2])] = int(match[3])
    return found
