"""Instances made through a class's twin."""

import pickle
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from groupsdk.wire.api import messages
from groupsdk.wire.messages.groups import JoinGroupResponse, JoinGroupResponseMember
from groupsdk.wire.schema import declared_fields
from groupsdk.wire.twin import maker, open_twin


def test_made_message_equals_that_of_its_class() -> None:
    for kind in messages():
        # nobody looks at the types
        given: dict[str, Any] = {each.name: object() for each in declared_fields(kind)}

        made = maker(kind)(**given)

        assert made == kind(**given)
        assert type(made) is kind
        assert repr(made) == repr(kind(**given))
        assert hash(made) == hash(kind(**given))
        assert pickle.loads(pickle.dumps(maker(kind)())) == kind()


def test_omitted_field_of_a_made_message_has_its_default() -> None:
    make = maker(JoinGroupResponse)

    assert make() == JoinGroupResponse()
    assert make(1, 2, leader="a") == JoinGroupResponse(1, 2, leader="a")


def test_made_message_is_immutable() -> None:
    made = maker(JoinGroupResponseMember)("a")

    with pytest.raises(FrozenInstanceError):
        made.member_id = "b"  # type: ignore[misc]


def test_without_the_interpreters_lock_the_class_makes_its_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)

    assert maker(JoinGroupResponse) is JoinGroupResponse


def test_a_twin_has_the_layout_of_its_class() -> None:
    twin = open_twin(JoinGroupResponseMember)()
    for each in ("member_id", "group_instance_id", "metadata", "unknown_tagged_fields"):
        setattr(twin, each, None)
    twin.__class__ = JoinGroupResponseMember

    assert repr(twin) == repr(JoinGroupResponseMember(None, None, None))  # type: ignore[arg-type]
