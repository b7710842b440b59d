"""Test which protocol a consumer uses, and when it takes the other one."""

from typing import Any

from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.group_protocol import GroupProtocol
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DisconnectedError, GroupSdkError, UnsupportedVersionError, broker_error
from tests.support.cases import each_case


def of(**more: Any) -> GroupProtocol:
    given = {"bootstrap.servers": "a:1", "group.id": "g"}
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return GroupProtocol.of(ConsumerConfig.of(given | settings))


def test_the_settings_decide_and_the_classic_protocol_is_the_default() -> None:
    assert of().name == "classic"
    assert not of().undecided
    assert of(group_protocol="consumer") == GroupProtocol("consumer", "group.protocol=consumer")


def test_auto_begins_with_the_new_one_unless_an_assignor_of_its_own_is_asked_for() -> None:
    assert of(group_protocol="auto").name == "consumer"
    assert of(group_protocol="auto").undecided
    assert of(group_protocol="auto", partition_assignment_strategy="sticky").name == "consumer"
    own = of(group_protocol="auto", partition_assignment_strategy="weighted")
    assert (own.name, own.undecided) == ("classic", False)
    assert "'weighted'" in own.why


REFUSALS: tuple[GroupSdkError, ...] = (
    UnsupportedVersionError("too old"),
    broker_error(ErrorCode.UNSUPPORTED_VERSION, "ConsumerGroupHeartbeat"),
    broker_error(ErrorCode.GROUP_ID_NOT_FOUND, "ConsumerGroupHeartbeat"),
)


@each_case("error", REFUSALS)
def test_auto_takes_the_classic_one_where_the_first_join_is_refused(error: GroupSdkError) -> None:
    found = of(group_protocol="auto").without(error, joined=False)
    assert found is not None
    assert found.name == "classic"
    assert found.why == str(error)
    assert of(group_protocol="consumer").without(error, joined=False) is None
    assert of(group_protocol="consumer").without(error, joined=True) is None


@each_case("error", REFUSALS)
def test_later_only_a_broker_without_the_new_protocol_is_a_reason(error: GroupSdkError) -> None:
    lacking = "GROUP_ID_NOT_FOUND" not in str(error)
    assert (of(group_protocol="auto").without(error, joined=True) is not None) is lacking
    accepted = of(group_protocol="auto").accepted()
    assert (accepted.without(error, joined=False) is not None) is lacking


@each_case(
    "error",
    (
        DisconnectedError("cut off"),
        broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "x"),
        broker_error(ErrorCode.UNRELEASED_INSTANCE_ID, "x"),
    ),
)
def test_other_errors_are_no_reason_to(error: GroupSdkError) -> None:
    assert of(group_protocol="auto").without(error, joined=False) is None
