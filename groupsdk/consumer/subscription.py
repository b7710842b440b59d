"""Hold what a consumer is subscribed to: topics by name, or those that patterns match."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from groupsdk.errors import ConfigError


_PATTERN_MARK: Final = "^"

TopicLike = str | re.Pattern[str]


class TopicSubscription:
    """Topics by name, patterns, or both.

    A text that starts with "^" is a pattern, as for librdkafka, and so is a compiled one. A pattern matches
    from the start of a topic's name; end it with "$" where it has to match all of it.

    Args:
        topics: names and patterns.
        exclude_internal: whether patterns pass over Kafka's own topics.

    Raises:
        ConfigError: it is empty, or one of them is no name and no pattern.
    """

    def __init__(
        self, topics: str | TopicLike | Iterable[TopicLike], *, exclude_internal: bool = True
    ) -> None:
        if not isinstance(topics, str | re.Pattern | Iterable):
            raise ConfigError(f"topics are names or patterns, one or several, not {topics!r}")
        given = [topics] if isinstance(topics, str | re.Pattern) else list(topics)
        self._names: frozenset[str] = frozenset(
            each for each in map(_checked, given) if isinstance(each, str)
        )
        self._patterns = tuple(
            each for each in map(_checked, given) if isinstance(each, re.Pattern)
        )
        self._exclude_internal = exclude_internal
        self._matched: frozenset[str] = frozenset()
        if not given:
            raise ConfigError("subscribe() needs at least one topic; unsubscribe() takes none")

    @property
    def has_patterns(self) -> bool:
        """Whether the topics of the cluster have to be known."""
        return bool(self._patterns)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to join with, sorted: those named, and those matched so far."""
        return tuple(sorted(self._names | self._matched))

    def match(self, topics: Iterable[str], internal: Collection[str] = ()) -> bool:
        """Take note of the cluster's topics; tell whether that changes what is subscribed to."""
        before = self._matched
        self._matched = frozenset(
            topic
            for topic in topics
            if not (self._exclude_internal and topic in internal)
            and any(pattern.match(topic) for pattern in self._patterns)
        )
        return self._matched | self._names != before | self._names

    def wants(self, topic: str) -> bool:
        """Tell whether a partition of this topic may be assigned.

        The leader may know of a topic that a pattern matches before this consumer does.
        """
        return topic in self._names or any(pattern.match(topic) for pattern in self._patterns)


def _checked(topic: object) -> TopicLike:
    if isinstance(topic, re.Pattern):
        if not isinstance(topic.pattern, str):
            raise ConfigError(f"the pattern {topic!r} is one of bytes; topics are texts")
        return topic
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"a topic is a text, or a compiled pattern; not {topic!r}")
    if not topic.startswith(_PATTERN_MARK):
        return topic
    try:
        return re.compile(topic)
    except re.error as error:
        raise ConfigError(f"the pattern {topic!r} cannot be compiled: {error}") from error
