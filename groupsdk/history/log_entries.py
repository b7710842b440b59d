"""Convert the entries of brokers' logs to rows that precede the records of their groups."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from groupsdk.history.groups.arrow_batches import LOG_ENTRY_PARTITION
from groupsdk.history.groups.explaining import BrokerLogEntries
from groupsdk.history.reading import RECORD_ROWS


LogEntry = tuple[str, bytes]
"""A group, and an entry about it as `groups.arrow_batches.read_log_entries` reads it."""


def log_entries(found: Iterable[BrokerLogEntries]) -> Iterator[LogEntry]:
    """Yield each reason, then each departure."""
    entries = list(found)
    for each in entries:
        for reason in each.reasons:
            yield each.group_id, json.dumps(reason._asdict()).encode()
    for each in entries:
        for end in each.ends:
            yield each.group_id, json.dumps(end._asdict()).encode()


def log_entry_rows(entries: Iterable[LogEntry]) -> Any:
    """Convert entries to a batch of `reading.RECORD_ROWS`."""
    rows = [
        {
            "group_id": group_id,
            "src_partition": LOG_ENTRY_PARTITION,
            "src_offset": 0,
            "value": value,
        }
        for group_id, value in entries
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_ROWS)
