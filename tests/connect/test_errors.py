"""Holds what errors say, and that they survive the way between processes."""

import pickle

import pytest

from groupsdk.connect.errors import (
    ConnectError,
    ConnectorConfigError,
    NotLeaderError,
    RebalancingError,
    TaskFencedError,
)
from groupsdk.errors import ConfigError


def test_a_wrong_configuration_names_its_field() -> None:
    error = ConnectorConfigError("poll.interval", "must be a number")
    assert isinstance(error, ConfigError)
    assert (error.field, error.reason) == ("poll.interval", "must be a number")
    assert str(error) == "poll.interval: must be a number"


def test_not_leader_error_names_the_leader() -> None:
    assert "http://w:8083" in str(NotLeaderError("http://w:8083"))
    assert NotLeaderError("http://w:8083").retriable


@pytest.mark.parametrize(
    "error",
    [
        ConnectorConfigError("a", "b"),
        NotLeaderError("http://w"),
        RebalancingError("soon"),
        TaskFencedError("gone"),
    ],
)
def test_they_come_whole_out_of_another_process(error: ConnectError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
