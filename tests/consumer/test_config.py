"""Test where each setting of a consumer goes."""

from typing import Any

import pytest

from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.config import ConsumerConfig, refusal
from groupsdk.errors import ConfigError
from tests.support.cases import each_case


LEAST: dict[str, Any] = {"bootstrap.servers": "a:1,b:2", "group.id": "g"}


def of(**more: Any) -> ConsumerConfig:
    return ConsumerConfig.of(LEAST | more)


def test_each_setting_goes_where_it_belongs() -> None:
    config = ConsumerConfig.of(
        LEAST | {"session.timeout.ms": 9_000, "fetch.min.bytes": 5, "client.rack": "r"},
        enable_auto_commit=False,
        queued_min_messages=7,
    )
    assert config.member.session_timeout_ms == 9_000
    assert not config.enable_auto_commit
    assert config.client_rack == "r"
    native = config.librdkafka
    assert native["fetch.min.bytes"] == 5
    assert native["queued.min.messages"] == 7
    assert native["client.rack"] == "r"
    assert native["bootstrap.servers"] == "a:1,b:2"
    assert "session.timeout.ms" not in native


def test_librdkafka_commits_nothing_and_is_a_member_of_nothing() -> None:
    native = of().librdkafka
    assert native["enable.auto.commit"] is False
    assert native["enable.auto.offset.store"] is False
    assert native["fetch.queue.backoff.ms"] == 20
    assert of(**{"fetch.queue.backoff.ms": 7}).librdkafka["fetch.queue.backoff.ms"] == 7
    assert "group.protocol" not in of(**{"group.protocol": "consumer"}).librdkafka


@each_case(
    ("settings", "told"),
    (
        (
            {"group.protocol": "new"},
            r"group\.protocol must be classic, consumer or auto, not 'new'",
        ),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 6_000},
            r"session\.timeout\.ms cannot be set .* consumer\.session\.timeout\.ms",
        ),
        (
            {"group.protocol": "consumer", "heartbeat.interval.ms": 1_000},
            r"heartbeat\.interval\.ms cannot be set .* consumer\.heartbeat\.interval\.ms",
        ),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            r"partition\.assignment\.strategy cannot be set .* group\.remote\.assignor",
        ),
        ({"group.remote.assignor": "range"}, r"group\.remote\.assignor needs group\.protocol"),
        ({"group.protocol": "consumer", "group.remote.assignor": ""}, r"group\.remote\.assignor"),
        (
            {"group.protocol": "consumer", "group.protocol.type": "work"},
            r"group\.protocol\.type=work needs group\.protocol=classic, not consumer",
        ),
        (
            {"group.protocol": "auto", "group.protocol.type": "work"},
            r"group\.protocol\.type=work needs group\.protocol=classic, not auto",
        ),
        ({"group.protocol.type": "connect"}, r"the type of groups of Kafka Connect's workers"),
        ({"group.protocol.type": ""}, r"a string of 1 to 255 printable characters, .* not ''"),
        ({"group.protocol.type": 3}, r"a string of 1 to 255 printable characters, .* not 3"),
    ),
)
def test_settings_of_the_other_protocol_are_refused_with_what_takes_their_place(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        of(**settings)


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_the_type_of_consumers_goes_with_every_protocol(protocol: str) -> None:
    config = of(**{"group.protocol": protocol, "group.protocol.type": "consumer"})
    assert config.group_protocol_type == of().group_protocol_type == "consumer"
    assert "group.protocol.type" not in config.librdkafka


def test_a_member_of_the_consumer_protocol_has_the_settings_of_the_consumer() -> None:
    config = of(
        **{
            "group.protocol": "consumer",
            "group.remote.assignor": "range",
            "client.rack": "r",
            "max.poll.interval.ms": 7_000,
            "group.instance.id": "i",
        }
    )
    member = config.consumer_member()
    assert (member.server_assignor, member.rack_id) == ("range", "r")
    assert (member.poll_interval_ms, member.group_instance_id) == (7_000, "i")


@pytest.mark.parametrize(
    ("given", "ours", "native"),
    [
        ("earliest", "earliest", "earliest"),
        ("smallest", "earliest", "earliest"),
        ("LATEST", "latest", "latest"),
        ("none", "none", "error"),
        ("error", "none", "error"),
    ],
)
def test_a_reset_is_taken_in_the_words_of_both(given: str, ours: str, native: str) -> None:
    config = of(auto_offset_reset=given)
    assert (config.auto_offset_reset, config.librdkafka["auto.offset.reset"]) == (ours, native)
    assert of().librdkafka["auto.offset.reset"] == "latest"


def test_the_poll_interval_is_the_rebalance_timeout() -> None:
    assert of(max_poll_interval_ms=70_000).member.rebalance_timeout_ms == 70_000
    assert of(rebalance_timeout_ms=70_000).member.poll_interval_ms == 70_000
    both = of(max_poll_interval_ms=70_000, rebalance_timeout_ms=70_000)
    assert both.member.rebalance_timeout_ms == 70_000


@pytest.mark.parametrize("rebalance_ms", [50_000, 90_000])
def test_a_rebalance_timeout_other_than_the_poll_interval_is_refused(rebalance_ms: int) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"rebalance.timeout.ms \({rebalance_ms}\) must be max.poll.interval.ms \(70000\)"
        r" for a consumer \(KIP-62\); set max.poll.interval.ms alone",
    ):
        of(max_poll_interval_ms=70_000, rebalance_timeout_ms=rebalance_ms)


def test_texts_of_a_file_or_the_environment_do() -> None:
    config = of(
        enable_auto_commit="false", auto_commit_interval_ms="250", metadata_max_age_ms="9000"
    )
    assert config.enable_auto_commit is False
    assert config.auto_commit_interval_ms == 250
    assert config.librdkafka["metadata.max.age.ms"] == 9_000


def test_credentials_go_to_both_and_are_shown_by_none() -> None:
    config = of(
        security_protocol="sasl_ssl",
        sasl_mechanisms="PLAIN",
        sasl_username="u",
        sasl_password="secret",  # no real one
        ssl_ca_location="/ca.pem",
    )
    native = config.librdkafka
    assert native["security.protocol"] == "SASL_SSL"
    assert (native["sasl.username"], native["sasl.password"]) == ("u", "secret")
    assert native["ssl.ca.location"] == "/ca.pem"
    assert config.member.security.sasl_password == "secret"
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("auto_offset_reset", "sometimes"),
        ("auto_commit_interval_ms", 0),
        ("auto_commit_interval_ms", "soon"),
        ("metadata_max_age_ms", True),
        ("enable_auto_commit", "maybe"),
        ("exclude_internal_topics", 1),
    ],
)
def test_bad_consumer_setting_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=setting.replace("_", r"\.")):
        of(**{setting: value})


def test_keys_are_texts() -> None:
    wrong: Any = {7: 1}
    with pytest.raises(ConfigError, match="must be strings"):
        ConsumerConfig.of(wrong)


def test_a_key_that_nobody_knows_is_refused_with_the_one_that_was_meant() -> None:
    settings = {"bootstrap.servers": "broker:9092", "group.id": "g"}
    with pytest.raises(
        ConfigError, match=r"sesion\.timeout\.ms.*did you mean session\.timeout\.ms"
    ):
        GroupConsumer(settings, sesion_timeout_ms=1_000)
    with pytest.raises(ConfigError, match=r'"zzz"$'):
        GroupConsumer(settings, zzz=1)


def test_settings_that_are_no_mapping_are_named() -> None:
    with pytest.raises(ConfigError, match=r"must be a mapping such as .*, not str"):
        ConsumerConfig.of("localhost:9092")  # type: ignore[call-overload]  # what is tested


def test_settings_for_deserializers_are_refused_with_an_explanation() -> None:
    told = refusal('No such configuration property: "value.deserializer"')
    assert "are bytes" in told


def test_a_key_of_librdkafka_is_suggested_as_well() -> None:
    with pytest.raises(ConfigError, match=r"did you mean fetch\.min\.bytes\?"):
        GroupConsumer(LEAST | {"fetch.min.byte": 1})


def test_settings_of_java_s_consumer_say_what_takes_their_place() -> None:
    with pytest.raises(ConfigError, match=r"max\.poll\.records is not a setting here; .*consume"):
        GroupConsumer(LEAST | {"max.poll.records": 500})
    with pytest.raises(ConfigError, match=r"librdkafka calls it fetch\.wait\.max\.ms"):
        GroupConsumer(LEAST | {"fetch.max.wait.ms": 500})


@pytest.mark.parametrize("key", ["log_level", "log.level"])
def test_the_log_level_is_librdkafka_s(key: str) -> None:
    assert of(**{key: 3}).librdkafka["log_level"] == 3
    with GroupConsumer(LEAST, log_level=0) as consumer:
        assert consumer.config.librdkafka["log_level"] == 0


def test_a_duration_is_looked_up_for_librdkafka() -> None:
    config = of(auto_offset_reset="by_duration:pt6m")
    assert config.auto_offset_reset == "by_duration:PT6M"
    assert config.librdkafka["auto.offset.reset"] == "error"
    with pytest.raises(ConfigError, match="by_duration:P1DT12H"):
        of(auto_offset_reset="by_duration:6 minutes")
