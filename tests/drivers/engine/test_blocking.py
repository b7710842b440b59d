"""Test that calls that block hold neither the loop nor threads."""

import asyncio
import threading

import pytest

from groupsdk.drivers.engine.blocking import BlockingCalls
from groupsdk.errors import NetworkError
from tests.drivers.engine.rig import WAIT_S, run
from tests.support.workers import eventually


def blocking_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "groupsdk-blocking"]


def test_returns_what_the_function_returns_and_keeps_no_thread() -> None:
    async def work() -> None:
        calls = BlockingCalls()
        assert [await calls.run(n, lambda n=n: n) for n in range(20)] == list(range(20))  # type: ignore[misc]  # mypy does not see the default

    run(work())
    for thread in blocking_threads():
        thread.join(WAIT_S)
    assert blocking_threads() == []


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit])
async def test_exception_that_would_end_the_loop_becomes_a_runtime_error(
    raised: type[BaseException],
) -> None:
    def function() -> None:
        raise raised("secret")

    with pytest.raises(RuntimeError, match=raised.__name__) as caught:
        await BlockingCalls().run(1, function)
    assert isinstance(caught.value.__cause__, raised)
    assert "secret" not in str(caught.value)


async def test_an_exception_is_passed_on() -> None:
    def function() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await BlockingCalls().run(1, function)


async def test_one_that_hangs_holds_one_thread_however_often_it_is_asked() -> None:
    gate = threading.Event()
    started = []

    def function() -> str:
        started.append(threading.current_thread())
        assert gate.wait(WAIT_S)
        return "late"

    calls = BlockingCalls()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await calls.run("name", function)
    last = asyncio.create_task(calls.run("name", function))
    # its thread may run later than all of these
    await asyncio.to_thread(eventually, lambda: started)
    assert len(started) == 1
    gate.set()
    assert await last == "late"
    assert await calls.run("name", lambda: "new") == "new"


async def test_joined_call_raises_its_error_and_an_abandoned_one_is_silent() -> None:
    gate = threading.Event()

    def function() -> int:
        gate.wait(WAIT_S)
        raise KeyError("x")

    calls = BlockingCalls()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await calls.run(1, function)
    joined = asyncio.create_task(calls.run(1, lambda: 2))
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(KeyError):
        await joined
    assert await calls.run(1, lambda: 2) == 2


def test_a_function_that_outlives_the_loop_harms_nobody() -> None:
    gate = threading.Event()

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await BlockingCalls().run(1, lambda: gate.wait(WAIT_S))

    run(work())
    left = blocking_threads()
    gate.set()
    for thread in left:
        thread.join(WAIT_S)
    assert blocking_threads() == []


async def test_a_machine_out_of_threads_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = BlockingCalls()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(NetworkError, match="can't start new thread") as caught:
                await calls.run("key", lambda: "early")
            assert caught.value.retriable
    assert await calls.run("key", lambda: "late") == "late"
