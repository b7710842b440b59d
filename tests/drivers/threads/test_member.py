"""Test what is particular to the member for threads; `tests/drivers/test_engine_handle.py` has the rest."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import ConcurrentUseError
from groupsdk.member.events import CallFailed
from groupsdk.wire.messages.groups import JoinGroupRequest
from tests.drivers.virtual import AsyncUser, Surroundings, User, config


class Bench(Surroundings):
    """A member that really waits, on a host that answers at once."""

    def __init__(self, callbacks: Any = None) -> None:
        super().__init__()
        self.member = GroupMember(callbacks or self.user, config(), self.clock, self.hosts)

    @contextmanager
    def waiting_thread(self) -> Iterator[Any]:
        """Have another thread wait in `ensure_active_group` for an answer that does not come."""
        assert self.member.ensure_active_group(1)
        self.host.silent.add(JoinGroupRequest)
        self.member.request_rejoin("test")
        inside = threading.Event()

        def metadata() -> object:
            inside.set()
            return [("v0", b"")]

        self.user.hooks["metadata"] = metadata
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(self.member.ensure_active_group)
            inside.wait()
            try:
                yield waiter
            finally:
                self.member.wakeup()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_two_threads_cannot_drive_one_member(bench: Bench) -> None:
    with bench.waiting_thread():
        for call in (
            bench.member.poll,
            bench.member.ensure_active_group,
            bench.member.close,
            lambda: bench.member.leave_group("x"),
        ):
            with pytest.raises(ConcurrentUseError, match="another thread is using the member"):
                call()
    assert bench.member.snapshot().rejoin_pending  # none of them did anything


def test_waiting_thread_can_be_woken_by_another(bench: Bench) -> None:
    with bench.waiting_thread() as waiter:
        bench.member.wakeup()
        assert waiter.result() is False
    bench.member.close()
    assert bench.user.names()[-1] == "on_leave_prepare"


def test_state_can_be_read_by_another_thread_while_one_waits(bench: Bench) -> None:
    with bench.waiting_thread():
        assert bench.member.generation().generation_id == 1
        assert bench.member.member_id()
        assert bench.member.snapshot().rejoin_pending
        assert len(bench.member.events()) == 1
        assert bench.member.metrics()["join-total"] == 1
        bench.member.request_rejoin("from another thread")


def test_a_publication_ends_the_wait(bench: Bench) -> None:
    with bench.waiting_thread() as waiter:
        bench.host.crash()
        error = waiter.exception()
    assert "KeyError: 'bug'" in str(error)


def test_a_signal_handler_may_use_what_any_thread_may(bench: Bench) -> None:
    assert bench.member.ensure_active_group(1)
    bench.host.silent.add(JoinGroupRequest)
    bench.member.request_rejoin("test")
    seen = []

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(bench.member.generation_if_stable())
        bench.member.request_rejoin("a signal came")
        bench.member.wakeup()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert not bench.member.ensure_active_group()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1


def test_ctrl_c_in_a_callback_leaves_the_member_usable(bench: Bench) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    bench.user.hooks["on_join_complete"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.member.ensure_active_group(1)
    assert bench.host.posted[-1] == CallFailed(3, "KeyboardInterrupt")
    del bench.user.hooks["on_join_complete"]
    assert bench.member.ensure_active_group(1)
    assert bench.user.names().count("on_join_complete") == 2


def test_coroutines_are_refused_instead_of_never_run() -> None:
    user = User()
    bench = Bench(AsyncUser(user))
    for _ in range(2):
        with pytest.raises(TypeError, match=r"AsyncUser\.\w+ must not be `async def`; use"):
            bench.member.ensure_active_group(1)
    with pytest.raises(TypeError, match="must not be `async def`"):
        bench.member.close()
    assert user.calls == []


def test_awaitables_that_are_no_coroutines_are_refused_too(bench: Bench) -> None:
    class Later:
        def __await__(self) -> Iterator[None]:
            raise AssertionError("nobody awaits it")

    bench.user.hooks["on_join_complete"] = lambda *_: Later()
    with pytest.raises(TypeError, match="must not be `async def`"):
        bench.member.ensure_active_group(1)


def test_leaving_a_block_closes_the_member(bench: Bench) -> None:
    with bench.member as member:
        assert member is bench.member
        assert member.ensure_active_group(1)
    assert bench.user.names()[-1] == "on_leave_prepare"
    assert bench.host.ended.done()


@pytest.mark.parametrize("callback", ["on_join_prepare", "metadata", "on_join_complete"])
def test_a_stop_iteration_of_a_callback_is_passed_on_as_it_is(bench: Bench, callback: str) -> None:
    bench.user.hooks[callback] = lambda *_: next(iter(()))
    with pytest.raises(StopIteration):
        bench.member.ensure_active_group(1)
    del bench.user.hooks[callback]
    assert bench.member.ensure_active_group(1)


@pytest.mark.parametrize("callback", ["on_join_prepare", "on_join_complete"])
def test_callback_that_is_a_generator_is_refused(bench: Bench, callback: str) -> None:
    bench.user.hooks[callback] = lambda *_: (each for each in [1])
    with pytest.raises(TypeError, match="is a generator function"):
        bench.member.ensure_active_group(1)
    del bench.user.hooks[callback]
    assert bench.member.ensure_active_group(1)
    bench.user.hooks["on_leave_prepare"] = lambda *_: (each for each in [1])
    with pytest.raises(TypeError, match="is a generator function"):
        bench.member.leave_group("test")
