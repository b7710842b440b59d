"""Tests what librdkafka is told of a member's security."""

import json
import logging
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from pytest_mock import MockerFixture

from groupsdk.clock import ManualClock
from groupsdk.errors import ConfigError
from groupsdk.settings.config import MemberConfig
from groupsdk.settings.librdkafka import (
    BrokerWatch,
    LibrdkafkaLog,
    NewCredentials,
    TokenCallback,
    client_settings,
    librdkafka_settings,
)
from groupsdk.settings.security import OAuthToken, SecuritySettings


def test_plain_text_needs_nothing_else() -> None:
    assert librdkafka_settings(SecuritySettings()) == {"security.protocol": "PLAINTEXT"}


def test_a_client_reaches_the_cluster_of_a_member() -> None:
    member = MemberConfig(bootstrap_servers="a:9092,b:9093", group_id="g", client_id="c")
    plain = {
        "bootstrap.servers": "a:9092,b:9093",
        "client.id": "c",
        "security.protocol": "PLAINTEXT",
    }
    assert client_settings(member) == plain
    logged = client_settings(member, logging.getLogger("x"))
    assert isinstance(logged.pop("logger"), LibrdkafkaLog)
    assert logged == plain


def test_tls_and_a_password() -> None:
    security = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password="secret",
        ssl_ca_location="/ca.pem",
    )
    assert librdkafka_settings(security) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }


@pytest.mark.parametrize(
    ("token", "lifetime_s", "extensions"),
    [("text", 4_102_444_800.0, {}), (OAuthToken("text", 5_000, {"k": "v"}), 5.0, {"k": "v"})],
)
def test_a_token_provider(
    token: str | OAuthToken, lifetime_s: float, extensions: dict[str, str]
) -> None:
    security = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=lambda: token,
    )
    told = librdkafka_settings(security)["oauth_cb"]("")
    assert told == ("text", lifetime_s, "", extensions)


def test_an_ssl_context_is_of_no_use() -> None:
    security = SecuritySettings(security_protocol="SSL", ssl_context=ssl.create_default_context())
    with pytest.raises(ConfigError, match=r"ssl\.context cannot be used by librdkafka"):
        librdkafka_settings(security)


def _provided(provider: Callable[[], Any]) -> SecuritySettings:
    return SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_credentials_provider=provider,
    )


def test_a_provider_of_credentials_is_asked_when_the_client_is_made() -> None:
    told = librdkafka_settings(_provided(lambda: ("u", "secret")))
    assert (told["sasl.username"], told["sasl.password"]) == ("u", "secret")


def settle(credentials: NewCredentials) -> None:
    """Wait for the thread that asks the provider."""
    with credentials._asking:
        pass


def test_and_again_when_they_are_refused(
    mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    provider = mocker.Mock(return_value=("u", "new"))
    users_own = mocker.Mock()
    settings: dict[str, Any] = {"error_cb": users_own}
    credentials = NewCredentials.given(_provided(provider), settings)
    refused, other = (
        KafkaError(KafkaError._AUTHENTICATION),
        KafkaError(KafkaError._ALL_BROKERS_DOWN),
    )
    settings["error_cb"](other)
    settle(credentials)
    assert credentials.take() is None
    settings["error_cb"](refused)
    settle(credentials)
    assert credentials.take() == ("u", "new")
    assert credentials.take() is None, "once"
    provider.side_effect = RuntimeError("s3cret")
    settings["error_cb"](refused)
    settle(credentials)
    assert "no new credentials for librdkafka: RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text
    assert [call.args[0] for call in users_own.call_args_list] == [other, refused, refused]


def test_without_a_provider_errors_are_the_users_alone(mocker: MockerFixture) -> None:
    settings = {"error_cb": mocker.sentinel.own}
    credentials = NewCredentials.given(SecuritySettings(), settings)
    assert settings == {"error_cb": mocker.sentinel.own}
    credentials.put("u", "p")
    assert credentials.take() == ("u", "p")


REFUSED = (
    "[thrd:a:1/bootstrap]: a:1/bootstrap: Connect failed: refused (after {}ms in state CONNECT)"
)


def test_a_log_line_that_repeats_comes_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_000)
    log = LibrdkafkaLog(logging.getLogger("groupsdk.test"), "group=g", clock)

    def fail(times: int, text: str = REFUSED) -> list[str]:
        caplog.clear()
        for number in range(times):
            log.log(logging.ERROR, "%s [%s] %s", "FAIL", "client#1", text.format(number))
            clock.advance(100)
        return caplog.messages

    line = "group=g: librdkafka: FAIL [client#1] "
    assert fail(300) == [line + REFUSED.format(0)]
    assert fail(1, REFUSED.replace("a:1", "b:1")) == [
        line + REFUSED.replace("a:1", "b:1").format(0)
    ]
    clock.advance(30_000)
    assert fail(1) == [line + REFUSED.format(0) + " (and 299 more like this one before)"]
    assert caplog.records[0].levelno == logging.ERROR
    log.log(logging.WARNING, "100% of it")  # and nothing to put in
    assert caplog.messages[-1] == "group=g: librdkafka: 100% of it"


def test_lines_that_are_all_different_take_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    log = LibrdkafkaLog(logging.getLogger("groupsdk.test"), "group=g", ManualClock())
    for number in range(1_000):
        log.log(logging.INFO, "%s", f"line {number}")
    assert len(log._seen) == 200


def test_a_provider_that_raises_is_remembered_for_whoever_made_the_client(
    mocker: MockerFixture,
) -> None:
    provider = mocker.Mock(side_effect=RuntimeError("down"))
    callback = TokenCallback(provider)
    callback.check()
    provider.assert_not_called()  # a user's provider is not asked without need
    with pytest.raises(RuntimeError):
        callback("")
    assert str(callback.error) == "down"
    provider.side_effect = None
    provider.return_value = "token"
    assert callback("")[0] == "token"
    assert callback.error is None
    TokenCallback(provider, keeps=True).check()
    assert provider.call_count == 3


def test_a_client_is_lost_once_two_statistics_in_a_row_name_no_broker() -> None:
    watch = BrokerWatch()
    take = watch.settings()["stats_cb"]

    def told(*sources: str) -> bool:
        take(json.dumps({"brokers": {str(n): {"source": s} for n, s in enumerate(sources)}}))
        return watch.lost

    assert [told("logical", "internal"), told("configured"), told(), told("learned")] == [False] * 4
    assert [told(), told("logical")] == [False, True]
    watch.settings()
    assert not watch.lost


def test_a_watch_leaves_a_client_its_own_statistics() -> None:
    taken: list[str] = []
    given = {"stats_cb": taken.append, "client.id": "c"}
    watch = BrokerWatch()
    settings = watch.settings({**given, "statistics.interval.ms": "0"})
    assert (settings["statistics.interval.ms"], settings["client.id"]) == (5_000, "c")
    settings["stats_cb"]("{}")
    assert taken == [], "it wants none"
    settings = watch.settings({**given, "statistics.interval.ms": "700"})
    assert settings["statistics.interval.ms"] == "700"
    settings["stats_cb"]("{}")
    settings["stats_cb"]("{ }")
    assert taken == ["{}", "{ }"]
    assert watch.lost
