"""Resolve the topic ids in heartbeats to names."""

from collections.abc import Collection, Iterable
from random import Random
from uuid import UUID

from groupsdk.backoff import ExponentialBackoff
from groupsdk.consumer_membership.heartbeat_fields import PartitionsById
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)


class TopicNames:
    """The known topic names, and when to request missing ones.

    A broker may not have heard of a new topic yet, so unknown ids are asked for again, ever more rarely.

    Args:
        backoff: between requests that do not name a topic.
        random: where jitter comes from.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self._backoff = backoff
        self._random = random
        self._names: dict[UUID, str] = {}
        self._attempts = 0
        self._ask_at_ms = 0

    def missing(self, topic_ids: Iterable[UUID]) -> set[UUID]:
        """Return those of these topics whose names are not known.

        Args:
            topic_ids: the topics.
        """
        return {each for each in topic_ids if each not in self._names}

    def named(self, partitions: PartitionsById) -> dict[str, tuple[int, ...]]:
        """Return partitions by the names of their topics, all of which have to be known.

        Of a topic that was deleted and made again, both ids may be in it for a moment: they are added up.

        Args:
            partitions: the partition numbers, by topic id.
        """
        by_name: dict[str, set[int]] = {}
        for topic_id, numbers in partitions.items():
            by_name.setdefault(self._names[topic_id], set()).update(numbers)
        return {name: tuple(sorted(by_name[name])) for name in sorted(by_name)}

    def due(self, now_ms: int) -> bool:
        """Return whether a request may be sent now, if names are missing."""
        return now_ms >= self._ask_at_ms

    @property
    def ask_at_ms(self) -> int:
        """When the next request may be sent."""
        return self._ask_at_ms

    def request(self, topic_ids: Iterable[UUID], now_ms: int) -> MetadataRequest:
        """Return the request to send now; the next one waits for a backoff, unless this succeeds.

        Args:
            topic_ids: the topics to name.
            now_ms: the time.
        """
        self._ask_at_ms = now_ms + self._backoff.backoff_ms(self._attempts, self._random)
        self._attempts += 1
        topics = tuple(MetadataRequestTopic(topic_id=each, name=None) for each in sorted(topic_ids))
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic, if known.

        Args:
            topic_id: the topic.
        """
        return self._names.get(topic_id)

    def learn(self, response: MetadataResponse, wanted: Collection[UUID]) -> set[UUID]:
        """Store the names of some topics from a response. Return the topics that were named.

        Args:
            response: the response.
            wanted: the topics whose names are missing; others are ignored.
        """
        learned: set[UUID] = set()
        for topic in response.topics:
            if topic.topic_id in wanted and topic.name and not topic.error_code:
                self._names[topic.topic_id] = topic.name
                learned.add(topic.topic_id)
        if learned:
            self._attempts = 0
        return learned

    def keep_only(self, topic_ids: Iterable[UUID]) -> None:
        """Forget all names but these, and request new ones without a backoff.

        Args:
            topic_ids: the topics whose names are kept.
        """
        wanted = set(topic_ids)
        self._names = {each: name for each, name in self._names.items() if each in wanted}
        self._attempts = 0
        self._ask_at_ms = 0
