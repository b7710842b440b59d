"""Allocates one kind of work."""

from groupsdk.connect.group.allocation import Allocation
from groupsdk.utf16 import utf16_sorted


def begun(configured: str, **reported: str) -> Allocation[str]:
    """An allocation whose round has begun."""
    made: Allocation[str] = Allocation(utf16_sorted)
    made.begin(configured.split(), {m: each.split() for m, each in reported.items()}, known=True)
    made.compare()
    return made


def test_unreported_task_is_new_and_goes_to_the_least_loaded_worker() -> None:
    made = begun("a b c d", W1="a", W2="")
    assert not made.find_surplus(2, reassigned=False)
    made.assign_new(reassigned=False)
    assert made.newly_assigned == {"W1": ["d"], "W2": ["b", "c"]}
    made.finish()
    assert made.previous == {"a", "b", "c", "d"}


def test_assigned_task_that_nobody_reports_is_lost() -> None:
    made = begun("a b", W1="a b")
    made.finish()
    made.begin(["a", "b"], {"W2": ()}, known=True)
    made.compare()
    assert made.lost == ["a", "b"]
    made.begin(["a", "b"], {"W2": ()}, known=False)
    made.compare()
    assert made.lost == []


def test_the_first_of_what_is_too_much_is_taken() -> None:
    made = begun("a b c", W1="a b c", W2="")
    assert made.find_surplus(2, reassigned=False)
    made.revoke_surplus()
    assert made.revoked == {"W1": ["a"]}
    assert made.all_assigned == {"W1": ["b", "c"], "W2": []}
