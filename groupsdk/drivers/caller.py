"""Decide what the caller does next, and check what user code returns; shared by all drivers."""

import reprlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from groupsdk.coordinator import AsyncGroupCallbacks
from groupsdk.errors import AssignmentError, GroupSdkError, MemberClosedError, MetadataError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.events import (
    CallerEvent,
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
)
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.types import GroupMembers, ProtocolMetadata


if TYPE_CHECKING:
    from groupsdk.wire.schema import Response

_MAX_TIMEOUT_MS = 2**62  # nobody waits for so long


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise an error to the caller, and post that it was raised."""

    error: GroupSdkError
    report: CallerEvent | None
    """The event to post before; None: nothing, as the engine keeps the error."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run the user's code for a callback."""

    call: Call


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait: nothing is due, until `until_ms` if nothing changes; `settled` once the view reflects all posted events."""

    settled: bool
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Await:
    """In a call to the coordinator: wait until the future is done or the timeout is over."""

    answer: "Future[Response]"
    timeout_ms: int
    """The longest wait, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """In a call to the coordinator: sleep before the next attempt."""

    delay_ms: int
    """How long, in milliseconds."""
    after: GroupSdkError | None = None
    """The error of the last attempt; None: it had none."""


class CallerSide:
    """Remembers what the caller has been given, so that reading a view twice has no effect twice."""

    def __init__(self, backoff_ms: int = 100, backoff_max_ms: int = 1_000) -> None:
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._raised = 0
        self._not_before_ms = 0
        self.posted_count = 0
        """How many events were handed to the engine."""
        self._last_call_id = 0
        self._last_failure_id = 0

    def posted(self) -> None:
        """Record that an event was posted to the engine."""
        self.posted_count += 1

    def answered(self, call: Call) -> None:
        """Record that a call was run, so that it is not run again."""
        self._last_call_id = call.call_id
        self._raised = 0
        self._not_before_ms = 0

    def raised(self, call: Call, now_ms: int) -> None:
        """Record that the user's code raised.

        It runs again at the next poll, but from the second failure in a row on only after a backoff: a loop that
        ignores what `poll` raises would spin.
        """
        if not isinstance(call, CompleteJoin):  # which is delivered again
            self._last_call_id = call.call_id
        if self._raised:
            # a shift of more than that is beyond every limit
            wait_ms = self._backoff_ms << min(self._raised - 1, 31)
            self._not_before_ms = now_ms + min(wait_ms, self._backoff_max_ms)
        self._raised += 1

    def step(self, view: MemberView, now_ms: int) -> Raise | Run | Wait:
        """Return what to do about the latest view."""
        if view.crash is not None:
            return Raise(view.crash, None)
        failure = view.failure
        if failure is not None and failure.error.fatal:
            return Raise(failure.error, None)
        if failure is not None and failure.failure_id > self._last_failure_id:
            self._last_failure_id = failure.failure_id
            return Raise(failure.error, FailureRaised(failure.failure_id))
        if view.handled < self.posted_count:
            return Wait(settled=False)
        if view.stopped:
            return Raise(MemberClosedError("the member is closed"), None)
        call = view.call
        # where it may not run, the engine is asking the coordinator already, or replaces it
        if call is not None and call.call_id > self._last_call_id and view.may_run_at(call, now_ms):
            if now_ms < self._not_before_ms:
                return Wait(settled=True, until_ms=self._not_before_ms)
            return Run(call)
        return Wait(settled=True)


def is_active(view: MemberView, now_ms: int) -> bool:
    """Return whether the member is in a stable generation and has applied its assignment."""
    return not view.joining and view.believes_at(now_ms)


def idle_until_ms(view: MemberView) -> int:
    """Return until when the member is active and the engine has no call or error for the caller; 0: it is not."""
    idle = (
        view.state is MemberState.STABLE
        and not view.joining
        and view.failure is None
        and not view.stopped
        and view.crash is None
    )
    return (view.held_until_ms or 0) if idle else 0


def run_call(
    call: Call, user: AsyncGroupCallbacks
) -> Generator[Callable[[], object], Any, CallerEvent]:
    """Run the user's code for a callback, and return the event to post.

    A generator: it yields each function to call, and is sent the value to continue with, that is, the function's
    result or what that came to once awaited. It calls no user code itself, since a generator turns a StopIteration
    within it into another error.

    Raises:
        MetadataError: `metadata()` returned an invalid value.
        AssignmentError: `perform_assignment` returned an invalid value.
    """
    generation = call.generation
    match call:
        case PrepareJoin():
            if call.run_callback:
                yield partial(user.on_join_prepare, generation.generation_id, generation.member_id)
            protocol_type = yield lambda: checked_protocol_type(user.protocol_type)
            protocols = yield user.metadata
            return JoinPrepared(call.call_id, protocol_type, checked_protocols(protocols))
        case AssignGroup():
            if call.skip:
                skipped = getattr(user, "on_assignment_skipped", None)
                if skipped is not None:
                    yield partial(skipped, call.leader_id, call.protocol_name, call.members)
                return GroupAssigned(call.call_id, {})
            plan = yield partial(
                user.perform_assignment, call.leader_id, call.protocol_name, call.members
            )
            return GroupAssigned(call.call_id, checked_plan(plan, call.members))
        case CompleteJoin():
            yield partial(
                user.on_join_complete,
                generation.generation_id,
                generation.member_id,
                call.protocol_name,
                call.assignment,
            )
            return JoinDelivered(call.call_id)


def checked_protocol_type(value: Any) -> str:
    """Return the protocol type, whether it is an attribute or a method; MetadataError if it cannot be sent."""
    protocol_type = value() if callable(value) else value
    if iscoroutine(protocol_type):
        protocol_type.close()  # or Python would complain that nobody awaited it
        raise MetadataError("protocol_type must be a string or a method that is not `async def`")
    if not _is_name(protocol_type):
        raise MetadataError(
            f"protocol_type must be a string of 1 to {MAX_STRING_BYTES} bytes, e.g. 'work';"
            f" got {reprlib.repr(protocol_type)}"
        )
    return _plain(protocol_type)


def checked_protocols(value: Any) -> tuple[ProtocolMetadata, ...]:
    """Return the result of `metadata()` as pairs; MetadataError if it is not pairs of a name and bytes, or empty."""
    try:
        pairs = [_pair(item) for item in _items(value)]
    except (TypeError, ValueError):
        raise MetadataError(
            "metadata() must return a mapping of protocol name to bytes, such as {'v1': b''}, or a list of"
            f" such pairs; got {reprlib.repr(value)}"
        ) from None
    if not pairs:
        raise MetadataError("metadata() must offer at least one protocol; it returned none")
    names = set()
    for name, metadata in pairs:
        if not _is_name(name):
            raise MetadataError(
                f"metadata(): {reprlib.repr(name)} is not a protocol name: a string of 1 to"
                f" {MAX_STRING_BYTES} bytes"
            )
        if name in names:
            raise MetadataError(f"metadata() offers the protocol {name!r} twice")
        names.add(name)
        if not isinstance(metadata, bytes | bytearray | memoryview):
            raise MetadataError(
                f"metadata(): protocol {name!r} must come with bytes, not {type(metadata).__name__}"
            )
    return tuple(ProtocolMetadata(_plain(name), bytes(metadata)) for name, metadata in pairs)


def checked_plan(value: Any, members: GroupMembers) -> dict[str, bytes]:
    """Return the result of `perform_assignment`, with empty bytes for omitted members, or raise AssignmentError."""
    if not isinstance(value, Mapping):
        raise AssignmentError(
            f"perform_assignment must return a mapping of member id to bytes, not {type(value).__name__}"
        )
    unknown = [member_id for member_id in value if member_id not in members]
    if unknown:
        raise AssignmentError(
            f"perform_assignment assigned to {unknown[0]!r}, which is not one of the"
            f" {len(members)} members"
        )
    for member_id, assignment in value.items():
        if not isinstance(assignment, bytes | bytearray | memoryview):
            raise AssignmentError(
                f"perform_assignment: the assignment of {member_id!r} must be bytes,"
                f" not {type(assignment).__name__}"
            )
    return {member_id: bytes(value.get(member_id, b"")) for member_id in members}


def checked_reason(value: object) -> str:
    """Return a reason to rejoin or to leave, with characters replaced that UTF-8 cannot encode."""
    if not isinstance(value, str):
        raise TypeError(f"the reason must be a string, not {type(value).__name__}")
    # it is only for people to read: what UTF-8 cannot carry is no reason to fail
    return value.encode("utf-8", "replace").decode()


def checked_timeout_ms(seconds: float | None) -> int | None:
    """Convert a timeout in seconds to milliseconds, at least 0; None if it is None, infinite or extreme."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"the timeout must be seconds or None, not {seconds!r}")
    if seconds != seconds:  # NaN is the one number that is not itself
        raise ValueError("the timeout must be seconds or None, not NaN")
    timeout_ms = max(0.0, seconds * 1000)
    return None if timeout_ms > _MAX_TIMEOUT_MS else int(timeout_ms)


def _items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.items()
    if not isinstance(value, Sequence):  # the order is the preference, which a set does not have
        raise TypeError
    return value


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, str | bytes):  # one of two characters would pass for a pair
        raise TypeError
    first, second = item
    return first, second


def _is_name(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return 0 < len(value.encode()) <= MAX_STRING_BYTES
    except UnicodeEncodeError:
        return False


def _plain(value: Any) -> str:
    """Return a plain `str`, also for a subclass such as a string enum: its class stays with the user."""
    return str.__str__(value)
