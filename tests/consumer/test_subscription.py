"""Test subscriptions by name and by pattern."""

import re
from typing import Any

import pytest

from groupsdk.consumer.subscription import SubscriptionPattern, TopicSubscription
from groupsdk.errors import ConfigError


def topics(subscription: TopicSubscription) -> list[str]:
    return list(subscription.topics)


def test_names_are_taken_as_they_are() -> None:
    subscription = TopicSubscription(["b", "a", "b"])
    assert subscription.topics == ("a", "b")
    assert not subscription.has_patterns
    assert subscription.wants("a")
    assert not subscription.wants("ab")
    assert TopicSubscription("a").topics == ("a",)


@pytest.mark.parametrize("pattern", ["^a[.]", re.compile(r"a[.]")])
def test_patterns_match_from_the_start(pattern: Any) -> None:
    subscription = TopicSubscription([pattern, "named"])
    assert subscription.has_patterns
    assert topics(subscription) == ["named"]
    assert subscription.match(["a.1", "b.a.1", "named", "a."])
    assert topics(subscription) == ["a.", "a.1", "named"]
    assert not subscription.match(["a.1", "a.", "c"])
    assert subscription.match(["a.1"])
    assert subscription.wants("a.other")
    assert not subscription.wants("b.a.1")


def test_a_topic_that_is_named_as_well_changes_nothing() -> None:
    subscription = TopicSubscription(["^a", "ab"])
    assert not subscription.match(["ab"])


def test_internal_topics_are_passed_over_unless_asked_for() -> None:
    internal = {"__consumer_offsets"}
    subscription = TopicSubscription("^.*")
    subscription.match(["a", "__consumer_offsets"], internal)
    assert subscription.topics == ("a",)
    with_internal = TopicSubscription("^.*", exclude_internal=False)
    with_internal.match(["a", "__consumer_offsets"], internal)
    assert with_internal.topics == ("__consumer_offsets", "a")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "at least one topic"),
        ([""], "must be a string"),
        ([7], "must be a string"),
        (["^("], r"cannot be compiled"),
        ([re.compile(b"a")], "bytes pattern"),
    ],
)
def test_subscription_without_a_valid_topic_is_refused(given: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TopicSubscription(given)


def test_no_topics_at_all_are_named_too() -> None:
    with pytest.raises(ConfigError, match="not None"):
        TopicSubscription(None)  # type: ignore[arg-type]  # what is tested


def test_a_pattern_for_the_broker_is_no_topic_and_matches_nothing_here() -> None:
    subscription = TopicSubscription(["t", SubscriptionPattern("orders-.*")])
    assert subscription.topics == ("t",)
    assert subscription.broker_pattern == "orders-.*"
    assert not subscription.has_patterns
    assert TopicSubscription(SubscriptionPattern("x")).broker_pattern == "x"


def test_patterns_for_the_broker_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="SubscriptionPattern"):
        SubscriptionPattern("")
    with pytest.raises(ConfigError, match="one SubscriptionPattern"):
        TopicSubscription([SubscriptionPattern("a"), SubscriptionPattern("b")])
