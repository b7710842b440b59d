"""Holds what becomes of the settings of Kafka Connect's own workers."""

from pathlib import Path

import pytest

from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.java_settings import rest_settings, take_java
from groupsdk.errors import ConfigError
from groupsdk.settings.config import MemberConfig
from groupsdk.settings.properties import read_properties


# what a worker of Kafka Connect is commonly given
WORKER = """\
# a cluster of workers
! and a comment of the other kind
bootstrap.servers=localhost:9092,\\
    other:9092
group.id: connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions = 10
offset.storage.min.insync.replicas=1
config.storage.topic=connect-configs
config.storage.replication.factor=3
status.storage.topic=connect-status
status.storage.replication.factor=2
offset.flush.interval.ms=10000
exactly.once.source.support=enabled
producer.compression.type=zstd
plugin.path=/usr/share/java,/opt/connectors
listeners=HTTP://127.0.0.1:8083
rest.advertised.host.name=worker-1
scheduled.rebalance.max.delay.ms=60000
"""


def test_a_workers_file_is_taken_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "connect-distributed.properties"
    path.write_text(WORKER)
    config = ConnectConfig.of(read_properties(path))
    assert config.member.bootstrap_servers == ("localhost:9092", "other:9092")
    assert config.member.group_id == "connect-cluster"
    assert config.replication_factors == {
        "connect-configs": 3,
        "connect-offsets": 1,
        "connect-status": 2,
    }
    assert config.offset_storage_partitions == 10
    assert config.scheduled_rebalance_max_delay_ms == 60_000
    (said,) = [each.getMessage() for each in caplog.records]
    assert said == (
        "ignoring settings of Kafka Connect that do not apply here: exactly.once.source.support, key.converter,"
        " key.converter.schemas.enable, offset.flush.interval.ms,"
        " offset.storage.min.insync.replicas, plugin.path, producer.compression.type,"
        " value.converter"
    )


def test_mistakes_are_mistakes_still() -> None:
    for key in (
        "offset.storage.topick",
        "task.restart.mux",
        "session.timeout",
        "group.instance.id",
    ):
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            ConnectConfig.of({"bootstrap.servers": "b:9092", "group.id": "g", key: "1"})


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_user_and_password_are_taken_out_of_javas_login(module: str) -> None:
    login = (
        f'org.apache.kafka.common.security.{module} required username="al ice" password="a\\"b;";'
    )
    assert take_java({"sasl.jaas.config": login}) == {
        "sasl.username": "al ice",
        "sasl.password": 'a"b;',
    }


OAUTH = "org.apache.kafka.common.security.oauthbearer"


def test_the_client_of_an_identity_provider_is_taken_out_of_javas_login() -> None:
    """As Java's clients have it before 4.1 (KIP-768), and from then on (KIP-1139)."""
    url = {"sasl.oauthbearer.token.endpoint.url": "https://idp/token"}
    login = (
        f'{OAUTH}.OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="kafka"'
        ' extension_logicalCluster="lkc" extension_poolId="p";'
    )
    handler = f"{OAUTH}.OAuthBearerLoginCallbackHandler"
    old = take_java(url | {"sasl.jaas.config": login, "sasl.login.callback.handler.class": handler})
    assert old == url | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc,poolId=p",
    }
    new = url | {
        "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever",
        "sasl.oauthbearer.assertion.private.key.file": "/k",
    }
    module = {"sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required ;"}
    assert take_java(new | module) == new
    common = {
        "bootstrap.servers": "b:9092",
        "group.id": "g",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    for taken in (old, new):
        assert MemberConfig.of(common | taken).security.uses_oidc


@pytest.mark.parametrize(
    "login",
    [
        f'{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="hunter2";',
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="hunter2";',
        'org.apache.kafka.common.security.plain.PlainLoginModule required password="hunter2";',
        "hunter2",
    ],
)
def test_other_logins_are_refused_without_saying_what_they_hold(login: str) -> None:
    with pytest.raises(ConfigError, match="only PlainLoginModule and ScramLoginModule") as raised:
        take_java({"sasl.jaas.config": login})
    assert "hunter2" not in str(raised.value)


def test_stores_are_read_where_they_are_of_pem() -> None:
    assert take_java(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "me.pem",
        }
    ) == {
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
    }
    assert take_java({"ssl.truststore.certificates": "---"}) == {"ssl.ca.pem": "---"}
    with pytest.raises(ConfigError, match="stores of type JKS are not supported; convert it"):
        take_java({"ssl.truststore.location": "ca.jks"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (None, None)),
        ({"listeners": "http://127.0.0.1:8083"}, ("127.0.0.1:8083", None)),
        ({"listeners": "https://a:1, HTTP://:8084/"}, ("0.0.0.0:8084", None)),
        (
            {"listeners": "http://127.0.0.1:8083", "rest.advertised.host.name": "w"},
            ("127.0.0.1:8083", "http://w:8083"),
        ),
        (
            {"listeners": "http://[::1]:8083", "rest.advertised.host.name": "::1"},
            ("[::1]:8083", "http://[::1]:8083"),
        ),
        (
            {"listeners": "http://[::1]:8083", "rest.advertised.port": "80"},
            ("[::1]:8083", "http://[::1]:80"),
        ),
        (
            {"rest.advertised.port": "443", "rest.advertised.listener": "HTTPS"},
            (None, "https://localhost:443"),
        ),
    ],
)
def test_connects_listeners_say_where_to_answer(
    given: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    assert rest_settings(given) == expected


def test_listeners_of_https_alone_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"https://a:1: only http:// is supported"):
        rest_settings({"listeners": "https://a:1"})
