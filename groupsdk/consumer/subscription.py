"""A consumer's subscription: topics by name, or topics matched by patterns."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from groupsdk.errors import ConfigError


_PATTERN_MARK: Final = "^"


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A topic pattern evaluated by the broker (Java's class of this name, KIP-848).

    The client needs to know no topic for it, and every member has the same idea of what matches. Only the consumer
    protocol has it.

    Raises:
        ConfigError: it is not a string of at least one character.
    """

    pattern: str
    """An expression of RE2, which has to match the *whole* name of a topic: ``orders-.*``. The broker tells when it
    is not one. Internal topics match as well."""

    def __post_init__(self) -> None:
        given: object = self.pattern
        if not isinstance(given, str) or not given:
            raise ConfigError(
                f"a SubscriptionPattern is a string such as 'orders-.*', not {self.pattern!r}"
            )


TopicLike = str | re.Pattern[str] | SubscriptionPattern


class TopicSubscription:
    """Topics by name, patterns, or both.

    A text that starts with "^" is a pattern, as for librdkafka, and so is a compiled one. A pattern matches
    from the start of a topic's name; end it with "$" where it has to match all of it. In both protocols the client
    matches these; a `SubscriptionPattern` is the broker's to match.
    """

    def __init__(
        self, topics: str | TopicLike | Iterable[TopicLike], *, exclude_internal: bool = True
    ) -> None:
        if not isinstance(topics, str | re.Pattern | SubscriptionPattern | Iterable):
            raise ConfigError(f"topics must be one or several names or patterns, not {topics!r}")
        given = (
            [topics] if isinstance(topics, str | re.Pattern | SubscriptionPattern) else list(topics)
        )
        checked = [_checked(each) for each in given]
        self._names = frozenset(each for each in checked if isinstance(each, str))
        self._patterns = tuple(each for each in checked if isinstance(each, re.Pattern))
        brokers = [each for each in checked if isinstance(each, SubscriptionPattern)]
        if len(brokers) > 1:
            raise ConfigError(
                "subscribe() takes one SubscriptionPattern: join several with '|', as in 'orders-.*|returns'"
            )
        self.broker_pattern = brokers[0].pattern if brokers else None
        self._exclude_internal = exclude_internal
        self._matched: frozenset[str] = frozenset()
        if not given:
            raise ConfigError("subscribe() needs at least one topic; unsubscribe() takes none")

    @property
    def has_patterns(self) -> bool:
        """Whether matching needs the topics of the cluster."""
        return bool(self._patterns)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription, sorted: those named, and those matched so far."""
        return tuple(sorted(self._names | self._matched))

    def match(self, topics: Iterable[str], internal: Collection[str] = ()) -> bool:
        """Match patterns against the cluster's topics; return whether the subscribed topics change."""
        before = self._matched
        self._matched = frozenset(
            topic
            for topic in topics
            if not (self._exclude_internal and topic in internal)
            and any(pattern.match(topic) for pattern in self._patterns)
        )
        return self._matched | self._names != before | self._names

    def wants(self, topic: str) -> bool:
        """Return whether a partition of this topic may be assigned.

        The leader may know of a topic that a pattern matches before this consumer does."""
        return topic in self._names or any(pattern.match(topic) for pattern in self._patterns)


def _checked(topic: object) -> TopicLike:
    if isinstance(topic, SubscriptionPattern):
        return topic
    if isinstance(topic, re.Pattern):
        if not isinstance(topic.pattern, str):
            raise ConfigError(f"the pattern {topic!r} is a bytes pattern; topic names are strings")
        return topic
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"a topic must be a string or a compiled pattern, not {topic!r}")
    if not topic.startswith(_PATTERN_MARK):
        return topic
    try:
        return re.compile(topic)
    except re.error as error:
        raise ConfigError(f"the pattern {topic!r} cannot be compiled: {error}") from error
