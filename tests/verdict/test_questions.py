"""Checks that what a cluster does not answer is named: a right, a coordinator, a broker."""

import asyncio

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import DisconnectedError, UnsupportedVersionError, broker_error
from groupsdk.verdict import Obstacle, ObstacleKind
from groupsdk.verdict.questions import Questions


def obstacle_of(error: Exception, operation: str = "Describe", name: str = "orders") -> Obstacle:
    async def ask() -> Obstacle:
        questions = Questions(asyncio.get_running_loop().time() + 60, 60)

        async def fail() -> str:
            raise error

        answer = await questions.ask("its members", fail(), operation=operation, name=name)
        assert answer is None
        [found] = questions.obstacles
        return found

    return asyncio.run(ask())


def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    found = obstacle_of(broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED))

    assert found.kind is ObstacleKind.RIGHT
    assert found.right == "DESCRIBE on group orders"
    assert found.command.endswith("--operation Describe --group orders")


def test_the_right_to_a_topic_is_named_as_such() -> None:
    found = obstacle_of(broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "Read", "t")

    assert found.right == "READ on topic t"
    assert found.command.endswith("--operation Read --topic t")


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_group_without_a_coordinator_is_named_as_such(code: ErrorCode) -> None:
    found = obstacle_of(broker_error(code))

    assert found.kind is ObstacleKind.COORDINATOR
    assert found.command == ""


def test_a_broker_that_is_gone_is_named_as_such() -> None:
    assert obstacle_of(DisconnectedError("gone")).kind is ObstacleKind.BROKER
    assert obstacle_of(ConnectionRefusedError("refused")).kind is ObstacleKind.BROKER


def test_another_error_is_told_as_it_is() -> None:
    found = obstacle_of(UnsupportedVersionError("too old"))

    assert found.kind is ObstacleKind.OTHER
    assert found.text == "too old"


def test_a_silent_broker_ends_the_question_with_the_time() -> None:
    async def ask() -> list[Obstacle]:
        questions = Questions(asyncio.get_running_loop().time() + 0.01, 0.01)
        assert await questions.ask("its members", asyncio.Event().wait()) is None
        # time is up for the next one, too
        assert await questions.ask("its lag", asyncio.Event().wait(), optional=True) is None
        return questions.obstacles

    found = asyncio.run(ask())

    assert [each.kind for each in found] == [ObstacleKind.BROKER] * 2
    assert "within 0.01 s" in found[0].text
    assert found[1].optional
