"""Observe a group coordinator: its requests, records, answers and expulsions."""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import (
    LogRecord,
    ProducerStamp,
    Record,
    RequestContext,
    Result,
)
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker, Replayed
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import Request


class GroupSnapshot:
    """The state of a group at one moment, as far as expulsions are judged by it."""

    __slots__ = ("members", "pending_syncs", "state")

    def __init__(self, group: ClassicGroup | None) -> None:
        self.state = None if group is None else group.state
        self.pending_syncs = frozenset(() if group is None else group.pending_syncs or ())
        self.members = (
            {}
            if group is None
            else {
                member.member_id: (member.session_timeout_ms, member.join is not None)
                for member in group.members.values()
            }
        )
        """Session timeout, and whether it has a parked join."""


class Observer:
    """An observer of all coordinators that one group has had, one after the other."""

    def fail(self, invariant: int, what: str) -> None:
        """End the run, as an invariant is broken."""
        raise NotImplementedError

    def loaded(self, shard: "ObservedShard") -> None:
        """Called when a coordinator has loaded the log."""

    def unloaded(self, shard: "ObservedShard") -> None:
        """Called when a coordinator has handed over in good order."""

    def asked(self, request: Request[Any], now_ms: int) -> None:
        """Called before a request is handled."""

    def time_passed(self, shard: "ObservedShard", before: GroupSnapshot, now_ms: int) -> None:
        """Called after what was due was done."""

    def wrote(self, record: LogRecord, producer: ProducerStamp | None) -> None:
        """Called with each record that is in the log."""

    def ended(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Called at the end of a producer's transaction, which may have offsets of several groups."""


class ObservedShard(GroupCoordinatorShard):
    """The coordinator that the broker runs, with observers."""

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        group_id: str,
        observers: Sequence[Observer],
        **more: Any,
    ) -> None:
        super().__init__(config, new_uuid, **more)
        self.group_id = group_id
        self._observers = observers
        self._live = False
        self._owed: dict[int, Request[Any]] = {}
        self._together: frozenset[int] = frozenset()
        self.commits_left = 0
        """The number of commits of one batch that are not answered yet, though all are stored."""
        self.now_ms = 0
        self.seen = False
        """Whether nothing has changed in the coordinator since this was set."""

    @property
    def classic_group(self) -> ClassicGroup | None:
        """The group, not to be changed."""
        return self.classic_group_of(self.group_id)

    def classic_group_of(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, not to be changed."""
        return self._registry.groups.get(group_id)

    @property
    def owed(self) -> int:
        """The number of requests without an answer so far."""
        return len(self._owed)

    @property
    def parked(self) -> int:
        """The number of requests that the group has parked."""
        group = self.classic_group
        if group is None:
            return 0
        return sum(
            (member.join is not None) + (member.sync is not None)
            for member in group.members.values()
        )

    @override
    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        if context.token in self._together:
            self.commits_left = 0  # their batch was not written, and each is handed over by itself
            self._together = frozenset()
        self._owed[context.token] = request
        self.seen = False
        self.now_ms = now_ms
        for observer in self._observers:
            observer.asked(request, now_ms)
        return self._given(super().handle(request, context, now_ms))

    @override
    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        for request, context in requests:
            self._owed[context.token] = request
            for observer in self._observers:
                observer.asked(request, now_ms)
        self.seen = False
        self.now_ms = now_ms
        result = super().handle_all(requests, now_ms)
        self.commits_left = len(result.replies)
        self._together = frozenset(context.token for _, context in requests)
        return self._given(result)

    @override
    def advance(self, now_ms: int) -> Result:
        self.now_ms = now_ms
        self.seen = False
        before = GroupSnapshot(self.classic_group)
        result = super().advance(now_ms)
        for observer in self._observers:
            observer.time_passed(self, before, now_ms)
        return self._given(result)

    @override
    def replay(self, record: Record, producer: ProducerStamp | None = None) -> None:
        super().replay(record, producer)
        if self._live:
            for pair in record.encoded():
                for observer in self._observers:
                    observer.wrote(LogRecord(*pair), producer)

    @override
    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        super().replay_marker(producer, committed=committed)
        if self._live:
            for observer in self._observers:
                observer.ended(producer, committed=committed)

    def replay_entry(self, entry: Replayed | Marker) -> None:
        """Take in an entry of the log, as a coordinator does that loads it."""
        if isinstance(entry, Marker):
            self.replay_marker(entry.producer, committed=entry.committed)
        else:
            for record in self.decode([entry.record]):
                self.replay(record, entry.producer)

    @override
    def written(self, result: Result, now_ms: int) -> Result:
        self._sent(result)
        return self._given(super().written(result, now_ms))

    @override
    def loaded(self, now_ms: int) -> Result:
        self._live = True
        self.now_ms = now_ms
        result = super().loaded(now_ms)
        for observer in self._observers:
            observer.loaded(self)
        return self._given(result)

    @override
    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        """Take back what could not be written."""
        return self._given(super().append_failed(result, error, now_ms))

    @override
    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        self.now_ms = now_ms
        result = self._given(super().unload(error, now_ms))
        if self._owed:
            self._observers[0].fail(8, f"moves away and owes {_names(self._owed)}")
        self._live = False
        for observer in self._observers:
            observer.unloaded(self)
        return result

    def _given(self, result: Result) -> Result:
        """Take note of replies when they are sent: after the records are in the log."""
        if not result.records:
            self._sent(result)
        return result

    def _sent(self, result: Result) -> None:
        for reply in result.replies:
            if self._owed.pop(reply.token, None) is None:
                what = type(reply.response).__name__
                self._observers[0].fail(8, f"{what} answers what has an answer")


def _names(owed: dict[int, Request[Any]]) -> str:
    return ", ".join(type(each).__name__ for each in owed.values())
