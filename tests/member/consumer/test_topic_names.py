from random import Random

from groupsdk.error_code import ErrorCode
from groupsdk.member.consumer.reconciliation import TopicNames
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.member.consumer.driving import T, U, names


def topic_names() -> TopicNames:
    return TopicNames(ExponentialBackoff(100, 1_000), Random(0))


def test_names_are_asked_by_id_and_learned_from_the_answer() -> None:
    known = topic_names()
    wanted = {T: frozenset({1, 0}), U: frozenset({5})}
    assert known.missing(wanted) == {T, U}
    request = known.request({T, U}, 0)
    assert [(each.topic_id, each.name) for each in request.topics or ()] == [(T, None), (U, None)]
    assert not request.allow_auto_topic_creation
    assert known.learn(names(T, unknown=(U,)), {T, U}) == {T}
    assert known.missing(wanted) == {U}
    known.learn(names(U), {U})
    assert known.named(wanted) == {"t": (0, 1), "u": (5,)}


def test_a_name_beside_an_error_and_an_empty_one_are_not_believed() -> None:
    known = topic_names()
    error = int(ErrorCode.UNKNOWN_TOPIC_ID)
    topics = (
        MetadataResponseTopic(error_code=error, topic_id=T, name="t"),
        MetadataResponseTopic(topic_id=U, name=""),
    )
    assert known.learn(MetadataResponse(topics=topics), {T, U}) == set()
    assert known.missing({T, U}) == {T, U}


def test_a_topic_made_again_counts_with_both_ids() -> None:
    known = topic_names()
    known.learn(names(T), {T})
    response = names(T)
    known.learn(
        type(response)(topics=tuple(type(each)(topic_id=U, name="t") for each in response.topics)),
        {U},
    )
    assert known.named({T: frozenset({0}), U: frozenset({1})}) == {"t": (0, 1)}


def test_asking_again_takes_longer_each_time_until_something_is_learned() -> None:
    known = topic_names()
    now_ms = waited_ms = 0
    for _ in range(8):
        assert known.ask_at_ms <= now_ms
        known.request({T}, now_ms)
        waited_ms = known.ask_at_ms - now_ms
        now_ms = known.ask_at_ms
    assert waited_ms > 500
    known.keep_only({T})
    assert known.ask_at_ms <= 0


def test_names_of_topics_that_nobody_needs_are_forgotten() -> None:
    known = topic_names()
    known.learn(names(T, U), {T, U})
    known.keep_only({U})
    assert known.missing({T, U}) == {T}
