"""Write logs in which something special is: transactions, days, damage, holes, clocks that go back."""

import gzip
from pathlib import Path
from typing import Final

from examples.history_log import LogWriter, Seat, commit, deletion, generation
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch


START_MS: Final = 1_790_899_200_000
DAY_MS: Final = 86_400_000

ONE = Seat("one", {"t": [0, 1]})
TWO = Seat("two", {"t": [1]})
NEWER_TYPE = (b"\x00\x63\x00\x01g", b"\x00\x00")
NEWER_VALUE = (b"\x00\x02\x00\x05newer", b"\x00\x4d\x00\x00")
NO_KEY = (b"", b"x")


def write_transactions(root: Path) -> Path:
    """Write commits of two groups over three days, with and without transactions, and a clock astray."""
    with LogWriter(root, 4, batch_records=7, segment_bytes=3000) as log:
        for number in range(60):
            now = START_MS + number * DAY_MS // 20
            group = f"g{number % 2}"
            if number % 10 in (0, 1):
                seats = {f"m{number}": Seat("c", {"t": [0, 1, 2]})}
                log.append(now, generation(group, number // 10 + 1, seats, ts_ms=now))
            log.append(now, *(commit(group, "t", n, 10 * number + n, now) for n in range(3)))
            log.append(now, (commit(group, "t", 0, 0)[0], None))
        log.append(-1, commit("g0", "t", 1, 7, -1))
        log.flush()
        offset = log.offset
        with (log.folder / f"{offset:020}.log").open("wb") as file:
            for producer, committed in ((5, True), (6, False), (7, None)):
                pairs = [commit("tx", "t", n, producer, START_MS) for n in range(2)]
                records = [Record(offset + n, START_MS, *pair) for n, pair in enumerate(pairs)]
                file.write(build_batch(records, offset, 0, producer, 0, transactional=True))
                offset += 2
                if committed is not None:
                    file.write(
                        build_marker(
                            producer,
                            0,
                            committed=committed,
                            coordinator_epoch=0,
                            timestamp_ms=START_MS,
                            base_offset=offset,
                        )
                    )
                    offset += 1
    return root


def write_bad_input(root: Path) -> Path:
    """Write partitions that are each wrong in another way."""
    with LogWriter(root, 0, batch_records=1) as log:
        log.append(5_000, generation("holes", 1, {"a": ONE}))
        log.append(6_000, NEWER_TYPE, NEWER_VALUE, NO_KEY)
        # what compaction leaves: offsets and generations are missing
        log.offset += 10
        log.append(7_000, generation("holes", 5, {"a": ONE, "b": TWO}))
        # the clock goes back by more than the log lasts, and before 1970
        log.append(1_000, generation("back", 1, {"a": ONE}))
        log.append(500, commit("back", "t", 0, 7, 500))
        log.append(-1, generation("back", 2, {"a": ONE, "b": TWO}))
        log.append(2_000, generation("again", 1, {"a": ONE}), deletion("again"))
        log.append(9_000, generation("again", 1, {"b": TWO}))
    with LogWriter(root, 1, batch_records=1) as log:
        for number in range(1, 5):
            log.append(number * 1_000, generation("torn", number, {"a": ONE}))
    damage(root / "__consumer_offsets-1" / f"{0:020}.log")
    foreign = root / "__consumer_offsets-2" / f"{0:020}.log"
    foreign.parent.mkdir()
    foreign.write_bytes(gzip.compress(b"no log at all" * 50))
    empty = root / "__consumer_offsets-3" / f"{0:020}.log"
    empty.parent.mkdir()
    empty.write_bytes(b"")
    return root


def damage(path: Path) -> None:
    """Turn a bit of the second batch, and cut the last one short."""
    data = bytearray(path.read_bytes())
    first = 12 + int.from_bytes(data[8:12])
    data[first + 80] ^= 1
    path.write_bytes(data[:-3])


def write_damaged(root: Path) -> Path:
    """Write two partitions, and damage the length of a batch, its format, its offset and a stretch of others."""
    for partition in (0, 1):
        with LogWriter(root, partition, batch_records=2) as log:
            for number in range(1, 61):
                now = START_MS + number * 1_000
                seats = {f"m{number // 3}": ONE, "n": TWO}
                log.append(now, generation(f"g{partition}", number, seats, ts_ms=now))
                log.append(now, *(commit(f"g{partition}", "t", 0, number, now) for _ in range(4)))
    first, second = (root / f"__consumer_offsets-{n}" / f"{0:020}.log" for n in (0, 1))
    data = bytearray(first.read_bytes())
    starts = batch_starts(data)
    data[starts[9] + 8] = 0x10
    data[starts[20] + 16] = 0
    data[starts[30] + 6] = 0x33
    first.write_bytes(data)
    data = bytearray(second.read_bytes())
    starts = batch_starts(data)
    data[starts[12] + 30 : starts[17] + 5] = bytes(starts[17] + 5 - starts[12] - 30)
    data[starts[40] + 70] ^= 1
    second.write_bytes(data)
    return root


def batch_starts(data: bytes | bytearray) -> list[int]:
    """Return where the batches start."""
    starts = []
    at = 0
    while at < len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return starts
