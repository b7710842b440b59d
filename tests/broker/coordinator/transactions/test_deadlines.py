"""Tests the deadlines of many keys."""

from hypothesis import given, strategies as st

from groupsdk.broker.coordinator.transactions.state_manager import Deadlines


def test_keys_come_out_in_the_order_of_their_deadlines() -> None:
    deadlines = Deadlines()
    assert (deadlines.next_ms, deadlines.pop(10**9)) == (None, None)
    deadlines.arm("b", 20)
    deadlines.arm("a", 10)
    deadlines.arm("c", 30)
    assert deadlines.next_ms == 10
    assert deadlines.pop(9) is None
    assert [deadlines.pop(20) for _ in range(3)] == ["a", "b", None]
    assert len(deadlines) == 1
    assert "c" in deadlines
    assert "a" not in deadlines


def test_a_deadline_can_be_moved_and_dropped() -> None:
    deadlines = Deadlines()
    deadlines.arm("a", 10)
    deadlines.arm("a", 50)
    deadlines.arm("b", 20)
    deadlines.drop("b")
    deadlines.drop("unknown")
    assert deadlines.next_ms == 50
    deadlines.arm("a", 5)
    assert deadlines.pop(5) == "a"
    assert deadlines.pop(100) is None
    deadlines.arm("a", 1)
    deadlines.clear()
    assert deadlines.next_ms is None


def test_moving_a_deadline_for_ever_takes_no_memory() -> None:
    deadlines = Deadlines()
    for at_ms in range(10_000):
        deadlines.arm("a", 10_000 + at_ms)
        assert len(deadlines._heap) <= 2 + 64
    assert deadlines.pop(19_999) == "a"


@given(
    st.lists(
        st.tuples(st.sampled_from("armdrp"), st.sampled_from("abcdef"), st.integers(0, 50)),
        max_size=200,
    )
)
def test_transaction_deadlines_agree_with_a_dictionary(steps: list[tuple[str, str, int]]) -> None:
    deadlines, model = Deadlines(), dict[str, int]()
    for step, key, at_ms in steps:
        if step == "p":
            popped = deadlines.pop(at_ms)
            due = {each: at for each, at in model.items() if at <= at_ms}
            if popped is None:
                assert not due
            else:
                assert due[popped] == min(due.values())
                del model[popped]
        elif step == "d":
            deadlines.drop(key)
            model.pop(key, None)
        else:
            deadlines.arm(key, at_ms)
            model[key] = at_ms
        assert deadlines.next_ms == min(model.values(), default=None)
        assert len(deadlines) == len(model)
