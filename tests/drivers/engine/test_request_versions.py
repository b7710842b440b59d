"""Test that requests take the shape of the version that a broker has."""

from typing import Any, cast

import pytest

from groupsdk.drivers.engine.connection import Connection, check_versions, send_request
from groupsdk.errors import UnsupportedVersionError
from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
from groupsdk.wire.api import ApiVersionRanges, encode_request
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.schema import ApiKey
from tests.support.scripted_steps import KAFKA_0_10, KAFKA_1_0, KAFKA_2_3, KAFKA_4_3, Versions


class Recorder:
    """Takes requests like a connection, and checks that they can be encoded."""

    address = "kafka:9092"

    def __init__(self, versions: Versions) -> None:
        self.versions = ApiVersionRanges({int(key): both for key, both in versions.items()})
        self.sent: list[tuple[Any, int]] = []

    def request(self, message: Any, version: int) -> None:
        assert encode_request(message, version, 1, "me")
        self.sent.append((message, version))


def sent(versions: Versions, request: MembershipRequest | CoordinatorRequest) -> tuple[Any, int]:
    recorder = Recorder(versions)
    send_request(cast("Connection", recorder), request)
    (only,) = recorder.sent
    return only


LEAVE = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m", reason="r"),))
JOIN = JoinGroupRequest(group_id="g", rebalance_timeout_ms=5, protocol_type="work", reason="r")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(KAFKA_0_10, 0), (KAFKA_1_0, 2), (KAFKA_2_3, 5), (KAFKA_4_3, 9)],
)
def test_a_join_takes_the_newest_common_version(versions: Versions, expected: int) -> None:
    assert sent(versions, JOIN) == (JOIN, expected)


@pytest.mark.parametrize(
    ("newest", "batched"), [(0, False), (1, False), (2, False), (3, True), (4, True), (5, True)]
)
def test_a_leave_names_its_member_where_the_version_has_it(newest: int, batched: bool) -> None:
    versions = {**KAFKA_4_3, ApiKey.LEAVE_GROUP: (0, newest)}
    request, version = sent(versions, LEAVE)
    assert version == newest
    assert bool(request.members) is batched
    assert request.member_id == ("" if batched else "m")


def test_a_static_join_is_not_sent_without_its_instance_id() -> None:
    versions = {**KAFKA_4_3, ApiKey.JOIN_GROUP: (0, 4)}
    static = JoinGroupRequest(group_id="g", group_instance_id="one")
    with pytest.raises(UnsupportedVersionError, match=r"from 5 to 9, but the broker has 0 to 4"):
        sent(versions, static)
    assert sent(versions, JOIN)[1] == 4


@pytest.mark.parametrize(
    "request_",
    [
        SyncGroupRequest(group_id="g", group_instance_id="one"),
        HeartbeatRequest(group_id="g", group_instance_id="one"),
    ],
    ids=["sync", "heartbeat"],
)
def test_a_static_member_heartbeats_and_syncs_as_one(request_: MembershipRequest) -> None:
    assert sent(KAFKA_2_3, request_)[1] == 3
    with pytest.raises(UnsupportedVersionError, match="in a version from 3"):
        sent(KAFKA_1_0, request_)


@pytest.mark.parametrize("versions", [KAFKA_0_10, KAFKA_1_0, KAFKA_2_3, KAFKA_4_3])
def test_every_release_serves_a_dynamic_member(versions: Versions) -> None:
    check_versions(cast("Connection", Recorder(versions)), static=False)


@pytest.mark.parametrize("versions", [KAFKA_2_3, KAFKA_4_3])
def test_releases_from_2_3_on_serve_a_static_member(versions: Versions) -> None:
    check_versions(cast("Connection", Recorder(versions)), static=True)


def test_server_that_is_not_kafka_lacks_every_api() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"^kafka:9092 cannot serve") as caught:
        check_versions(cast("Connection", Recorder({})), static=True)
    assert str(caught.value).count("does not have it") == 5


FETCH = OffsetFetchRequest(
    groups=(
        OffsetFetchRequestGroup(
            group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0, 2)),)
        ),
    ),
    require_stable=True,
)


@pytest.mark.parametrize(
    ("newest", "several", "stable"),
    [(1, False, False), (6, False, False), (7, False, True), (8, True, True), (9, True, True)],
)
def test_offsets_are_asked_for_in_the_shape_of_the_version(
    newest: int, several: bool, stable: bool
) -> None:
    versions = {**KAFKA_4_3, ApiKey.OFFSET_FETCH: (1, newest)}
    request, version = sent(versions, FETCH)
    assert (version, request.require_stable) == (newest, stable)
    if several:
        assert request == FETCH
    else:
        assert (request.group_id, request.groups) == ("g", ())
        assert [(each.name, each.partition_indexes) for each in request.topics] == [("t", (0, 2))]


def test_all_offsets_of_a_group_may_be_asked_for_in_every_version() -> None:
    everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    request, _ = sent({**KAFKA_4_3, ApiKey.OFFSET_FETCH: (1, 5)}, everything)
    assert request.topics is None


@pytest.mark.parametrize(("newest", "refused"), [(3, True), (4, False)])
def test_topics_are_asked_for_without_creating_them_where_that_can_be_said(
    newest: int, refused: bool
) -> None:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    fitted, _ = sent({**KAFKA_4_3, ApiKey.METADATA: (0, newest)}, request)
    assert fitted.allow_auto_topic_creation is refused
