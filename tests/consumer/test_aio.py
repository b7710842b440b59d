"""Test the consumer for asyncio: its thread, its listeners, and what cancelling it costs."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.errors import ConcurrentUseError, ConfigError, MemberClosedError
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.consumer.rig import Bench, partitions


def run(work: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()
    for each in set(threading.enumerate()) - before:
        each.join(60)
        assert not each.is_alive(), f"{each.name} was left behind"


def waiting_really(bench: Bench) -> None:
    """Have a read without records wait for a moment of real time too, so that it does not spin."""

    def idle(seconds: float) -> None:
        time.sleep(0.001)
        bench.advance(int(seconds * 1000))

    bench.native.idle = idle


@asynccontextmanager
async def taking_part(bench: Bench) -> AsyncIterator[AsyncGroupConsumer]:
    """A consumer that has joined, and has read what there is."""
    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t")
        await consumer.consume(9, 0.3)
        yield consumer


def offsets(batch: Any) -> list[tuple[int, int]]:
    return [(each.partition(), each.offset()) for each in batch]


async def test_async_consumer_reads_commits_and_seeks_as_the_consumer_does() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.fill(2)
    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t")
        batch = await consumer.consume(4, 1)
        assert offsets(batch) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert consumer.assignment() == partitions("t-0", "t-1", "t-2")
        message = await consumer.poll(1)
        assert message is not None
        await consumer.commit(message)
        await consumer.commit(offsets=[NativePartition("t", 0, 1)])
        found = await consumer.committed(partitions("t-2", "t-0"))
        assert [each.offset for each in found] == [1, 1]
        await consumer.seek(NativePartition("t", 0, 1))
        assert [each.offset for each in await consumer.position(partitions("t-0"))] == [1]
        await consumer.pause(partitions("t-2"))
        assert offsets(await consumer.consume(9, 0)) == [(0, 1)]
        await consumer.resume(partitions("t-2"))
        assert offsets(await consumer.consume(9, 0)) == [(2, 1)]
        assert consumer.generation().generation_id == 1
        assert consumer.snapshot().stable
        with pytest.raises(ConfigError):
            await consumer.store_offsets(offsets=[])
        await consumer.unsubscribe()
        assert consumer.assignment() == []
    await consumer.close()
    with pytest.raises(MemberClosedError):
        await consumer.unsubscribe()
    assert bench.native.closed


async def test_a_listener_runs_on_the_loop_and_may_await_the_consumer() -> None:
    bench = Bench()
    bench.fill(1)
    told: list[Any] = []

    class Listener:
        def __init__(self, consumer: AsyncGroupConsumer) -> None:
            self.consumer = consumer

        async def on_partitions_assigned(self, given: list[TopicPartition]) -> None:
            assert threading.current_thread() is threading.main_thread()
            told.append(given)
            await self.consumer.seek(NativePartition("t", 0, 1))
            with pytest.raises(ConcurrentUseError):
                await self.consumer.poll(0)

        def on_generation_changed(self, generation: Any) -> None:
            told.append(generation.generation_id)

    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t", listener=Listener(consumer))
        assert offsets(await consumer.consume(9, 1)) == [(1, 0), (2, 0)]
    assert told == [1, partitions("t-0", "t-1", "t-2")]


async def test_exception_of_an_async_listener_is_raised_by_the_call() -> None:
    bench = Bench()

    class Listener:
        async def on_partitions_assigned(self, given: object) -> None:
            raise RuntimeError("mine")

    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t", listener=Listener())
        with pytest.raises(RuntimeError, match="mine"):
            await consumer.consume(9, 1)


def hold_reads(bench: Bench) -> tuple[threading.Event, threading.Event]:
    """Stop each read with its records in its hands: the first event says so, the second lets it go on."""
    reached, gate = threading.Event(), threading.Event()
    consume = bench.native.consume

    def held(count: int, timeout: float) -> Any:
        found = consume(count, timeout)
        if found and not gate.is_set():
            reached.set()
            assert gate.wait(60)
        return found

    bench.native.consume = held  # type: ignore[method-assign]  # to stop it with records in its hands
    return reached, gate


async def test_a_cancelled_read_loses_no_record_and_commits_none() -> None:
    bench = Bench()
    reached, gate = hold_reads(bench)
    async with taking_part(bench) as consumer:
        bench.fill(2, "t-0")
        reading = asyncio.ensure_future(consumer.consume(9, 1))
        await asyncio.to_thread(reached.wait, 20)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        gate.set()
        assert [each.offset for each in await consumer.position(partitions("t-0"))] == [0]
        assert offsets(await consumer.consume(9, 1)) == [(0, 0), (0, 1)]
    assert bench.group.committed() == [{"t-0": 2}]


async def test_a_commit_that_waited_behind_a_cancelled_read_commits_nothing_of_it() -> None:
    bench = Bench(enable_auto_commit=False)
    reached, gate = hold_reads(bench)
    async with taking_part(bench) as consumer:
        bench.fill(2, "t-0")
        reading = asyncio.ensure_future(consumer.consume(9, 1))
        await asyncio.to_thread(reached.wait, 20)
        commit = asyncio.ensure_future(consumer.commit())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        gate.set()
        await commit
        assert offsets(await consumer.consume(9, 1)) == [(0, 0), (0, 1)]
    assert bench.group.offsets.get(TopicPartition("t", 0), 0) == 0


async def test_iterating_ends_when_it_is_woken() -> None:
    bench = Bench()
    bench.fill(1)
    got: list[int] = []
    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t")
        async for message in consumer:
            got.append(message.partition() or 0)
            if len(got) == 3:
                consumer.wakeup()
    assert got == [0, 1, 2]


async def test_a_consumer_is_made_from_settings_too() -> None:
    async with AsyncGroupConsumer({"bootstrap.servers": "b:1"}, group_id="g") as consumer:
        assert consumer.generation().generation_id == -1


class Closing:
    """A listener that closes its consumer in one of its methods."""

    def __init__(self, consumer: AsyncGroupConsumer, name: str) -> None:
        self.consumer = consumer
        self.name = name
        self.calls: list[str] = []

    async def on_generation_changed(self, generation: object) -> None:
        await self._note("generation")

    async def on_partitions_assigned(self, given: object) -> None:
        await self._note("assigned")

    async def on_partitions_revoked(self, given: object) -> None:
        await self._note("revoked")

    async def _note(self, name: str) -> None:
        self.calls.append(name)
        if name == self.name:
            await self.consumer.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("generation", ["generation", "revoked"]),
        ("assigned", ["generation", "assigned", "revoked"]),
    ],
)
async def test_a_listener_may_close_its_consumer(
    strategy: str, name: str, calls: list[str]
) -> None:
    bench = Bench(partition_assignment_strategy=strategy)
    bench.fill(1)
    consumer = AsyncGroupConsumer(bench.consumer)
    listener = Closing(consumer, name)
    await consumer.subscribe("t", listener=listener)
    assert await consumer.consume(9, 1) == []
    assert listener.calls == calls
    with pytest.raises(MemberClosedError):
        await consumer.poll(1)
    assert bench.native.closed


async def test_a_listener_may_close_its_consumer_while_it_gives_up_partitions() -> None:
    bench = Bench()
    consumer = AsyncGroupConsumer(bench.consumer)
    listener = Closing(consumer, "revoked")
    await consumer.subscribe("t", listener=listener)
    await consumer.consume(9, 0.3)
    bench.consumer.enforce_rebalance("test")
    assert await consumer.consume(9, 1) == []
    assert listener.calls == ["generation", "assigned", "revoked"]
    assert bench.native.closed


async def test_nobody_reads_from_a_closed_consumer_or_waits_for_it() -> None:
    bench = Bench()
    waiting_really(bench)
    consumer = AsyncGroupConsumer(bench.consumer)
    await consumer.subscribe("t")
    await consumer.consume(1, 0)
    # the second one waits behind the first, which alone is woken
    reads = [asyncio.ensure_future(consumer.poll()) for _ in range(2)]
    await asyncio.sleep(0)
    await consumer.close()
    assert await asyncio.gather(*reads) == [None, None]
    with pytest.raises(MemberClosedError):
        await consumer.poll()
    with pytest.raises(MemberClosedError):
        await consumer.consume(1, 0)


async def test_a_read_that_is_cancelled_before_its_turn_takes_nothing() -> None:
    bench = Bench()
    waiting_really(bench)
    async with taking_part(bench) as consumer:
        first = asyncio.ensure_future(consumer.poll(2**30))
        second = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        bench.fill(1, "t-0")
        assert offsets([await first]) == [(0, 0)]
        assert await consumer.poll(0) is None


async def test_a_cancelled_commit_is_made_all_the_same() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.fill(1)
    async with taking_part(bench) as consumer:
        commit = asyncio.ensure_future(consumer.commit())
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
    assert bench.group.committed() == [{"t-0": 1, "t-1": 1, "t-2": 1}]


def test_close_from_another_event_loop_runs_the_listener_there() -> None:
    bench = Bench()
    told: list[object] = []

    class Listener:
        async def on_partitions_revoked(self, given: list[TopicPartition]) -> None:
            told.append((len(given), asyncio.get_running_loop() is not first))

    async def work() -> None:
        await consumer.subscribe("t", listener=Listener())
        await consumer.consume(1, 0.3)

    first = asyncio.new_event_loop()
    consumer = AsyncGroupConsumer(bench.consumer)
    first.run_until_complete(work())
    run(consumer.close())  # the first one is there still, but does not run
    first.close()
    assert told == [(3, True)]


async def test_one_that_is_dropped_leaves_no_thread_behind() -> None:
    bench = Bench()
    consumer = AsyncGroupConsumer(bench.consumer)
    await consumer.subscribe("t")
    await consumer.consume(1, 0)


def test_the_group_does_not_wait_for_the_garbage_collector_to_find_a_dropped_one() -> None:
    bench = Bench()

    async def work() -> None:
        consumer = AsyncGroupConsumer(bench.consumer)
        del bench.consumer
        await consumer.subscribe("t")
        await consumer.consume(1, 0.1)

    gc.collect()
    gc.disable()
    try:
        run(work())
        bench.group.ended.result(60)
    finally:
        gc.enable()


async def test_a_read_that_is_cancelled_at_its_end_leaves_the_next_one_alone() -> None:
    bench = Bench()
    reached, gate = hold_reads(bench)
    async with taking_part(bench) as consumer:
        bench.fill(1, "t-0")
        reading = asyncio.ensure_future(consumer.poll())
        await asyncio.to_thread(reached.wait, 20)
        reading.cancel()  # too late to end the read early: it has its record
        with pytest.raises(asyncio.CancelledError):
            await reading
        gate.set()
        # one without records, which lasts until there are some
        assert offsets([await consumer.poll()]) == [(0, 0)]
        bench.native.idle = lambda seconds: bench.fill(1, "t-1")
        assert offsets([await consumer.poll()]) == [(1, 0)]
        async for message in consumer:
            assert message.partition() == 1
            break


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_read_waits_for_the_listener_that_another_read_runs(cancelled: bool) -> None:
    bench = Bench()
    bench.fill(1, "t-0")
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow:
        async def on_partitions_assigned(self, given: object) -> None:
            begun.set()
            await go_on.wait()

    async with AsyncGroupConsumer(bench.consumer) as consumer:
        await consumer.subscribe("t", listener=Slow())
        first = asyncio.ensure_future(consumer.consume(9, 1))
        await begun.wait()
        if cancelled:
            first.cancel()
        second = asyncio.ensure_future(consumer.consume(9, 1))
        await asyncio.sleep(0)  # it has asked the consumer's thread
        await consumer.pause([])  # what needs no poll is not kept waiting
        assert not second.done()
        go_on.set()
        found = await asyncio.gather(first, second, return_exceptions=True)
        assert not [each for each in found if isinstance(each, ConcurrentUseError)]
        assert [offsets(each) for each in found if isinstance(each, list) and each] == [[(0, 0)]]


async def test_task_started_by_a_listener_may_read_once_the_listener_has_returned() -> None:
    bench = Bench()
    bench.fill(1, "t-0")
    read: list[asyncio.Task[Any]] = []
    async with AsyncGroupConsumer(bench.consumer) as consumer:
        returned = asyncio.Event()

        async def later() -> Any:
            await returned.wait()
            return await consumer.consume(9, 1)

        class Starting:
            def on_partitions_assigned(self, given: object) -> None:
                read.append(asyncio.ensure_future(later()))

        await consumer.subscribe("t", listener=Starting())
        assert offsets(await consumer.consume(9, 1)) == [(0, 0)]
        bench.fill(1, "t-0")
        returned.set()
        assert offsets(await read[0]) == [(0, 1)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_cancelling_reads_at_any_moment_ends_no_other_read(protocol: str) -> None:
    bench = Bench(enable_auto_commit=False, group_protocol=protocol)
    waiting_really(bench)
    async with taking_part(bench) as consumer:
        for number in range(300):
            reading = asyncio.ensure_future(consumer.poll())
            for _ in range(number % 7):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            bench.fill(1, "t-0")
            message = await consumer.poll()
            assert message is not None, f"the poll after cancelled read {number} was ended"
            assert message.offset() == number


async def test_leaving_by_an_error_ends_all_reads_of_other_tasks() -> None:
    bench = Bench()
    waiting_really(bench)
    consumer = AsyncGroupConsumer(bench.consumer)
    await consumer.subscribe("t")
    await consumer.consume(1, 0)
    reads = [asyncio.ensure_future(consumer.poll()) for _ in range(3)]
    await asyncio.sleep(0)
    await consumer.__aexit__(RuntimeError, RuntimeError("mine"), None)
    assert await asyncio.gather(*reads) == [None, None, None]


@pytest.mark.parametrize("codes", [[], [14]])
async def test_a_cancelled_commit_leaves_the_thread_to_others_and_is_made_later(
    codes: list[int],
) -> None:
    bench = Bench(enable_auto_commit=False)
    # the time of an answer that does not come, or of a pause between two attempts, is real here
    bench.session.calls.__class__ = CoordinatorCalls
    bench.fill(1)
    asked = threading.Event()
    async with taking_part(bench) as consumer:
        if codes:
            bench.group.codes[OffsetCommitRequest].extend(codes)
        else:
            bench.group.scripts[OffsetCommitRequest].append(None)
        ask = bench.session.calls.ask

        def noted(request: Any) -> Any:
            asked.set()
            return ask(request)

        bench.session.calls.ask = noted
        commit = asyncio.ensure_future(consumer.commit(timeout=2**20))
        await asyncio.to_thread(asked.wait, 20)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        # the thread is free: this would wait for the commit's whole timeout
        assert [each.offset for each in await consumer.position(partitions("t-0"))] == [1]
        if not codes:
            for send in bench.group.driver.outstanding:
                if isinstance(send.request, OffsetCommitRequest):
                    bench.group._parked.discard(send.request_id)
        for _ in range(9):
            await consumer.poll(0.2)
    assert bench.group.offsets == dict.fromkeys(partitions("t-0", "t-1", "t-2"), 1)


async def test_a_commit_in_the_background_tells_on_the_loop_how_it_ended() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.fill(1)
    told: list[Any] = []
    async with taking_part(bench) as consumer:
        done = asyncio.Event()

        def callback(error: object, committed: Any) -> None:
            told.append((error, len(committed), threading.current_thread()))
            done.set()

        await consumer.commit(asynchronous=True, callback=callback)
        await consumer.poll(0)
        await done.wait()
    assert told == [(None, 3, threading.main_thread())]


async def test_attributes_of_the_async_consumer_are_those_of_the_consumer() -> None:
    bench = Bench()
    async with taking_part(bench) as consumer:
        assert consumer.generation_if_stable() == consumer.generation()
        assert consumer.member_id() == consumer.memberid() == "consumer-1"
        assert consumer.consumer_group_metadata() == consumer.snapshot().to_confluent()
        assert consumer.metrics()["assigned-partitions"] == 3
        assert consumer.subscription() == ("t",)
        assert consumer.config is bench.config
        await consumer.pause(partitions("t-1"))
        assert consumer.paused() == partitions("t-1")
        consumer.enforce_rebalance("a test")
        await consumer.consume(9, 0.3)
        assert consumer.generation().generation_id == 2
        assert len(consumer.events()) == 2
        assert repr(consumer).startswith("AsyncGroupConsumer(group='g', member='consumer-1'")
