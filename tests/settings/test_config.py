"""Test how settings are given, checked and explained."""

import ssl
from dataclasses import fields
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.settings.config import MemberConfig, parse_servers
from groupsdk.settings.security import OAuthToken, SecuritySettings


SECRET = "s3cr3t-do-not-show"
NEEDED = {"bootstrap_servers": "a:1", "group_id": "g"}


def provider() -> str:
    return SECRET


class Provider:
    """A provider that holds a secret, and can be sent to another process."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self) -> OAuthToken:
        return OAuthToken(self.token)


class Unsendable(Provider):
    """The same, but it cannot."""

    @override
    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {self.token}")


def of(**settings: Any) -> MemberConfig:
    return MemberConfig.of({**NEEDED, **settings})


# how they are given


def test_the_defaults_are_those_of_kafka() -> None:
    config = of()
    assert config == MemberConfig(
        bootstrap_servers=("a:1",),
        group_id="g",
        group_instance_id=None,
        client_id="groupsdk",
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        rebalance_timeout_ms=300_000,
        max_poll_interval_ms=300_000,
        request_timeout_ms=30_000,
        retry_backoff_ms=100,
        retry_backoff_max_ms=1_000,
        socket_connection_setup_timeout_ms=10_000,
        receive_message_max_bytes=100_000_000,
        heartbeat="thread",
        security=SecuritySettings(),
    )


def test_keys_may_be_dotted_or_not_and_keywords_win() -> None:
    config = MemberConfig.of(
        {"bootstrap.servers": "a:1", "group.id": "x", "session_timeout_ms": "9000"}, group_id="g"
    )
    assert config.group_id == "g"
    assert config.session_timeout_ms == 9_000


def test_settings_of_security_stand_beside_the_others() -> None:
    config = of(
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",  # librdkafka's spelling
            "sasl.username": "alice",
            "sasl.password": SECRET,
        }
    )
    assert config.security.mechanism == "PLAIN"
    assert config.security.sasl_password == SECRET
    assert SECRET not in repr(config)


def test_every_setting_has_a_dotted_key_and_is_explained() -> None:
    for field in fields(MemberConfig):
        if field.name in ("bootstrap_servers", "group_id", "security"):
            continue
        key = field.name.replace("_", ".")
        default = getattr(of(), field.name)
        assert getattr(MemberConfig.of({**NEEDED, key: default}), field.name) == default


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("group.instance", "did you mean group.instance.id (group_instance_id)?"),
        ("sesion.timeout.ms", "did you mean session.timeout.ms (session_timeout_ms)?"),
        ("sasl_user_name", "did you mean sasl.username (sasl_username)?"),
        ("servers", "did you mean bootstrap.servers (bootstrap_servers)?"),
        ("auto.offset.reset", "that is a setting of groupsdk.consumer.GroupConsumer"),
        ("max_poll_records", "that is a setting of groupsdk.consumer.GroupConsumer"),
        ("xyz", "unknown setting 'xyz'"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_closest_known_one(key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of(**{key: 1})
    assert f"unknown setting {key!r}" in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("missing", "key"), [("bootstrap_servers", "bootstrap.servers"), ("group_id", "group.id")]
)
def test_missing_setting_is_named(missing: str, key: str) -> None:
    given: dict[str, Any] = {name: value for name, value in NEEDED.items() if name != missing}
    for settings in (given, {**given, missing: None}):
        with pytest.raises(ConfigError, match=f"^{key} is missing"):
            MemberConfig.of(settings)


def test_a_ready_configuration_is_taken_as_it_is_and_alone() -> None:
    config = of()
    assert MemberConfig.given(config, {}) is config
    assert MemberConfig.given({**NEEDED, "group_id": "x"}, {"group.id": "h"}).group_id == "h"
    assert MemberConfig.given(None, NEEDED) == config
    with pytest.raises(ConfigError, match="client_id, group_id: give a MemberConfig or keywords"):
        MemberConfig.given(config, {"group_id": "h", "client_id": "c"})


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ("localhost:9092", r"must be a mapping such as {'bootstrap.servers': .* not str"),
        (["localhost:9092"], "must be a mapping such as .* not list"),
        ("", "must be a mapping such as .* not str"),
        ({1: 2}, "the keys of settings must be strings such as 'group.id', not 1"),
        ({"group.id": "g", "group_id": "h"}, "group.id and group_id are the same setting"),
        (
            {"sasl.mechanisms": "PLAIN", "sasl.mechanism": "PLAIN"},
            "sasl.mechanisms and sasl.mechanism",
        ),
    ],
)
def test_value_that_is_not_settings_is_refused(settings: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        MemberConfig.given(settings, {})


def test_a_client_id_leaves_room_for_the_member_id() -> None:
    assert of(client_id="x" * 32_730).client_id == "x" * 32_730


# servers


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("127.0.0.1:65535", [("127.0.0.1", 65_535)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_parsed(servers: Any, addresses: list[tuple[str, int]]) -> None:
    assert parse_servers(servers) == addresses
    config = of(bootstrap_servers=servers)
    assert list(config.servers) == addresses
    assert (
        list(MemberConfig(bootstrap_servers=config.bootstrap_servers, group_id="g").servers)
        == addresses
    )


@pytest.mark.parametrize(
    ("servers", "match"),
    [
        ("", "bootstrap.servers is empty"),
        (" , ", "bootstrap.servers is empty"),
        ([], "bootstrap.servers is empty"),
        ("a:0", "'a:0' is not host:port"),
        ("a:65536", "'a:65536' is not host:port"),
        ("a:x", "'a:x' is not host:port"),
        ("a:", "'a:' is not host:port"),
        (":9092", "':9092' is not host:port"),
        ("[::1", "is not host:port"),
        ("[::1]9092", "is not host:port"),
        ("[]:9092", "is not host:port"),
        ("https://a:1", "is a URL; give host:port"),
        ([("a", 1)], "bootstrap.servers must"),
        (5, "bootstrap.servers must"),
        (b"a:1", "bootstrap.servers must be a string or a list of strings, not b'a:1'"),
        ("a\ud800:1", "bootstrap.servers is .* which cannot be encoded as UTF-8"),
    ],
)
def test_bad_bootstrap_servers_are_refused(servers: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match.replace("[", r"\[").replace("]", r"\]")):
        of(bootstrap_servers=servers)


# values


MILLISECONDS = [each.name for each in fields(MemberConfig) if each.name.endswith("_ms")]


@pytest.mark.parametrize("name", MILLISECONDS)
@pytest.mark.parametrize("value", [-1, 2**31, 1.5, True, "soon", [1]])
def test_times_are_whole_milliseconds_in_bounds(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name.replace("_", ".")):
        of(**{name: value})


@pytest.mark.parametrize("name", MILLISECONDS)
def test_no_time_may_be_zero(name: str) -> None:
    # a backoff of none at all would be a busy loop while brokers are down
    with pytest.raises(ConfigError, match=r"must be an integer from (1|100) to 2147483647, not 0"):
        of(**{name: 0})


@pytest.mark.parametrize("name", ["rebalance_timeout_ms", "max_poll_interval_ms"])
def test_no_group_comes_to_rest_within_less_than_100_ms(name: str) -> None:
    assert getattr(of(**{name: 100}), name) == 100
    with pytest.raises(
        ConfigError, match=f"{name.replace('_', '.')} must be an integer from 100 to .*, not 99"
    ):
        of(**{name: 99})


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"group_id": ""}, "group.id must be a non-empty string, not ''"),
        ({"group_id": 5}, "group.id must be a non-empty string"),
        ({"group_id": "x" * 32_768}, "group.id is longer than 32767 bytes"),
        ({"group_id": "\ud800"}, "group.id is .* which cannot be encoded as UTF-8"),
        ({"client_id": ""}, "client.id must be a non-empty string"),
        ({"client_id": "x" * 32_731}, "client.id is longer than 32730 bytes"),
        ({"group_instance_id": ""}, "group.instance.id must be 1 to 249"),
        ({"group_instance_id": "a b"}, "group.instance.id must be 1 to 249.*'a b'"),
        ({"group_instance_id": ".."}, "group.instance.id must be 1 to 249"),
        ({"group_instance_id": "x" * 250}, "group.instance.id must be 1 to 249"),
        ({"group_instance_id": "one\n"}, "group.instance.id must be 1 to 249"),
        (
            {"heartbeat_interval_ms": 45_000},
            r"heartbeat.interval.ms \(45000\) must be less than session",
        ),
        ({"session_timeout_ms": 3_000}, "commonly a third"),
        (
            {"receive_message_max_bytes": 999},
            "receive.message.max.bytes must be an integer from 1000",
        ),
        ({"heartbeat": "fibre"}, "heartbeat must be 'thread' or 'process', not 'fibre'"),
        ({"security_protocol": "TLS"}, "security_protocol is 'TLS'"),
        ({"security": None}, "security must be SecuritySettings, not NoneType"),
    ],
)
def test_setting_out_of_bounds_is_named(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        of(**settings)


def test_a_whole_security_and_keys_of_it_do_not_go_together() -> None:
    whole = SecuritySettings(security_protocol="SSL")
    assert of(security=whole).security is whole
    with pytest.raises(
        ConfigError, match=r"security and ssl_ca_location: give the one or the others"
    ):
        of(security=whole, ssl_ca_location="x")


def test_the_poll_interval_is_the_rebalance_timeout_unless_set() -> None:
    assert of(rebalance_timeout_ms=7_000).poll_interval_ms == 7_000
    assert of(rebalance_timeout_ms=7_000, max_poll_interval_ms=9_000).poll_interval_ms == 9_000


@pytest.mark.parametrize(
    ("rebalance_ms", "request_ms", "join_ms"),
    [(300_000, 30_000, 305_000), (1_000, 30_000, 30_000), (2**31 - 1, 30_000, 2**31 - 1)],
)
def test_a_join_may_be_parked_for_the_rebalance_timeout(
    rebalance_ms: int, request_ms: int, join_ms: int
) -> None:
    config = of(rebalance_timeout_ms=rebalance_ms, request_timeout_ms=request_ms)
    assert config.join_timeout_ms == join_ms


# what cannot go to a child process


OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize("token_provider", [provider, Provider(SECRET)])
def test_a_provider_that_can_be_imported_may_go_to_a_process(token_provider: Any) -> None:
    config = of(heartbeat="process", sasl_oauth_token_provider=token_provider, **OAUTH)
    assert config.security.sasl_oauth_token_provider is token_provider


@pytest.mark.parametrize("token_provider", [lambda: "x", Unsendable(SECRET)])
def test_only_a_process_minds_how_a_provider_is_made(token_provider: Any) -> None:
    of(sasl_oauth_token_provider=token_provider, **OAUTH)


@pytest.mark.parametrize("token_provider", [lambda: "x", Unsendable(SECRET)])
def test_a_provider_that_cannot_be_sent_is_refused(token_provider: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"sasl\.oauth\.token\.provider cannot be pickled.*at the top of a module"
    ) as caught:
        of(heartbeat="process", sasl_oauth_token_provider=token_provider, **OAUTH)
    assert SECRET not in str(caught.value)


def test_a_provider_of_the_program_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    def own() -> str:
        return "x"

    own.__module__, own.__qualname__ = "__main__", "own"
    monkeypatch.setattr(__main__, "own", own, raising=False)
    with pytest.raises(ConfigError, match=r"the program that was started \(__main__\)"):
        of(heartbeat="process", sasl_oauth_token_provider=own, **OAUTH)


def test_a_context_is_refused_with_the_way_out() -> None:
    settings = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    of(**settings)
    with pytest.raises(ConfigError, match=r"ssl\.context cannot be sent.*use ssl\.ca\.location"):
        of(heartbeat="process", **settings)
