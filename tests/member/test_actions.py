"""Test the actions and calls as values."""

import dataclasses
from typing import get_args

import pytest

from groupsdk.member import actions
from groupsdk.member.actions import Node, Wake


def test_a_node_reads_as_an_address() -> None:
    assert str(Node(3, "kafka-3", 9092)) == "kafka-3:9092 (node 3)"
    assert str(Node(2, "::1", 9092)) == "[::1]:9092 (node 2)"


@pytest.mark.parametrize("kind", [*get_args(actions.Action), *get_args(actions.Call)])
def test_all_are_frozen_and_slotted(kind: type) -> None:
    assert dataclasses.is_dataclass(kind)
    assert "__slots__" in vars(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # made by the decorator


def test_equal_actions_are_equal() -> None:
    assert Wake(5) == Wake(5) != Wake(None)
