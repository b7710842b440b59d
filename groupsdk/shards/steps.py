"""The steps by which a shard worker's deciding part tells a driver what to do, for threads and for asyncio."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from groupsdk.shards.owner import CallBeside


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step: a value, or an error."""

    value: object = None
    error: BaseException | None = None

    def result(self) -> object:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Ask:
    """Call the user's code within poll, await what it returns where that is possible, and send the `Outcome`."""

    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class StoreCall:
    """Call what may wait for the network, and send the `Outcome`; with asyncio on a thread."""

    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Beside:
    """Start a callback of the user's beside poll; report its end to `ShardMembership.ended`."""

    call: CallBeside
    run: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Drive:
    """Poll the member, or have it join, for so long; send an `Outcome` with whether it is active."""

    timeout_ms: int | None
    """The longest wait in milliseconds; None: no limit."""
    until_active: bool = False
    """Whether to wait until the member is in a stable generation (`ensure_active_group`)."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so long, or until something is reported, without polling the member."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave the group."""

    reason: str


Step = Ask | StoreCall | Beside | Drive | Pause | LeaveGroup
"""All that a driver of shards has to carry out."""

Steps = Generator[Step, Outcome, T]
"""A sequence of steps; it is sent the outcome of each, and raises what the driver is to raise."""
