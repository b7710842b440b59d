"""Run members of one group in threads, or in tasks of a loop, as their users would."""

import asyncio
import contextlib
import ctypes
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override


BLOCK_S: Final = 5.0
"""How long one native call, or one block of an event loop, lasts."""
_CLOSE_S: Final = 20.0
"""How long all members together may take to close: one after the other, fifty that hang took a quarter of an hour."""
_POLL_S = 0.1
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all members of one measurement have in common."""

    bootstrap_servers: str
    group_id: str
    topic: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    poll_s: float = _POLL_S
    members_per_group: int | None = None
    """None: all are in one group."""

    def group_of(self, index: int) -> str:
        """Return the group of a member."""
        if self.members_per_group is None:
            return self.group_id
        return f"{self.group_id}-{index // self.members_per_group}"


def python_loop(seconds: float) -> None:
    """Compute in pure Python without a pause."""
    end = time.monotonic() + seconds
    total = 0
    while time.monotonic() < end:
        for number in range(1000):
            total += number * number


def native_call(seconds: float) -> None:
    """Make one native call that keeps the interpreter's lock."""
    # PyDLL, unlike CDLL, does not release the lock around the call.
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1e6)))


class Members(ABC):
    """The members of one client in this process; `taken` tells when which took up an assignment."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.taken: list[tuple[int, float]] = []
        self.left: dict[int, float] = {}
        self.errors: list[str] = []

    def note_taken(self, index: int) -> None:
        """Note that a member has an assignment from now on."""
        self.taken.append((index, time.perf_counter()))

    @abstractmethod
    def start(self, index: int) -> None:
        """Begin one member; does not wait for it."""

    @abstractmethod
    def leave(self, index: int) -> None:
        """Have one member leave; does not wait for it."""

    @abstractmethod
    def occupy(self, index: int, how: str, seconds: float) -> None:
        """Keep the member's caller busy: "python", "native" or "sleep"; does not wait for it."""

    @abstractmethod
    def close(self) -> None:
        """End all members."""


class ThreadedMembers(Members):
    """One thread for each member, which polls in a loop."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._stops: dict[int, threading.Event] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._jobs: dict[int, Callable[[], None]] = {}

    @abstractmethod
    def open(self, index: int) -> Any:
        """Return a member that joins when it is polled."""

    @abstractmethod
    def poll(self, member: Any) -> None:
        """Poll once."""

    def close_member(self, member: Any) -> None:
        """Close a member, so that it leaves."""
        member.close()

    @override
    def start(self, index: int) -> None:
        self._stops[index] = threading.Event()
        thread = threading.Thread(target=self._run, args=(index,), daemon=True)
        self._threads[index] = thread
        thread.start()

    @override
    def leave(self, index: int) -> None:
        self._stops[index].set()

    @override
    def occupy(self, index: int, how: str, seconds: float) -> None:
        self._jobs[index] = lambda: _occupy(how, seconds)

    @override
    def close(self) -> None:
        for stop in self._stops.values():
            stop.set()
        end = time.monotonic() + _CLOSE_S
        for thread in self._threads.values():
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, index: int) -> None:
        stop = self._stops[index]
        try:
            member = self.open(index)
            while not stop.is_set():
                self.poll(member)
                job = self._jobs.pop(index, None)
                if job is not None:
                    job()
            self.left[index] = time.perf_counter()
            self.close_member(member)
        except Exception as error:  # noqa: BLE001  # told to whoever measures
            self.errors.append(f"{type(error).__name__}: {error}")


def _occupy(how: str, seconds: float) -> None:
    if how == "python":
        python_loop(seconds)
        return
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        (native_call if how == "native" else time.sleep)(min(BLOCK_S, left))
        time.sleep(_PAUSE_S)


class LoopMembers(Members):
    """One event loop for all members, a task for each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stops: dict[int, bool] = {}
        self._tasks: dict[int, Any] = {}

    @abstractmethod
    async def open(self, index: int) -> Any:
        """Return a member that joins when it is polled."""

    @abstractmethod
    async def poll(self, member: Any) -> None:
        """Poll once."""

    @abstractmethod
    async def close_member(self, member: Any) -> None:
        """Close a member, so that it leaves."""

    @override
    def start(self, index: int) -> None:
        self._stops[index] = False
        self._tasks[index] = self._spawn(self._run(index))

    @override
    def leave(self, index: int) -> None:
        self._stops[index] = True

    @override
    def occupy(self, index: int, how: str, seconds: float) -> None:
        self._spawn(self._occupy(how, seconds))

    @override
    def close(self) -> None:
        for index in self._stops:
            self._stops[index] = True
        end = time.monotonic() + _CLOSE_S
        for task in self._tasks.values():
            with contextlib.suppress(TimeoutError):
                task.result(max(0.0, end - time.monotonic()))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _occupy(self, how: str, seconds: float) -> None:
        if how == "python":
            python_loop(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            # Blocking the loop is what is measured.
            (native_call if how == "native" else time.sleep)(min(BLOCK_S, left))
            await asyncio.sleep(_PAUSE_S)

    async def _run(self, index: int) -> None:
        try:
            member = await self.open(index)
            while not self._stops[index]:
                await self.poll(member)
            self.left[index] = time.perf_counter()
            await self.close_member(member)
        except Exception as error:  # noqa: BLE001  # told to whoever measures
            self.errors.append(f"{type(error).__name__}: {error}")
