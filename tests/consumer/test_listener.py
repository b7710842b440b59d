"""Test how listeners are called."""

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.listener import CallbackListener, ListenerCalls
from groupsdk.types import Generation
from tests.consumer.rig import Listener


GIVEN = [TopicPartition("t", 0)]
GENERATION = Generation(3, "m", "range")


def test_every_method_is_called() -> None:
    listener = Listener()
    calls = ListenerCalls(listener)
    calls.assigned(GIVEN)
    calls.revoked(GIVEN)
    calls.lost(GIVEN)
    calls.generation_changed(GENERATION)
    assert listener.calls == [
        *(("assigned", ["t-0"]), ("revoked", ["t-0"])),
        *(("lost", ["t-0"]), ("generation", 3)),
    ]


def test_methods_may_be_left_out() -> None:
    calls = ListenerCalls(object())
    calls.assigned(GIVEN)
    calls.revoked(GIVEN)
    calls.lost(GIVEN)
    calls.generation_changed(GENERATION)
    ListenerCalls().assigned(GIVEN)


def test_without_a_method_for_what_is_lost_it_is_revoked() -> None:
    revoked: list[object] = []
    ListenerCalls(CallbackListener(None, revoked.append, None)).lost(GIVEN)
    assert revoked == [GIVEN]
    lost: list[object] = []
    ListenerCalls(CallbackListener(None, revoked.append, lost.append)).lost(GIVEN)
    assert (len(revoked), lost) == (1, [GIVEN])
