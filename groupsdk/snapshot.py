"""Read a member's whole state at one moment."""

import logging
import sys
from collections.abc import Callable
from typing import Self

from groupsdk.errors import NoGenerationError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member.consumer.state import ConsumerMemberState, ConsumerMemberView
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.types import Generation


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """Generation, member id, state and assignment, read at once.

    Two reads one after the other may straddle a rebalance (KAFKA-19242); one snapshot cannot.
    """

    group_id: str
    """The group."""
    group_instance_id: str | None
    """The instance id of a static member (KIP-345); otherwise None."""
    generation: Generation
    """The generation and member id; the generation's id is -1 outside the group."""
    state: MemberState
    """The state in terms of the classic protocol."""
    stable: bool
    """Whether the member is in a stable generation and may act as a member: its state is stable, and the clock shows
    that neither its session nor its poll deadline has passed."""
    is_leader: bool
    """Whether the member leads the generation; nobody does in the consumer protocol."""
    assignment_epoch: int
    """The number of assignments received so far: it tells a new assignment from a repeated delivery, and from a new
    generation that keeps the assignment."""
    rejoin_pending: bool
    """Whether a rebalance is needed or under way."""
    coordinator: str | None
    """The group coordinator's address; None while it is not known."""
    trouble: str | None
    """Why the coordinator cannot be found or reached at present; None if it can."""
    holds: bool = False
    """Whether the group cannot have reassigned the member's work: true while `stable`, and also during a rebalance,
    when a cooperative consumer keeps reading the partitions that it keeps."""

    consumer_state: ConsumerMemberState | None = None
    """The state in the consumer protocol (KIP-848); None for a member of the classic protocol, and before the first
    use. `state` is its classic equivalent, so that programs need not know which protocol a group uses."""

    @property
    def member_id(self) -> str:
        """The member id; "" while there is none."""
        return self.generation.member_id

    def to_confluent(self) -> bytes:
        """Return what `Producer.send_offsets_to_transaction` of confluent-kafka takes as the group's metadata.

        The same as its own `Consumer.consumer_group_metadata()` would be: generation, member id and instance
        id, by which the broker refuses the offsets of a member that is out of the group (KIP-447).

        Raises:
            NoGenerationError: the member is in no generation. Without one the broker would fence nothing.
            ValueError: librdkafka takes only printable ASCII in the names, and the group's are not.
        """
        generation = self.generation
        if generation.generation_id < 0 or not generation.has_member_id:
            raise NoGenerationError(
                f"group={self.group_id}: the member is in no generation, and a transaction without one would"
                " be fenced by nobody; poll until the member is stable"
            )
        names = [self.group_id, generation.member_id]
        if self.group_instance_id is not None:
            names.append(self.group_instance_id)
        for name in names:
            if not (name.isascii() and name.isprintable()):
                raise ValueError(f"librdkafka takes only printable ASCII as a name, not {name!r}")
        # librdkafka reads the number in the machine's own byte order
        head = b"CGMDv2:" + generation.generation_id.to_bytes(4, sys.byteorder, signed=True)
        group, member, *instance = (name.encode() + b"\0" for name in names)
        return head + group + member + (b"\0" + instance[0] if instance else b"\1")

    @classmethod
    def of(cls, config: MemberConfig, view: MemberView, now_ms: int) -> Self:
        """Build a snapshot from a view of the member's machine; the time decides whether the membership is valid."""
        holds = view.holds_at(now_ms)
        return cls(
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            generation=view.generation,
            state=view.state,
            stable=holds and view.state is MemberState.STABLE,
            is_leader=view.is_leader,
            assignment_epoch=view.assignment_epoch,
            rejoin_pending=view.joining,
            coordinator=None if view.coordinator is None else str(view.coordinator),
            trouble=view.trouble,
            holds=holds,
            consumer_state=view.consumer_state if isinstance(view, ConsumerMemberView) else None,
        )


def log_member(
    logger: logging.Logger,
    level: int,
    snapshot: Callable[[], MemberSnapshot],
    message: str,
    *arguments: object,
) -> None:
    """Log a line, preceded by group, member and generation; the snapshot is taken only if the line is logged."""
    if logger.isEnabledFor(level):
        member = snapshot()
        logger.log(
            level,
            f"group=%s member=%s generation=%d: {message}",  # noqa: G004  # message is a format too
            member.group_id,
            member.member_id or "-",
            member.generation.generation_id,
            *arguments,
        )
