"""Test that the caller always finds the latest publication, and wakes for it."""

import contextlib
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.errors import EngineError
from groupsdk.member.view import NOT_STARTED, MemberView
from tests.drivers.views import view


def shown(mailbox: Mailbox) -> MemberView:
    return mailbox.view


def test_a_new_mailbox_is_empty() -> None:
    mailbox = Mailbox()
    assert (mailbox.version, mailbox.view) == (0, NOT_STARTED)
    assert (mailbox.view.handled, mailbox.view.crash) == (0, None)


def test_the_latest_publication_is_kept() -> None:
    mailbox = Mailbox()
    mailbox.publish(view(assignment_epoch=1, handled=1))
    mailbox.publish(view(assignment_epoch=2, handled=3))
    assert (mailbox.version, mailbox.view.handled) == (2, 3)
    assert shown(mailbox).assignment_epoch == 2


def test_a_crash_keeps_the_view_and_outlasts_what_is_published_after_it() -> None:
    mailbox = Mailbox()
    mailbox.publish(view(assignment_epoch=1))
    error = EngineError("it ended")
    mailbox.crash(error)
    assert mailbox.view.crash is error
    assert shown(mailbox).assignment_epoch == 1
    mailbox.publish(view(assignment_epoch=2))
    assert mailbox.view.crash is error


def test_waking_changes_only_the_version() -> None:
    mailbox = Mailbox()
    mailbox.publish(view(handled=7))
    before = mailbox.view
    mailbox.wake()
    assert (mailbox.version, mailbox.view) == (2, before)


class Overtaken:
    """A lock that another thread gets first: it does something before anyone holds it."""

    def __init__(self, lock: Any, first: Callable[[], None]) -> None:
        self._lock = lock
        self._first = [first]

    def __enter__(self) -> object:
        if self._first:
            self._first.pop()()
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)


def test_a_late_crash_restores_no_older_view() -> None:
    mailbox = Mailbox()
    mailbox.publish(view(handled=1))
    overtaken: Any = Overtaken(mailbox._lock, lambda: mailbox.publish(view(handled=2)))
    mailbox._lock = overtaken
    mailbox.crash(EngineError("it ended"))
    assert (mailbox.version, mailbox.view.handled) == (3, 2)


def test_waiting_returns_at_once_where_there_is_something_newer() -> None:
    mailbox = Mailbox()
    mailbox.publish(view())
    mailbox.wait_newer(0, 60_000)  # or the test runs into its time limit


def test_waiting_ends_with_a_publication_of_another_thread() -> None:
    mailbox = Mailbox()
    waiting = threading.Event()

    def wait() -> int:
        waiting.set()
        mailbox.wait_newer(0, 60_000)
        return mailbox.version

    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(wait)
        waiting.wait()
        mailbox.wake()
        assert waiter.result() == 1


def test_waiting_ends_with_the_time() -> None:
    mailbox = Mailbox()
    mailbox.wait_newer(0, 1)
    assert mailbox.version == 0


def test_the_listener_is_called_after_each_publication() -> None:
    mailbox = Mailbox()
    heard: list[int] = []

    def listener() -> None:
        heard.append(mailbox.version)

    mailbox.listen(listener)
    mailbox.publish(view())
    mailbox.wake()
    mailbox.crash(EngineError("it ended"))
    mailbox.forget(print)  # was replaced before
    mailbox.wake()
    mailbox.forget(listener)
    mailbox.wake()
    assert heard == [1, 2, 3, 4]


def test_a_signal_handler_may_wake_the_thread_that_it_interrupts() -> None:
    # the handler runs on the thread that may hold the lock just then: it would never be free
    mailbox = Mailbox()
    with mailbox._lock:
        mailbox.wake()
    assert mailbox.version == 1


def test_interrupted_waiter_leaves_the_mailbox_unlocked() -> None:
    # Ctrl-C, say, which may come between any two steps of the waiting thread
    class Interrupt(Exception):  # noqa: N818  # as KeyboardInterrupt is called
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    mailbox = Mailbox()
    interrupted = 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupted < 2_000:
            with contextlib.suppress(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.00002 + interrupted % 50 * 0.000002)
                for _ in range(1_000):
                    mailbox.wait_newer(0, 0)
            interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(mailbox.publish, view(handled=1)).result(timeout=60)
    assert mailbox.view.handled == 1
    assert not mailbox._waiters


@pytest.mark.parametrize("handled", [0, 5])
def test_a_wake_before_and_after_the_first_view(handled: int) -> None:
    mailbox = Mailbox()
    if handled:
        mailbox.publish(view(handled=handled))
    mailbox.wake()
    assert mailbox.view.handled == handled
