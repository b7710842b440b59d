"""Pack the rows of all tables into one frame, in which a row is a batch of one table as bytes of Arrow's IPC format.

So that one query of Spark's makes all tables, and passing rows through the JVM costs little: it moves some hundred
compressed batches, and not each row with its columns.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from groupsdk.history.tables.stage_files import by_bucket, few_collections
from groupsdk.history.tables.stages import RECORDS


PACKED: Final = pa.schema(
    [("name", pa.string()), ("bucket", pa.int32()), ("n", pa.int64()), ("rows", pa.binary())]
)
"""The name of a table or stage, the bucket of its groups (0 for what is of no group), how many rows, and the rows."""


def packed(batches: Iterable[tuple[str, Any]], buckets: int = 1) -> Iterator[Any]:
    """Pack pairs of a table's name and a batch; group records are spread over `buckets` by their groups."""
    with few_collections():
        for name, batch in batches:
            if not batch.num_rows:
                continue
            parts = by_bucket(batch, buckets) if name == RECORDS else [(0, batch)]
            for bucket, rows in parts:
                yield _packed(name, bucket, rows)


def _packed(name: str, bucket: int, rows: Any) -> Any:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema, options=ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_batch(rows)
    data = sink.getvalue()
    offsets = pa.py_buffer(np.array([0, data.size], dtype=np.int32))
    columns = [
        pa.array([name]),
        pa.array([bucket], pa.int32()),
        pa.array([rows.num_rows]),
        # without a copy
        pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)


def unpacked(batches: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name of its table and the batch, of each packed row in the order of the rows."""
    for each in batches:
        names = each.column("name").to_pylist()
        for name, rows in zip(names, each.column("rows"), strict=True):
            yield name, ipc.open_stream(rows.as_buffer()).read_next_batch()


def rows_of(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield the batches of one table among packed rows."""
    return (rows for each, rows in unpacked(batches) if each == name)
