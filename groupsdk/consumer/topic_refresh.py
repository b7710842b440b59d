"""Fetch topic metadata between two batches of records, and rebalance where it has changed."""

import logging
from concurrent.futures import Future
from typing import cast

from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicWatch, read_topics
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)


class TopicRefresh:
    def __init__(self, watch: TopicWatch, group_id: str, *, create: bool) -> None:
        self._watch = watch
        self._group_id = group_id
        self._create = create
        self.asked: Future[Response] | None = None

    def step(self, member: GroupMember, subscription: TopicSubscription, now_ms: int) -> None:
        """Send the request that is due, or process the response that has arrived."""
        if self.asked is not None:
            if self.asked.done():
                self._answered(self.asked, member, subscription)
                self.asked = None
            return
        if self._watch.due(now_ms, has_patterns=subscription.has_patterns):
            snapshot = member.snapshot()
            if snapshot.stable and not snapshot.rejoin_pending:
                request = self._watch.asks(
                    now_ms, has_patterns=subscription.has_patterns, create=self._create
                )
                self.asked = member.ask(request)

    def _answered(
        self, answer: "Future[Response]", member: GroupMember, subscription: TopicSubscription
    ) -> None:
        try:
            view = read_topics(cast("MetadataResponse", answer.result(0)))
        except GroupSdkError as error:
            logger.info("group=%s: cannot look up the topics: %s", self._group_id, error)
            return
        if subscription.has_patterns and subscription.match(view.partition_counts, view.internal):
            member.request_rejoin("other topics match the pattern of the subscription")
            return
        reason = self._watch.seen(view)
        if reason is not None:
            member.request_rejoin(reason)
