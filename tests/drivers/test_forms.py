"""Test that the forms of members for threads and for asyncio have the same methods, arguments and docstrings."""

import inspect

import pytest

from groupsdk.drivers.aio.member import AsyncAbstractCoordinator, AsyncGroupMember
from groupsdk.drivers.threads.member import AbstractCoordinator, GroupMember
from tests.support.forms import arguments, public_names


FOR_THE_CONSUMER = {"quiet_at", "give_up_join"}
"""Methods of the form for threads alone: `GroupConsumer`, which is built on it, uses them."""
AWAITED = {
    *("ensure_active_group", "poll", "leave_group", "close"),
    *("commit_offsets", "committed_offsets", "describe_group"),
}


@pytest.mark.parametrize(
    ("threads", "aio"),
    [(GroupMember, AsyncGroupMember), (AbstractCoordinator, AsyncAbstractCoordinator)],
)
def test_both_forms_have_the_same_methods_arguments_and_docstrings(
    threads: type, aio: type
) -> None:
    names = public_names(threads) - FOR_THE_CONSUMER
    assert names == public_names(aio)
    for name in names:
        method, form = getattr(threads, name), getattr(aio, name)
        assert inspect.getdoc(form) == inspect.getdoc(method), name
        if not isinstance(method, property):
            assert arguments(form) == arguments(method), name
            assert inspect.iscoroutinefunction(form) == (name in AWAITED), name
