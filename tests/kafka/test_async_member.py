"""Members for asyncio on a real broker: what blocking the loop costs, cancellation, and mixed groups."""

import asyncio
import ctypes
import time
from typing import Any, Literal

import pytest
from typing_extensions import override

from groupsdk import AsyncAbstractCoordinator, GroupMembers
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.workers import TIMEOUT_S, Driven, RecordingMember, eventually


_SESSION_MS = 6_000
"""Longer than a machine may stall."""
_LONGER_S = 8.0


class AsyncMember(AsyncAbstractCoordinator):
    """Records what it is given; its callbacks are of both kinds."""

    protocol_type = "work"

    def __init__(self, kafka: LocalKafka, group_id: str, **settings: Any) -> None:
        super().__init__(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group_id,
            **{"session_timeout_ms": 30_000, "heartbeat_interval_ms": 100, **settings},
        )
        self.callbacks: list[tuple[Any, ...]] = []
        self.hang: asyncio.Event | None = None
        """Makes `on_join_complete` hang once it is entered, and is set then."""

    @override
    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"hello")]

    @override
    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        await asyncio.sleep(0)
        self.callbacks.append(("on_join_prepare", generation))

    @override
    async def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        await asyncio.sleep(0.01)
        return {member: f"{len(members)} members".encode() for member in members}

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.callbacks.append(("on_join_complete", generation, assignment))
        if self.hang is not None:
            self.hang.set()
            await asyncio.Event().wait()

    @override
    def on_leave_prepare(self) -> None:
        self.callbacks.append(("on_leave_prepare",))


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
async def test_a_loop_blocked_for_longer_than_the_session_costs_nothing(
    kafka: LocalKafka, group_id: str, heartbeat: Literal["thread", "process"]
) -> None:
    async with AsyncMember(
        kafka, group_id, heartbeat=heartbeat, session_timeout_ms=_SESSION_MS
    ) as member:
        assert await member.ensure_active_group(TIMEOUT_S)
        generation = member.generation_if_stable()
        assert generation is not None
        if heartbeat == "thread":
            time.sleep(_LONGER_S)  # noqa: ASYNC251  # what users should not do, and do
        else:
            # keeps the interpreter's lock besides
            ctypes.PyDLL(None).usleep(int(_LONGER_S * 1e6))
        assert await member.poll()
        assert member.generation_if_stable() == generation
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Stable"
        assert member.metrics()["heartbeat-total"] >= 15
        assert len(member.callbacks) == 2
    assert describe_group(kafka.bootstrap_servers, group_id).member_ids == set()


async def test_native_code_that_holds_the_interpreter_costs_the_membership_of_a_thread(
    kafka: LocalKafka, group_id: str
) -> None:
    # the other side of the test above: what heartbeat="process" is there for
    async with AsyncMember(kafka, group_id, heartbeat="thread", session_timeout_ms=1_000) as member:
        assert await member.ensure_active_group(TIMEOUT_S)
        ctypes.PyDLL(None).usleep(2_500_000)
        assert member.generation_if_stable() is None, "it may not act on what it had"
        assert await member.ensure_active_group(TIMEOUT_S)
        # -1: the work was lost
        assert ("on_join_prepare", -1) in member.callbacks[2:]


async def test_a_delivery_that_was_cancelled_comes_again(kafka: LocalKafka, group_id: str) -> None:
    async with AsyncMember(kafka, group_id) as member:
        member.hang = asyncio.Event()
        task = asyncio.create_task(member.ensure_active_group())
        await member.hang.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert member.generation_if_stable() is not None  # a member, without its work yet
        member.hang = None
        assert await member.ensure_active_group(TIMEOUT_S)
        assert member.callbacks[1:] == [("on_join_complete", 1, b"1 members")] * 2


async def test_members_of_both_kinds_share_a_group(kafka: LocalKafka, group_id: str) -> None:
    async with AsyncMember(kafka, group_id) as member:
        assert await member.ensure_active_group(TIMEOUT_S)
        other = RecordingMember(bootstrap_servers=kafka.bootstrap_servers, group_id=group_id)
        with Driven(other):
            async with asyncio.timeout(TIMEOUT_S):
                while ("on_join_complete", 2, b"2 members") not in member.callbacks:
                    await member.poll(0.1)
            group = describe_group(kafka.bootstrap_servers, group_id)
            assert group.member_ids >= {member.member_id()}
            assert len(group.member_ids) == 2
        async with asyncio.timeout(TIMEOUT_S):
            while member.callbacks[-1][-1] != b"1 members":
                await member.poll(0.1)


def test_many_members_share_one_loop(kafka: LocalKafka, group_id: str) -> None:
    async def main() -> None:
        members = [AsyncMember(kafka, group_id) for _ in range(10)]

        async def drive(member: AsyncMember) -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while member.callbacks[-1:] == [] or member.callbacks[-1][-1] != b"10 members":
                    await member.poll(0.1)

        await asyncio.gather(*map(drive, members))
        assert {member.generation().generation_id for member in members} == {
            members[0].generation().generation_id
        }
        await asyncio.gather(*(member.close() for member in members))

    asyncio.run(main())
    eventually(lambda: not describe_group(kafka.bootstrap_servers, group_id).member_ids)
