"""Resolve the regular expressions that members subscribe with, in RE2's syntax, against complete topic names."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from groupsdk.broker.consumer_groups.group import ConsumerGroup, ResolvedRegex
from groupsdk.broker.consumer_groups.topics import TopicImage


SHORTEST_INTERVAL_MS: Final = 10_000
"""The shortest interval between resolutions of a group (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> Any:
        """Match the whole text."""


class InvalidRegexError(ValueError):
    """RE2 rejects the regular expression; the message gives the reason."""


def compiled(regex: str) -> _Pattern:
    """Compile a regular expression.

    Raises:
        InvalidRegexError: RE2 rejects it.
    """
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


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a regular expression matches completely.

    Raises:
        InvalidRegexError: RE2 rejects it.
    """
    pattern = compiled(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


def expressions_of(group: ConsumerGroup) -> set[str]:
    """Return the regular expressions that members of a group subscribe with."""
    return {regex for _, regex in group.subscriptions() if regex}


def needs_resolution(
    group: ConsumerGroup, image: TopicImage, refresh_interval_ms: int, now_ms: int
) -> bool:
    """Return whether a group's regular expressions must be resolved now.

    They must if one is new, the topics changed, or the last resolution is too old; but never within ten seconds of it.

    Args:
        group: the group.
        image: the current topics.
        refresh_interval_ms: group.consumer.regex.refresh.interval.ms.
        now_ms: the time, in milliseconds since 1970.
    """
    wanted = expressions_of(group)
    if not wanted:
        return False
    last_ms = max((each.timestamp_ms for each in group.regexes.values()), default=None)
    if last_ms is None:
        return True
    if now_ms <= last_ms + SHORTEST_INTERVAL_MS:
        return False
    return (
        not wanted <= group.regexes.keys()
        or any(each.version != image.version for each in group.regexes.values())
        or now_ms >= last_ms + refresh_interval_ms
    )


def resolved(regex: str, image: TopicImage, now_ms: int) -> ResolvedRegex:
    """Resolve one regular expression against all topics of an image."""
    return ResolvedRegex(matching(regex, image.names()), image.version, now_ms)
