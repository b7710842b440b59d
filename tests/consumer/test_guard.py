"""Test that one thread at a time uses a consumer."""

import threading

import pytest

from groupsdk.consumer.guard import OneUser
from groupsdk.errors import ConcurrentUseError, EngineError, MemberClosedError


def test_a_second_thread_is_told() -> None:
    guard = OneUser()
    raised: list[str] = []

    def other() -> None:
        try:
            with guard:
                raised.append("nothing")
        except ConcurrentUseError as error:
            raised.append(str(error))

    with guard:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread" in raised[0]
    other_again = threading.Thread(target=other)
    other_again.start()
    other_again.join()
    assert raised[1:] == ["nothing"]


def test_a_listener_may_use_the_consumer_and_close_it_but_not_drive_it() -> None:
    guard = OneUser()
    outer = guard.enter(driving=True)
    with guard, pytest.raises(ConcurrentUseError, match="not poll"):
        guard.enter(driving=True)
    with guard.closing(), pytest.raises(ConcurrentUseError, match="not poll"):
        guard.enter(driving=True)
    guard.leave(outer)
    guard.leave(guard.enter(driving=True))


def test_nobody_comes_in_from_a_fork_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = OneUser()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(EngineError, match="after forking"):
        guard.enter()


def test_nobody_comes_in_once_it_is_closed() -> None:
    guard = OneUser()
    with guard.closing():
        guard.closed = True
    with pytest.raises(MemberClosedError), guard:
        pass
    guard.closed = False
    with guard:
        pass
