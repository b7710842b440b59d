"""Holds the levels of loggers over HTTP, of one worker and of all."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.connect.rest.test_api import Client, ask
from tests.connect.workers import eventually


__all__ = ["ask"]  # the fixture

NAME = "tests.some.logger"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def test_a_level_is_shown_and_set(ask: Client) -> None:
    assert ask("GET", "/admin/loggers/tests.no.such.logger")[0] == 404
    assert ask("PUT", f"/admin/loggers/{NAME}", {"level": "ERROR"}) == (200, [NAME])
    code, said = ask("GET", f"/admin/loggers/{NAME}")
    assert (code, said["level"], said["last_modified"] > 0) == (200, "ERROR", True)
    code, said = ask("GET", "/admin/loggers")
    assert (code, said[NAME]["level"], "root" in said) == (200, "ERROR", True)


def test_a_level_is_set_on_all_workers(ask: Client) -> None:
    assert ask("PUT", f"/admin/loggers/{NAME}?scope=cluster", {"level": "DEBUG"})[0] == 204
    eventually(lambda: logging.getLogger(NAME).level == logging.DEBUG)


@pytest.mark.parametrize(
    ("query", "body", "code", "text"),
    [
        ("", {}, 400, "level: must be a string"),
        ("", {"level": "LOUD"}, 404, "unknown level 'LOUD'"),
        (".a" * 125, {"level": "INFO"}, 400, "longer than 250 characters"),
        (".a" * 125 + "?scope=cluster", {"level": "INFO"}, 400, "longer than 250 characters"),
        ("?scope=cluster", {"level": "LOUD"}, 404, "unknown level 'LOUD'"),
    ],
)
def test_bad_logger_request_is_refused_with_the_reason(
    ask: Client, query: str, body: Any, code: int, text: str
) -> None:
    got, said = ask("PUT", f"/admin/loggers/{NAME}{query}", body)
    assert (got, text in said["message"]) == (code, True), said
