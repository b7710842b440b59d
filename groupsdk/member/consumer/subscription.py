"""The subscription of a consumer-protocol member, and its form in `metadata()`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from groupsdk.assignment import Subscription
from groupsdk.assignment.subscriptions import decode_subscriptions, encode_subscription
from groupsdk.errors import DecodeError, MetadataError
from groupsdk.types import ProtocolMetadata


PROTOCOL_NAME: Final = "consumer"
"""The name of the one protocol in `metadata()`, and of every generation: `group.protocol=consumer`."""
PATTERN_NAME: Final = "pattern"
"""The name under which `metadata()` carries a pattern for the broker."""


@dataclass(frozen=True, slots=True)
class HeartbeatSubscription:
    """The topics that the next heartbeat names: by name, by a pattern for the broker, or both."""

    topics: frozenset[str] = frozenset()
    """The topics by name."""
    pattern: str | None = None
    """An RE2 expression that the broker matches against whole names; None: no pattern."""

    def protocols(self) -> list[ProtocolMetadata]:
        """Return the subscription as `metadata()` returns it: in classic encoding, and the pattern."""
        topics = encode_subscription(Subscription(topics=tuple(sorted(self.topics))))
        given = [ProtocolMetadata(PROTOCOL_NAME, topics)]
        if self.pattern is not None:
            given.append(ProtocolMetadata(PATTERN_NAME, self.pattern.encode()))
        return given

    @classmethod
    def of(cls, protocols: Sequence[ProtocolMetadata]) -> Self:
        """Parse the result of `metadata()`; MetadataError if there is no subscription under the name "consumer"."""
        given = dict(protocols)
        unknown = sorted(given.keys() - {PROTOCOL_NAME, PATTERN_NAME})
        if unknown or PROTOCOL_NAME not in given:
            raise MetadataError(
                "metadata() of a member of the consumer protocol must be"
                f" HeartbeatSubscription(...).protocols(), not protocols named {sorted(given)}"
            )
        try:
            read = decode_subscriptions({"": given[PROTOCOL_NAME]})[""]
            pattern = given[PATTERN_NAME].decode() if PATTERN_NAME in given else None
        except (DecodeError, UnicodeDecodeError) as error:
            raise MetadataError(f"metadata() holds no subscription: {error}") from error
        return cls(frozenset(read.topics), pattern)
