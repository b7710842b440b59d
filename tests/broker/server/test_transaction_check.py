"""Tests whether a producer may write where it wants to."""

import gc
import weakref

import pytest

from groupsdk.broker.server.transaction_check import Outcome, check
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.transactions import EndTxnRequest
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of
from tests.broker.test_transaction_markers import ask, begin, end


PLACE = ("t", 1)


def outcome(rig: ClusterRig, producer: tuple[int, int], *, add: bool) -> list[ErrorCode]:
    """Checks t-1 and returns the outcomes, which may come later."""
    found: list[ErrorCode] = []
    call = call_of(StandInConnection(rig), 0, 12)
    check(call, "x", producer, frozenset({PLACE}), lambda all_: found.append(all_[PLACE]), add=add)
    return found


def test_write_is_allowed_for_a_partition_of_the_transaction() -> None:
    rig = ClusterRig(topics={"t": 2})
    producer_id = begin(rig, 0)
    assert outcome(rig, (producer_id, 0), add=False) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert outcome(rig, (producer_id, 0), add=True) == [ErrorCode.NONE]
    assert outcome(rig, (producer_id, 0), add=False) == [ErrorCode.NONE]
    assert outcome(rig, (producer_id, 5), add=True) == [ErrorCode.PRODUCER_FENCED]
    assert outcome(rig, (99, 0), add=True) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_a_transaction_that_is_being_completed_is_waited_for() -> None:
    rig = ClusterRig(topics={"t": 2})
    producer_id = begin(rig, 0)
    end(rig, producer_id)
    found = outcome(rig, (producer_id, 0), add=True)
    assert found == []
    rig.settle()
    rig.pass_ms(20)
    assert found == [ErrorCode.NONE]


def test_but_not_for_ever() -> None:
    rig = ClusterRig(topics={"t": 2})
    producer_id = begin(rig, 0)
    rig.nodes[1].running = False
    ask(rig, EndTxnRequest("x", producer_id, 0, True), 4)
    found = outcome(rig, (producer_id, 0), add=True)
    rig.pass_ms(99)
    assert found == []
    rig.pass_ms(1)
    assert found == [ErrorCode.CONCURRENT_TRANSACTIONS]


@pytest.mark.parametrize("is_completed", [False, True])
def test_what_waits_for_a_check_is_freed_with_it(is_completed: bool) -> None:
    class Waits:
        """Has the call, with the request and its records."""

        def __call__(self, _: Outcome) -> None: ...

    rig = ClusterRig(topics={"t": 2})
    producer = (begin(rig, 0), 0)
    if is_completed:
        # the first attempt finds the transaction before, which is being completed
        end(rig, producer[0])
    waits = Waits()
    freed = weakref.ref(waits)
    gc.disable()
    try:
        call = call_of(StandInConnection(rig), 0, 12)
        check(call, "x", producer, frozenset({PLACE}), waits, add=True)
        del waits
        assert (freed() is not None) == is_completed
        rig.settle()
        rig.pass_ms(20)
        assert freed() is None
    finally:
        gc.enable()
