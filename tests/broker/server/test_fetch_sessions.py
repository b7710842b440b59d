"""Tests what is remembered of a consumer's fetches."""

from groupsdk.broker.server.fetch_sessions import FetchSession, FetchSessions
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.support.steps import finished


def request(
    session_id: int, epoch: int, *partitions: int, forget: tuple[int, ...] = ()
) -> FetchRequest:
    """Builds a request for partitions of t, each from the offset of its number."""
    wanted = tuple(FetchPartition(each, fetch_offset=each) for each in partitions)
    forgotten = (ForgottenTopic("t", partitions=forget),) if forget else ()
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=(FetchTopic("t", partitions=wanted),) if wanted else (),
        forgotten_topics_data=forgotten,
    )


def begun(sessions: FetchSessions, asked: FetchRequest) -> tuple[FetchSession, bool]:
    """Begins, which has to succeed."""
    found = finished(sessions.begin(asked))
    assert not isinstance(found, ErrorCode)
    return found


def keys(session: FetchSession) -> list[int]:
    """Returns the partitions in their order."""
    return [each.partition for each in session.partitions.values()]


def test_without_a_session_nothing_is_kept() -> None:
    sessions = FetchSessions(10)
    session, incremental = begun(sessions, request(0, -1, 0, 1))
    assert (session.session_id, incremental, len(sessions)) == (0, False, 0)
    assert keys(session) == [0, 1]


def test_a_session_is_told_only_what_changes() -> None:
    sessions = FetchSessions(10)
    session, incremental = begun(sessions, request(0, 0, 0, 1, 2))
    assert session.session_id > 0
    assert not incremental
    again, incremental = begun(sessions, request(session.session_id, 1, 5, forget=(1,)))
    assert again is session
    assert incremental
    assert keys(session) == [0, 2, 5]
    assert begun(sessions, request(session.session_id, 2))[0] is session


def test_a_wrong_session_or_epoch_is_an_error() -> None:
    sessions = FetchSessions(10)
    session, _ = begun(sessions, request(0, 0, 0))
    assert (
        finished(sessions.begin(request(session.session_id, 7)))
        is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert finished(sessions.begin(request(99, 1))) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begun(sessions, request(session.session_id, 1))[0] is session


def test_the_epoch_starts_again_at_1() -> None:
    sessions = FetchSessions(10)
    session, _ = begun(sessions, request(0, 0, 0))
    session.epoch = 2**31 - 1
    begun(sessions, request(session.session_id, 2**31 - 1))
    assert session.epoch == 1


def test_a_session_ends_with_the_next_full_fetch() -> None:
    sessions = FetchSessions(10)
    session, _ = begun(sessions, request(0, 0, 0))
    begun(sessions, request(session.session_id, -1, 0))
    assert len(sessions) == 0
    assert (
        finished(sessions.begin(request(session.session_id, 1)))
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_the_oldest_session_makes_room() -> None:
    sessions = FetchSessions(2)
    first, _ = begun(sessions, request(0, 0, 0))
    second, _ = begun(sessions, request(0, 0, 0))
    begun(sessions, request(first.session_id, 1))
    begun(sessions, request(0, 0, 0))
    assert len(sessions) == 2
    assert (
        finished(sessions.begin(request(second.session_id, 1)))
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert begun(FetchSessions(0), request(0, 0, 0))[0].session_id == 0


def test_served_partition_comes_last_in_a_fetch_session() -> None:
    sessions = FetchSessions(2)
    session, _ = begun(sessions, request(0, 0, 0, 1, 2))
    session.served([("t", 0), ("t", 9)])
    assert keys(session) == [1, 2, 0]
