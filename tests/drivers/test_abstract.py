"""Test the classes to subclass, for threads and for asyncio."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import pytest

from groupsdk import Coordinator, GroupMembershipOperation
from groupsdk.clock import ManualClock
from tests.drivers.virtual import START_MS, FakeHosts, config
from tests.support.plain_workers import AsyncPlainWorker, PlainWorker


@pytest.fixture
def hosts() -> FakeHosts:
    return FakeHosts()


@pytest.fixture(params=[PlainWorker, AsyncPlainWorker], ids=["threads", "asyncio"])
def worker(request: pytest.FixtureRequest, hosts: FakeHosts) -> Any:
    worker = request.param(config(), clock=ManualClock(START_MS))
    worker._groupsdk_handle.open_host = hosts
    return worker


async def done(result: Any) -> Any:
    """Return what a call of either form comes to."""
    return await result if isawaitable(result) else result


@asynccontextmanager
async def entered(worker: Any) -> AsyncIterator[Any]:
    """Enter the block of either form."""
    if isinstance(worker, PlainWorker):
        with worker as it:
            yield it
    else:
        async with worker as it:
            yield it


def test_abstract_coordinator_is_a_coordinator() -> None:
    assert isinstance(PlainWorker(config()), Coordinator)


async def test_four_methods_make_a_member(worker: Any, hosts: FakeHosts) -> None:
    async with entered(worker) as it:
        assert it is worker
        assert await done(worker.ensure_active_group(1))
        assert worker.assigned == [b"work"]
        worker.request_rejoin("once more")
        assert await done(worker.poll(1))
        assert worker.assigned == [b"work"] * 2
        assert worker.metrics()["join-total"] == 2
        await done(worker.leave_group("enough"))
        assert worker.generation_if_stable() is None
        assert await done(worker.poll())
    assert hosts[0].ended.done()


async def test_close_of_a_coordinator_takes_timeout_and_operation(
    worker: Any, hosts: FakeHosts
) -> None:
    assert await done(worker.ensure_active_group(1))
    sent = len(hosts[0].requests)
    await done(worker.close(0, GroupMembershipOperation.REMAIN_IN_GROUP))
    assert len(hosts[0].requests) == sent
    assert hosts[0].ended.done()
