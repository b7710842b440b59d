"""What a group keeps over its incarnations and protocols."""

from groupsdk.history.explain.timeline.incarnations import Incarnations
from groupsdk.history.explain.timeline.rows import GroupRecord


def test_generations_are_counted_once_over_all_protocols() -> None:
    incarnations = Incarnations()
    assert [incarnations.next_seq() for _ in range(3)] == [0, 1, 2]
    assert incarnations.incarnation == 0


def test_the_coordinator_has_moved_where_the_partitions_leader_is_a_later_one() -> None:
    incarnations = Incarnations()
    epochs = (4, 4, 6, 5, 6, 7)
    records = [
        GroupRecord("g", 0, place, 0, epoch, None, None) for place, epoch in enumerate(epochs)
    ]
    # an epoch that is lower is of a record that was copied from elsewhere
    assert [incarnations.moved(each) for each in records] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]
