"""Run functions that may block, without blocking the event loop and without keeping threads."""

import asyncio
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from groupsdk.errors import NetworkError


T = TypeVar("T")


class BlockingCalls:
    """Runs each function on a thread of its own, one at a time per key. Belongs to one event loop.

    Not asyncio's executor: that keeps its threads for every member, and waits for them at exit. A function
    that hangs (a name server, a token provider) holds one thread, not one for every attempt: whoever asks
    under the same key meanwhile waits for that one's result.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def run(self, key: Hashable, function: Callable[[], T]) -> T:
        """Run a function on a thread, or join a call that is running under an equal key. Return its result.

        StopIteration and anything that is not an Exception, such as SystemExit, become a RuntimeError: they would
        end the event loop, and are meant for the thread alone. A NetworkError says that no thread could be started.
        """
        future: asyncio.Future[T] | None = self._running.get(key)
        if future is None:
            future = self._start(key, function)
        # Not awaited itself: one waiter that gives up must not cancel it for the others. Nor shielded: where
        # the function fails after that, newer Pythons report it to the loop as a fault.
        await asyncio.wait([future])
        return future.result()

    def _start(self, key: Hashable, function: Callable[[], T]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(error: Exception | None, results: list[T]) -> None:
            del self._running[key]
            if error is not None:
                future.set_exception(error)
                future.exception()  # nobody may be waiting any more, which is no fault
            else:
                future.set_result(results[0])

        def work() -> None:
            error, results = _outcome(function)
            try:
                loop.call_soon_threadsafe(finish, error, results)
            except RuntimeError:
                return  # the loop is closed: the member has ended, and nobody waits

        try:
            threading.Thread(target=work, name="groupsdk-blocking", daemon=True).start()
        except RuntimeError as error:
            raise NetworkError(
                f"cannot start a thread for a blocking call (name lookup, token provider): {error}"
            ) from error
        self._running[key] = future  # `finish` comes later: it runs on this loop
        return future


def _outcome(function: Callable[[], T]) -> tuple[Exception | None, list[T]]:
    """Call the function; return what it raised, or its result in a list."""
    try:
        return None, [function()]
    except StopIteration as error:
        wrapped = RuntimeError("a blocking call raised StopIteration")
        wrapped.__cause__ = error
    except Exception as error:  # noqa: BLE001  # raised where the result is awaited
        return error, []
    except BaseException as error:  # noqa: BLE001  # the same
        wrapped = RuntimeError(f"a blocking call raised {type(error).__name__}")
        wrapped.__cause__ = error
    return wrapped, []
