"""Test the ledger of requests without an answer."""

from groupsdk.member.requests import PARKED, InFlightRequests
from groupsdk.types import NO_GENERATION, Generation
from groupsdk.wire.schema import ApiKey


GENERATION = Generation(1, "m-1", "even")


def test_a_request_is_taken_once_with_what_it_was_sent_under() -> None:
    ledger = InFlightRequests()
    request_id = ledger.add(ApiKey.HEARTBEAT, GENERATION, 1_000, 500)
    flight = ledger.take(request_id)
    assert flight is not None
    assert (flight.api, flight.generation, flight.sent_ms, flight.deadline_ms) == (
        ApiKey.HEARTBEAT,
        GENERATION,
        1_000,
        1_500,
    )
    assert ledger.take(request_id) is None


def test_ids_are_never_used_again() -> None:
    ledger = InFlightRequests()
    first = ledger.add(ApiKey.JOIN_GROUP, NO_GENERATION, 0, 1)
    ledger.clear()
    assert ledger.add(ApiKey.JOIN_GROUP, NO_GENERATION, 0, 1) != first


def test_abandoned_requests_are_forgotten_and_the_others_kept() -> None:
    ledger = InFlightRequests()
    join = ledger.add(ApiKey.JOIN_GROUP, NO_GENERATION, 0, 1)
    leave = ledger.add(ApiKey.LEAVE_GROUP, NO_GENERATION, 0, 1)
    ledger.abandon(*PARKED)
    assert ledger.take(join) is None
    assert ledger.summary.apis == {ApiKey.LEAVE_GROUP}
    assert ledger.take(leave) is not None


def test_clearing_returns_what_had_no_answer() -> None:
    ledger = InFlightRequests()
    ids = [ledger.add(api, NO_GENERATION, 0, 1) for api in (ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP)]
    assert [flight.request_id for flight in ledger.clear()] == ids
    assert ledger.clear() == ()


def test_without_requests_there_is_no_deadline() -> None:
    ledger = InFlightRequests()
    assert ledger.summary.first is None


def test_request_is_due_at_its_deadline() -> None:
    ledger = InFlightRequests()
    ledger.add(ApiKey.JOIN_GROUP, NO_GENERATION, 0, 65_000)
    ledger.add(ApiKey.HEARTBEAT, NO_GENERATION, 0, 40_000)
    first = ledger.summary.first
    assert first is not None
    assert (first.api, first.deadline_ms) == (ApiKey.HEARTBEAT, 40_000)


def test_a_request_is_described_with_what_is_in_it() -> None:
    ledger = InFlightRequests()
    plain = ledger.take(ledger.add(ApiKey.HEARTBEAT, GENERATION, 0, 1))
    full = ledger.take(ledger.add(ApiKey.SYNC_GROUP, GENERATION, 0, 1, ("a plan", 7)))
    assert plain is not None
    assert full is not None
    assert plain.description == "HEARTBEAT"
    assert full.description == "SYNC_GROUP with a plan of 7 bytes"
