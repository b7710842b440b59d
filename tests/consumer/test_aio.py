"""Test the consumer for asyncio: its thread, its listeners, and what cancelling it costs."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from confluent_kafka import TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.errors import ConcurrentUseError, ConfigError, MemberClosedError
from tests.consumer.rig import Bench, partitions


def run(work: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def offsets(batch: Any) -> list[tuple[int, int]]:
    return [(each.partition(), each.offset()) for each in batch]


def test_it_does_what_the_consumer_does() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.fill(2)

    async def work() -> None:
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

    run(work())
    assert bench.native.closed


def test_a_listener_runs_on_the_loop_and_may_await_the_consumer() -> None:
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

    async def work() -> None:
        async with AsyncGroupConsumer(bench.consumer) as consumer:
            await consumer.subscribe("t", listener=Listener(consumer))
            assert offsets(await consumer.consume(9, 1)) == [(1, 0), (2, 0)]

    run(work())
    assert told == [1, partitions("t-0", "t-1", "t-2")]


def test_what_a_listener_raises_comes_out_of_the_call() -> None:
    bench = Bench()

    class Listener:
        async def on_partitions_assigned(self, given: object) -> None:
            raise RuntimeError("mine")

    async def work() -> None:
        async with AsyncGroupConsumer(bench.consumer) as consumer:
            await consumer.subscribe("t", listener=Listener())
            with pytest.raises(RuntimeError, match="mine"):
                await consumer.consume(9, 1)

    run(work())


def test_a_cancelled_read_loses_no_record_and_commits_none() -> None:
    bench = Bench()
    reached, gate = threading.Event(), threading.Event()
    consume = bench.native.consume

    def held(count: int, timeout: float) -> Any:
        found = consume(count, timeout)
        if found and not gate.is_set():
            reached.set()
            assert gate.wait(20)
        return found

    bench.native.consume = held  # type: ignore[method-assign]  # to stop it with records in its hands

    async def work() -> None:
        async with AsyncGroupConsumer(bench.consumer) as consumer:
            await consumer.subscribe("t")
            await consumer.consume(9, 0.3)
            bench.fill(2, "t-0")
            reading = asyncio.ensure_future(consumer.consume(9, 1))
            await asyncio.to_thread(reached.wait, 20)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            gate.set()
            assert [each.offset for each in await consumer.position(partitions("t-0"))] == [0]
            assert offsets(await consumer.consume(9, 1)) == [(0, 0), (0, 1)]

    run(work())
    assert bench.group.committed() == [{"t-0": 2}]


def test_iterating_ends_when_it_is_woken() -> None:
    bench = Bench()
    bench.fill(1)
    got: list[int] = []

    async def work() -> None:
        async with AsyncGroupConsumer(bench.consumer) as consumer:
            await consumer.subscribe("t")
            async for message in consumer:
                got.append(message.partition() or 0)
                if len(got) == 3:
                    consumer.wakeup()

    run(work())
    assert got == [0, 1, 2]


def test_a_consumer_is_made_from_settings_too() -> None:
    async def work() -> None:
        async with AsyncGroupConsumer({"bootstrap.servers": "b:1"}, group_id="g") as consumer:
            assert consumer.generation().generation_id == -1

    run(work())
