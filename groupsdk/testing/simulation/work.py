"""Do what a worker does with its partitions: read where each is, go on, and commit."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from groupsdk.errors import GroupSdkError
from groupsdk.member.events import CallerRequest
from groupsdk.types import Generation
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from groupsdk.wire.schema import Response


TopicPartition = tuple[str, int]
"""A partition, by the name of its topic."""


def commit_request(
    group_id: str,
    generation: Generation,
    instance_id: str | None,
    offsets: Mapping[TopicPartition, int],
) -> OffsetCommitRequest:
    """Ask to commit offsets by partition, as a member of a generation."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offsets[topic, partition],
                        committed_metadata=f"{generation.generation_id}",
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in by_topic(offsets).items()
        ),
    )


def fetch_request(group_id: str, places: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """Ask for the committed offsets of partitions, those of open transactions not."""
    topics = tuple(
        OffsetFetchRequestTopics(topic, partition_indexes=partitions)
        for topic, partitions in by_topic(places).items()
    )
    return OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id, topics=topics),), require_stable=True
    )


def by_topic(places: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Group partitions by topic, all sorted."""
    found: dict[str, tuple[int, ...]] = {}
    for topic, index in sorted(places):
        found[topic] = (*found.get(topic, ()), index)
    return found


class Work:
    """The partitions of one process, as of one assignment."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        random: Random,
        feed: Callable[[CallerRequest], None],
    ) -> None:
        self._group_id = group_id
        self._instance_id = instance_id
        self._random = random
        self._feed = feed
        self._asked = 0
        self._waiting: int | None = None
        self.positions: dict[TopicPartition, int | None] = {}
        """How far each partition is; None: not known yet."""

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Begin with the partitions of a new generation."""
        self.positions = dict.fromkeys(places)
        self._waiting = None

    def keep(self, places: Iterable[TopicPartition]) -> None:
        """Go on with these partitions; positions of those that are new have to be read."""
        wanted = sorted(places)
        if any(each not in self.positions for each in wanted):
            self._waiting = None  # an answer about an earlier time with one of these must not count
        self.positions = {each: self.positions.get(each) for each in wanted}

    def step(self, generation: Generation) -> None:
        """Read, or work and commit as a member of a generation, unless an answer is outstanding."""
        if not self.positions or self._waiting is not None:
            return
        unknown = [place for place, position in self.positions.items() if position is None]
        if unknown:
            self._ask(fetch_request(self._group_id, unknown))
        elif self._random.random() < 0.4:
            count = self._random.randrange(1, len(self.positions) + 1)
            done: dict[TopicPartition, int] = {}
            for place in self._random.sample(sorted(self.positions), count):
                done[place] = (self.positions[place] or 0) + 1
            self.positions.update(done)
            self._commit(generation, done)

    def _commit(self, generation: Generation, done: Mapping[TopicPartition, int]) -> None:
        self._ask(commit_request(self._group_id, generation, self._instance_id, done))

    def told(self, caller_request_id: int, answer: Response | GroupSdkError) -> None:
        """Take the answer to a request."""
        if caller_request_id != self._waiting:
            return
        self._waiting = None
        if isinstance(answer, OffsetFetchResponse):
            for group in answer.groups:
                for topic in group.topics:
                    for each in topic.partitions:
                        place = (topic.name, each.partition_index)
                        if each.error_code == 0 and place in self.positions:
                            self.positions[place] = max(each.committed_offset, 0)
        elif not isinstance(answer, OffsetCommitResponse) or _failed(answer):
            # whether it was taken is not known: what is committed decides
            self.positions = dict.fromkeys(self.positions)

    def _ask(self, request: Any) -> None:
        self._asked += 1
        self._waiting = self._asked
        self._feed(CallerRequest(self._asked, request))


def _failed(answer: OffsetCommitResponse) -> bool:
    return any(each.error_code for topic in answer.topics for each in topic.partitions)
