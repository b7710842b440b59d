"""Test that the machine takes every event in every state, also when it makes no sense there."""

import dataclasses
from collections.abc import Callable
from typing import get_args

import pytest

from groupsdk.errors import DisconnectedError
from groupsdk.member import events
from groupsdk.member.actions import FindCoordinator
from groupsdk.member.state import MemberState
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata
from tests.member.driving import NODE, Driver, beaten
from tests.support.cases import each_case


ERROR = DisconnectedError("gone")
SAMPLES: list[events.Event] = [
    events.Polled(),
    events.RejoinRequested("why"),
    events.RebalanceExpected(30_000),
    events.JoinPrepared(99, "work", (ProtocolMetadata("even", b""),)),
    events.GroupAssigned(99, {}),
    events.JoinDelivered(99),
    events.CallFailed(99, "ValueError"),
    events.FailureRaised(99),
    events.JoinGivenUp(),
    events.LeaveRequested("why"),
    events.CloseRequested(GroupMembershipOperation.DEFAULT, 1_000, "why"),
    events.CredentialsChanged("user", "secret"),
    events.CoordinatorFound(NODE),
    events.LookupDelayed(ERROR),
    events.LookupFailed(ERROR),
    events.Disconnected(ERROR),
    events.ResponseReceived(99, beaten()),
    events.RequestRefused(99, ERROR),
    events.TimerFired(),
]


def _idle(driver: Driver) -> None: ...


def _closed(driver: Driver) -> None:
    driver.handle(events.CloseRequested(GroupMembershipOperation.DEFAULT, 0, "done"))


ANSWERS = (events.JoinPrepared, events.GroupAssigned, events.JoinDelivered)
STANDINGS: dict[str, Callable[[Driver], object]] = {
    "idle": _idle,
    "looking": Driver.poll,
    "joining": Driver.start_join,
    "leading": Driver.lead,
    "syncing": Driver.start_sync,
    "stable": Driver.join,
    "closed": _closed,
}


def test_the_samples_are_all_events() -> None:
    kinds = {*get_args(events.CallerEvent), *get_args(events.NetworkEvent), events.TimerFired}
    assert {type(event) for event in SAMPLES} == kinds


@each_case("event", SAMPLES)
@pytest.mark.parametrize("standing", STANDINGS)
def test_any_event_is_taken_anywhere(standing: str, event: events.Event) -> None:
    driver = Driver()
    STANDINGS[standing](driver)
    driver.handle(event)
    driver.advance(120_000)  # does not spin either


@each_case(
    "stale",
    [
        events.JoinPrepared(99, "work", ()),
        events.GroupAssigned(99, {}),
        events.JoinDelivered(99),
        events.CallFailed(99, "ValueError"),
        events.FailureRaised(99),
        events.ResponseReceived(99, beaten()),
        events.RequestRefused(99, ERROR),
    ],
)
@pytest.mark.parametrize("standing", STANDINGS)
def test_answers_to_nothing_change_nothing(standing: str, stale: events.Event) -> None:
    driver = Driver()
    STANDINGS[standing](driver)
    if standing == "idle" and isinstance(stale, ANSWERS):
        return  # the one thing that it changes: see the next test
    before = driver.view
    assert driver.handle(stale) == []
    counted = isinstance(stale, events.CallerEvent)
    assert driver.view == dataclasses.replace(before, handled=before.handled + counted)


@each_case(
    "answer",
    [
        events.JoinPrepared(99, "work", ()),
        events.GroupAssigned(99, {}),
        events.JoinDelivered(99),
    ],
)
def test_an_answer_is_a_sign_of_life(answer: events.CallerEvent) -> None:
    driver = Driver()
    driver.handle(events.Polled(unreported_ms=700))
    driver.advance(1_000)
    polled = driver.view.poll_until_ms
    driver.handle(answer)
    assert driver.view.poll_until_ms == polled + 1_000


def test_an_answer_that_comes_too_late_shows_that_the_caller_is_back(member: Driver) -> None:
    member.advance(member.config.poll_interval_ms + 1)
    assert member.view.state is MemberState.UNJOINED
    assert FindCoordinator() in member.handle(events.JoinDelivered(99))


@each_case("event", SAMPLES)
def test_events_are_values(event: events.Event) -> None:
    assert dataclasses.replace(event) == event
