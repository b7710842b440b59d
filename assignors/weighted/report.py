"""Tell the leader what a member has, can bear and has measured: the user data of the weighted assignor."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from groupsdk.assignment import Partitions
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
)


LEAST_CAPACITY, GREATEST_CAPACITY = 0.01, 100.0
"""The bounds of a member's capacity."""

GREATEST_WEIGHT = 1e15
"""The bound of a partition's weight: sums of any number of them stay exact enough."""

_VERSION = 0
_HEAD = struct.Struct(">hid")
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class WeightReport:
    """The report of one member about itself.

    Attributes:
        capacity: how much it can bear beside the others; it counts with two significant digits, so that
            there are not too many different ones.
        owned_partitions: its last assignment.
        generation_id: the generation in which it was; -1 for none.
        weights: topic to partition to weight, for whatever the member has measured.
    """

    capacity: float = 1.0
    owned_partitions: Partitions = field(default_factory=dict)
    generation_id: int = -1
    weights: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Write it as user data. Raises EncodeError if a name or number does not fit its field."""
        # two messages of the consumer protocol, one in the user data of the other: topics and partitions
        # that carry something, and their bytes
        encoder = ConsumerProtocolEncoder()
        numbers = [weight for weights in self.weights.values() for weight in weights.values()]
        measured = ConsumerProtocolAssignment(
            {topic: tuple(weights) for topic, weights in self.weights.items()},
            struct.pack(f">{len(numbers)}d", *numbers),
        )
        head = _HEAD.pack(_VERSION, self.generation_id, self.capacity)
        return encoder.assignment(
            ConsumerProtocolAssignment(self.owned_partitions, head + encoder.assignment(measured))
        )

    @classmethod
    def decode(cls, data: bytes) -> "WeightReport":
        """Decode the user data of a member; invalid weights are left out.

        Raises DecodeError if it is not a weight report, or the capacity is out of bounds.
        """
        decoder = ConsumerProtocolDecoder()
        outer = decoder.assignment(data)
        inside = outer.user_data or b""
        if len(inside) < _HEAD.size:
            raise DecodeError(
                f"the header of a weight report has {_HEAD.size} bytes, not {len(inside)}"
            )
        version, generation_id, capacity = _HEAD.unpack_from(inside)
        if version < _VERSION:
            raise DecodeError(
                f"version {version} of a weight report is invalid; versions start at 0"
            )
        if not LEAST_CAPACITY <= capacity <= GREATEST_CAPACITY:
            raise DecodeError(
                f"the capacity is {capacity}, not {LEAST_CAPACITY} to {GREATEST_CAPACITY}"
            )
        rest = inside[_HEAD.size :]
        # Mostly what is measured is what is owned: then all up to the numbers is the same once more.
        alike = len(data) - _LENGTH.size - len(inside)
        if rest[:alike] == data[:alike] and len(rest) >= alike + _LENGTH.size:
            (size,) = _LENGTH.unpack_from(rest, alike)
            numbers = rest[alike + _LENGTH.size :]
            if len(numbers) == size:
                weights = _weights(outer.assigned_partitions, numbers)
                return cls(capacity, outer.assigned_partitions, generation_id, weights)
        measured = decoder.assignment(rest)
        weights = _weights(measured.assigned_partitions, measured.user_data or b"")
        return cls(capacity, outer.assigned_partitions, generation_id, weights)


def is_weight(value: float) -> bool:
    """Return whether a number is a valid weight: finite, and from 0 to `GREATEST_WEIGHT`."""
    return math.isfinite(value) and 0 <= value <= GREATEST_WEIGHT


def _weights(partitions: Mapping[str, Sequence[int]], data: bytes) -> dict[str, dict[int, float]]:
    count = sum(map(len, partitions.values()))
    if len(data) != 8 * count:
        raise DecodeError(
            f"{len(data)} bytes of weights for {count} partitions; {8 * count} expected"
        )
    numbers = struct.unpack(f">{count}d", data)
    each = iter(numbers)
    # The sum is finite only if all are; then the least and the greatest speak for all.
    if (
        numbers
        and math.isfinite(sum(numbers))
        and is_weight(min(numbers))
        and is_weight(max(numbers))
    ):
        return {
            topic: dict(zip(listed, each, strict=False)) for topic, listed in partitions.items()
        }
    return {
        topic: {
            partition: weight
            for partition, weight in zip(listed, each, strict=False)
            if is_weight(weight)
        }
        for topic, listed in partitions.items()
    }
