"""Holds what becomes of records that cannot be handled (KIP-298), and when failed tasks are started again."""

from contextlib import ExitStack
from random import Random
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from typing_extensions import override

from groupsdk.connect.connectors.connector_config import ErrorPolicy
from groupsdk.connect.errors import (
    ConnectorConfigError,
    RetriableError,
    StoreError,
    TaskFencedError,
)
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.tasks.task import AsyncTaskContext, Task, TaskContext
from groupsdk.connect.tasks.tolerance import (
    Attempts,
    ErrorCounts,
    RestartPolicy,
    RestartTracker,
    is_retriable,
)
from groupsdk.connect.worker import ConnectWorker
from groupsdk.dead_letters import ErrantRecord, context_headers
from groupsdk.errors import ConfigError
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import OneTask, app, eventually, states
from tests.support.topics import create_topic, read_records


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("errors.tolerance", "some"),
        ("errors.retry.timeout", "-2"),
        ("errors.retry.delay.max.ms", "0"),
        ("errors.log.enable", "yes"),
        ("errors.deadletterqueue.topic.name", "a b"),
        ("errors.deadletterqueue.topic.replication.factor", "many"),
    ],
)
def test_bad_error_tolerance_settings_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConnectorConfigError) as raised:
        ErrorPolicy.of({key: value})
    assert raised.value.field == key


def test_the_defaults_tolerate_nothing() -> None:
    assert ErrorPolicy.of({}) == ErrorPolicy()
    assert ErrorPolicy.of({"errors.tolerance": "ALL"}).tolerate


def waits(policy: ErrorPolicy, error: Exception, *at_ms: int) -> list[int | None]:
    """How long to wait after errors at these times."""
    attempts = Attempts(policy, b"x", 0, Random(1))
    return [attempts.failed(error, now_ms) for now_ms in at_ms]


def test_retriable_error_is_retried_until_the_timeout() -> None:
    passing = RetriableError("soon")
    assert waits(ErrorPolicy(), passing, 0) == [None]
    timed = ErrorPolicy(retry_timeout_ms=1_000)
    assert waits(timed, passing, 0, 300, 900, 1_000) == [300, 600, 100, None]
    assert waits(timed, ValueError("never"), 0) == [None]
    for_ever = ErrorPolicy(retry_timeout_ms=-1, retry_delay_max_ms=1_000)
    found = waits(for_ever, passing, *range(0, 10**9, 10**8))
    assert found[:2] == [300, 600]
    assert all(each is not None and 500 <= each <= 1_000 for each in found[2:])


def test_errors_that_say_nothing_of_the_record_are_raised() -> None:
    attempts = Attempts(ErrorPolicy(tolerate=True), b"x", 0, Random(1))
    for error in (TaskFencedError("gone"), StoreError("no commit")):
        with pytest.raises(type(error)):
            attempts.failed(error, 0)
    assert attempts.outcome() is None


def test_which_errors_may_pass() -> None:
    passing = KafkaException(KafkaError(KafkaError._TRANSPORT, "", False, True))
    for error in (RetriableError(), ConnectionResetError(), TimeoutError(), passing):
        assert is_retriable(error), error
    lasting = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    for other in (ValueError(), OSError(), lasting):
        assert not is_retriable(other), other


def test_tolerated_error_is_described_in_kafka_connects_headers() -> None:
    attempts = Attempts(ErrorPolicy(tolerate=True), ErrantRecord(topic="t"), 0, Random(1))
    attempts.failed(ValueError("no"), 0)
    failure = attempts.outcome()
    assert failure is not None
    assert (failure.outcome, failure.errors) == ("skipped", 1)
    headers = dict(
        context_headers(
            failure.record,
            connector="c",
            task=3,
            stage="TASK_PUT",
            class_name="Sink",
            error_class=failure.error_class,
            message=failure.message,
            trace=failure.trace,
        )
    )
    assert headers.pop("__connect.errors.exception.stacktrace") == failure.trace.encode()
    assert headers == {
        "__connect.errors.topic": b"t",
        "__connect.errors.partition": None,
        "__connect.errors.offset": None,
        "__connect.errors.connector.name": b"c",
        "__connect.errors.task.id": b"3",
        "__connect.errors.stage": b"TASK_PUT",
        "__connect.errors.class.name": b"Sink",
        "__connect.errors.exception.class.name": b"builtins.ValueError",
        "__connect.errors.exception.message": b"no",
    }


def handle(record: object) -> None:
    """Refuse some records, and one of them twice only."""
    if record == "bad":
        raise ValueError("bad record")
    if record == "late" and len(Handling.late) < 2:
        Handling.late.append(1)
        raise RetriableError("not yet")


class Handling(OneTask):
    """One task that handles the records `records`, and commits what became of each."""

    kind = "sink"
    late: ClassVar[list[int]] = []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.late.clear()
        done = [context.attempt(each, handle) for each in self.config["records"].split()]
        context.commit({"done": done})
        context.stop.wait()


class HandlingSlowly(Handling):
    """The same, as a coroutine, with a coroutine."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:  # type: ignore[override]  # either form
        async def handle_slowly(record: object) -> None:
            handle(record)

        self.late.clear()
        records = self.config["records"].split()
        done = [await context.attempt(each, handle_slowly) for each in records[:-1]]
        done.append(await context.attempt(records[-1], handle))
        await context.commit({"done": done})
        await context.stop.wait()


class HandlingApart(Handling):
    """The same, in a process."""

    host = "process"


KINDS = (Handling, HandlingSlowly, HandlingApart)
CONFIG = {
    "records": "good bad late good",
    "errors.tolerance": "all",
    "errors.retry.timeout": "60000",
    "errors.retry.delay.max.ms": "10",
}


_GRACE_MS = 120_000


def worker_of(stack: ExitStack, **settings: Any) -> ConnectWorker:
    """A worker that knows these classes: without a broker unless `settings` name one."""
    made = app(task_restart_max=0, task_shutdown_graceful_timeout_ms=_GRACE_MS, **settings)
    for kind in KINDS:
        made.connector(kind)
    stack.enter_context(made)
    return made.start() if settings else made.start_standalone(None)


def errors_of(worker: ConnectWorker, name: str) -> ErrorCounts:
    """What was counted of a connector's first task."""
    return worker._supervisor._slots[ConnectorTaskId(name, 0)].errors


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_tried_again_and_skipped(
    kind: type[Handling], caplog: pytest.LogCaptureFixture
) -> None:
    config = {**CONFIG, "errors.log.enable": "true", "errors.log.include.messages": "true"}
    with ExitStack() as stack:
        worker = worker_of(stack)
        worker.admin.put_connector("c", {"connector.class": kind.__name__, **config}).result(60)
        state = eventually(
            lambda: worker._store.state(("c", "only")), lambda: worker.admin.statuses()
        )
        assert state == {"done": [True, False, True, True]}
        counts = errors_of(worker, "c")
        assert counts.last_error_timestamp > 1_700_000_000_000
        counts.last_error_timestamp = 0
        assert counts == ErrorCounts(
            total_record_failures=1,
            total_record_errors=3,
            total_records_skipped=1,
            total_retries=2,
            total_errors_logged=1,
        )
    (said,) = [
        each.getMessage() for each in caplog.records if "handling a record" in each.getMessage()
    ]
    assert said.startswith(
        "task c-0: handling a record (key=null value='bad') failed: ValueError: bad record\n"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_error_that_is_not_tolerated_fails_the_task(kind: type[Handling]) -> None:
    with ExitStack() as stack:
        worker = worker_of(stack)
        config = {"connector.class": kind.__name__, "records": "good bad"}
        worker.admin.put_connector("c", config).result(60)
        eventually(lambda: states(worker).get("status-task-c-0") == "FAILED")
        assert "ValueError: bad record" in (worker.admin.statuses()["status-task-c-0"].trace or "")
        assert errors_of(worker, "c").total_record_failures == 1


def test_a_task_that_has_to_end_does_not_wait_for_the_next_attempt() -> None:
    with ExitStack() as stack:
        worker = worker_of(stack)
        for kind in (Handling, HandlingSlowly):
            never = {**CONFIG, "records": "late late late", "errors.retry.delay.max.ms": "3600000"}
            name = kind.__name__
            worker.admin.put_connector(name, {"connector.class": name, **never}).result(60)
        eventually(lambda: len(Handling.late) >= 1)
        # long before the grace of its tasks is over, and so in order
        assert worker.stop(_GRACE_MS / 2_000)


def test_without_kafka_there_are_no_dead_letters() -> None:
    with pytest.raises(StoreError, match="without Kafka has no topic dead"):
        FileStore().put_dead_letter("dead", 1, ErrantRecord())


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_skipped_are_in_the_dead_letters(
    servers: str, group_id: str, kind: type[Handling]
) -> None:
    topic = f"{group_id[-8:]}-dead"
    config = {
        **CONFIG,
        "connector.class": kind.__name__,
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with ExitStack() as stack:
        worker = worker_of(stack, bootstrap_servers=servers, group_id=group_id)
        worker.admin.put_connector("c", config).result(60)
        state = eventually(
            lambda: worker._store.state(("c", "only")), lambda: worker.admin.statuses()
        )
        assert state == {"done": [True, False, True, True]}
        (letter,) = read_records(servers, topic, 1)
        assert letter.value() == b"bad"
        headers = dict(letter.headers() or ())
        assert headers["__connect.errors.connector.name"] == b"c"
        assert headers["__connect.errors.exception.message"] == b"bad record"
        counts = errors_of(worker, "c")
        assert counts.deadletterqueue_produce_requests == 1
        assert counts.deadletterqueue_produce_failures == 0


def test_records_of_kafka_keep_what_they_have(servers: str, group_id: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    source = f"{group_id[-8:]}-source"
    create_topic(servers, source)
    producer.produce(source, b"v", b"k", 0, headers=[("h", b"1"), ("n", None)])
    assert producer.flush(60) == 0
    (message,) = read_records(servers, source, 1)
    record = ErrantRecord.of(message)
    assert record == ErrantRecord(b"k", b"v", (("h", b"1"), ("n", None)), source, 0, 0)


def test_a_task_that_raises_at_once_waits_longer_each_time_up_to_the_limit() -> None:
    tracker = RestartTracker(RestartPolicy(backoff_ms=100, backoff_max_ms=1_000), Random(1))
    waits = [tracker.failed(0) or 0 for _ in range(12)]
    assert 80 <= waits[0] <= 120
    assert 160 <= waits[1] <= 240
    assert all(800 <= each <= 1_000 for each in waits[6:])


def test_after_so_many_times_it_stays_failed() -> None:
    tracker = RestartTracker(RestartPolicy(max_restarts=2), Random(1))
    assert [tracker.failed(0) is None for _ in range(3)] == [False, False, True]
    assert RestartTracker(RestartPolicy(max_restarts=0), Random(1)).failed(0) is None


def test_a_task_that_ran_well_begins_anew() -> None:
    tracker = RestartTracker(RestartPolicy(max_restarts=1, reset_after_ms=500), Random(1))
    assert tracker.failed(0) is not None
    assert tracker.failed(500) is not None
    assert tracker.failed(499) is None


@pytest.mark.parametrize("wrong", [{"backoff_ms": 0}, {"max_restarts": -1}, {"reset_after_ms": 0}])
def test_a_policy_that_would_spin_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RestartPolicy(**wrong)
