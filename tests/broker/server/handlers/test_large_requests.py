"""Tests that no handler goes through all elements of a very large request in one step."""

from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import override

from groupsdk.broker.server.pace import Steps
from groupsdk.wire.messages import (
    cluster,
    configs,
    log_offsets,
    metadata,
    produce,
    security,
    topics,
)
from groupsdk.wire.schema import Request
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of
from tests.support.cases import each_case


_NAMES: Final = tuple(f"none-{n}" for n in range(4_000))
_AT_ONCE: Final = 1_100
_TOPIC: Final = 2


class Watched(tuple[Any, ...]):
    """The elements of a request; counts how many its handler takes."""

    __slots__ = ()
    taken = 0

    @override
    def __iter__(self) -> Iterator[Any]:
        for element in super().__iter__():
            Watched.taken += 1
            yield element


def requests() -> Iterator[tuple[Request[Any], int]]:
    """Yields requests about topics and users that do not exist, with their versions."""
    wanted = Watched(metadata.MetadataRequestTopic(name=name) for name in _NAMES)
    yield metadata.MetadataRequest(wanted, allow_auto_topic_creation=False), 8
    yield cluster.DescribeTopicPartitionsRequest(Watched(map(cluster.TopicRequest, _NAMES))), 0
    listed = (log_offsets.ListOffsetsPartition(0, -1, -1),)
    offsets = Watched(log_offsets.ListOffsetsTopic(name, listed) for name in _NAMES)
    yield log_offsets.ListOffsetsRequest(topics=offsets), 7
    made = Watched(topics.CreatableTopic(name, 1, 1) for name in _NAMES)
    yield topics.CreateTopicsRequest(made, validate_only=True), 7
    more = Watched(topics.CreatePartitionsTopic(name, 2, None) for name in _NAMES)
    yield topics.CreatePartitionsRequest(more, validate_only=True), 3
    yield topics.DeleteTopicsRequest(Watched(map(topics.DeleteTopicState, _NAMES))), 6
    setting = (configs.IncrementalAlterableConfig("retention.ms", 0, "1"),)
    changed = Watched(
        configs.IncrementalAlterConfigsResource(_TOPIC, name, setting) for name in _NAMES
    )
    yield configs.IncrementalAlterConfigsRequest(changed, validate_only=True), 1
    users = Watched(map(security.UserName, _NAMES))
    yield security.DescribeUserScramCredentialsRequest(users), 0
    batches = (produce.PartitionProduceData(0, b"v"),)
    data = Watched(produce.TopicProduceData(name, partition_data=batches) for name in _NAMES)
    yield produce.ProduceRequest(None, -1, 1_000, data), 11


@each_case(("request", "version"), requests())
def test_elements_of_a_large_request_are_taken_in_steps(
    request: Request[Any], version: int
) -> None:
    call = call_of(StandInConnection(ClusterRig()), request.api.key, version)
    steps: Steps = call.route.handle(call, request)  # type: ignore[assignment]
    pauses = 0
    Watched.taken = 0

    for _ in steps:
        assert Watched.taken <= _AT_ONCE
        pauses += 1
        Watched.taken = 0

    assert Watched.taken <= _AT_ONCE
    assert pauses >= len(_NAMES) // _AT_ONCE
