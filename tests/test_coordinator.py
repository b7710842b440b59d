"""Test the contract: which methods it names, and that what we ship keeps it."""

import inspect
from typing import Any

import pytest

from groupsdk import AbstractCoordinator, AsyncAbstractCoordinator, Coordinator
from groupsdk.coordinator import AsyncGroupCallbacks, GroupCallbacks
from tests.drivers.virtual import AsyncUser, User


CALLBACKS = {
    "protocol_type",
    "metadata",
    "on_join_prepare",
    "perform_assignment",
    "on_join_complete",
}
OPTIONAL = {"on_leave_prepare", "on_assignment_skipped"}
CALLS = {"ensure_active_group", "generation", "generation_if_stable", "member_id", "close"}


def names(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_the_contract_is_that_of_kafka() -> None:
    assert names(GroupCallbacks) == CALLBACKS - {"protocol_type"}, "the type of that is the same"
    assert names(AsyncGroupCallbacks) == CALLBACKS
    assert names(Coordinator) == CALLS
    for shipped in (AbstractCoordinator, AsyncAbstractCoordinator):
        assert names(shipped) >= OPTIONAL
        assert not OPTIONAL & shipped.__abstractmethods__


@pytest.mark.parametrize("shipped", [AbstractCoordinator, AsyncAbstractCoordinator])
@pytest.mark.parametrize("name", sorted(CALLBACKS - {"protocol_type"} | CALLS))
def test_what_is_shipped_takes_the_arguments_of_the_contract(shipped: type, name: str) -> None:
    theirs = inspect.signature(getattr(shipped, name)).parameters
    ours = inspect.signature(getattr(Coordinator, name)).parameters
    assert [(each.name, each.default) for each in theirs.values()] == [
        (each.name, each.default) for each in ours.values()
    ]


def test_the_contract_can_be_asked_for_at_run_time() -> None:
    class Complete(User):
        def ensure_active_group(self, timeout: float | None = None) -> bool:
            return True

        def generation(self) -> Any: ...
        def generation_if_stable(self) -> Any: ...
        def member_id(self) -> str:
            return ""

        def close(self, *_: object) -> None: ...
        def __enter__(self) -> Any: ...
        def __exit__(self, *_: object) -> None: ...

    assert isinstance(Complete(), Coordinator)
    assert not isinstance(User(), Coordinator)
    assert issubclass(AbstractCoordinator, object)


def test_callbacks_of_a_plain_object_do_for_both() -> None:
    # checked by the type checker: either kind of object is what the members take
    for_threads: GroupCallbacks = User()
    for_asyncio: AsyncGroupCallbacks = for_threads
    either: AsyncGroupCallbacks = AsyncUser(User())
    assert inspect.iscoroutinefunction(either.metadata)
    assert not inspect.iscoroutinefunction(for_asyncio.metadata)
