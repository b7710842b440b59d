"""Test what is kept of requests that never had an answer."""

import logging

from groupsdk.errors import DisconnectedError
from groupsdk.member.coordinator_access import ConnectionFailures
from groupsdk.member.member import LogThinner
from groupsdk.member.requests import InFlightRequest
from groupsdk.types import NO_GENERATION
from groupsdk.wire.schema import ApiKey


ERROR = DisconnectedError("the broker closed the connection")


def flight(api: ApiKey, payload: str = "", payload_bytes: int = 0) -> InFlightRequest:
    return InFlightRequest(1, api, 0, 1, NO_GENERATION, payload, payload_bytes)


def test_a_loss_names_the_request_and_its_size_until_it_gets_through() -> None:
    losses = ConnectionFailures()
    losses.lost(ERROR, [flight(ApiKey.SYNC_GROUP, "a plan", 101_000_000)])
    assert losses.trouble == (
        "the broker closed the connection; SYNC_GROUP with a plan of 101000000 bytes was lost"
    )
    losses.lost(ERROR, [flight(ApiKey.SYNC_GROUP, "a plan", 101_000_000)])
    assert str(losses.trouble).endswith("was lost 2 times in a row")
    losses.answered(ApiKey.HEARTBEAT)
    losses.answered(ApiKey.JOIN_GROUP)
    assert losses.trouble is not None, "the plan still has not got through"
    losses.answered(ApiKey.SYNC_GROUP)
    assert losses.trouble is None


def test_an_answered_sync_shows_that_all_gets_through() -> None:
    losses = ConnectionFailures()
    losses.lost(ERROR, [flight(ApiKey.HEARTBEAT), flight(ApiKey.JOIN_GROUP)])
    losses.answered(ApiKey.SYNC_GROUP)
    assert losses.trouble is None


def test_the_third_loss_in_a_row_is_a_warning_and_then_seldomer_and_seldomer() -> None:
    losses = ConnectionFailures()
    levels = [losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP)]) for _ in range(13)]
    warned = [count for count, level in enumerate(levels, 1) if level == logging.WARNING]
    assert warned == [3, 6, 12]
    losses.answered(ApiKey.JOIN_GROUP)
    assert losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP)]) == logging.INFO


def test_a_single_loss_of_what_carries_nothing_is_told_by_the_error_alone() -> None:
    losses = ConnectionFailures()
    losses.lost(ERROR, [flight(ApiKey.HEARTBEAT)])
    assert losses.trouble == str(ERROR)
    losses.lost(ERROR, [flight(ApiKey.HEARTBEAT)])
    assert losses.trouble == str(ERROR)
    losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP)])
    assert losses.trouble == str(ERROR)
    losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP)])
    assert losses.trouble == f"{ERROR}; JOIN_GROUP was lost 2 times in a row"


def test_connection_failure_with_nothing_sent_blames_no_request() -> None:
    losses = ConnectionFailures()
    losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP, "metadata", 1)])
    unreachable = DisconnectedError("broker-2:9092 cannot be reached")
    for _ in range(17):
        losses.unreachable(unreachable)
        assert losses.trouble == str(unreachable)
    losses.lost(ERROR, [flight(ApiKey.JOIN_GROUP, "metadata", 1)])
    assert (
        losses.trouble == f"{ERROR}; JOIN_GROUP with metadata of 1 bytes was lost 2 times in a row"
    )
    losses.unreachable(unreachable)
    losses.answered(ApiKey.JOIN_GROUP)
    assert losses.trouble is None


def test_repeated_log_line_is_thinned_until_all_is_well() -> None:
    repeats = LogThinner()
    shown = [
        count for count in range(1, 601) if repeats.thinned("lost", logging.INFO)[0] == logging.INFO
    ]
    assert shown == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert repeats.thinned("lost", logging.INFO) == (logging.DEBUG, " (601 times by now)")
    assert repeats.thinned("found", logging.INFO) == (logging.INFO, "")
    repeats.calm()
    assert repeats.thinned("lost", logging.WARNING) == (logging.WARNING, "")


def test_leaving_and_an_idle_connection_are_no_loss() -> None:
    losses = ConnectionFailures()
    assert losses.lost(ERROR, [flight(ApiKey.LEAVE_GROUP)]) == logging.INFO
    losses.lost(ERROR, [])
    losses.answered(ApiKey.LEAVE_GROUP)
    assert losses.trouble is None
