"""The stages of a run: rows that one step leaves to the next, and which are not tables."""

from typing import Any, Final

import pyarrow as pa

from groupsdk.history.explain import SIZES
from groupsdk.history.tables.schemas import RAW, TABLES, TIMESTAMP


RECORDS: Final = "records"
"""Stage: the groups' own records, and sums of their commits."""
DEFERRED: Final = "deferred"
"""Stage: commits within transactions, and the transactions' end markers, which decide whether the commits count."""
TOPIC_HINTS: Final = "told"
"""Stage: hints to the names of topic ids."""
COVERAGE: Final = "coverage"
"""Stage: the offsets and records read, by partition and leader epoch."""
TALLY: Final = "tally"
"""Stage: counts of data that could not be read or decoded."""


RECORD_ROWS: Final = pa.schema(
    [
        ("group_id", pa.string()),
        ("src_partition", pa.int32()),
        ("src_offset", pa.int64()),
        ("ts", TIMESTAMP),
        ("leader_epoch", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_commit_ts", TIMESTAMP),
        ("last_commit_ts", TIMESTAMP),
        ("last_offset", pa.int64()),
        ("commits", pa.int64()),
    ]
)
"""Group records have no topic. Sums of commits have one, and no key; if `commits` is 0 none of the commits counts, and if it is `REMOVED` they are tombstones."""

STAGED: Final[dict[str, Any]] = {
    RECORDS: RECORD_ROWS,
    DEFERRED: pa.schema([each for each in TABLES[RAW].arrow_schema if each.name != "day"]),
    TOPIC_HINTS: pa.schema(
        [
            ("group_id", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("last_partition", pa.int32()),
            ("is_open", pa.bool_()),
        ]
    ),
    COVERAGE: pa.schema(
        [
            ("src_partition", pa.int32()),
            ("leader_epoch", pa.int32()),
            ("first_offset", pa.int64()),
            ("last_offset", pa.int64()),
            ("records", pa.int64()),
            ("first_ts", TIMESTAMP),
            ("last_ts", TIMESTAMP),
            ("since", TIMESTAMP),
            ("commits", pa.int64()),
            ("deferred", pa.int64()),
            ("modern", pa.int64()),
        ]
    ),
    TALLY: pa.schema([("src_partition", pa.int32()), ("what", pa.string()), ("n", pa.int64())]),
    SIZES: pa.schema([("size", pa.int32()), ("length", pa.int64())]),
}
"""The Arrow schemas of the stages, which are not tables."""
