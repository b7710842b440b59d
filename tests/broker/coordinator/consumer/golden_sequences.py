"""Plays the sequences of requests that a real broker answered, and tells what ours answers and writes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from groupsdk.broker.coordinator.runtime.contract import LogRecord
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages import consumer_groups, group_admin, groups, offsets, transactions
from groupsdk.wire.schema import NO_UUID, Request
from tests.broker.coordinator.consumer.rig import Rig, Topics
from tests.conformance.cases import camel_case


FOLDER = Path(__file__).parent / "golden"
GROUP = "g"
PRODUCER_ID = 7
Step = dict[str, Any]


def sequences(release: str) -> dict[str, dict[str, Any]]:
    """Reads the sequences of a release, by name."""
    found = {each.stem: json.loads(each.read_text()) for each in sorted(FOLDER.glob("*.json"))}
    if release == "4.4":
        newer = (FOLDER / "kafka-4.4.0").glob("*.json")
        found |= {each.stem: json.loads(each.read_text()) for each in sorted(newer)}
    return {name: each for name, each in found.items() if "steps" in each}


class Player:
    """Plays one sequence on a coordinator; the methods for its steps bear the names that Kafka gives the APIs."""

    def __init__(self, sequence: Mapping[str, Any], release: str, first_id: int = 0) -> None:
        self.topics = Topics(**sequence["topics"])
        self.rig = Rig(self.topics, group_consumer_release=release, first_id=first_id)
        self.ids: dict[str, str] = {}
        """The ids that the broker made, by how the sequence calls them."""
        self.instances: dict[str, str] = {}
        """The instance ids that members joined with, which their later requests bring too."""
        self.parked: dict[str, tuple[int, Step]] = {}
        self._joining: str | None = None
        self._names: dict[UUID, str] = {
            self.topics.id_of(name): name for name in sequence["topics"]
        }

    # -- requests

    def request(self, step: Step) -> tuple[Request[Any], int]:
        """Builds the request of a step."""
        build = getattr(self, f"_{step['api']}")
        request: Request[Any] = build(step.get("request", {}), step["version"])
        return request, step["version"]

    def _id(self, name: str) -> str:
        return self.ids.get(name, name)

    def _owned(self, given: Mapping[str, list[int]]) -> tuple[consumer_groups.TopicPartitions, ...]:
        return tuple(
            consumer_groups.TopicPartitions(self._topic_id(name), tuple(indexes))
            for name, indexes in given.items()
        )

    def _topic_id(self, name: str) -> UUID:
        topic = self.topics.topic(name.removeprefix("$"))
        if topic is not None:
            return topic.topic_id
        known = {each: topic_id for topic_id, each in self._names.items()}
        return known.get(name.removeprefix("$"), UUID(int=2**100))

    def _ConsumerGroupHeartbeat(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return consumer_groups.ConsumerGroupHeartbeatRequest(
            group_id=given.get("groupId", GROUP),
            member_id=self._id(given.get("memberId", "")),
            member_epoch=given.get("memberEpoch", 0),
            instance_id=given.get("instanceId"),
            rack_id=given.get("rackId"),
            rebalance_timeout_ms=given.get("rebalanceTimeoutMs", -1),
            subscribed_topic_names=_tuple(given.get("subscribedTopicNames")),
            subscribed_topic_regex=given.get("subscribedTopicRegex"),
            server_assignor=given.get("serverAssignor"),
            topic_partitions=None
            if given.get("topicPartitions") is None
            else self._owned(given["topicPartitions"]),
        )

    def _ConsumerGroupDescribe(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return group_admin.ConsumerGroupDescribeRequest((GROUP,))

    def _JoinGroup(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        self._joining = given.get("groupInstanceId")
        protocols = tuple(
            groups.JoinGroupRequestProtocol(name, self._subscription(each))
            for name, each in given.get("protocols", {"range": None}).items()
        )
        return groups.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=given.get("sessionTimeoutMs", 45_000),
            rebalance_timeout_ms=given.get("rebalanceTimeoutMs", 60_000),
            member_id=self._id(given.get("memberId", "")),
            group_instance_id=given.get("groupInstanceId"),
            protocol_type=given["protocolType"],
            protocols=protocols,
        )

    def _subscription(self, given: Step | None) -> bytes:
        if given is None:
            return b""
        user_data = given.get("userData")
        return ConsumerProtocolEncoder().subscription(
            ConsumerProtocolSubscription(
                given["topics"],
                None if user_data is None else user_data.encode(),
                given.get("ownedPartitions", {}),
                given.get("generationId", -1),
            ),
            given["version"],
        )

    def _SyncGroup(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return groups.SyncGroupRequest(
            GROUP,
            given["generationId"],
            self._id(given["memberId"]),
            given.get("groupInstanceId"),
            given.get("protocolType", "consumer"),
            given.get("protocolName", "range"),
            tuple(
                groups.SyncGroupRequestAssignment(self._id(member), _assignment(each))
                for member, each in given["assignments"].items()
            ),
        )

    def _Heartbeat(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return groups.HeartbeatRequest(
            GROUP,
            given["generationId"],
            self._id(given["memberId"]),
            self.instances.get(self._id(given["memberId"])),
        )

    def _LeaveGroup(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        members = tuple(
            groups.MemberIdentity(self._id(member), instance)
            for member, instance in given["members"]
        )
        return groups.LeaveGroupRequest(group_id=GROUP, members=members)

    def _asked_id(self, name: str, version: int, ids_from: int) -> UUID:
        """Looks up what the handler of such a version has looked up."""
        return self.topics.id_of(name) if version >= ids_from else NO_UUID

    def _OffsetCommit(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return offsets.OffsetCommitRequest(
            GROUP,
            given["generationIdOrMemberEpoch"],
            self._id(given["memberId"]),
            given.get("groupInstanceId"),
            topics=tuple(
                offsets.OffsetCommitRequestTopic(
                    name,
                    self._asked_id(name, version, 10),
                    partitions=tuple(
                        offsets.OffsetCommitRequestPartition(int(index), offset)
                        for index, offset in each.items()
                    ),
                )
                for name, each in given["offsets"].items()
            ),
        )

    def _TxnOffsetCommit(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return transactions.TxnOffsetCommitRequest(
            "x",
            GROUP,
            PRODUCER_ID,
            0,
            given.get("generationId", -1),
            self._id(given.get("memberId", "")),
            given.get("groupInstanceId"),
            tuple(
                transactions.TxnOffsetCommitRequestTopic(
                    name,
                    self._asked_id(name, version, 6),
                    partitions=tuple(
                        transactions.TxnOffsetCommitRequestPartition(int(index), offset)
                        for index, offset in each.items()
                    ),
                )
                for name, each in given["offsets"].items()
            ),
        )

    def _OffsetFetch(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        topics = tuple(
            offsets.OffsetFetchRequestTopics(
                name, self._asked_id(name, version, 10), tuple(indexes)
            )
            for name, indexes in given["topics"].items()
        )
        member_id = given.get("memberId")
        asked = offsets.OffsetFetchRequestGroup(
            GROUP,
            None if member_id is None else self._id(member_id),
            given.get("memberEpoch", -1),
            topics,
        )
        return offsets.OffsetFetchRequest(groups=(asked,))

    def _ListGroups(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return group_admin.ListGroupsRequest(
            tuple(given["statesFilter"]), tuple(given["typesFilter"])
        )

    def _DescribeGroups(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return groups.DescribeGroupsRequest((GROUP,))

    def _DeleteGroups(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        return group_admin.DeleteGroupsRequest((GROUP,))

    def _OffsetDelete(self, given: Step, version: int) -> Request[Any]:  # noqa: N802
        partitions = (group_admin.OffsetDeleteRequestPartition(given["partition"]),)
        topics = (group_admin.OffsetDeleteRequestTopic(given["topic"], partitions),)
        return group_admin.OffsetDeleteRequest(GROUP, topics)

    # -- answers, in the words of the sequences

    def answer(self, api: str, response: Any) -> Any:
        """Tells an answer as the sequence does."""
        return getattr(self, f"_{api}_answer")(response)

    def _name(self, topic_id: UUID) -> str:
        topic = self.topics.topic_by_id(topic_id)
        if topic is not None:
            self._names[topic_id] = topic.name
        return self._names.get(topic_id, str(topic_id))

    def _ConsumerGroupHeartbeat_answer(self, response: Any) -> Any:  # noqa: N802
        if response.error_code:
            return {"errorCode": response.error_code}
        given = response.assignment
        return {
            **_told(response, "error_code member_id member_epoch heartbeat_interval_ms"),
            "assignment": None
            if given is None
            else {self._name(e.topic_id): sorted(e.partitions) for e in given.topic_partitions},
        }

    def _ConsumerGroupDescribe_answer(self, response: Any) -> Any:  # noqa: N802
        (group,) = response.groups
        if group.error_code:
            return {"errorCode": group.error_code}

        def named(assignment: Any) -> dict[str, list[int]]:
            return {e.topic_name: sorted(e.partitions) for e in assignment.topic_partitions}

        plain = "member_id instance_id member_epoch subscribed_topic_names subscribed_topic_regex"
        return {
            **_told(group, "error_code group_state group_epoch assignment_epoch assignor_name"),
            "members": [
                {
                    **_told(each, plain + " member_type"),
                    "assignment": named(each.assignment),
                    "targetAssignment": named(each.target_assignment),
                }
                for each in group.members
            ],
        }

    def _JoinGroup_answer(self, response: Any) -> Any:  # noqa: N802
        if response.error_code:
            return _told(response, "error_code member_id")
        if self._joining is not None:
            self.instances[response.member_id] = self._joining
        plain = "error_code member_id generation_id protocol_type protocol_name leader"
        members = [each.member_id for each in response.members]
        return {**_told(response, plain), "members": members}

    def _SyncGroup_answer(self, response: Any) -> Any:  # noqa: N802
        if response.error_code:
            return {"errorCode": response.error_code}
        assignment = _read_assignment(response.assignment)
        return {
            **_told(response, "error_code protocol_type protocol_name"),
            "assignment": assignment,
        }

    def _Heartbeat_answer(self, response: Any) -> Any:  # noqa: N802
        return {"errorCode": response.error_code}

    def _LeaveGroup_answer(self, response: Any) -> Any:  # noqa: N802
        return {
            "errorCode": response.error_code,
            "members": [
                [each.member_id, each.group_instance_id, each.error_code]
                for each in response.members
            ],
        }

    def _OffsetCommit_answer(self, response: Any) -> Any:  # noqa: N802
        return {
            each.name: {str(p.partition_index): p.error_code for p in each.partitions}
            for each in response.topics
        }

    _TxnOffsetCommit_answer = _OffsetCommit_answer

    def _OffsetFetch_answer(self, response: Any) -> Any:  # noqa: N802
        (group,) = response.groups
        return {
            "errorCode": group.error_code,
            "topics": {
                each.name: {
                    str(p.partition_index): [p.committed_offset, p.error_code]
                    for p in each.partitions
                }
                for each in group.topics
            },
        }

    def _ListGroups_answer(self, response: Any) -> Any:  # noqa: N802
        found = next((each for each in response.groups if each.group_id == GROUP), None)
        told = None if found is None else _told(found, "protocol_type group_state group_type")
        return {"group": told}

    def _DescribeGroups_answer(self, response: Any) -> Any:  # noqa: N802
        (group,) = response.groups
        return {
            **_told(group, "error_code group_state protocol_type protocol_data"),
            "members": [
                {
                    **_told(each, "member_id group_instance_id"),
                    "assignment": _read_assignment(each.member_assignment),
                }
                for each in group.members
            ],
        }

    def _DeleteGroups_answer(self, response: Any) -> Any:  # noqa: N802
        return {"errorCode": response.results[0].error_code}

    def _OffsetDelete_answer(self, response: Any) -> Any:  # noqa: N802
        codes = [p.error_code for each in response.topics for p in each.partitions]
        return {"errorCode": response.error_code, "partitionError": codes}

    # -- records, in the words of the sequences

    def record(self, record: LogRecord) -> tuple[int, str, Any]:
        """Tells a record: type, member or partition, and value."""
        key = read_key(record.key)
        assert key is not None
        value = None if record.value is None else read_value(key, record.value)
        name = getattr(key, "member_id", "") or getattr(key, "regular_expression", "")
        told: Any = None
        if value is not None:
            told = getattr(self, f"_record_{key.record_type}", lambda _: {})(value)
        return key.record_type, name, told

    def _record_1(self, value: Any) -> Any:
        named = value.topic_id != NO_UUID
        return {"topicId": f"${self._name(value.topic_id)}" if named else None}

    def _record_3(self, value: Any) -> Any:
        return _told(value, "epoch metadata_hash")

    def _record_5(self, value: Any) -> Any:
        classic = value.classic_member_metadata
        plain = "instance_id rack_id client_id client_host subscribed_topic_names"
        return {
            **_told(value, plain),
            **_told(value, "subscribed_topic_regex rebalance_timeout_ms server_assignor"),
            "classicMemberMetadata": None
            if classic is None
            else {
                "sessionTimeoutMs": classic.session_timeout_ms,
                "supportedProtocols": [each.name for each in classic.supported_protocols],
            },
        }

    def _record_6(self, value: Any) -> Any:
        has_time = "$ms" if value.assignment_timestamp else None
        return {"assignmentEpoch": value.assignment_epoch, "assignmentTimestamp": has_time}

    def _record_7(self, value: Any) -> Any:
        partitions = value.topic_partitions
        return {"topicPartitions": {self._name(e.topic_id): list(e.partitions) for e in partitions}}

    def _record_8(self, value: Any) -> Any:
        def held(partitions: Any) -> dict[str, dict[str, int]]:
            return {
                self._name(each.topic_id): {
                    str(index): epoch
                    for index, epoch in zip(each.partitions, each.assignment_epochs, strict=True)
                }
                for each in partitions
            }

        return {
            **_told(value, "member_epoch previous_member_epoch state"),
            "assignedPartitions": held(value.assigned_partitions),
            "partitionsPendingRevocation": held(value.partitions_pending_revocation),
        }

    def _record_16(self, value: Any) -> Any:
        return {"topics": list(value.topics)}

    def _record_2(self, value: Any) -> Any:
        return {
            "generation": value.generation,
            "protocol": value.protocol,
            "members": sorted(each.member_id for each in value.members),
        }


def _told(value: Any, names: str) -> dict[str, Any]:
    """Returns fields of a message or record, by the names that Kafka's JSON gives them."""
    fields = {camel_case(name): getattr(value, name) for name in names.split()}
    return {name: list(each) if isinstance(each, tuple) else each for name, each in fields.items()}


def _tuple(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def _assignment(given: Mapping[str, Any]) -> bytes:
    partitions = {name: each for name, each in given.items() if name != "userData"}
    user_data = given.get("userData")
    return ConsumerProtocolEncoder().assignment(
        ConsumerProtocolAssignment(partitions, None if user_data is None else user_data.encode()),
        3,
    )


def _read_assignment(data: bytes) -> Any:
    if not data:
        return None
    read = ConsumerProtocolDecoder().assignment(data)
    return {
        "version": int.from_bytes(data[:2]),
        "assigned": {name: sorted(each) for name, each in read.assigned_partitions.items()},
    }
