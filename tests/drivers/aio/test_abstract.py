"""Test the class to subclass, for asyncio."""

import asyncio

import pytest

from groupsdk import GroupMembershipOperation
from groupsdk.clock import Clock, ManualClock
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.settings.config import MemberConfig
from tests.drivers.virtual import START_MS, FakeHost, config
from tests.support.plain_workers import AsyncPlainWorker


@pytest.fixture
def hosts() -> list[FakeHost]:
    return []


@pytest.fixture
def worker(hosts: list[FakeHost]) -> AsyncPlainWorker:
    def open_host(config: MemberConfig, clock: Clock, mailbox: Mailbox) -> FakeHost:
        hosts.append(FakeHost(config, clock, mailbox))
        return hosts[0]

    worker = AsyncPlainWorker(config(), clock=ManualClock(START_MS))
    worker._groupsdk_handle.open_host = open_host
    return worker


async def test_four_async_methods_make_a_member(
    worker: AsyncPlainWorker, hosts: list[FakeHost]
) -> None:
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
    assert hosts[0].ended.done()


def test_close_of_an_async_coordinator_takes_timeout_and_operation(
    worker: AsyncPlainWorker, hosts: list[FakeHost]
) -> None:
    async def main() -> int:
        assert await worker.ensure_active_group(1)
        sent = len(hosts[0].requests)
        await worker.close(0, GroupMembershipOperation.REMAIN_IN_GROUP)
        return sent

    assert asyncio.run(main()) == len(hosts[0].requests)
    assert hosts[0].ended.done()
