"""Tests what a declaration may say."""

from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import Annotated, Any, ClassVar
from uuid import UUID

import pytest

from groupsdk.wire.messages import configs, fetch, produce, security
from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslAuthenticateResponse
from groupsdk.wire.messages.groups import JoinGroupRequest
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    ArrayType,
    Int8,
    Int64,
    Message,
    Struct,
    Versions,
    Width,
    between,
    declared_fields,
    field_versions,
    nullable,
    since,
    tagged,
    until,
)


@dataclass(frozen=True, slots=True)
class Inner(Struct):
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Outer(Struct):
    small: Int8 = 0
    large: Annotated[Int64, since(2), IGNORABLE] = -1
    id: Annotated[UUID, between(1, 3)] = NO_UUID
    name: Annotated[str | None, nullable(4)] = ""
    inners: Annotated[tuple[Inner, ...] | None, until(3), nullable(1, 2)] = ()
    numbers: Annotated[tuple[Int8, ...], since(3), tagged(9)] = ()
    inner: Annotated[Inner, since(4)] = Inner()
    other: Annotated[Inner | None, nullable()] = None


def test_a_declaration_is_read_in_wire_order() -> None:
    small, large, uuid, name, inners, numbers, inner, other = declared_fields(Outer)

    assert (small.name, small.type, small.default) == ("small", Width("b"), 0)
    assert not small.ignorable
    assert small.versions == Versions(0)
    assert large.versions == Versions(2)
    assert large.ignorable
    assert uuid.type is UUID
    assert uuid.versions == Versions(1, 3)
    assert not name.is_nullable(3)
    assert name.is_nullable(4)
    assert inners.type == ArrayType(Inner)
    assert [inners.is_nullable(version) for version in range(4)] == [False, True, True, False]
    assert numbers.tag == 9
    assert isinstance(numbers.type, ArrayType)
    assert (inner.type, inner.nullable, inner.default) == (Inner, None, Inner())
    assert (other.type, other.default) == (Inner, None)
    assert other.is_nullable(0)


def declared(hint: Any, default: Any) -> type[Struct]:
    """Declares a struct with one field; without a default, if that is `MISSING`."""
    body = {"__annotations__": {"it": hint}}
    if default is not MISSING:
        body["it"] = default
    return dataclass(frozen=True, slots=True)(type("Wrong", (Struct,), body))


@pytest.mark.parametrize(
    ("hint", "default", "problem"),
    [
        (int, 0, r"a number must have a size"),
        (str | None, None, r"`\| None` and nullable\(\) must be used together"),
        (Annotated[str, nullable()], "", r"`\| None` and nullable\(\) must be used together"),
        (str, MISSING, r"a field must have Kafka's default"),
        (list[str], field(default_factory=list), r"the type list\[str\] is not supported"),
        (str | bytes, "", r"the only supported union is `X \| None`"),
        (tuple[str, str], ("", ""), r"an array must be a tuple\[X, \.\.\.\]"),
    ],
    ids=["no size", "no nullable", "no None", "no default", "no such type", "two types", "fixed"],
)
def test_a_wrong_declaration_is_refused(hint: Any, default: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=rf"Wrong\.it: {problem}"):
        declared_fields(declared(hint, default))


def test_version_range_knows_its_members() -> None:
    assert [version in Versions(2, 3) for version in range(1, 5)] == [False, True, True, False]
    assert 99 in Versions(2)
    assert str(Versions(2)) == "2+"
    assert str(Versions(2, 3)) == "2-3"
    assert str(Versions(2, 2)) == "2"


def test_an_api_knows_its_versions() -> None:
    api = Api(ApiKey.JOIN_GROUP, 2, 5, first_flexible=4)

    assert [version in api for version in range(1, 7)] == [False, True, True, True, True, False]
    assert [api.is_flexible(version) for version in (3, 4, 5)] == [False, True, True]
    assert not Api(ApiKey.SASL_HANDSHAKE, 0, 1).is_flexible(1)


def test_messages_are_values() -> None:
    message = JoinGroupRequest("g", 10, member_id="m")

    assert message == JoinGroupRequest("g", 10, member_id="m")
    assert message != JoinGroupRequest("g", 11, member_id="m")
    assert hash(message) == hash(JoinGroupRequest("g", 10, member_id="m"))
    assert not hasattr(message, "__dict__")
    with pytest.raises(FrozenInstanceError):
        message.group_id = "h"  # type: ignore[misc]  # what is tested: it cannot be done


def test_every_message_class_has_codecs_of_its_own() -> None:
    @dataclass(frozen=True, slots=True)
    class One(Message):
        api: ClassVar[Api] = Api(ApiKey.JOIN_GROUP, 0, 0)

    assert One.codecs is not JoinGroupRequest.codecs
    assert not One.codecs.encoders


def test_secrets_are_not_in_a_repr() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"password")
    response = SaslAuthenticateResponse(auth_bytes=b"password")

    assert "password" not in repr((request, response))


@pytest.mark.parametrize(
    "struct",
    [
        configs.AlterableConfig(name="shown", value="hidden"),
        configs.IncrementalAlterableConfig(name="shown", value="hidden"),
        security.ScramCredentialUpsertion(name="shown", salt=b"hidden", salted_password=b"hidden"),
        # no secrets of ours, but those of users may be in them, and megabytes are
        produce.PartitionProduceData(records=b"hidden"),
        fetch.PartitionData(records=b"hidden"),
    ],
)
def test_field_that_may_hold_secrets_is_not_in_the_repr(struct: Struct) -> None:
    assert "hidden" not in repr(struct)
    assert struct != type(struct)()


def test_the_versions_of_a_field_are_those_declared() -> None:
    assert field_versions(JoinGroupRequest, "group_instance_id") == since(5)
    assert field_versions(JoinGroupRequest, "group_id") == since(0)
    with pytest.raises(KeyError):
        field_versions(JoinGroupRequest, "no such field")
