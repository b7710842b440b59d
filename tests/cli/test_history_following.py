"""What goes on for long waits for a cluster that is out of reach, with each engine, and ends with one line of reason."""

from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.cli import history_following
from groupsdk.cli.command import Outage
from groupsdk.cli.history import Progress
from groupsdk.cli.history_options import HistoryOptions
from groupsdk.errors import ConfigError, DisconnectedError, GroupSdkError, ResolveError


pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException

from groupsdk.history.follow.stream import reason


SILENT = Progress(quiet=True)
OUT_OF_REACH = DisconnectedError("cannot connect to kafka:9092: Connection refused")
# as Spark 4.2 reports what a data source of Python's raises
OF_PYTHON = """[STREAM_FAILED] Query [id = 91a3, runId = 01eb] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: \
Traceback (most recent call last):
  File "python_streaming_source_runner.py", line 267, in main
  File "groupsdk/history/sources/topic_reader.py", line 115, in _run
    raise errors.DisconnectedError(f"cannot connect to {where}: {'; '.join(reasons)}")
groupsdk.errors.DisconnectedError: cannot connect to kafka:9092: Connection refused
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: groupsdk history follow [id = 91a3, runId = 01eb]
"""
OF_A_START = "[STREAM_FAILED] Query [id = f8a0] terminated with exception: Python worker failed to connect back"
OF_A_TASK = OF_PYTHON.replace(
    "=== Streaming",
    "org.apache.spark.SparkException: Job aborted due to stage failure\n=== Streaming",
)
OF_ANOTHER_WRITER = OF_PYTHON.replace("DisconnectedError", "ConfigError")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (OF_PYTHON, (str(OUT_OF_REACH), True)),
        (OF_ANOTHER_WRITER, (str(OUT_OF_REACH), False)),
        (OF_PYTHON.replace("DisconnectedError", "ResolveError"), (str(OUT_OF_REACH), True)),
        (OF_A_TASK, (str(OUT_OF_REACH), True)),
        (
            OF_PYTHON.replace("groupsdk.errors.Disc", "elsewhere.Disc"),
            (f"DisconnectedError: {OUT_OF_REACH}", False),
        ),
        ("Traceback\n  File a\nKeyError: 'orders'\n", ("KeyError: 'orders'", False)),
        ("Traceback\n  File a\nKeyError\n", ("KeyError", False)),
        (OF_A_START, ("Python worker failed to connect back", True)),
        ("java.io.IOException: full\nat a.b", ("java.io.IOException: full", False)),
        ("the disk\nis full", ("the disk", False)),
    ],
)
def test_why_a_query_ended_is_one_line_and_may_pass_or_not(
    said: str, expected: tuple[str, bool]
) -> None:
    assert reason(StreamingQueryException(said)) == expected


@pytest.fixture
def rounds(mocker: MockerFixture) -> list[float]:
    """Lets rounds follow each other at once; returns how long each was to wait."""
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)

    mocker.patch.object(history_following, "Event", return_value=mocker.Mock(wait=wait))
    return waited


def follow_locally(
    mocker: MockerFixture, *results: object, once: bool = False
) -> list[tuple[int, bool]]:
    """Follow with rounds that end in these ways; returns the updates that were looked at, and whether in an outage."""
    updater = mocker.Mock()
    updater.state.update = 0
    looked: list[tuple[int, bool]] = []

    def catch_up(*_: Any, **__: Any) -> None:
        result = next(following)
        if isinstance(result, BaseException):
            raise result
        updater.state.update += 1

    following = iter(results)
    mocker.patch.object(history_following, "Updater", return_value=updater)
    mocker.patch.object(history_following, "catch_up_topic", catch_up)
    mocker.patch.object(history_following, "_cluster", return_value=(None, "a", tuple))
    options = HistoryOptions(
        out="out", bootstrap_servers="kafka:9092", cluster="c", engine="local", once=once, every=5
    )
    history_following._follow(
        options,
        SILENT,
        each_round=lambda each, outage: looked.append((each.state.update, outage.goes_on)),
    )
    return looked


def test_an_outage_is_waited_out_and_told_once(
    rounds: list[float], mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = ResolveError("kafka is not known")
    ends = (OUT_OF_REACH, None, OUT_OF_REACH, unknown, None, KeyboardInterrupt())
    looked = follow_locally(mocker, *ends)
    # alerts that wait are sent in an outage too
    assert looked == [(0, True), (1, False), (1, True), (1, True), (2, False)]
    assert rounds == [5] * 5
    assert capsys.readouterr().err.splitlines() == [
        f"groupsdk: {OUT_OF_REACH}; trying again every 5 s",
        "groupsdk: reading goes on",
        f"groupsdk: {OUT_OF_REACH}; trying again every 5 s",
        "groupsdk: reading goes on",
    ]


@pytest.mark.parametrize(
    ("failure", "once"), [(OUT_OF_REACH, True), (ConfigError("of another source"), False)]
)
def test_what_cannot_pass_ends_it_and_so_does_everything_with_once(
    failure: GroupSdkError, once: bool, rounds: list[float], mocker: MockerFixture
) -> None:
    with pytest.raises(type(failure), match=str(failure)):
        follow_locally(mocker, failure, once=once)
    assert not rounds


class Query:
    """A query that runs for some looks at it, and then ends."""

    def __init__(self, failure: BaseException | None, looks: int) -> None:
        self.failure = failure
        self.stopped = False
        self._looks = looks

    @property
    def isActive(self) -> bool:  # noqa: N802 - as PySpark spells it
        self._looks -= 1
        return self._looks >= 0

    @property
    def lastProgress(self) -> dict[str, int] | None:  # noqa: N802
        return {"numInputRows": 0}

    def awaitTermination(self) -> None:  # noqa: N802
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self.stopped = True


def await_queries(
    *failures: BaseException | None, once: bool = False, looks: int = 0
) -> tuple[list[Query], list[Query]]:
    """Run queries that end in these ways; returns those that were begun, and the ones after which there was a round."""
    begun: list[Query] = []
    looked: list[Query] = []

    def begin() -> Any:
        begun.append(Query(failures[len(begun)], looks))
        return begun[-1]

    mine = history_following._Rounds(HistoryOptions(out="out", once=once, every=5))
    history_following._await(begin, mine, lambda: looked.append(begun[-1]))
    return begun, looked


def test_a_query_of_spark_begins_again_after_an_outage(
    rounds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [StreamingQueryException(each) for each in (OF_A_START, OF_PYTHON)]
    begun, looked = await_queries(*failures, None)
    assert len(begun) == 3
    assert looked == begun
    assert rounds == [5, 5]
    said = f"groupsdk: {OF_A_START.rpartition(': ')[2]}; trying again every 5 s\n"
    assert capsys.readouterr().err == said


def test_a_query_that_makes_progress_again_ends_the_outage(
    rounds: list[float], mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    expired = mocker.Mock(expired=True)
    mocker.patch.object(history_following, "Deadline", return_value=expired)
    begun, looked = await_queries(StreamingQueryException(OF_PYTHON), None, looks=2)
    # each runs for two rounds before it ends, as a look is late at once
    assert looked == [begun[0]] * 3 + [begun[1]] * 3
    assert capsys.readouterr().err.splitlines() == [
        f"groupsdk: {OUT_OF_REACH}; trying again every 5 s",
        "groupsdk: reading goes on",
    ]


def test_a_query_is_looked_at_until_a_round_is_over(
    rounds: list[float], mocker: MockerFixture
) -> None:
    await_queries(None, looks=3)
    assert rounds == [history_following._LOOK_S] * 3


def test_ctrl_c_stops_a_query_and_waiting_for_one(
    rounds: list[float], mocker: MockerFixture
) -> None:
    begun, looked = await_queries(KeyboardInterrupt())
    assert begun[0].stopped
    assert not looked
    mocker.patch.object(history_following._Rounds, "wait", side_effect=KeyboardInterrupt)
    begun, _ = await_queries(StreamingQueryException(OF_PYTHON))
    assert len(begun) == 1


@pytest.mark.parametrize(("said", "once"), [(OF_PYTHON, True), (OF_ANOTHER_WRITER, False)])
def test_another_end_of_a_query_is_an_error_of_one_line(
    said: str, once: bool, rounds: list[float]
) -> None:
    with pytest.raises(GroupSdkError, match=f"^Spark's query ended: {OUT_OF_REACH}$"):
        await_queries(StreamingQueryException(said), once=once)
    assert not rounds


def test_time_stands_still_for_alerts_in_an_outage(mocker: MockerFixture) -> None:
    times = iter([1_000, 99_000])
    mocker.patch.object(
        history_following, "WallClock", return_value=mocker.Mock(now_ms=lambda: next(times))
    )
    mocker.patch.object(history_following, "Alerting")
    mocker.patch.object(history_following, "file_system", return_value=(None, "out"))
    mocker.patch.object(history_following, "tables_of")
    find = mocker.patch.object(history_following, "find", return_value=[])

    def follow(*_: Any, each_round: history_following.EachRound) -> None:
        updater, outage = mocker.Mock(), Outage(5)
        updater.state.update = 0
        each_round(updater, outage)  # there is nothing to look at yet
        updater.state.update = 1
        outage.begin("nobody answers")
        each_round(
            updater, outage
        )  # nothing was read since the start: there is no time to judge at
        outage.end()
        each_round(updater, outage)
        outage.begin("nobody answers")
        each_round(updater, outage)
        outage.end()
        each_round(updater, outage)

    mocker.patch.object(history_following, "_follow", follow)
    history_following.alert(HistoryOptions(out="out", cluster="c"), SILENT)
    assert [call.args[2] for call in find.call_args_list] == [1_000, 1_000, 99_000]
