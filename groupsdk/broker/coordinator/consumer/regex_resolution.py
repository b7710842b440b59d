"""Resolve the regular expressions that members subscribe with, in RE2's syntax, against complete topic names."""

from typing import Any, Final, Protocol

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from groupsdk.broker.coordinator.consumer.topics import TopicImage


SHORTEST_INTERVAL_MS: Final = 10_000
"""The shortest interval between resolutions of a group (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""
_MATCHES_AT_ONCE: Final = 2_000
"""How many topics are matched before other requests have their turn: some 10 ms."""


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> Any:
        """Match the whole text."""


class InvalidRegexError(ValueError):
    """RE2 rejects the regular expression; the message gives the reason."""


def compiled(regex: str) -> _Pattern:
    """Compile a regular expression. Raise InvalidRegexError if RE2 rejects it."""
    import re2  # only groups that subscribe with an expression need it

    options = re2.Options()
    options.log_errors = False
    try:
        pattern: _Pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegexError(
            f"{regex!r} is not a valid RE2 regular expression: {text}"
        ) from None
    return pattern


def expressions_of(group: ConsumerGroup) -> set[str]:
    """Return the regular expressions that members of a group subscribe with."""
    return {regex for _, regex in group.subscriptions() if regex}


def needs_resolution(
    group: ConsumerGroup, image: TopicImage, refresh_interval_ms: int, now_ms: int
) -> bool:
    """Return whether a group's regular expressions must be resolved now.

    They must if one is new, the topics changed, or the last resolution is too old; but never within ten seconds of it."""
    wanted = expressions_of(group)
    if not wanted:
        return False
    last_ms = max((regex.timestamp_ms for regex in group.regexes.values()), default=None)
    if last_ms is None:
        return True
    if now_ms <= last_ms + SHORTEST_INTERVAL_MS:
        return False
    return (
        not wanted <= group.regexes.keys()
        or any(regex.version != image.version for regex in group.regexes.values())
        or now_ms >= last_ms + refresh_interval_ms
    )


class Resolution:
    """Matches the regular expressions of a group with the topics of an image as it is now, some at a time."""

    def __init__(self, regexes: set[str], image: TopicImage) -> None:
        self.regexes = regexes
        self._version = image.version
        self._patterns = {regex: compiled(regex) for regex in sorted(regexes)}
        self._topics: dict[str, list[str]] = {regex: [] for regex in self._patterns}
        self._names = tuple(image.names())
        self._done = 0

    def go_on(self) -> bool:
        """Match some more topics. Return whether all are done."""
        count = max(_MATCHES_AT_ONCE // max(len(self._patterns), 1), 1)
        names = self._names[self._done : self._done + count]
        for regex, pattern in self._patterns.items():
            self._topics[regex] += [name for name in names if pattern.fullmatch(name)]
        self._done += count
        return self._done >= len(self._names)

    def found(self, now_ms: int) -> dict[str, ResolvedRegex]:
        """Return the topics of each expression, after `go_on` returned True."""
        return {
            regex: ResolvedRegex(frozenset(topics), self._version, now_ms)
            for regex, topics in self._topics.items()
        }
