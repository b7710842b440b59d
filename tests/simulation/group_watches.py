"""Hold the watches of all groups of a run, and tell each of them what it has to hear."""

from collections.abc import Iterable, Iterator
from typing import Any

from groupsdk.broker.coordinator.runtime.contract import LogRecord, ProducerStamp
from groupsdk.wire.schema import Request, Response
from tests.simulation.consumer_watch import ConsumerWatch, WatchedShard
from tests.simulation.observed_shard import GroupSnapshot, ObservedShard


class GroupWatches:
    """The observer of a coordinator with several groups."""

    def __init__(self, watches: Iterable[ConsumerWatch]) -> None:
        self._by_group = {each.group_id: each for each in watches}
        self.loaded_in: dict[str, int | None] = {}
        """The generation in which the coordinator loaded each group last, if it was a classic one."""

    def __getitem__(self, group_id: str) -> ConsumerWatch:
        return self._by_group[group_id]

    def __iter__(self) -> Iterator[ConsumerWatch]:
        """Go through the watches of all groups."""
        return iter(self._by_group.values())

    @property
    def group_ids(self) -> tuple[str, ...]:
        return tuple(self._by_group)

    @property
    def epochs(self) -> int:
        """How many epochs there were, of all groups."""
        return sum(each.epochs for each in self)

    @property
    def commits(self) -> int:
        """How many commits were acknowledged, of all groups."""
        return sum(each.offsets.commits for each in self)

    @property
    def transactions(self) -> int:
        """How many committed transactions had offsets, of all groups."""
        return sum(each.offsets.transactions for each in self)

    @property
    def overtaken(self) -> int:
        """How many commits set back what their own process had committed, of all groups."""
        return sum(each.offsets.overtaken for each in self)

    @property
    def shard(self) -> WatchedShard | None:
        """The coordinator of all groups; None where there is none."""
        return next(iter(self)).shard

    def loaded(self, shard: ObservedShard) -> None:
        """Take note of a coordinator that takes up service."""
        for each in self:
            each.loaded(shard)
            classic = each.classic
            self.loaded_in[each.group_id] = None if classic is None else classic.generation

    def unloaded(self, shard: ObservedShard) -> None:
        """Take note of one that ends in good order."""
        for each in self:
            each.unloaded(shard)

    def lost(self) -> None:
        """Take note that there is no coordinator, in whatever order."""
        for each in self:
            each.lost()

    def asked(self, request: Request[Any], now_ms: int) -> None:
        """Take note of a request."""

    def time_passed(self, shard: ObservedShard, before: GroupSnapshot, now_ms: int) -> None:
        """Take note of what was done because it was due."""

    def timed_out(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Take note of a member that is removed by time."""
        self[group_id].timed_out(member_id, now_ms)

    def answered(self, request: Request[Any], response: Response, now_ms: int) -> None:
        """Check an answer as it is sent."""
        for each in self:
            each.answered(request, response, now_ms)

    def wrote(self, record: LogRecord, producer: ProducerStamp | None) -> None:
        """Check a record that is in the log."""
        for each in self:
            each.wrote(record, producer)

    def ended(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Check the end of a producer's transaction, which may have offsets of several groups."""
        for each in self:
            each.ended(producer, committed=committed)

    def fail(self, invariant: int, what: str) -> None:
        """End the run, as an invariant is broken."""
        next(iter(self)).fail(invariant, what)

    def check(self) -> None:
        """Check what must hold of the groups now."""
        for each in self:
            each.check()

    def check_state(self, shard: WatchedShard, invariant: int) -> None:
        """Hold a coordinator against the log."""
        for each in self:
            each.check_state(shard, invariant)

    def topic_deleted(self, name: str) -> None:
        """Take note that the offsets of a topic go."""
        for each in self:
            each.offsets.topic_deleted(name)
