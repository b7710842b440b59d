"""Drives a group coordinator with consumer groups: requests, time and topics by hand, no log and no network."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentStarter
from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.topics import TopicInfo
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import (
    LogRecord,
    ProducerStamp,
    RequestContext,
    Result,
)
from groupsdk.broker.settings.effective import EffectiveSettings
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.schema import Request, Response


class Topics:
    """Topics that a test makes, lets grow and deletes."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self._topics: dict[str, TopicInfo] = {}
        self._made = 0
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int, racks: tuple[tuple[str, ...], ...] = ()) -> None:
        """Creates a topic, or lets it grow."""
        found = self._topics.get(name)
        self._made += found is None
        topic_id = UUID(int=self._made) if found is None else found.topic_id
        self._topics[name] = TopicInfo(topic_id, name, partitions, racks)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._topics.keys()

    def id_of(self, name: str) -> UUID:
        return self._topics[name].topic_id


class Rig:
    """A coordinator with its records in a list; after each step another one that loads them is held equal."""

    def __init__(
        self,
        topics: Topics,
        *,
        assignors: Mapping[str, ServerAssignor] | None = None,
        start_assignment: AssignmentStarter | None = None,
        check_reload: bool = True,
        first_id: int = 0,
        **config: Any,
    ) -> None:
        settings = {
            "group_consumer_assignment_interval_ms": 0,
            "group_consumer_heartbeat_interval_ms": 500,
            "group_consumer_min_heartbeat_interval_ms": 1,
            "group_consumer_min_session_timeout_ms": 1_000,
            **config,
        }
        self.topics = topics
        self.config = GroupConfig(**settings)
        self.group_settings: dict[str, dict[str, str]] = {}
        self.assignors = assignors
        self.start_assignment = start_assignment
        self.now_ms = 1_000_000
        self.log: list[tuple[LogRecord, ProducerStamp | None] | ProducerStamp] = []
        """Records with their producer, and the producers whose transactions were committed."""
        self.check_reload = check_reload
        self._tokens = 0
        self._ids = first_id * 100
        self.answers: dict[int, Response] = {}
        self.shard = self._made()
        self.shard.loaded(self.now_ms)

    def _made(self) -> GroupCoordinatorShard:
        def new_uuid() -> str:
            self._ids += 1
            return f"{self._ids:036d}"

        settings = EffectiveSettings(
            lambda: self.config, lambda group_id: self.group_settings.get(group_id, {})
        )
        return GroupCoordinatorShard(
            GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1),
            new_uuid,
            consumer_settings=settings,
            image=lambda: self.topics,
            topics=self.topics._topics,
            assignors=self.assignors,
            start_assignment=self.start_assignment,
        )

    def send(
        self, request: Request[Any], version: int, client_id: str = "c"
    ) -> tuple[int, list[LogRecord]]:
        """Hands a request over; returns its token, and the records that it wrote."""
        self._tokens += 1
        token = self._tokens
        context = RequestContext(token, version, client_id)
        records = self.do(self.shard.handle(request, context, self.now_ms))
        return token, records

    def ask(self, request: Request[Any], version: int | None = None) -> Any:
        """Hands a request over that is answered at once; returns the answer."""
        token, _ = self.send(request, request.api.client_version if version is None else version)
        return self.answers.pop(token)

    def heartbeat(self, member_id: str, epoch: int = 0, **fields: Any) -> Any:
        """Sends a heartbeat of a member of the group g, or joins with epoch 0; returns the answer."""
        return self.ask(heartbeat_request(member_id, epoch, **fields))

    @property
    def group(self) -> ConsumerGroup:
        """The group g, as it runs."""
        found = self.shard.consumer_group("g")
        assert found is not None
        return found

    def advance(self, delta_ms: int) -> list[LogRecord]:
        """Lets time pass, and does what is due on the way; returns the records of it."""
        end_ms = self.now_ms + delta_ms
        written: list[LogRecord] = []
        for _ in range(10_000):
            due_ms = self.shard.deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            written += self.do(self.shard.advance(self.now_ms))
        else:
            raise AssertionError("time stands still")
        self.now_ms = end_ms
        return written

    def settle(self) -> list[LogRecord]:
        """Does what is due by now; deadlines are kept in buckets of 10 ms."""
        return self.advance(10)

    def do(self, result: Result) -> list[LogRecord]:
        """Does what the coordinator decided; returns the records."""
        for reply in result.replies:
            assert reply.token not in self.answers
            self.answers[reply.token] = reply.response
        if not result.records:
            return []
        written = [LogRecord(*pair) for each in result.records for pair in each.encoded()]
        self.log += [(record, result.producer) for record in written]
        for record in result.records:
            self.shard.replay(record, result.producer)
        following = self.shard.written(result, self.now_ms)
        if self.check_reload:
            self.check()
        return written + self.do(following)

    def reload(self) -> None:
        """Goes on with a coordinator that loads the log, as after a restart."""
        self.shard = self._loaded()
        self.shard.loaded(self.now_ms)

    def commit_transaction(self, producer: ProducerStamp) -> None:
        self.log.append(producer)
        self.shard.replay_marker(producer, committed=True)

    def _loaded(self) -> GroupCoordinatorShard:
        made = self._made()
        for entry in self.log:
            if isinstance(entry, ProducerStamp):
                made.replay_marker(entry, committed=True)
            else:
                record, producer = entry
                for value in made.decode([record]):
                    made.replay(value, producer)
        return made

    def check(self) -> None:
        """Holds what runs against what a coordinator loads from the log."""
        loaded = self._loaded()
        assert sorted(loaded.group_ids) == sorted(self.shard.group_ids)
        for group_id in loaded.group_ids:
            theirs, ours = loaded.consumer_group(group_id), self.shard.consumer_group(group_id)
            assert (theirs is None) == (ours is None), group_id
            if theirs is not None and ours is not None:
                assert state_of(theirs) == state_of(ours)
                check_holders(ours)
            assert loaded.offsets(group_id) == self.shard.offsets(group_id)


def heartbeat_request(
    member_id: str, epoch: int = 0, **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    """Returns a heartbeat in the group g; with epoch 0 it joins, by itself for the topic t."""
    if epoch == 0:
        joins = {"rebalance_timeout_ms": 60_000, "topic_partitions": ()}
        fields = {**joins, "subscribed_topic_names": ("t",), **fields}
    return ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields)


def state_of(group: ConsumerGroup) -> dict[str, Any]:
    names = {name.strip("_") for name in ConsumerGroup.__slots__} - {"base", "changed"}
    return {name: getattr(group, name) for name in names}


def check_holders(group: ConsumerGroup) -> None:
    """Holds that a partition is in one member's hands, and the books of it right."""
    holders: dict[UUID, dict[int, str]] = {}
    for member in group.members.values():
        for holdings in (member.assigned, member.pending):
            for topic_id, epochs in holdings.items():
                for partition in epochs:
                    held = holders.setdefault(topic_id, {})
                    assert partition not in held, (member.member_id, held[partition])
                    held[partition] = member.member_id
    assert holders == group.holders
    assert group.assignment_epoch <= group.epoch
