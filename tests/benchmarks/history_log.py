"""Write a large `__consumer_offsets` for the benchmarks of the history: commits, and a group record in a hundred."""

from pathlib import Path
from random import Random

from examples.history_log import LogWriter, Seat, commit, generation


GROUPS = 50
BATCH = 9
GROUP_RECORDS = 100
"""One record in so many is a generation, of eight members with five partitions each."""
SEGMENT_BYTES = 100 * 1024 * 1024
START_MS = 1_790_899_200_000


def write_log(root: Path, records: int, *, partitions: int = 2, compression: int = 0) -> int:
    total = 0
    for partition in range(partitions):
        total += _write_partition(root, partition, records // partitions, compression)
    return total


def _write_partition(root: Path, partition: int, records: int, compression: int) -> int:
    random = Random(partition)
    numbers = dict.fromkeys(range(GROUPS), 0)
    now = START_MS
    with LogWriter(
        root,
        partition,
        compression=compression,
        batch_records=BATCH,
        segment_bytes=min(SEGMENT_BYTES, max(1, records * 100 // 4)),
    ) as log:
        while log.offset < records:
            group = random.randrange(GROUPS)
            name = f"group-{partition}-{group:02}"
            now += random.randrange(40)
            if random.random() < BATCH / GROUP_RECORDS:
                numbers[group] += 1
                pair = generation(name, numbers[group], _seats(numbers[group]), ts_ms=now)
                log.append(now, pair)
                log.flush()
            else:
                topic = f"topic-{group % 7}"
                base = log.offset
                pairs = [commit(name, topic, n, base + n, now) for n in range(BATCH)]
                log.append(now, *pairs)
        return log.offset


def _seats(number: int) -> dict[str, Seat]:
    """Share forty partitions out to eight members, one of which is another one each time."""
    gone = number % 8
    members = [f"member-{n}-{number if n == gone else 0:08}" for n in range(8)]
    return {
        member: Seat(f"client-{place}", {"topic-0": list(range(5 * place, 5 * place + 5))})
        for place, member in enumerate(members)
    }
