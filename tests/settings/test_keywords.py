"""Test that the types of settings are those that the configurations take."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from docs.list_settings import pages
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.keywords import ConsumerSettings
from groupsdk.settings.config import ALIASES, MemberConfig
from groupsdk.settings.keywords import MemberSettings
from groupsdk.settings.security import SecuritySettings
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.keywords import ShardSettings


def test_the_modules_are_up_to_date() -> None:
    generated = {path: text for path, text in pages().items() if path.name == "keywords.py"}
    assert len(generated) == 3
    for path, text in generated.items():
        assert path.read_text(encoding="utf-8") == text, "run python -m docs.list_settings"


@pytest.mark.parametrize(
    ("settings", "configs"),
    [
        (MemberSettings, [MemberConfig, SecuritySettings]),
        (ConsumerSettings, [MemberConfig, SecuritySettings, ConsumerConfig]),
        (ShardSettings, [MemberConfig, SecuritySettings, ShardConfig]),
    ],
)
def test_each_setting_has_the_type_of_its_field(settings: Any, configs: list[Any]) -> None:
    typed = get_type_hints(settings)
    declared: dict[str, Any] = {}
    for each in configs:
        hints = get_type_hints(each)
        declared |= {field.name: hints[field.name] for field in fields(each)}
    for key in ("member", "librdkafka"):
        declared.pop(key, None)
    declared |= {alias: declared[meant] for alias, meant in ALIASES.items()}
    assert typed == declared
    assert not settings.__required_keys__, "a mapping of settings may bring any of them"


def test_every_typed_keyword_is_taken() -> None:
    given: dict[str, Any] = {each.name: each.default for each in fields(MemberConfig)}
    given |= {"bootstrap_servers": "a:1", "group_id": "g", "security": SecuritySettings()}
    MemberConfig.of(**given)
    assert set(given) <= MemberSettings.__optional_keys__
