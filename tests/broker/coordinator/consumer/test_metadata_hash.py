"""Holds the hash of topics against those of a real broker."""

import json
from typing import Any
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.coordinator.consumer.topics import (
    NoTopics,
    TopicImage,
    TopicInfo,
    existing_topics,
    metadata_hash,
    topic_hash,
)
from tests.broker.coordinator.consumer.golden_sequences import FOLDER


class _Image(NoTopics):
    def __init__(self, topics: list[TopicInfo]) -> None:
        self.topics = {each.name: each for each in topics}

    @override
    def topic(self, name: str) -> TopicInfo | None:
        return self.topics.get(name)


def _topic(given: dict[str, Any]) -> TopicInfo:
    racks = (tuple(given["racks"]),) * given["partitions"] if given["racks"] else ()
    return TopicInfo(UUID(given["id"]), given["name"], given["partitions"], racks)


def test_hashes_are_those_of_kafka() -> None:
    golden = json.loads((FOLDER / "metadata_hash.json").read_text())
    topics = [_topic(each) for each in golden["topics"]]
    for given, topic in zip(golden["topics"], topics, strict=True):
        assert topic_hash(topic) == given["hash"], given
    for group in golden["groups"]:
        chosen = [topics[index] for index in group["topics"]]
        image: TopicImage = _Image(chosen)
        names = [*(each.name for each in chosen), "not there"]
        assert metadata_hash(existing_topics(names, image)) == group["hash"], group
