"""Members in virtual time: the real machine, a group that answers at once, and no thread."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from typing_extensions import override

from groupsdk.clock import Clock, ManualClock
from groupsdk.coordinator import AsyncGroupCallbacks, GroupCallbacks
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.engine_handle import Pause
from groupsdk.drivers.hosts.host import Mailbox, promise
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.member.actions import Send
from groupsdk.member.events import (
    CallerEvent,
)
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembers, GroupMembershipOperation
from groupsdk.wire.schema import Response
from tests.member.driving import PROTOCOL_NAME, PROTOCOL_TYPE, SETTINGS, RequestT
from tests.support.fake_host import ScriptedHost
from tests.support.instant_group import InstantGroup


START_MS = 1_000_000
ASSIGNMENT = b"all of it"
MEMBER_ID = "member-1"


def config(**settings: Any) -> MemberConfig:
    """A configuration with short and round times."""
    defaults: dict[str, Any] = {
        "bootstrap_servers": "broker:9092",
        "group_id": "group",
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": 60_000,
        "max_poll_interval_ms": 20_000,
    }
    return MemberConfig.of({**defaults, **settings})


class FakeHost(ScriptedHost):
    """Runs the machine right in `post`, in a group whose only member it is."""

    def __init__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        super().__init__(config, clock, mailbox)
        self.posted: list[CallerEvent] = []
        self.requests: list[object] = []
        self.asked: list[CoordinatorRequest] = []
        self.errors: dict[type, int] = {}
        """Request class to the error code that answers it."""
        self.silent: set[type] = set()
        """Classes of requests that get no answer."""
        self.stuck = False
        """Whether the engine handles nothing at all."""
        self.held: list[CallerEvent] | None = None
        """What was posted and waits until the engine gets to it; None: it gets to everything at once."""
        self.told_to: list[str] = []
        self.starts = 0
        self._group = InstantGroup(MEMBER_ID, ASSIGNMENT)

    @override
    def start(self) -> None:
        self.starts += 1

    @override
    def post(self, event: CallerEvent) -> None:
        self.posted.append(event)
        if self.held is not None:
            self.held.append(event)
        elif not self.stuck:
            self.handle(event)

    @override
    def ask(self, request: CoordinatorRequest) -> Future[Response]:
        self.asked.append(request)
        return promise()

    @override
    def metrics(self) -> Future[dict[str, float]]:
        return promise() if self.stuck else super().metrics()

    @override
    def abandon(self) -> None:
        self.told_to.append("abandon")

    @override
    def abort(self) -> None:
        self.told_to.append("abort")
        self.end()

    def release(self) -> None:
        """Have the engine get to what was held."""
        held, self.held = self.held, None
        for event in held or ():
            self.posted.remove(event)
            self.post(event)

    def polls(self) -> int:
        """How many signs of life were posted."""
        return sum(type(event).__name__ == "Polled" for event in self.posted)

    @override
    def _next_ms(self, until_ms: int) -> int:
        return until_ms if self.stuck else super()._next_ms(until_ms)

    @override
    def _step_to(self, at_ms: int) -> None:
        if self.stuck:
            self._clock.advance(at_ms - self._clock.now_ms())
        else:
            super()._step_to(at_ms)

    @override
    def _serve(self, send: Send) -> None:
        self.requests.append(send.request)
        if type(send.request) in self.silent:
            self._parked.add(send.request_id)
        else:
            code = self.errors.get(type(send.request), 0)
            self.driver.answer(self._group.answer(send.request, code))


class FakeHosts(list[FakeHost]):
    """The hosts that a member has opened: it opens them by calling this."""

    def __call__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> FakeHost:
        self.append(FakeHost(config, clock, mailbox))
        return self[-1]


Hook = Callable[..., object]


class User:
    """Callbacks that record how they were called, and do what a test hooks in.

    A hook gets the callback's arguments; what it returns is the callback's result.
    """

    def __init__(self) -> None:
        self.protocol_type: Any = PROTOCOL_TYPE
        self.calls: list[tuple[Any, ...]] = []
        self.hooks: dict[str, Hook] = {}

    def names(self) -> list[str]:
        """The callbacks called so far, in order."""
        return [str(call[0]) for call in self.calls]

    def metadata(self) -> Any:
        return self._called("metadata", default=[("v0", b"hello")])

    def on_join_prepare(self, generation: int, member_id: str) -> Any:
        return self._called("on_join_prepare", generation, member_id)

    def perform_assignment(self, leader_id: str, protocol: str, members: GroupMembers) -> Any:
        plan = dict.fromkeys(members, ASSIGNMENT)
        return self._called("perform_assignment", leader_id, protocol, dict(members), default=plan)

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Any:
        return self._called("on_join_complete", generation, member_id, protocol, assignment)

    def on_leave_prepare(self) -> Any:
        return self._called("on_leave_prepare")

    def _called(self, name: str, *arguments: Any, default: object = None) -> object:
        self.calls.append((name, *arguments))
        hook = self.hooks.get(name)
        return default if hook is None else hook(*arguments)


class AsyncUser:
    """The same with `async def` callbacks that really wait."""

    def __init__(self, user: User) -> None:
        self._user = user

    @property
    def protocol_type(self) -> Any:
        return self._user.protocol_type

    async def metadata(self) -> Any:
        return await _awaited(self._user.metadata())

    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        await _awaited(self._user.on_join_prepare(generation, member_id))

    async def perform_assignment(self, leader_id: str, protocol: str, members: GroupMembers) -> Any:
        return await _awaited(self._user.perform_assignment(leader_id, protocol, members))

    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        await _awaited(self._user.on_join_complete(generation, member_id, protocol, assignment))

    async def on_leave_prepare(self) -> None:
        await _awaited(self._user.on_leave_prepare())


async def _awaited(value: Any) -> Any:
    await asyncio.sleep(0)
    return await value if asyncio.iscoroutine(value) else value


class Surroundings:
    """What stands around one member: its user, its clock, and the host that it has started."""

    def __init__(self) -> None:
        self.user = User()
        self.clock = ManualClock(START_MS)
        self.hosts = FakeHosts()

    @property
    def host(self) -> FakeHost:
        """The host that the member has started."""
        return self.hosts[0]


class VirtualThreadsMember(GroupMember):
    """A member for threads that waits in virtual time."""

    @override
    def _wait(self, pause: Pause) -> None:
        assert isinstance(self._groupsdk_handle.host, ScriptedHost)
        self._groupsdk_handle.host.wait(pause)


class VirtualAsyncMember(AsyncGroupMember):
    """A member for asyncio that waits in virtual time."""

    @override
    async def _wait(self, pause: Pause) -> None:
        assert isinstance(self._groupsdk_handle.host, FakeHost)
        await asyncio.sleep(0)
        self._groupsdk_handle.host.wait(pause)


class Bench:
    """One member for threads whose host answers what a test scripts, and else well."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(START_MS)
        self.user = User()
        self.user.hooks["metadata"] = lambda: [(PROTOCOL_NAME, b"meta")]
        given = MemberConfig.of(SETTINGS | settings)
        self.member = VirtualThreadsMember(self.user, given, self.clock, lambda *_: self.host)
        self.host = ScriptedHost(given, self.clock, self.member._groupsdk_handle.mailbox)

    def requests(self, kind: type[RequestT]) -> list[RequestT]:
        """Return all requests of this kind, oldest first."""
        return self.host.driver.sent(kind)


class Drives(Protocol):
    """The calls that drive a member, without `await`."""

    def ensure_active_group(self, timeout: float | None = None) -> bool: ...
    def poll(self, timeout: float = 0.0) -> bool: ...
    def leave_group(self, reason: str) -> None: ...
    def metrics(self) -> dict[str, float]: ...
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None: ...


class Awaiting:
    """Drives a member for asyncio from code that is not."""

    def __init__(self, member: AsyncGroupMember, runner: asyncio.Runner) -> None:
        self._member = member
        self._runner = runner

    def ensure_active_group(self, timeout: float | None = None) -> bool:
        return self._runner.run(self._member.ensure_active_group(timeout))

    def poll(self, timeout: float = 0.0) -> bool:
        return self._runner.run(self._member.poll(timeout))

    def leave_group(self, reason: str) -> None:
        self._runner.run(self._member.leave_group(reason))

    def metrics(self) -> dict[str, float]:
        return self._member.metrics()

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        self._runner.run(self._member.close(timeout, operation))


class Rig(Surroundings):
    """One member under test, with everything around it."""

    def __init__(self, kind: str, runner: asyncio.Runner, **settings: Any) -> None:
        super().__init__()
        self.kind = kind
        self.config = config(**settings)
        self.member: GroupMember | AsyncGroupMember
        self.drive: Drives
        if kind == "threads":
            self._make_threads(self.user)
        else:
            self._make_asyncio(self.user if kind == "asyncio" else AsyncUser(self.user), runner)

    @property
    def base(self) -> GroupMember | AsyncGroupMember:
        """The member, for all that is not awaited."""
        return self.member

    def joined(self) -> "Rig":
        """Join, and forget what was called for it."""
        assert self.drive.ensure_active_group(1)
        self.user.calls.clear()
        self.host.posted.clear()
        self.host.requests.clear()
        return self

    def _make_threads(self, user: GroupCallbacks) -> None:
        self.member = self.drive = VirtualThreadsMember(user, self.config, self.clock, self.hosts)

    def _make_asyncio(self, user: AsyncGroupCallbacks, runner: asyncio.Runner) -> None:
        self.member = VirtualAsyncMember(user, self.config, self.clock, self.hosts)
        self.drive = Awaiting(self.member, runner)


KINDS = ("threads", "asyncio", "asyncio with async def")
"""The ways to drive a member; all of them are to behave alike."""


@contextmanager
def rigs(kind: str) -> Iterator[Callable[..., Rig]]:
    with asyncio.Runner() as runner:
        yield lambda **settings: Rig(kind, runner, **settings)
