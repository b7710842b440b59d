"""Make up a day of a cluster with storms in it, and explain it: tables and a report from the log alone.

    python -m examples.history_day [DIRECTORY]

Five groups live through a day of 2026: one is calm, one is deployed twice (a rolling restart), one flaps for an hour
because a member is too slow for its session timeout, one grows by a member at noon and by partitions in the
evening, and one loses its coordinator in the night. The log is written as Kafka writes it.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from examples.history_log import LogWriter, Seat, commit, generation


MIDNIGHT_MS = 1_790_899_200_000
"""2026-10-02, 00:00 UTC."""
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
COMMIT_MS = 30_000


@dataclass(slots=True)
class Group:
    """A group of consumers whose leader assigns by ranges."""

    name: str
    topic: str
    partitions: int
    partition_of_log: int
    members: dict[str, str] = field(default_factory=dict[str, str])
    """Member id to client id."""
    number: int = 0
    names: int = 0
    offsets: dict[int, int] = field(default_factory=dict[int, int])

    def join(self, client_id: str) -> None:
        """Let a member come."""
        self.names += 1
        self.members[f"{client_id}-{self.names:08x}"] = client_id

    def leave(self, client_id: str) -> None:
        """Let a member go."""
        self.members = {each: name for each, name in self.members.items() if name != client_id}

    def shares(self) -> dict[str, list[int]]:
        """Share the partitions out in ranges, by the order of the member ids."""
        shares: dict[str, list[int]] = {}
        ids = sorted(self.members)
        first = 0
        for place, member_id in enumerate(ids):
            size = self.partitions // len(ids) + (place < self.partitions % len(ids))
            shares[member_id] = list(range(first, first + size))
            first += size
        return shares


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a group, after which it rebalances."""

    at_ms: int
    group: Group
    comes: Sequence[str] = ()
    goes: Sequence[str] = ()
    grows_to: int = 0
    new_coordinator: bool = False


def day(random: Random) -> tuple[list[Group], list[Event]]:
    """Say what happens."""
    calm = Group("billing", "invoices", 8, 0)
    rolling = Group("checkout", "orders", 24, 1)
    flapping = Group("search-index", "products", 12, 2)
    growing = Group("analytics", "clicks", 16, 3)
    moved = Group("mail", "outbox", 6, 4)
    events: list[Event] = []
    for group, size in ((calm, 2), (rolling, 6), (flapping, 4), (growing, 3), (moved, 3)):
        for place in range(size):
            at = 5 * MINUTE_MS + place * random.randint(500, 4_000)
            events.append(Event(at, group, comes=[f"{group.name}-{place}"]))
    for hour in (9, 15):
        # one instance after the other goes, and comes back under the same name
        at = hour * HOUR_MS
        for place in range(6):
            name = f"checkout-{place}"
            events.append(Event(at, rolling, goes=[name]))
            at += random.randint(8_000, 20_000)
            events.append(Event(at, rolling, comes=[name]))
            at += random.randint(5_000, 15_000)
    at = 13 * HOUR_MS
    while at < 14 * HOUR_MS:
        # expelled for its silence, it finds out and joins again
        events.append(Event(at, flapping, goes=["search-index-2"]))
        at += random.randint(15_000, 40_000)
        events.append(Event(at, flapping, comes=["search-index-2"]))
        # no session of 45 s is over sooner
        at += random.randint(50_000, 90_000)
    events += [
        Event(12 * HOUR_MS, growing, comes=["analytics-3"]),
        Event(19 * HOUR_MS, growing, grows_to=24),
        Event(3 * HOUR_MS, moved, new_coordinator=True, goes=["mail-0"], comes=["mail-0"]),
        Event(20 * HOUR_MS, calm, goes=["billing-1"]),
        Event(20 * HOUR_MS + 7 * MINUTE_MS, calm, comes=["billing-1"]),
    ]
    groups = [calm, rolling, flapping, growing, moved]
    return groups, sorted(events, key=lambda event: event.at_ms)


def write_day(root: Path, *, seed: int = 7) -> int:
    """Write the day's log below `root`; returns how many rebalances are in it."""
    random = Random(seed)
    groups, events = day(random)
    logs = {group.name: LogWriter(root, group.partition_of_log, compression=3) for group in groups}
    waiting = [*events, Event(24 * HOUR_MS, groups[0])]
    now = 0
    count = 0
    for event in waiting:
        while now + COMMIT_MS <= event.at_ms:
            now += COMMIT_MS
            for group in groups:
                commit_all(logs[group.name], group, now, random)
        if event.at_ms >= 24 * HOUR_MS:
            break
        happen(logs[event.group.name], event)
        count += 1
    for log in logs.values():
        log.close()
    return count


def happen(log: LogWriter, event: Event) -> None:
    """Write what an event makes of its group: last commits of who leaves in peace, and a new generation."""
    group = event.group
    at = MIDNIGHT_MS + event.at_ms
    is_expelled = event.goes and group.name == "search-index"
    for name in event.goes:
        if not is_expelled:
            for member_id, numbers in group.shares().items():
                if group.members[member_id] == name:
                    pairs = [
                        commit(group.name, group.topic, n, offset_of(group, n), at) for n in numbers
                    ]
                    log.append(at, *pairs)
        group.leave(name)
    for name in event.comes:
        group.join(name)
    group.partitions = event.grows_to or group.partitions
    group.number += 1
    if event.new_coordinator:
        log.flush()
        log.leader_epoch += 1
    seats = {
        member_id: Seat(group.members[member_id], {group.topic: numbers}, [group.topic])
        for member_id, numbers in group.shares().items()
    }
    seats = {each: replace(seat, host="/10.0.0.7") for each, seat in seats.items()}
    log.append(at, generation(group.name, group.number, seats, protocol="range", ts_ms=at))
    log.flush()


def commit_all(log: LogWriter, group: Group, now: int, random: Random) -> None:
    """Write the commits that members make as time goes by."""
    silent = group.name == "search-index" and 13 * HOUR_MS - MINUTE_MS < now < 14 * HOUR_MS
    stuck: set[int] = set()
    if silent:
        # what is expelled later has not committed for its session timeout
        for member_id, numbers in group.shares().items():
            stuck.update(numbers if group.members[member_id] == "search-index-2" else ())
    for number in sorted(set(range(group.partitions if group.members else 0)) - stuck):
        group.offsets[number] = offset_of(group, number) + random.randint(10, 500)
        at = MIDNIGHT_MS + now
        log.append(at, commit(group.name, group.topic, number, group.offsets[number], at))


def offset_of(group: Group, number: int) -> int:
    """Look up how far the group is on a partition."""
    return group.offsets.get(number, 0)


def main(root: Path) -> None:
    """Write the day, and run the history over it."""
    # Spark takes seconds to import, which writing the log need not wait for
    log = root / "log"
    count = write_day(log)
    print(f"{count} rebalances in {log}")
    from groupsdk.cli.main import main as groupsdk

    code = groupsdk(
        [
            "history",
            "run",
            "--segments",
            str(log),
            "--out",
            str(root / "tables"),
            "--master",
            "local[2]",
        ]
    )
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, help="default: a new one")
    main(parser.parse_args().directory or Path(tempfile.mkdtemp(prefix="history-day-")))
