"""Holds the keys that mean the same for every class of connectors."""

from collections.abc import Mapping

import pytest
from typing_extensions import override

from groupsdk.connect.app import Worker
from groupsdk.connect.connectors.connector_config import check_config, check_count, tasks_max_of
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.errors import ConfigError
from tests.connect.workers import Counting, Failing, eventually, standalone, states


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("tasks.max", "0", "must be an integer from 1 to 2147483647, not '0'"),
        ("tasks.max", "three", "must be an integer from 1 to 2147483647, not 'three'"),
        ("tasks.max.enforce", "maybe", "must be true or false, not 'maybe'"),
        ("standby.replicas", "1", "Counting has no standby method"),
        ("task.weight", "-1", "must be a number from 0.001 to 1,000,000, not '-1'"),
        ("count", "x", "must be a number, not 'x'"),
    ],
)
def test_wrong_values_are_refused(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConnectorConfigError) as raised:
        check_config(Counting, {"count": "1", key: value})
    assert (raised.value.field, raised.value.reason) == (key, reason)


def test_a_number_of_tasks_is_held_against_the_most() -> None:
    assert tasks_max_of({}) is None
    assert check_count("c", {}, 1_000) is None
    assert check_count("c", {"tasks.max": "2"}, 2) is None
    with pytest.raises(ConnectorConfigError, match=r"3 tasks are planned, and tasks\.max is 2"):
        check_count("c", {"tasks.max": "2"}, 3)
    excess = check_count("c", {"tasks.max": "2", "tasks.max.enforce": "false"}, 3)
    assert excess is not None
    assert "which is not enforced" in excess
    with pytest.raises(ConnectorConfigError, match="more than the limit of 1000000"):
        check_count("c", {}, 1_000_001)


def test_a_connector_that_plans_more_than_it_may_fails_and_its_tasks_go_on() -> None:
    config = {"connector.class": "Counting", "count": "2", "tasks.max": "2"}
    with standalone() as worker:
        worker.admin.put_connector("c", config).result(60)
        eventually(lambda: len(worker.owned.tasks) == 2)
        worker.admin.put_connector("c", {**config, "count": "3"}).result(60)
        eventually(lambda: states(worker).get("status-connector-c") == "FAILED")
        said = worker.admin.statuses()["status-connector-c"]
        assert "tasks.max: 3 tasks are planned, and tasks.max is 2" in (said.trace or "")
        assert len(worker.owned.tasks) == 2
        worker.admin.put_connector("c", {**config, "count": "1"}).result(60)
        eventually(lambda: states(worker).get("status-connector-c") == "RUNNING")
        eventually(lambda: len(worker.owned.tasks) == 1)


def test_a_class_goes_one_of_two_ways() -> None:
    with pytest.raises(ConfigError, match=r"Failing\.kind must be one of source, sink, not 'both'"):
        Worker("w").connector(type("Failing", (Failing,), {"kind": "both"}))


class Careless(Failing):
    """Reads a required key without asking the base class first."""

    required = ("sites",)

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str]) -> None:
        assert config["sites"]


def test_required_keys_are_checked_before_the_class_reads_them() -> None:
    with pytest.raises(ConnectorConfigError, match="sites: is missing"):
        check_config(Careless, {})


def test_a_configuration_is_validated_without_a_connector() -> None:
    def validate(self: object) -> None: ...

    with pytest.raises(ConfigError, match=r"Failing\.validate must be a classmethod"):
        Worker("w").connector(type("Failing", (Failing,), {"validate": validate}))
