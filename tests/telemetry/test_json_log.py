"""Holds log records as JSON lines, with the group in fields of their own."""

import io
import json
import logging
from typing import Any

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.telemetry.json_log import GroupFieldsFilter, JsonFormatter, group_fields
from tests.support.plain_workers import PlainWorker


def lines_of(logger: logging.Logger, formatter: logging.Formatter, act: Any) -> list[Any]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        act()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_the_lines_of_a_member_name_group_member_and_generation() -> None:
    def act() -> None:
        with (
            EmbeddedBroker() as broker,
            PlainWorker(bootstrap_servers=broker.bootstrap_servers, group_id="a") as member,
        ):
            assert member.ensure_active_group(60)

    lines = lines_of(logging.getLogger("groupsdk"), JsonFormatter({"service": "s"}), act)
    assert {each["group_id"] for each in lines if "generation_id" in each} == {"a"}
    members = [each for each in lines if each["logger"].startswith("groupsdk.member")]
    joined = [each for each in members if each.get("generation_id") == 1]
    assert joined
    for line in joined:
        assert line["group_id"] == "a"
        assert line["member_id"]
        assert line["level"] == "INFO"
        assert line["service"] == "s"
        assert line["message"].startswith(f"group=a member={line['member_id']} generation=1: ")


def test_records_of_foreign_loggers_are_json_lines() -> None:
    logger = logging.getLogger("somebody")

    def act() -> None:
        logger.warning("50%% of %s\nis done", "it", extra={"shard": 3})
        try:
            int("no")
        except ValueError:
            logger.exception("failed")

    first, second = lines_of(logger, JsonFormatter(), act)
    assert first["message"] == "50% of it\nis done"
    assert first["shard"] == 3
    assert "group_id" not in first
    assert first["time"].endswith("+00:00")
    assert "ValueError: invalid literal" in second["exception"]


def test_the_filter_serves_formatters_of_any_kind() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(GroupFieldsFilter())
    handler.setFormatter(logging.Formatter("%(group_id)s|%(member_id)s|%(generation_id)s"))
    logger = logging.getLogger("somebody.else")
    logger.addHandler(handler)
    logger.warning("group=%s member=%s generation=%d: %s", "g", "m", 4, "text")
    logger.warning("group=%s member=%s epoch=%d: %s", "g", "m", 5, "text")
    logger.warning("group=%s generation=%d: %s", "g", 6, "text")
    logger.warning("group=%s epoch=%d: %s", "g", 7, "text")
    logger.warning("group=%s: %s", "g", "text")
    logger.warning("text")
    logger.removeHandler(handler)
    assert written.getvalue().splitlines() == [
        "g|m|4",
        "g|m|5",
        "g||6",
        "g||7",
        "g||-1",
        "||-1",
    ]


def test_a_record_that_only_looks_alike_has_no_fields() -> None:
    for message, arguments in (("group=%s: ", ()), ("group=x: ", ("a",)), (3, ("a",))):
        record = logging.LogRecord("x", 20, "f", 1, message, arguments, None)
        assert group_fields(record) == {}
