"""Holds the election in Karapace's format, alone and among several."""

import json
from contextlib import ExitStack
from typing import Any

import pytest

from examples import karapace_election
from examples.karapace_election import Elector, Identity, elect
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import Deadline, SystemClock


def identity(port: int, *, eligible: bool = True) -> Identity:
    """An instance on a port of localhost."""
    address = {"host": "localhost", "port": port, "scheme": "http"}
    return {"version": 2, "karapace_version": "5.0.0", **address, "master_eligibility": eligible}


def master(members: dict[str, Identity]) -> Any:
    """Who is named."""
    return json.loads(elect(members))["master"]


def test_an_assignment_is_in_the_form_of_karapace() -> None:
    assert elect({"m-1": identity(8081)}) == (
        b'{"master":"m-1","master_identity":{"version":2,"karapace_version":"5.0.0","host":"localhost",'
        b'"port":8081,"scheme":"http","master_eligibility":true},"error":0}'
    )


def test_the_lowest_url_of_the_eligible_is_elected() -> None:
    assert master({"a": identity(8082), "b": identity(8081)}) == "b"
    assert master({"a": identity(8082), "b": identity(8081, eligible=False)}) == "a"
    assert master({"a": identity(8082, eligible=False)}) == "a"


def test_on_a_broker_one_acts_after_it_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karapace_election, "WAIT_MS", 200)
    with EmbeddedBroker() as broker, ExitStack() as stack:
        electors = []
        for port in (8081, 8082):
            elector = stack.enter_context(
                Elector(
                    bootstrap_servers=broker.bootstrap_servers,
                    group_id="schema-registry",
                    session_timeout_ms=30_000,
                    heartbeat_interval_ms=100,
                )
            )
            elector.identity = identity(port)
            electors.append(elector)
        deadline = Deadline(SystemClock(), 60_000)
        while not (electors[0].acts and electors[1].url == "http://localhost:8081"):
            assert not deadline.expired, [(each.url, each.acts) for each in electors]
            for each in electors:
                each.poll(0.05)
            assert not electors[1].acts or electors[0].url is None
