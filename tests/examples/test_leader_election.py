"""Runs the leader election, and holds its bytes to those of Schema Registry."""

import json
import signal

import pytest

from examples.leader_election import DEFAULTS, Elector, Identity, elect, to_json
from groupsdk import GroupMembers
from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ExampleProcess


def identity(port: int, *, eligible: bool = True, leader: bool = False) -> Identity:
    """Makes the identity of an instance on port `port` of localhost."""
    return DEFAULTS | {"port": port, "master_eligibility": eligible, "leader": leader}


def master_of(assignment: bytes) -> str | None:
    master: str | None = json.loads(assignment).get("master")
    return master


def test_metadata_is_byte_for_byte_that_of_schema_registry() -> None:
    assert to_json(identity(8081)) == (
        b'{"version":1,"host":"localhost","port":8081,"master_eligibility":true,'
        b'"scheme":"http","leader":false}'
    )


def test_an_assignment_is_byte_for_byte_that_of_schema_registry() -> None:
    assert elect({"m-2": identity(8082), "m-1": identity(8081)}) == (
        b'{"version":1,"error":0,"master":"m-1","master_identity":{"version":1,"host":"localhost",'
        b'"port":8081,"master_eligibility":true,"scheme":"http","leader":false}}'
    )


def test_election_without_eligible_members_has_no_leader() -> None:
    # null fields are left out
    assert elect({"m-1": identity(8081, eligible=False)}) == b'{"version":1,"error":0}'


def test_urls_are_compared_as_text() -> None:
    assert master_of(elect({"m-1": identity(9000), "m-2": identity(10000)})) == "m-2"


def test_a_leader_stays_while_it_lives() -> None:
    members = {"m-1": identity(8081), "m-2": identity(8082, leader=True)}
    assert master_of(elect(members)) == "m-2"


def test_a_leader_that_is_no_longer_eligible_does_not_stay() -> None:
    members = {"m-1": identity(8081), "m-2": identity(8082, eligible=False, leader=True)}
    assert master_of(elect(members)) == "m-1"


def test_of_two_leaders_none_is_preferred() -> None:
    members = {
        key: identity(port, leader=key != "m-1") for key, port in zip("abc", (3, 2, 1), strict=True)
    }
    assert master_of(elect(members)) == "c"


def test_instances_with_the_same_url_are_an_error() -> None:
    members = {"m-1": identity(8081), "m-2": identity(8081)}
    assert json.loads(elect(members))["error"] == 1
    not_eligible = {"m-1": identity(8081), "m-2": identity(8081, eligible=False)}
    assert json.loads(elect(not_eligible))["error"] == 1


def test_fields_of_others_are_ignored_and_missing_ones_filled_in() -> None:
    elector = Elector(bootstrap_servers="localhost:1", group_id="g")
    karapace = b'{"version":2,"karapace_version":"4","host":"k","port":1,"master_eligibility":true}'
    plan = elector.perform_assignment("m", "v0", GroupMembers({"m": karapace}))
    assert plan == {
        "m": b'{"version":1,"error":0,"master":"m","master_identity":{"version":2,"host":"k","port":1,'
        b'"master_eligibility":true,"scheme":"http","leader":false}}'
    }


def elected(candidate: ExampleProcess, port: int, **details: object) -> dict[str, object]:
    """Waits until a candidate is told that the instance on `port` leads, and returns what it was told."""
    while True:
        told = candidate.wait_for(r"^generation \d+: (\{.*\})$")[1]
        assignment: dict[str, object] = json.loads(told)
        leader = assignment.get("master_identity")
        if (
            isinstance(leader, dict)
            and leader["port"] == port
            and details.items() <= leader.items()
        ):
            return assignment


@pytest.mark.kafka
def test_a_leader_stays_and_is_replaced_when_it_is_killed(
    kafka: LocalKafka, group_id: str, start_example: StartExample
) -> None:
    def candidate(port: int, *more: str) -> ExampleProcess:
        return start_example(
            *("examples/leader_election.py", "--bootstrap-servers", kafka.bootstrap_servers),
            *("--group-id", group_id, "--session-timeout-ms", "10000", "--port", str(port), *more),
        )

    second = candidate(8082)
    elected(second, 8082, leader=False)
    first = candidate(8081)
    # The smaller URL came later, so the leader stays, and now says that it is one.
    told = elected(first, 8082, leader=True)
    assert elected(second, 8082, leader=True) == told

    third = candidate(8080, "--not-eligible")
    elected(third, 8082)
    second.send(signal.SIGKILL)
    told = elected(first, 8081)
    assert elected(third, 8081) == told  # not 8080, which is smaller and not eligible
    assert first.end(signal.SIGTERM) == 0
    third.wait_for(r'^generation \d+: \{"version":1,"error":0\}$')
    assert third.end(signal.SIGTERM) == 0
