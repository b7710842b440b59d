"""Shard workers for tests: one that records its callbacks, and a thread that drives it."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import override

from groupsdk.errors import GroupSdkError
from groupsdk.shards import AsyncShardWorker, Lease, Shard, ShardWorker
from tests.support.workers import OnThread, eventually


SHARDS = tuple(f"shard-{number}" for number in range(12))


class Recorder:
    """What a worker was told, and what a test hooks into its callbacks."""

    def __init__(self, shards: Sequence[str | Shard] = SHARDS) -> None:
        self.list: Any = shards
        self.calls: list[tuple[str, Any]] = []
        self.hooks: dict[str, Callable[[Any], object]] = {}
        self.asked = 0

    def called(self, name: str, argument: Any) -> Any:
        self.calls.append((name, argument))
        hook = self.hooks.get(name)
        return None if hook is None else hook(argument)

    def named(self, name: str) -> list[Any]:
        """Return the arguments of a callback's calls."""
        return [argument for called, argument in list(self.calls) if called == name]

    def told(self, name: str) -> Counter[str]:
        """Count how often a callback was told of each shard."""
        return Counter(
            each.name if isinstance(each, Lease) else each
            for argument in self.named(name)
            for each in argument
        )


QUICK: dict[str, Any] = {
    "session_timeout_ms": 30_000,
    "heartbeat_interval_ms": 100,
    "rebalance_timeout_ms": 30_000,
    "retry_backoff_ms": 10,
    "epoch_topic": None,
}
"""Sessions outlast a machine that stalls for seconds, and what the group does is soon heard of."""


class _Recording(ABC):
    """The callbacks of both kinds of worker, each of which records them."""

    recorder: Recorder

    @abstractmethod
    def _called(self, name: str, argument: Any) -> Any:
        """Record a callback, and run what a test hooks into it."""

    def _listed(self) -> Any:
        self.recorder.asked += 1
        hook = self.recorder.hooks.get("shards")
        return self.recorder.list if hook is None else hook(())

    def on_shards_gained(self, leases: Sequence[Lease]) -> Any:
        return self._called("gained", leases)

    def on_shards_released(self, names: Sequence[str]) -> Any:
        return self._called("released", names)

    def on_shards_lost(self, names: Sequence[str]) -> Any:
        return self._called("lost", names)

    def on_standby_gained(self, names: Sequence[str]) -> Any:
        return self._called("standby gained", names)

    def on_standby_released(self, names: Sequence[str]) -> Any:
        return self._called("standby released", names)


class RecordingWorker(_Recording, ShardWorker):
    """Records its callbacks."""

    protocol_type = "crawl"

    def __init__(self, recorder: Recorder, **settings: Any) -> None:
        super().__init__(**(QUICK | settings))
        self.recorder = recorder

    @override
    def _called(self, name: str, argument: Any) -> Any:
        return self.recorder.called(name, argument)

    @override
    def shards(self) -> Iterable[str | Shard]:
        return self._listed()  # type: ignore[no-any-return]


class AsyncRecordingWorker(_Recording, AsyncShardWorker):
    """The same for asyncio, with callbacks that run on a thread where a test hooks something in."""

    protocol_type = "crawl"

    def __init__(self, recorder: Recorder, **settings: Any) -> None:
        super().__init__(**(QUICK | settings))
        self.recorder = recorder

    @override
    async def _called(self, name: str, argument: Any) -> Any:
        return await asyncio.to_thread(self.recorder.called, name, argument)

    @override
    async def shards(self) -> Iterable[str | Shard]:
        return self._listed()  # type: ignore[no-any-return]


Worker = RecordingWorker | AsyncRecordingWorker
KINDS: tuple[type[RecordingWorker] | type[AsyncRecordingWorker], ...] = (
    RecordingWorker,
    AsyncRecordingWorker,
)


class Driven(OnThread):
    """Polls a worker on a thread of its own, as a user's main loop does, and keeps what it raised.

    A context manager: the worker is closed at the end.
    """

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self.recorder = worker.recorder
        self.errors: list[BaseException] = []
        self.leave = threading.Event()
        """Set to have it leave the group, and join again."""

    @override
    def stop(self) -> None:
        """End the loop and close the worker on its thread."""
        self._stop.set()
        self.worker.wakeup()
        super().stop()

    @property
    def names(self) -> list[str]:
        """The shards that it works on."""
        return [lease.name for lease in self.worker.leases()]

    @override
    def _run(self) -> None:
        asyncio.run(self._drive())

    async def _drive(self) -> None:
        while not self._stop.is_set():
            await self._step(lambda: self.worker.poll(0.2))
            if self.leave.is_set():
                self.leave.clear()
                await self._step(lambda: self.worker.leave_group("test"))
        await self._step(lambda: self.worker.close(10))

    async def _step(self, step: Callable[[], object]) -> None:
        try:
            result = step()
            if asyncio.iscoroutine(result):
                await result
        except GroupSdkError as error:
            self.errors.append(error)
            if error.fatal:
                self._stop.wait()
        except BaseException as error:  # noqa: BLE001  # for the test to look at
            self.errors.append(error)


def shared_out(*driven: Driven, shards: Sequence[str] = SHARDS) -> bool:
    """Return whether these workers own all shards, each by one, as evenly as can be."""
    names = [each.names for each in driven]
    counts = sorted(map(len, names))
    found = sorted(name for each in names for name in each)
    return found == sorted(shards) and counts[-1] - counts[0] <= 1


def await_shared(*driven: Driven, shards: Sequence[str] = SHARDS) -> None:
    """Wait until these workers own all shards."""
    eventually(lambda: shared_out(*driven, shards=shards), lambda: tell(*driven))


def tell(*driven: Driven) -> str:
    """Describe workers, for an error."""
    return "\n".join(
        f"{each.worker.shard_status()} {each.errors} {each.recorder.calls[-6:]}" for each in driven
    )
