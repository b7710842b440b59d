"""Test the contract: which methods it names, and that what we ship keeps it."""

import inspect
from typing import Any

import pytest

from groupsdk import AbstractCoordinator, AsyncAbstractCoordinator, Coordinator
from groupsdk.coordinator import AsyncGroupCallbacks, GroupCallbacks
from tests.drivers.virtual import AsyncUser, User


# Java's AbstractCoordinator of Kafka 4.3.1, and what stands for it here:
#   protocolType()
#   metadata()
#   onJoinPrepare(Timer timer, int generation, String memberId)
#   onLeaderElected(String leaderId, String protocol, List<...> allMemberMetadata, boolean skipAssignment)
#   onJoinComplete(int generation, String memberId, String protocol, ByteBuffer memberAssignment)
#   onLeavePrepare()
METHODS = {
    "metadata": (),
    "on_join_prepare": ("generation", "member_id"),
    "perform_assignment": ("leader_id", "protocol", "members"),
    "on_join_complete": ("generation", "member_id", "protocol", "assignment"),
    "on_leave_prepare": (),
}
CALLS = {"ensure_active_group", "generation", "generation_if_stable", "member_id", "close"}
WITH_DEFAULTS = {"on_join_prepare", "on_leave_prepare", "on_assignment_skipped"}
SHIPPED = [AbstractCoordinator, AsyncAbstractCoordinator]


def names(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_the_protocols_declare_the_methods_of_javas_contract() -> None:
    assert names(AsyncGroupCallbacks) == METHODS.keys() | {"protocol_type"}
    assert names(GroupCallbacks) == METHODS.keys(), "the type of protocol_type is the same"
    assert names(Coordinator) == CALLS


@pytest.mark.parametrize("kind", [Coordinator, GroupCallbacks, AsyncGroupCallbacks, *SHIPPED])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_the_contract_takes_javas_arguments(kind: type, name: str) -> None:
    assert tuple(inspect.signature(getattr(kind, name)).parameters) == ("self", *METHODS[name])


@pytest.mark.parametrize("shipped", SHIPPED)
def test_methods_with_defaults_in_java_have_defaults(shipped: type[AbstractCoordinator]) -> None:
    assert names(shipped) >= WITH_DEFAULTS
    assert shipped.__abstractmethods__ == METHODS.keys() - WITH_DEFAULTS


@pytest.mark.parametrize("shipped", SHIPPED)
@pytest.mark.parametrize("name", sorted(CALLS))
def test_shipped_coordinator_takes_the_arguments_of_the_contract(shipped: type, name: str) -> None:
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
