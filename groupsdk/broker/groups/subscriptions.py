"""Learn the topics that a group of consumers is subscribed to."""

from collections.abc import Iterable
from functools import lru_cache

from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import ConsumerProtocolDecoder


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions; None where one of them cannot be read.

    Members of one program mostly subscribe alike: equal subscriptions are read once, and one set of
    topics is kept for them.
    """
    union: frozenset[str] | None = None
    for each in set(subscriptions):
        topics = _topics(each)
        if topics is None:
            return None
        union = topics if union is None or union == topics else union | topics
    return frozenset() if union is None else union


@lru_cache(maxsize=1024)
def _topics(subscription: bytes) -> frozenset[str] | None:
    # version 0 starts every later one, so that what a newer client adds cannot get in the way
    try:
        return frozenset(ConsumerProtocolDecoder().subscription(b"\0\0" + subscription[2:]).topics)
    except DecodeError:
        return None
