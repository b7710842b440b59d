"""Make up groups that live for hours, and write the log that Kafka's coordinator would have written of them.

What happens is drawn first, from the members' side: who comes, leaves, dies or starts again when, and who commits how
often. What the coordinator notices of it follows from its timers, and is the truth that causes are held against.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.history.explain.changes import Cause


BEGIN_MS: Final = 1_790_899_200_000
SESSION_MS: Final = 45_000
HEARTBEAT_MS: Final = 3_000
_TOPIC: Final = "t"


@dataclass(slots=True)
class _Client:
    client_id: str
    instance_id: str | None
    topics: tuple[str, ...] = (_TOPIC,)


@dataclass(slots=True)
class _Group:
    """One group: its members by their ids, and what the coordinator will notice when."""

    name: str
    random: Random
    commit_ms: int
    """How often its members commit; 0: never."""
    static: bool
    partitions: int = 12
    members: dict[str, _Client] = field(default_factory=dict)
    number: int = 0
    made: int = 0
    truth: dict[int, frozenset[Cause]] = field(default_factory=dict)

    def write(self, log: LogWriter, rebalances: int) -> None:
        """Write as many generations."""
        now_ms = BEGIN_MS + self.random.randrange(60_000)
        self._join()
        self._generation(log, now_ms, {Cause.JOIN})
        while self.number < rebalances:
            now_ms = self._go_on(log, now_ms)

    def _go_on(self, log: LogWriter, begun_ms: int) -> int:
        """Draw what comes next, commit until it is noticed, and write the generation that comes of it."""
        # storms and quiet hours
        calm = self.random.choice([4_000, 20_000, 120_000, 900_000])
        happens_ms = begun_ms + int(self.random.expovariate(1 / calm)) + 200
        deeds = ["join"] * 3 + ["leave"] * 4 + ["die"] * 2 + ["restart", "resubscribe", "grow"]
        deed = self.random.choice(deeds)
        if len(self.members) < 2 or (deed == "join" and len(self.members) > 6):
            deed = "join" if len(self.members) < 2 else "leave"
        gone = None
        if deed in ("leave", "die", "restart"):
            gone = self.random.choice([*self.members])
        # a static member does not say that it leaves
        dies = deed == "die" or (deed == "leave" and self.static)
        noticed_ms = happens_ms
        if dies:
            noticed_ms = max(begun_ms, happens_ms - self.random.randrange(HEARTBEAT_MS))
            noticed_ms += SESSION_MS
        self._commits(log, begun_ms, noticed_ms, gone, happens_ms, not dies)
        client = None if gone is None else self.members.pop(gone)
        # the others notice with their next heartbeats
        stable_ms = noticed_ms + self.random.randrange(100, HEARTBEAT_MS + 300)
        if deed == "restart" and self.static:
            # it takes its place again, and the generation is written once more
            self._join(client)
            self._generation(log, happens_ms, self.truth[self.number], again=True)
            return happens_ms
        causes = {Cause.EXPIRY} if dies else self._does(deed, client)
        if self.random.random() < 0.05:
            # within the same rebalance another one comes
            self._join()
            causes |= {Cause.JOIN}
        self._generation(log, stable_ms, causes)
        return stable_ms

    def _does(self, deed: str, client: _Client | None) -> set[Cause]:
        """Do what the members do of their own; tells the causes."""
        if deed == "restart":
            self._join(client)
            return {Cause.CLIENT_RESTART}
        if deed == "join":
            self._join()
            return {Cause.JOIN}
        if deed == "resubscribe":
            other = self.random.choice([*self.members.values()])
            other.topics = (_TOPIC, "u") if other.topics == (_TOPIC,) else (_TOPIC,)
            return {Cause.SUBSCRIPTION_CHANGE}
        if deed == "grow":
            self.partitions += 3
            return {Cause.TOPIC_GROWTH}
        return {Cause.LEAVE}

    def _join(self, client: _Client | None = None) -> None:
        self.made += 1
        if client is None:
            name = f"{self.name}-{self.made}"
            client = _Client(name, f"i-{name}" if self.static else None)
        self.members[f"{client.client_id}-{self.made:08x}"] = client

    def _shares(self) -> dict[str, list[int]]:
        ids = sorted(self.members)
        return {
            each: list(range(place, self.partitions, len(ids))) for place, each in enumerate(ids)
        }

    def _generation(
        self, log: LogWriter, ts_ms: int, causes: Set[Cause], *, again: bool = False
    ) -> None:
        self.number += not again
        self.truth[self.number] = frozenset(causes)
        shares = self._shares()
        seats = {
            member_id: Seat(
                client.client_id,
                {_TOPIC: shares[member_id]},
                client.topics,
                client.instance_id,
                session_timeout_ms=SESSION_MS,
            )
            for member_id, client in self.members.items()
        }
        log.append(ts_ms, generation(self.name, self.number, seats, ts_ms=ts_ms - 2))

    def _commits(
        self,
        log: LogWriter,
        begun_ms: int,
        until_ms: int,
        gone: str | None,
        gone_ms: int,
        farewell: bool,
    ) -> None:
        """Write what the members commit; one that leaves does so once more."""
        if not self.commit_ms:
            return
        found: list[tuple[int, str]] = []
        for member_id in self.members:
            end_ms = min(until_ms, gone_ms) if member_id == gone else until_ms
            first_ms = begun_ms + self.random.randrange(self.commit_ms)
            # as many as are needed: calm hours are not written out
            times = [*range(first_ms, end_ms, self.commit_ms)]
            found += [(at, member_id) for at in times[:3] + times[3:][-3:]]
            if member_id == gone and farewell:
                found.append((end_ms, member_id))
        shares = self._shares()
        for at_ms, member_id in sorted(found):
            for partition in shares[member_id][:2]:
                log.append(at_ms, commit(self.name, _TOPIC, partition, at_ms - BEGIN_MS, at_ms))


def write_groups(
    root: Path, seed: int, *, groups: int = 40, rebalances: int = 40, partition: int = 40
) -> Mapping[tuple[str, int], frozenset[Cause]]:
    """Write the log of made-up groups; returns of what each of their generations came."""
    random = Random(seed)
    found: dict[tuple[str, int], frozenset[Cause]] = {}
    with LogWriter(root, partition, batch_records=200) as log:
        for group in _groups(random, groups):
            group.write(log, rebalances)
            found |= {(group.name, number): causes for number, causes in group.truth.items()}
    return found


def _groups(random: Random, count: int) -> Iterator[_Group]:
    for place in range(count):
        # one in eight has nothing to commit, and one in five is static
        commit_ms = 0 if place % 8 == 7 else random.choice([1_000, 5_000, 5_000, 30_000])
        yield _Group(f"made-up-{place}", Random(random.random()), commit_ms, static=place % 5 == 4)
