"""A member of a generation, and the cached decoding of subscriptions and assignments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any, Final

from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import ConsumerProtocolDecoder


Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics with their partitions, both in ascending order."""

CACHED: Final = 20_000
"""How many decoded subscriptions and assignments are cached: members send the same bytes repeatedly."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
STREAMS_ASSIGNOR: Final = "stream"
"""The assignor of Kafka Streams in the classic protocol. It places tasks, and no other assignor can take its place."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of one generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    """-1 if the group's protocol leaves it to the broker."""
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    owned: Partitions = ()
    """The partitions that it claimed to own on joining."""
    assigned: Partitions = ()
    rack_id: str | None = None
    assignor_offered: str | None = None
    problem: str | None = field(default=None, compare=False)
    """Why its subscription or assignment could not be decoded."""
    payload: tuple[Any, ...] | None = field(default=None, compare=False)
    """A `worker_protocols.Payload`; None in a group of consumers."""

    @property
    def client(self) -> tuple[str, str]:
        """The client's id and host, which are the same after a restart."""
        return self.client_id, self.client_host

    @property
    def n_partitions(self) -> int:
        return sum(len(numbers) for _, numbers in self.assigned)


@dataclass(frozen=True, slots=True)
class DecodedSubscription:
    """A decoded subscription; `problem` says why it could not be decoded, None if it could."""

    topics: tuple[str, ...] = ()
    owned: Partitions = ()
    rack_id: str | None = None
    problem: str | None = None


@lru_cache(maxsize=CACHED)
def read_subscription(data: bytes) -> DecodedSubscription:
    """Decode a consumer's subscription. Bytes that cannot be decoded become a `problem`."""
    if not data:
        return DecodedSubscription()
    try:
        found = ConsumerProtocolDecoder().subscription(data)
    except DecodeError as error:
        return DecodedSubscription(problem=str(error))
    owned = in_order(found.owned_partitions.items())
    return DecodedSubscription(tuple(sorted(set(found.topics))), owned, found.rack_id)


@lru_cache(maxsize=CACHED)
def read_assignment(data: bytes) -> tuple[Partitions, str | None]:
    """Decode a consumer's assignment. Return it and why it could not be decoded (None if it could)."""
    if not data:
        return (), None
    try:
        found = ConsumerProtocolDecoder().assignment(data)
    except DecodeError as error:
        return (), str(error)
    return in_order(found.assigned_partitions.items()), None


def in_order(partitions: Iterable[tuple[str, Sequence[int]]]) -> Partitions:
    """Sort topics, and the partitions of each."""
    return tuple((topic, tuple(sorted(numbers))) for topic, numbers in sorted(partitions))


def deviation(loads: Sequence[int]) -> float:
    """Return the standard deviation; `statistics.pstdev` computes it with fractions, which takes longer than an assignment."""
    count = len(loads)
    if not count:
        return 0.0
    total = sum(loads)
    # exact in integers, so that equal loads give exactly 0
    return sqrt(count * sum([load * load for load in loads]) - total * total) / count
