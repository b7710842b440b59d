"""Test the class to subclass, for asyncio."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from groupsdk import AsyncAbstractCoordinator, GroupMembershipOperation
from groupsdk.clock import Clock, ManualClock
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembers
from tests.drivers.virtual import START_MS, FakeHost, config


class Worker(AsyncAbstractCoordinator):
    """The least that a user writes, with both kinds of functions."""

    protocol_type = "work"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.assigned: list[bytes] = []

    @override
    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"hello")]

    @override
    async def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        await asyncio.sleep(0)
        return dict.fromkeys(members, b"work")

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        await asyncio.sleep(0)
        self.assigned.append(assignment)


@pytest.fixture
def hosts() -> list[FakeHost]:
    return []


@pytest.fixture
def worker(hosts: list[FakeHost]) -> Worker:
    def open_host(config: MemberConfig, clock: Clock, mailbox: Mailbox) -> FakeHost:
        hosts.append(FakeHost(config, clock, mailbox))
        return hosts[0]

    worker = Worker(config(), clock=ManualClock(START_MS))
    worker._member._engine_handle.open_host = open_host
    return worker


def test_four_async_methods_make_a_member(worker: Worker, hosts: list[FakeHost]) -> None:
    async def main() -> None:
        async with worker as entered:
            assert entered is worker
            assert await worker.ensure_active_group(1)
            assert worker.assigned == [b"work"]
            worker.request_rejoin("once more")
            assert await worker.poll(1)
            assert worker.assigned == [b"work"] * 2
            assert worker.metrics()["join-total"] == 2
            await worker.leave_group("enough")
            assert worker.generation_if_stable() is None
            assert await worker.poll()

    asyncio.run(main())
    assert hosts[0].ended.done()


def test_close_of_an_async_coordinator_takes_timeout_and_operation(
    worker: Worker, hosts: list[FakeHost]
) -> None:
    async def main() -> int:
        assert await worker.ensure_active_group(1)
        sent = len(hosts[0].requests)
        await worker.close(0, GroupMembershipOperation.REMAIN_IN_GROUP)
        return sent

    assert asyncio.run(main()) == len(hosts[0].requests)
    assert hosts[0].ended.done()
