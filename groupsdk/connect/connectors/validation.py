"""Validate configurations on threads of their own, as `Connector.validate` is the user's and may never return."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from traceback import format_exception_only
from typing import Final, TypeVar

from groupsdk.connect.errors import ConnectError


A = TypeVar("A")
B = TypeVar("B")
_MOST: Final = 4
"""The most validations of one class at a time. Python cannot stop a thread, so one that hangs keeps its own."""


class ValidationThreads:
    """Runs each validation on a daemon thread, a few at a time for each class. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def running(self) -> list[str]:
        """Return the names of the classes whose validation has not returned."""
        with self._lock:
            return sorted(self._running)

    def start(self, class_name: str, check: Callable[[], A]) -> "Future[A]":
        """Run a check of one of the registered classes, which are few, on a thread. Return a future of its result.

        It raises ConnectError if the check raises what would end a thread, such as SystemExit, or if too many checks of the
        class are running.
        """
        future: Future[A] = Future()
        with self._lock:
            count = self._running[class_name]
            if count < _MOST:
                self._running[class_name] += 1
        if count >= _MOST:
            text = f"{count} validations of {class_name} are running and none has returned"
            future.set_exception(ConnectError(text))
            return future
        thread = threading.Thread(
            target=self._run,
            args=(class_name, check, future),
            name=f"groupsdk-validate-{class_name}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # no more threads
            self._ended(class_name)
            future.set_exception(ConnectError(f"{class_name} cannot be validated: {error}"))
        return future

    def _run(self, class_name: str, check: Callable[[], A], future: "Future[A]") -> None:
        try:
            result = check()
        except BaseException as error:  # noqa: BLE001  # the caller's
            raised = error
            if not isinstance(error, Exception):
                # raised by `await`, it would end the caller's event loop
                (said,) = format_exception_only(error)[-1:]
                raised = ConnectError(f"validate of {class_name} raised {said.strip()}")
            self._ended(class_name)
            _fail(future, raised)
        else:
            self._ended(class_name)
            if future.set_running_or_notify_cancel():
                future.set_result(result)

    def _ended(self, class_name: str) -> None:
        with self._lock:
            self._running[class_name] -= 1
            self._running += Counter()  # without those at 0


def then(first: "Future[A]", following: Callable[[A], "Future[B]"]) -> "Future[B]":
    """Return the future of a second step, which is started with the result of the first one, on the thread that completes it.

    Cancelling it cancels the step that has not begun, and keeps the second one from being started.
    """
    result: Future[B] = Future()
    steps: list[Future[A] | Future[B]] = [first]

    def cancelled(future: "Future[B]") -> None:
        if future.cancelled():
            steps[-1].cancel()

    def ended(future: "Future[A]") -> None:
        if result.cancelled() or future.cancelled():
            result.cancel()
            return
        try:
            second = following(future.result())
        except Exception as error:  # noqa: BLE001  # of the first step, or of starting the second
            _fail(result, error)
            return
        steps.append(second)
        if result.cancelled():  # meanwhile
            second.cancel()
        second.add_done_callback(lambda each: _pass_on(each, result))

    result.add_done_callback(cancelled)
    first.add_done_callback(ended)
    return result


def _pass_on(done: "Future[B]", result: "Future[B]") -> None:
    error = None if done.cancelled() else done.exception()
    if done.cancelled():
        result.cancel()
    elif error is not None:
        _fail(result, error)
    elif result.set_running_or_notify_cancel():
        result.set_result(done.result())


def _fail(future: "Future[B]", error: BaseException) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
