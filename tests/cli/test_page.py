"""Tests the options of the live page."""

import pytest

from groupsdk.cli.command import ExitCode
from groupsdk.cli.page import http_settings
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["127.0.0.1"], "--web must be HOST:PORT, such as 127.0.0.1:8080, not '127.0.0.1'"),
        (["127.0.0.1:99999"], "--web must be HOST:PORT"),
        (["0.0.0.0:8080"], "0.0.0.0 can be reached by others: give --web-user"),
        (["127.0.0.1:0", "--web-user", "a"], "give both --web-user and GROUPSDK_WEB_PASSWORD"),
        (["127.0.0.1:0"], "bootstrap.servers is missing"),
    ],
)
def test_a_page_that_cannot_be_served_is_said(run: Run, words: list[str], said: str) -> None:
    failed = run("watch", "--web", *words, code=ExitCode.WRONG_USE)
    assert said in failed.err


def test_a_page_for_others_has_a_user_and_names() -> None:
    settings = http_settings(
        "--web", "0.0.0.0:80", user="alice", password="secret", allowed_hosts="a.example, b.example"
    )
    assert (settings.host, settings.port) == ("0.0.0.0", 80)
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert "secret" not in repr(settings)
    assert (
        http_settings("--web", "[::1]:8080", user=None, password=None, allowed_hosts=None).host
        == "::1"
    )
