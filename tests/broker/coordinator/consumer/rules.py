"""Rules of groups, each a sequence of requests with Kafka's answers: pairs of what was answered and what Kafka answers."""

from collections.abc import Callable, Iterator
from typing import Any

from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.broker.clients import batch, eventually, produce
from tests.broker.coordinator.consumer.conversation import (
    TOO_LARGE,
    Conversation,
    offers,
    subscription,
)


Rule = Callable[[Conversation], Iterator[tuple[Any, Any]]]
ALL = [0, 1, 2, 3]


# -- what a member owns


def a_topic_in_several_elements_is_owned_whole(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.heartbeat("b"), (3, {})
    yield c.heartbeat("a", 2, owned={"ct": ALL}), (2, {"ct": [0, 1]})
    for owned in ([("ct", [0, 1]), ("ct", [2, 3])], [("ct", [2, 3]), ("ct", [0, 1]), ("ct", [])]):
        yield c.heartbeat("a", 2, owned=owned), (2, None)
        yield c.heartbeat("b", 3), (3, None)
    yield c.heartbeat("a", 2, owned=[("ct", [0]), ("ct", [1])]), (3, None)
    yield c.heartbeat("b", 3), (3, {"ct": [2, 3]})
    # of a lost answer
    yield c.heartbeat("a", 2, owned=[("ct", [0]), ("ct", [1])]), (3, None)
    yield c.heartbeat("a", 2, owned=[("ct", [3]), ("ct", [1])]), 110


def members_named_twice_leave_once(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", instance_id="i"), (2, {"ct": ALL})
    yield c.heartbeat("b"), (3, {})
    yield c.leave(("a", "i"), ("", "i"), ("b", None), ("b", None)), [0, 0, 0, 0]
    yield c.epochs(), ("Empty", 4, 3)


def partitions_named_twice_are_answered_twice(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    c.begin_transactions()
    large = (0, TOO_LARGE)
    yield c.commit("a", 2, large, 0), [(0, 12), (0, 0)]
    yield sorted(c.commit("a", 2, large, 99, 0)), [(0, 0), (0, 12), (99, 3)]
    yield c.commit_in_transaction("a", 2, large, 0, 1), [(0, 12), (0, 0), (1, 0)]


# -- commits


def a_kept_partition_may_be_committed_in_an_older_epoch(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    c.begin_transactions()
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.heartbeat("b"), (3, {})
    yield c.heartbeat("a", 2, owned={"ct": ALL}), (2, {"ct": [0, 1]})
    yield c.heartbeat("a", 2, owned={"ct": [0, 1]}), (3, None)
    for epoch, kept, lost, within in ((3, 0, 0, 0), (2, 0, 113, 22), (1, 113, 113, 22)):
        yield c.commit("a", epoch, 0), [(0, kept)]
        yield c.commit("a", epoch, 2), [(2, lost)]
        yield c.commit_in_transaction("a", epoch, 2), [(2, within)]
        yield c.commit_in_transaction("a", epoch, 0, 2), [(0, within), (2, within)]
        for version in (3, 4, 5):
            found = c.commit_in_transaction("a", epoch, 0, version=version)
            yield found, [(0, 22 if kept else 0)]
    yield c.both_commits("a", 4), (113, 22)
    # the one before the last, too
    yield c.heartbeat("c", names=("cu",)), (4, {"cu": [0, 1]})
    yield c.heartbeat("a", 3, owned={"ct": [0, 1]}), (4, None)
    yield [c.both_commits("a", each) for each in (4, 3, 2, 1)], [(0, 0)] * 3 + [(113, 22)]


def an_offset_that_cannot_be_stored_is_not_fenced(c: Conversation) -> Iterator[tuple[Any, Any]]:
    c.begin_transactions()
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.heartbeat("b"), (3, {})
    yield c.heartbeat("a", 2, owned={"ct": [0, 1]}), (3, {"ct": [0, 1]})
    for commit, stale in ((c.commit, 113), (c.commit_in_transaction, 22)):
        large = (2, TOO_LARGE)
        yield commit("a", 2, 0, large), [(0, 0), (2, 12)]
        yield commit("a", 2, large), [(2, 12)]
        yield commit("a", 2, (0, TOO_LARGE), 2), [(0, stale), (2, stale)]
        yield commit("a", 4, large), [(2, stale)]


def an_older_generation_of_a_classic_member_is_illegal(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    c.begin_transactions()
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("k"), (3, "range")
    yield c.heartbeat("z", names=("cu",)), (4, {"cu": [0, 1]})
    yield c.join("k"), (4, "range")
    yield c.both_commits("k", 4), (0, 0)
    for generation in (5, 3, 2):
        yield c.both_commits("k", generation), (22, 22)


def an_empty_group_takes_commits_of_tools(c: Conversation) -> Iterator[tuple[Any, Any]]:
    c.begin_transactions()
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.heartbeat("a", -1), (-1, None)
    for member_id, epoch, instance_id, codes in (
        ("x", -1, None, (0, 0)),
        ("", -1, "i", (0, 0)),
        ("x", -2, None, (0, 0)),
        ("", 0, None, (25, 25)),
    ):
        yield c.both_commits(member_id, epoch, instance_id), codes
    yield c.heartbeat("a", instance_id="i"), (4, {"ct": ALL})
    for member_id, epoch, instance_id, codes in (
        ("x", -1, None, (25, 25)),
        ("", -1, None, (25, 0)),
        ("", -2, None, (25, 25)),
        ("", -1, "i", (25, 25)),
        ("a", -1, None, (113, 22)),
    ):
        yield c.both_commits(member_id, epoch, instance_id), codes


def a_classic_group_fences_commits_by_generation(c: Conversation) -> Iterator[tuple[Any, Any]]:
    c.begin_transactions()
    member_id = c.stable(2)
    for named, generation, instance_id, codes in (
        (member_id, 2, None, (0, 0)),
        (member_id, 1, None, (22, 22)),
        (member_id, 2, "i", (25, 25)),
        ("", -2, None, (25, 0)),
        ("x", -1, None, (25, 25)),
    ):
        yield c.both_commits(named, generation, instance_id), codes
    yield c.join(member_id, version=3), (3, "range")
    yield c.both_commits(member_id, 3), (27, 0)


def a_commit_of_no_partition_is_answered_by_the_handler(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.commit("x", 99), []
    member_id = c.stable(1, session_ms=500)

    def after_a_commit(request: OffsetCommitRequest) -> Any:
        c.client.ask(request, 8)
        return c.classic_group()

    # its session ends, however many of these it sends
    none = OffsetCommitRequest(c.group_id, 1, member_id)
    eventually(lambda: after_a_commit(none), ("Empty", "consumer", 0))


# -- groups that change their type


def members_keep_their_protocols_after_a_downgrade(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("k", offers("range", "roundrobin")), (3, "range")
    yield c.join("l", offers("range", "roundrobin")), (4, "range")
    yield c.heartbeat("a", -1), (-1, None)
    yield c.classic_group(), ("PreparingRebalance", "consumer", 2)
    yield c.join("", offers("roundrobin")), 79
    yield c.join("", offers("other"))[0], 23


def members_keep_their_protocols_where_a_static_member_downgrades(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", instance_id="i"), (2, {"ct": ALL})
    yield c.join("l", offers("range", "roundrobin")), (3, "range")
    yield c.join("", offers("range", "roundrobin"), instance_id="i"), (3, "range")
    yield c.classic_group(), ("Stable", "consumer", 2)
    yield c.join("", offers("roundrobin")), 79
    yield c.join("", offers("other"))[0], 23


def a_static_member_that_downgrades_is_given_what_others_have_not_given_up(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", names=("cu",), instance_id="i"), (2, {"cu": [0, 1]})
    yield c.join("k"), (3, "range")
    yield c.sync("k", 3), ALL
    yield c.heartbeat("a", 2, names=("ct",), owned={"cu": [0, 1]}, instance_id="i"), (2, {})
    yield c.beat("k", 3), 27
    has = subscription(owned=ALL, generation=3)
    yield c.join("k", offers("range", metadata=has)), (3, "range")
    yield c.sync("k", 3), [0, 1]
    # the other two are to be revoked, and the next join would show that they are
    yield c.join("", instance_id="i"), (4, "range")
    yield c.sync(c.joined.member_id, 4, instance_id="i"), [2, 3]
    yield c.beat("k", 3), 22


def the_last_consumer_may_become_classic_under_its_own_ids(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", instance_id="i"), (2, {"ct": ALL})
    yield c.join("a", instance_id="i"), (2, "range")
    yield (c.consumer_group(), c.classic_group()), (69, ("Stable", "consumer", 1))
    yield c.sync("a", 2, instance_id="i"), ALL
    yield c.beat("a", 2, "i"), 0


def an_outdated_target_is_left_to_the_rebalance_after_the_downgrade(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", instance_id="i"), (2, {"ct": ALL})
    # the subscription changes: the group keeps its generation, and the member its epoch
    both = offers("range", metadata=subscription("ct", "cu", owned=ALL))
    yield c.join("a", both, instance_id="i"), (2, "range")
    yield c.classic_group(), ("PreparingRebalance", "consumer", 1)
    yield [c.beat("a", each, "i") for each in (2, 3)], [27, 22]


def a_member_that_becomes_classic_drops_its_expression(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", names=("cu",)), (2, {"cu": [0, 1]})
    yield c.heartbeat("b", names=("ct",), regex="no such topic"), (3, {"ct": ALL})
    yield c.heartbeat("a", 2), (3, None)
    yield c.join("b"), (4, "range")
    yield c.heartbeat("b", 4, regex="no such topic"), (4, None)


def without_an_instance_id_the_last_consumer_leaves_the_type(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("a"), (2, "range")
    yield c.consumer_group(), ("Stable", 2, 2, "uniform", [("a", 2, 0)])


def the_generation_of_a_group_that_waits_for_a_member_id_goes_on(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("k"), (3, "range")
    yield c.heartbeat("b", names=("cu",)), (4, {"cu": [0, 1]})
    yield c.heartbeat("b", -1), (-1, None)
    yield c.heartbeat("a", -1), (-1, None)
    yield c.join(""), 79
    yield c.leave(("k", None)), [0]
    yield c.classic_group(), ("PreparingRebalance", "consumer", 0)
    yield c.heartbeat("c"), (6, {"ct": ALL})


# -- the classic protocol in a consumer group


def from_version_5_a_sync_names_the_protocol(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("k"), (3, "range")
    for kind, name in ((None, None), ("consumer", None), (None, "range")):
        for member_id, generation in (("k", 3), ("x", 3), ("k", 9), ("a", 2)):
            yield c.sync(member_id, generation, kind, name), 23
    yield c.sync("k", 3, None, None, version=4), []
    yield c.sync("k", 3, "consumer", "other"), 23
    yield c.sync("k", 3), []


def a_classic_member_changes_its_protocols_by_way_of_both(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.join("k"), (3, "range")
    yield c.join("k", offers("roundrobin")), (23, "")
    yield c.join("l"), (4, "range")
    yield c.join("l", offers("roundrobin")), (23, "")
    yield c.leave(("l", None)), [0]
    yield c.join("k", offers("roundrobin", "range")), (5, "roundrobin")
    yield c.join("k", offers("roundrobin")), (5, "roundrobin")
    yield c.join("m"), (23, "")


def a_refused_join_names_no_member(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a", instance_id="i"), (2, {"ct": ALL})
    yield c.join("k"), (3, "range")
    yield c.join("x", offers("other")), (23, "")
    yield c.join("k", kind="connect"), (23, "")
    yield c.join("k", ()), (23, "")
    yield c.join("x", offers("range", metadata=b"\xff")), (-1, "")
    yield c.join("x", instance_id="i"), (82, "")
    yield c.join("x", instance_id="unknown"), (25, "")
    yield c.join("k", session_ms=1), (26, "k")


# -- targets


def of_two_wished_assignors_the_first_of_a_hash_map_wins(
    c: Conversation,
) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("b", assignor="uniform"), (2, {"ct": ALL})
    yield c.heartbeat("a", assignor="range"), (3, {})
    yield c.consumer_group()[3], "uniform"
    # range gives the first half to the first
    yield c.heartbeat("b", 2, owned={"ct": ALL}), (2, {"ct": [2, 3]})


def an_expression_without_topics_changes_nothing(c: Conversation) -> Iterator[tuple[Any, Any]]:
    yield c.heartbeat("a"), (2, {"ct": ALL})
    yield c.heartbeat("a", 2, regex="no such topic"), (2, None)
    # the next one that is joined with is answered from what was resolved
    yield c.heartbeat("b", names=("cu",), regex="no such topic"), (3, {"cu": [0, 1]})
    yield c.heartbeat("a", 2), (3, None)
    yield c.epochs(), ("Stable", 3, 3)


# -- batches


def an_unknown_message_format_is_a_corrupt_message(c: Conversation) -> Iterator[tuple[Any, Any]]:
    def code(data: bytes) -> int:
        return produce(c.client, "ct", data).error_code

    one, other = batch(b"v"), batch(b"w")
    for number, error in ((9, 2), (3, 2), (255, 2), (1, 87), (0, 87)):
        changed = other[:16] + bytes((number,)) + other[17:]
        yield (code(changed), code(one + changed)), (error, error)


RULES: dict[str, Rule] = {
    each.__name__: each
    for each in (
        a_topic_in_several_elements_is_owned_whole,
        members_named_twice_leave_once,
        partitions_named_twice_are_answered_twice,
        a_kept_partition_may_be_committed_in_an_older_epoch,
        an_offset_that_cannot_be_stored_is_not_fenced,
        an_older_generation_of_a_classic_member_is_illegal,
        an_empty_group_takes_commits_of_tools,
        a_classic_group_fences_commits_by_generation,
        a_commit_of_no_partition_is_answered_by_the_handler,
        members_keep_their_protocols_after_a_downgrade,
        members_keep_their_protocols_where_a_static_member_downgrades,
        a_static_member_that_downgrades_is_given_what_others_have_not_given_up,
        the_last_consumer_may_become_classic_under_its_own_ids,
        an_outdated_target_is_left_to_the_rebalance_after_the_downgrade,
        a_member_that_becomes_classic_drops_its_expression,
        without_an_instance_id_the_last_consumer_leaves_the_type,
        the_generation_of_a_group_that_waits_for_a_member_id_goes_on,
        from_version_5_a_sync_names_the_protocol,
        a_classic_member_changes_its_protocols_by_way_of_both,
        a_refused_join_names_no_member,
        of_two_wished_assignors_the_first_of_a_hash_map_wins,
        an_expression_without_topics_changes_nothing,
        an_unknown_message_format_is_a_corrupt_message,
    )
}


def follow(rule: Rule, conversation: Conversation) -> None:
    """Holds each answer of a rule against Kafka's."""
    for number, (found, expected) in enumerate(rule(conversation), 1):
        assert found == expected, f"answer {number} is {found}, not {expected}"
