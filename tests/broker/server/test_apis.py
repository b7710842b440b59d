"""Tests the list of what is served against the declarations of the messages and the handlers."""

import re
from importlib import import_module
from pathlib import Path

from groupsdk.broker.server.apis import APIS
from groupsdk.broker.settings.topic import TOPIC_SETTINGS
from groupsdk.wire.api import request_class
from tests.support.cases import each_case


@each_case("key", sorted(APIS))
def test_served_api_is_declared_and_has_a_handler(key: int) -> None:
    served = APIS[key]
    message = request_class(key)
    assert message.__name__ == f"{served.name}Request"
    assert message.api.min_version <= served.min_version <= served.max_version
    assert served.max_version <= message.api.max_version
    module = import_module(f"groupsdk.broker.server.handlers.{served.module}")
    assert callable(getattr(module, served.function))


def test_only_produce_shows_more_than_it_serves() -> None:
    assert [key for key, each in APIS.items() if each.advertised_from is not None] == [0]


def test_the_page_of_what_is_not_served_names_no_api_that_is_served_and_only_settings_of_topics() -> (
    None
):
    page = (Path(__file__).parents[3] / "docs" / "what-it-is-not.md").read_text(encoding="utf-8")
    apis, _, rest = page.partition("### APIs that it does not announce")[2].partition(
        "### Settings"
    )
    table = "".join(line for line in apis.splitlines() if line.startswith("| `"))
    named = re.findall(r"`([A-Z]\w+)`", table)
    assert len(named) > 15
    assert not {each.name for each in APIS.values()} & set(named)
    kept = re.findall(
        r"`([a-z0-9.]+\.[a-z0-9.]+|preallocate)`", rest.partition("Of the settings")[0]
    )
    assert set(kept) <= TOPIC_SETTINGS.keys()
    without = {key for key, row in TOPIC_SETTINGS.items() if "without effect" in row.text}
    assert without <= set(kept)
