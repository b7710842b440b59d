"""Run engines on the test's own loop, each with a caller that answers at once and notes what it is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self

from groupsdk.clock import SystemClock
from groupsdk.drivers.engine.engine import Engine
from groupsdk.errors import GroupSdkError
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.events import (
    CallerEvent,
    CloseRequested,
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    Polled,
)
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata


WAIT_S = 60.0
"""Far more than anything takes; what hangs fails the test."""


USERS = {"user": "right"}
"""The passwords of a broker with SASL."""
USER: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "user",
    "sasl_password": "right",
}
"""The settings of a member that it lets in."""
STRANGER: dict[str, Any] = USER | {"sasl_password": "wrong"}
"""Those of one that it refuses."""


def provided(provider: Callable[[], Any]) -> dict[str, Any]:
    """Return the settings of a member whose provider tells user name and password."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_credentials_provider": provider,
    }


def config(servers: str, **settings: Any) -> MemberConfig:
    """Return settings with short waits."""
    return MemberConfig.of(
        {
            "bootstrap_servers": servers,
            "group_id": "g",
            "session_timeout_ms": 60_000,
            "heartbeat_interval_ms": 20,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 40,
            **settings,
        }
    )


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test that is a coroutine."""
    asyncio.run(asyncio.wait_for(work, 3 * WAIT_S))


class Rig:
    """One engine and its caller, who polls once, raises nothing and acknowledges every failure."""

    def __init__(self, settings: MemberConfig) -> None:
        self.settings = settings
        self.view: MemberView | None = None
        self.failures: list[GroupSdkError] = []
        self.assignments: list[bytes] = []
        self.states: list[MemberState] = []
        self.troubles: list[str] = []
        self._changed = asyncio.Event()
        self._last_failure_id = 0
        self._last_call_id = 0
        self._engine = Engine(settings, SystemClock(), self._on_view)
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._engine.run())
        self.task.add_done_callback(lambda _: self._changed.set())
        await asyncio.sleep(0)
        self.post(Polled())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        self._engine.abort()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def heartbeats(self) -> int:
        """Count the heartbeats that were answered as to a living member."""
        return int(self._engine.metrics()["heartbeat-total"])

    def post(self, event: CallerEvent) -> None:
        self._engine.post(event)

    async def wait(self, condition: Callable[[MemberView], bool]) -> MemberView:
        """Wait until the view is as wanted; fails with what there is instead."""
        try:
            async with asyncio.timeout(WAIT_S):
                while self.view is None or not condition(self.view):
                    assert self.task is not None
                    if self.task.done():
                        self.task.result()
                        raise AssertionError(f"the engine ended with {self.view}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{self.settings.client_id}: still {self.view}") from None
        return self.view

    async def active(self) -> MemberView:
        """Wait until the member has taken up an assignment in a stable generation."""
        return await self.wait(lambda view: view.state is MemberState.STABLE and not view.joining)

    async def failed(self, count: int = 1) -> GroupSdkError:
        """Wait for so many errors for the caller; return the latest of them."""
        await self.wait(lambda _: len(self.failures) >= count)
        return self.failures[-1]

    async def leave(self) -> None:
        """Close the member, leaving the group."""
        assert self.task is not None
        self.post(CloseRequested(GroupMembershipOperation.LEAVE_GROUP, 5_000, "test"))
        await asyncio.wait_for(asyncio.shield(self.task), WAIT_S)

    def _on_view(self, view: MemberView) -> None:
        self.view = view
        if not self.states or self.states[-1] is not view.state:
            self.states.append(view.state)
        if view.trouble is not None and view.trouble not in self.troubles:
            self.troubles.append(view.trouble)
        self._changed.set()
        failure, call = view.failure, view.call
        if failure is not None and failure.failure_id > self._last_failure_id:
            self._last_failure_id = failure.failure_id
            self.failures.append(failure.error)
            if not failure.error.fatal:
                self._soon(FailureRaised(failure.failure_id))
        if call is not None and call.call_id > self._last_call_id:
            self._last_call_id = call.call_id
            self._soon(self._answer(call))

    def _answer(self, call: Call) -> CallerEvent:
        match call:
            case PrepareJoin():
                return JoinPrepared(call.call_id, "work", (ProtocolMetadata("p", b"meta"),))
            case AssignGroup():
                return GroupAssigned(call.call_id, {each: each.encode() for each in call.members})
            case CompleteJoin():
                self.assignments.append(call.assignment)
                return JoinDelivered(call.call_id)

    def _soon(self, event: CallerEvent) -> None:
        asyncio.get_running_loop().call_soon(self.post, event)
