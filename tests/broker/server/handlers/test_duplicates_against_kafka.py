"""Requests that name something twice, at the embedded broker and at a real Kafka: the same errors, the same effects."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from groupsdk.wire.schema import Request
from tests.broker.clients import Client, connect
from tests.support.workers import eventually


Said = set[tuple[Any, ...]]
_TOPIC = 2
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def sides(kafka_installed: None) -> Iterator[tuple[Client, Client]]:
    """Clients of a Kafka and of an embedded broker."""
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka())
        broker = stack.enter_context(EmbeddedBroker())
        theirs, ours = [stack.enter_context(connect(each)) for each in (kafka, broker)]
        yield theirs, ours


def create(client: Client, *names: str) -> dict[str, Any]:
    """Creates topics, waits until all are described, and returns their ids."""
    asked = tuple(CreatableTopic(name, 2, 1) for name in names)
    made = client.ask(CreateTopicsRequest(asked, timeout_ms=30_000)).topics
    assert {each.error_code for each in made} == {0}
    eventually(lambda: set(names) <= there(client), lambda: there(client))
    return {each.name: each.topic_id for each in made}


def there(client: Client) -> set[str]:
    return {str(each.name) for each in client.ask(MetadataRequest(None), 12).topics}


def deletion(client: Client) -> tuple[Said, ...]:
    names = ("twice", "by-id", "both", "once", "mixed")
    ids = create(client, *names)

    def delete(*asked: DeleteTopicState) -> Said:
        request = DeleteTopicsRequest(asked, timeout_ms=30_000)
        answers = client.ask(request, 6).responses
        return {(each.name, each.error_code, each.error_message) for each in answers}

    twice, by_id = DeleteTopicState("twice"), DeleteTopicState(topic_id=ids["by-id"])
    both = (DeleteTopicState("both"), DeleteTopicState(topic_id=ids["both"]))
    found = (
        delete(twice, twice, DeleteTopicState("once")),
        delete(by_id, by_id),
        delete(*both),
        delete(*reversed(both)),
        delete(DeleteTopicState("none"), DeleteTopicState("none")),
        # a name given twice does not count, so the id alone decides
        delete(*[DeleteTopicState("mixed")] * 2, DeleteTopicState(topic_id=ids["mixed"])),
    )
    eventually(lambda: not {"once", "mixed"} & there(client), lambda: there(client))
    return (*found, {(name,) for name in there(client) & set(names)})


def growth(client: Client) -> tuple[Said, ...]:
    create(client, "grows", "stays")
    asked = [CreatePartitionsTopic(name, 3, None) for name in ("stays", "grows", "stays")]
    answers = client.ask(CreatePartitionsRequest(tuple(asked), timeout_ms=30_000)).results
    return ({(each.name, each.error_code, each.error_message) for each in answers},)


def settings(client: Client) -> tuple[Said, ...]:
    create(client, "set")

    def change(*changes: tuple[str, str | None]) -> IncrementalAlterConfigsResource:
        configs = (IncrementalAlterableConfig(name, 0, value) for name, value in changes)
        return IncrementalAlterConfigsResource(_TOPIC, "set", tuple(configs))

    requests: tuple[Request[Any], ...] = (
        IncrementalAlterConfigsRequest(
            (change(("retention.ms", "5")), change(("segment.ms", "600000")))
        ),
        IncrementalAlterConfigsRequest((change(("retention.ms", "5"), ("retention.ms", "6")),)),
        IncrementalAlterConfigsRequest((change(("retention.ms", None)),)),
        # Kafka 4.3.1 never answers an AlterConfigs that names a resource twice
        AlterConfigsRequest(
            (AlterConfigsResource(_TOPIC, "set", (AlterableConfig("retention.ms", None),)),)
        ),
    )
    return tuple(
        {(each.error_code, each.error_message) for each in client.ask(request).responses}
        for request in requests
    )


def offsets(client: Client) -> tuple[Said, ...]:
    create(client, "read")

    def ends(*partitions: int) -> Said:
        places = tuple(ListOffsetsPartition(index, timestamp=-1) for index in partitions)
        answers = client.ask(ListOffsetsRequest(topics=(ListOffsetsTopic("read", places),))).topics
        return {
            (each.partition_index, each.error_code, each.offset)
            for topic in answers
            for each in topic.partitions
        }

    # Kafka's topics have no leader at first
    eventually(lambda: ends(0, 1) == {(0, 0, 0), (1, 0, 0)}, lambda: ends(0, 1))
    return (ends(0, 1, 0),)


@pytest.mark.parametrize("run", [deletion, growth, settings, offsets])
def test_something_named_twice_is_refused_as_in_kafka(
    sides: tuple[Client, Client], run: Callable[[Client], tuple[Said, ...]]
) -> None:
    theirs, ours = map(run, sides)
    assert ours == theirs


def test_alter_configs_refuses_a_resource_that_is_named_twice(
    sides: tuple[Client, Client],
) -> None:
    create(sides[1], "altered")
    twice = (AlterConfigsResource(_TOPIC, "altered", (AlterableConfig("retention.ms", "5"),)),) * 2
    answers = sides[1].ask(AlterConfigsRequest(twice)).responses
    assert {each.error_code for each in answers} == {42}
