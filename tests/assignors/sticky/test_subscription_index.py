"""Members, topics and lists of topics as numbers."""

import random

from assignors.sticky.bitsets import positions
from assignors.sticky.subscription_index import SubscriptionIndex
from tests.support.cases import each_case


def test_topics_with_the_same_readers_have_one_index_entry() -> None:
    both = ["b", "a", "c"]
    subscription_index = SubscriptionIndex([both, ["a", "b", "a"], both, both], {"c", "b", "a"})
    assert subscription_index.topics == ["a", "b", "c"]
    assert subscription_index.list_of == [0, 1, 0, 0]
    assert subscription_index.lists == 2
    assert subscription_index.rows() == ({"a": 0, "b": 0, "c": 1}, [0b1111, 0b1101])


def test_one_list_is_one_list() -> None:
    topics = ["a", "b"]
    assert [SubscriptionIndex([topics] * members, topics).lists for members in (1, 2, 3)] == [
        1,
        1,
        1,
    ]


@each_case("seed", range(60))
def test_agrees_with_sets_whether_lists_are_long_or_short_or_shared(seed: int) -> None:
    chance = random.Random(seed)
    topics = [f"t{number}" for number in range(chance.choice([3, 20, 200]))]
    longest = chance.choice([2, len(topics)])
    lists = [
        chance.sample(topics, chance.randint(1, min(longest, len(topics))))
        for _ in range(chance.randint(1, 12))
    ]
    subscribed = lists if chance.random() < 0.5 else [chance.choice(lists) for _ in range(30)]
    known = sorted(set().union(*subscribed))
    chance.shuffle(known)
    subscription_index = SubscriptionIndex(subscribed, known)
    row_of_topic, readers = subscription_index.rows()
    assert list(row_of_topic) == sorted(known)
    for topic, row in row_of_topic.items():
        assert positions(readers[row]) == [i for i, each in enumerate(subscribed) if topic in each]
    assert len(set(readers)) == len(readers)
    for member, wanted in enumerate(subscribed):
        assert subscription_index.known(member) == set(wanted)
        assert subscription_index.has_all(member, wanted)
        assert subscription_index.has_all(member, wanted[:1])
        assert not subscription_index.has_all(member, [*wanted, "unknown"])
        others = sorted(set(known) - set(wanted))
        assert not others or not subscription_index.has_all(member, [*wanted, others[0]])
