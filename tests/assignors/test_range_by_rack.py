"""Test how one topic, or co-partitioned ones, are matched with racks."""

from assignors.range import TopicRange, match_together


def test_without_matching_the_runs_are_those_of_range() -> None:
    assert TopicRange(7, [None] * 3).fill() == [[0, 1, 2], [3, 4], [5, 6]]


def test_members_take_what_is_in_their_rack_first() -> None:
    topic = TopicRange(4, ["a", "b"])

    topic.match(["b", "a", "a", "b"])

    assert topic.fill() == [[1, 2], [0, 3]]


def test_only_the_first_members_get_an_extra_one_by_rack() -> None:
    topic = TopicRange(4, ["a", "a", "b"])

    topic.match(["a", "a", "a", "a"])

    # the one extra is taken by the first member; nothing matches the third
    assert topic.fill() == [[0, 1], [2], [3]]


def test_a_rack_without_replicas_matches_nothing() -> None:
    topic = TopicRange(2, ["nowhere", "a"])

    topic.match(["a", "a"])

    assert topic.fill() == [[1], [0]]


def test_a_member_without_room_stays_without() -> None:
    topic = TopicRange(3, ["a", "b"])

    assert [topic.room(0), topic.room(1)] == [2, 2]
    topic.give(0, [0, 1])
    assert [topic.room(0), topic.room(1)] == [0, 1]


def test_topics_matched_together_need_a_rack_that_all_of_them_have() -> None:
    first, second = [{"a", "b"}, {"b"}], [{"b"}, {"a"}]

    matched = match_together(2, ["a", "b"], [first, second])

    # partition 0 is in rack b in both; partition 1 is in no rack in both
    assert matched.fill() == [[1], [0]]


def test_the_first_member_that_matches_takes_a_partition() -> None:
    matched = match_together(3, [None, "a", "a"], [[{"a"}] * 3])

    assert matched.fill() == [[0], [1], [2]]


def test_partition_that_matches_no_rack_is_left_to_the_plain_runs() -> None:
    matched = match_together(4, ["x", "y"], [[{"a"}, {"y"}, {"a"}, {"a"}]])

    assert matched.fill() == [[0, 2], [1, 3]]
