"""Test what is particular to the member for asyncio; `tests/drivers/test_engine_handle.py` has the rest."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.errors import ConcurrentUseError, EngineError, MemberClosedError
from groupsdk.member.events import CallFailed, CloseRequested
from groupsdk.wire.messages.groups import JoinGroupRequest
from tests.drivers.virtual import ASSIGNMENT, MEMBER_ID, AsyncUser, Surroundings, config


class Bench(Surroundings):
    """A member that really waits, on a host that answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.member = AsyncGroupMember(AsyncUser(self.user), config(), self.clock, self.hosts)

    async def waiting(self) -> "asyncio.Task[bool]":
        """Return a task that waits for an answer that does not come."""
        assert await self.member.ensure_active_group(1)
        self.host.silent.add(JoinGroupRequest)
        self.member.request_rejoin("test")
        task = asyncio.create_task(self.member.ensure_active_group())
        for _ in range(30):  # more than the callbacks take
            await asyncio.sleep(0)
        assert isinstance(self.host.requests[-1], JoinGroupRequest)
        return task


@pytest.fixture
def bench() -> Bench:
    return Bench()


def hang(started: asyncio.Event) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return an `async def` hook that says when it runs and then never ends."""

    async def hook(*_: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    return hook


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# cancellation


@pytest.mark.parametrize("callback", ["on_join_prepare", "metadata", "perform_assignment"])
async def test_a_call_cancelled_in_a_callback_is_reported_as_failed(
    bench: Bench, callback: str
) -> None:
    started = asyncio.Event()
    bench.user.hooks[callback] = hang(started)
    task = asyncio.create_task(bench.member.ensure_active_group())
    await started.wait()
    await cancelled(task)
    assert isinstance(bench.host.posted[-1], CallFailed)
    assert bench.host.posted[-1].description == "CancelledError"
    assert bench.member.generation_if_stable() is None

    del bench.user.hooks[callback]
    bench.host.advance(1_000)  # the backoff
    assert await bench.member.ensure_active_group(1)
    assert bench.user.names().count("on_join_prepare") == 1


async def test_an_assignment_cancelled_on_delivery_is_delivered_again(bench: Bench) -> None:
    started = asyncio.Event()
    bench.user.hooks["on_join_complete"] = hang(started)
    task = asyncio.create_task(bench.member.poll(60))
    await started.wait()
    await cancelled(task)
    del bench.user.hooks["on_join_complete"]
    assert await bench.member.poll(60)
    deliveries = [call for call in bench.user.calls if call[0] == "on_join_complete"]
    assert deliveries == [("on_join_complete", 1, MEMBER_ID, "v0", ASSIGNMENT)] * 2
    assert bench.member.snapshot().assignment_epoch == 1


async def test_a_wait_can_be_cancelled_and_taken_up_again(bench: Bench) -> None:
    task = await bench.waiting()
    posted = list(bench.host.posted)
    await cancelled(task)
    assert bench.host.posted == posted
    bench.host.silent.clear()
    bench.host.advance(70_000)  # the join that got no answer is given up
    assert await bench.member.ensure_active_group(1)


async def test_a_timeout_around_a_call_is_a_cancellation(bench: Bench) -> None:
    started = asyncio.Event()
    bench.user.hooks["on_join_complete"] = hang(started)
    loop = asyncio.get_running_loop()

    async def expire(limit: asyncio.Timeout) -> None:
        await started.wait()
        limit.reschedule(loop.time())

    async def call() -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(expire(limit))
            await bench.member.ensure_active_group()

    with pytest.raises(TimeoutError):
        await call()
    del bench.user.hooks["on_join_complete"]
    assert await bench.member.ensure_active_group(1)


async def test_a_close_that_is_cancelled_closes_all_the_same(bench: Bench) -> None:
    started = asyncio.Event()
    assert await bench.member.ensure_active_group(1)
    bench.user.hooks["on_leave_prepare"] = hang(started)
    bench.host.will_end = False  # nobody waits for that any more
    task = asyncio.create_task(bench.member.close())
    await started.wait()
    await cancelled(task)
    assert isinstance(bench.host.posted[-1], CloseRequested)
    with pytest.raises(MemberClosedError):
        await bench.member.poll()
    await bench.member.close()


# one task at a time


async def test_two_tasks_cannot_drive_one_member(bench: Bench) -> None:
    task = await bench.waiting()
    for call in (
        bench.member.poll,
        bench.member.ensure_active_group,
        bench.member.close,
        lambda: bench.member.leave_group("x"),
    ):
        with pytest.raises(ConcurrentUseError, match="another task is using the member"):
            await call()
    bench.member.wakeup()
    assert await task is False
    await bench.member.close()


async def test_a_task_of_a_callback_may_close_the_member_like_the_callback_itself(
    bench: Bench,
) -> None:
    async def close(*_: Any) -> None:
        await asyncio.gather(asyncio.create_task(bench.member.close()))

    bench.user.hooks["on_join_complete"] = close
    assert not await bench.member.ensure_active_group(5)
    with pytest.raises(MemberClosedError):
        await bench.member.poll()


async def test_a_task_of_a_callback_may_not_drive_the_member_meanwhile_but_later_it_may(
    bench: Bench,
) -> None:
    go_on = asyncio.Event()
    tasks: list[asyncio.Task[bool]] = []

    async def drive() -> bool:
        with pytest.raises(ConcurrentUseError, match="called from a callback of the same member"):
            await bench.member.poll(1)
        await go_on.wait()
        return await bench.member.ensure_active_group(1)

    async def start(*_: Any) -> None:
        tasks.append(asyncio.create_task(drive()))
        await asyncio.sleep(0)

    bench.user.hooks["on_join_complete"] = start
    assert await bench.member.ensure_active_group(1)
    go_on.set()
    assert await tasks[0]


# the loop


async def test_a_loop_of_polls_lets_others_run(bench: Bench) -> None:
    assert await bench.member.ensure_active_group(1)
    other = asyncio.create_task(asyncio.sleep(0))
    for _ in range(3):
        assert await bench.member.poll()
    assert other.done()


async def test_other_tasks_run_while_a_call_waits(bench: Bench) -> None:
    task = await bench.waiting()
    ticks = 0
    while ticks < 100:
        await asyncio.sleep(0)
        ticks += 1
    assert not task.done()
    bench.member.wakeup()
    assert await task is False


async def test_waiting_task_can_be_woken_by_another_thread(bench: Bench) -> None:
    task = await bench.waiting()
    thread = threading.Thread(target=bench.member.wakeup)
    thread.start()
    assert await task is False
    thread.join()


async def test_a_publication_of_another_thread_ends_the_wait(bench: Bench) -> None:
    task = await bench.waiting()
    thread = threading.Thread(target=bench.host.crash)
    thread.start()
    with pytest.raises(EngineError, match="KeyError: 'bug'"):
        await task
    thread.join()


def test_a_member_may_move_to_another_loop(bench: Bench) -> None:
    assert asyncio.run(bench.member.ensure_active_group(1))
    bench.member.request_rejoin("between two loops")
    assert asyncio.run(bench.member.poll(1))
    asyncio.run(bench.member.close())
    assert bench.user.names().count("on_join_complete") == 2


def test_view_published_after_the_loop_is_closed_does_no_harm(bench: Bench) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(bench.waiting())
    waiting = loop.run_until_complete(task)
    loop.stop()
    loop.run_forever()
    heard = bench.member._groupsdk_handle.mailbox._listener
    assert heard is not None
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))
    loop.close()
    heard()  # as a publisher may that took hold of it just before
    assert bench.member._groupsdk_handle.mailbox._listener is None


def test_a_member_whose_loop_was_closed_in_the_midst_of_a_poll_can_be_closed_on_another(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(bench.waiting())
    loop.close()
    asyncio.run(bench.member.close())
    assert any(isinstance(each, CloseRequested) for each in bench.host.posted)
    with caplog.at_level(
        "CRITICAL"
    ):  # asyncio says that a task was destroyed; here, not in a later test
        bench.member._groupsdk_handle.mailbox._listener = None
        destroyed = weakref.ref(task)
        del task
        gc.collect()
        assert destroyed() is None


async def test_leaving_an_async_block_closes_the_member(bench: Bench) -> None:
    async with bench.member as member:
        assert member is bench.member
        assert await member.ensure_active_group(1)
    assert bench.user.names()[-1] == "on_leave_prepare"
    assert bench.host.ended.done()


def test_async_callback_that_yields_does_not_count_as_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def yields(*_: Any) -> Any:
        yield

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(bench.member._callbacks, "on_join_complete", yields)
            with pytest.raises(TypeError, match="is a generator function"):
                await bench.member.ensure_active_group(1)
        assert await bench.member.ensure_active_group(1)

    asyncio.run(run())
