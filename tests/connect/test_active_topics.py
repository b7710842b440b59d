"""Holds which topics connectors use: in Kafka Connect's records, from tasks of all kinds, over HTTP."""

from contextlib import ExitStack
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.connect.store.status_backing_store import ActiveTopics, TopicUse, check_topic
from groupsdk.connect.tasks.task import AsyncTaskContext, Task, TaskContext
from tests.connect.rest.test_api import Client, served
from tests.connect.workers import OneTask, app, eventually


USE = TopicUse("lines", "source", 3, 1_700_000_000_000)


def test_records_are_kafka_connects() -> None:
    assert USE.key == "status-topic-lines:connector-source"
    assert USE.record() == {
        "topic": {
            "name": "lines",
            "connector": "source",
            "task": 3,
            "discoverTimestamp": 1_700_000_000_000,
        }
    }
    topics = ActiveTopics()
    topics.apply(USE.key, USE.record())
    topics.apply("status-topic-a:connector-source", TopicUse("a", "source", 0, 1).record())
    topics.apply(
        "status-topic-a:connector-a:connector-b", TopicUse("a", "a:connector-b", 0, 1).record()
    )
    assert topics.of("source") == ["a", "lines"]
    assert topics.of("a:connector-b") == ["a"]
    topics.apply(USE.key, None)
    assert topics.of("source") == ["a"]
    assert topics.of("none") == []


@pytest.mark.parametrize(
    "value",
    [
        *((), [], {}, "lines", {"topic": 1}, {"topic": {"name": "lines"}}),
        {"topic": {**USE.record()["topic"], "task": True}},
        {"topic": {**USE.record()["topic"], "discoverTimestamp": -1}},
        TopicUse("other", "source", 0, 1).record(),
    ],
)
def test_malformed_topic_record_is_ignored(value: object) -> None:
    topics = ActiveTopics()
    topics.apply(USE.key, value)
    topics.apply("status-topic-lines", USE.record())
    assert topics.of("source") == []


@pytest.mark.parametrize("wrong", ["", "a b", "a:b", "x" * 250, None, "ä"])
def test_names_that_no_topic_has_are_refused(wrong: object) -> None:
    assert check_topic("a.B_c-1") == "a.B_c-1"
    with pytest.raises(ValueError, match="a topic's name has 1 to 249 of the letters"):
        check_topic(wrong)


class Using(OneTask):
    """One task that uses the topics `topics`, again and again."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        while not context.stop.wait(0.01):
            for topic in self.config["topics"].split():
                context.uses_topic(topic)


class UsingSlowly(Using):
    """The same, as a coroutine."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:  # type: ignore[override]  # either form
        for topic in self.config["topics"].split():
            context.uses_topic(topic)
        await context.stop.wait()


class UsingApart(Using):
    """The same, in a process."""

    host = "process"


def asked(stack: ExitStack, **settings: Any) -> Client:
    """A worker without a broker that runs a connector `c`."""
    made = app(**settings)
    for kind in (Using, UsingSlowly, UsingApart):
        made.connector(kind)
    worker = stack.enter_context(made).start_standalone(None)
    return stack.enter_context(served(worker))


def test_tasks_say_what_they_use_and_it_is_forgotten_on_request(monkeypatch: Any) -> None:
    monkeypatch.setattr("groupsdk.connect.tasks.runs._TELL_MS", 20)
    with ExitStack() as stack:
        ask = asked(stack)
        for kind in ("Using", "UsingSlowly", "UsingApart"):
            config = {"connector.class": kind, "topics": "b a"}
            assert ask("PUT", f"/connectors/{kind}/config", config)[0] == 201
            path = f"/connectors/{kind}/topics"
            eventually(lambda: ask("GET", path) == (200, {kind: {"topics": ["a", "b"]}}))  # noqa: B023  # used at once
        assert ask("PUT", "/connectors/UsingSlowly/topics/reset") == (202, b"")
        assert ask("GET", "/connectors/UsingSlowly/topics")[1] == {"UsingSlowly": {"topics": []}}
        assert ask("PUT", "/connectors/Using/topics/reset")[0] == 202
        # in use still
        eventually(
            lambda: ask("GET", "/connectors/Using/topics")[1]["Using"]["topics"] == ["a", "b"]
        )
        assert ask("GET", "/connectors/none/topics")[0] == 404
        # a connector of the same name begins with none
        assert ask("DELETE", "/connectors/UsingApart")[0] == 204
        unused = {"connector.class": "UsingApart", "topics": ""}
        assert ask("PUT", "/connectors/UsingApart/config", unused)[0] == 201
        assert ask("GET", "/connectors/UsingApart/topics")[1] == {"UsingApart": {"topics": []}}


def test_tracking_can_be_switched_off() -> None:
    with ExitStack() as stack:
        ask = asked(stack, topic_tracking_allow_reset="false")
        code, said = ask("PUT", "/connectors/c/topics/reset")
        assert (code, said["message"]) == (
            403,
            "topics cannot be forgotten: topic.tracking.allow.reset is false",
        )
    with ExitStack() as stack:
        ask = asked(stack, topic_tracking_enable="false")
        assert ask("GET", "/connectors/c/topics")[1]["message"] == (
            "topics are not tracked: topic.tracking.enable is false"
        )
        assert ask("PUT", "/connectors/c/topics/reset")[0] == 403
