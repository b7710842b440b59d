"""Handle DescribeConfigs and ListConfigResources."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.config import KINDS, BrokerConfig, dotted, value_text
from groupsdk.broker.kafka_settings import KAFKA_SETTINGS, KafkaSetting
from groupsdk.broker.kept_settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    NO_EFFECT,
    OF_GROUPS_ONLY,
    KeptSetting,
)
from groupsdk.broker.log.config import FIXED
from groupsdk.broker.log_manager import TOPIC_DEFAULTS
from groupsdk.broker.server.call import Call, allowed, cluster_allowed
from groupsdk.broker.setting_types import (
    DYNAMIC,
    GROUP_TEXTS,
    NULL_BY_DEFAULT,
    PASSWORD,
    broker_documentation,
    broker_type,
    topic_documentation,
    topic_type,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from groupsdk.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
RESOURCES: Final = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    GROUP: "GROUP",
}
"""Kafka's names of the configurable resource types, by number."""
CATALOGUE_NAMES: Final = {
    TOPIC: "topic",
    BROKER: "broker",
    CLIENT_METRICS: "client-metrics",
    GROUP: "group",
}
"""The catalogue's names of the resource types whose settings it keeps."""
_DYNAMIC_TOPIC: Final = 1
_DYNAMIC_BROKER: Final = 2
_DYNAMIC_DEFAULT_BROKER: Final = 3
_STATIC_BROKER: Final = 4
_DEFAULT: Final = 5
_CLIENT_METRICS_CONFIG: Final = 7
_GROUP_CONFIG: Final = 8


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe the settings of topics, brokers and groups, and the source of each; each resource has its own error.

    Requires "describe_configs" on the topic, the group, or, for a broker, the cluster.
    """
    results = []
    for asked in request.resources:
        try:
            results.append(_described(call, asked, request))
        except ClusterError as error:
            results.append(
                DescribeConfigsResult(
                    error.error_code, str(error), asked.resource_type, asked.resource_name
                )
            )
    return DescribeConfigsResponse(results=tuple(results))


def _described(
    call: Call, asked: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    if asked.resource_type == TOPIC:
        entries = _topic_entries(call, asked.resource_name)
    elif asked.resource_type == BROKER:
        entries = _broker_entries(call, asked.resource_name)
    elif asked.resource_type == GROUP:
        entries = _group_entries(call, asked.resource_name)
    elif asked.resource_type == CLIENT_METRICS:
        entries = _client_metrics_entries(call, asked.resource_name)
    else:
        raise ClusterError(
            ErrorCode.INVALID_REQUEST,
            f"{shown(asked.resource_type, asked.resource_name)} has no settings",
        )
    # clients of Kafka before 2.0 sent an empty list for "all"
    wanted = set(asked.configuration_keys or ())
    return DescribeConfigsResult(
        0,
        None,
        asked.resource_type,
        asked.resource_name,
        tuple(
            replace(
                each,
                synonyms=each.synonyms if request.include_synonyms else (),
                documentation=each.documentation if request.include_documentation else None,
            )
            for each in entries
            if not wanted or each.name in wanted
        ),
    )


def shown(resource_type: int, name: str) -> str:
    """Return a resource as shown in error messages, such as "TOPIC 'orders'".

    Args:
        resource_type: the number of the type, known or not.
        name: the name of the resource.
    """
    return f"{RESOURCES.get(resource_type, f'resource type {resource_type}')} {name!r}"


def _topic_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    cluster = call.node.cluster
    if not allowed(call, "describe_configs", "topic", name):
        raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name not in cluster.catalogue.topics:
        raise ClusterError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    own = cluster.catalogue.config("topic", name)
    entries = []
    for key, value in cluster.logs.topic_config(name).properties().items():
        broker_key = TOPIC_DEFAULTS.get(key)
        chain = [DescribeConfigsSynonym(key, own[key], _DYNAMIC_TOPIC)] if key in own else []
        if broker_key is not None:
            chain += _broker_chain(call, broker_key)
        entries.append(
            DescribeConfigsResourceResult(
                name=key,
                value=value,
                read_only=key in FIXED,
                config_source=chain[0].source if chain else _DEFAULT,
                is_sensitive=False,
                synonyms=tuple(chain),
                config_type=topic_type(key),
                documentation=topic_documentation(key),
            )
        )
    return entries


def _broker_chain(call: Call, key: str) -> list[DescribeConfigsSynonym]:
    """List the sources of a broker setting, the effective one first."""
    cluster = call.node.cluster
    chain = [
        DescribeConfigsSynonym(key, entries[key], source)
        for source, entries in _dynamic_entries(call)
        if key in entries
    ]
    name = key.replace(".", "_")
    static, default = getattr(cluster.static_config, name), getattr(BrokerConfig, name)
    if static != default:
        chain.append(DescribeConfigsSynonym(key, value_text(static), _STATIC_BROKER))
    if key not in NULL_BY_DEFAULT:
        chain.append(DescribeConfigsSynonym(key, value_text(default), _DEFAULT))
    return chain


def _dynamic_entries(call: Call) -> Iterable[tuple[int, Mapping[str, str]]]:
    catalogue = call.node.cluster.catalogue
    yield _DYNAMIC_BROKER, catalogue.config("broker", str(call.node.node_id))
    yield _DYNAMIC_DEFAULT_BROKER, catalogue.config("broker", "")


def check_broker_name(call: Call, name: str) -> None:
    """Check the name of a broker resource: the id of this node, or empty for all brokers.

    Args:
        call: the request, for the node.
        name: the requested name.

    Raises:
        ClusterError: the name is neither (INVALID_REQUEST).
    """
    if not name:
        return
    try:
        node_id = int(name)
    except ValueError:
        text = f"Node id must be an integer, but it is: {name}"
        raise ClusterError(ErrorCode.INVALID_REQUEST, text) from None
    if node_id != call.node.node_id:
        raise ClusterError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.node.node_id} or empty string, but received {name}",
        )


def _broker_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    if not cluster_allowed(call, "describe_configs"):
        raise ClusterError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    check_broker_name(call, name)
    known = {dotted(each) for each in KINDS}
    if not name:
        source, entries = list(_dynamic_entries(call))[-1]
        chains = {key: [DescribeConfigsSynonym(key, entries[key], source)] for key in entries}
        return [
            _broker_entry(key, chain) if key in known else _other_entry(key, chain)
            for key, chain in chains.items()
        ]
    others: dict[str, list[DescribeConfigsSynonym]] = {key: [] for key in KAFKA_SETTINGS}
    for source, entries in _dynamic_entries(call):
        for key in entries.keys() - known:
            others.setdefault(key, []).append(DescribeConfigsSynonym(key, entries[key], source))
    for key, value in _facts(call).items():
        others[key].append(DescribeConfigsSynonym(key, value, _STATIC_BROKER))
    return [
        *(_broker_entry(dotted(each), _broker_chain(call, dotted(each))) for each in KINDS),
        *(_other_entry(key, chain) for key, chain in sorted(others.items())),
    ]


def _facts(call: Call) -> dict[str, str]:
    """Return the values of Kafka's settings that follow from what this broker is."""
    node_id = str(call.node.node_id)
    return {
        "broker.id": node_id,
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "log.dirs": call.node.cluster.logs.path,
        "node.id": node_id,
        "process.roles": "broker,controller",
    }


def _broker_entry(key: str, chain: list[DescribeConfigsSynonym]) -> DescribeConfigsResourceResult:
    secret = broker_type(key) == PASSWORD
    if secret:
        chain = [replace(each, value=None) for each in chain if each.source != _DEFAULT]
    return DescribeConfigsResourceResult(
        name=key,
        value=chain[0].value if chain else None,
        read_only=key not in DYNAMIC,
        config_source=chain[0].source if chain else _DEFAULT,
        is_sensitive=secret,
        synonyms=tuple(chain),
        config_type=broker_type(key),
        documentation=broker_documentation(key),
    )


def _other_entry(key: str, chain: list[DescribeConfigsSynonym]) -> DescribeConfigsResourceResult:
    setting = KAFKA_SETTINGS.get(key)
    if setting is not None:
        return _kafka_entry(key, setting, chain)
    if key in BROKER_SETTINGS:  # one that Kafka describes only while it is set
        return _kept_entry(key, BROKER_SETTINGS[key], chain)
    # an unknown setting, kept for a plugin: it may be sensitive, so its value is not shown
    chain = [replace(each, value=None) for each in chain]
    return DescribeConfigsResourceResult(
        name=key,
        value=chain[0].value,
        read_only=True,
        config_source=chain[0].source,
        is_sensitive=True,
        synonyms=tuple(chain),
        config_type=0,
        documentation=None,
    )


def _kafka_entry(
    key: str, setting: KafkaSetting, chain: list[DescribeConfigsSynonym]
) -> DescribeConfigsResourceResult:
    kept = BROKER_SETTINGS.get(key)
    secret = setting.config_type == PASSWORD
    if secret:
        chain = [replace(each, value=None) for each in chain]
    if setting.default is not None:
        chain = [*chain, DescribeConfigsSynonym(key, setting.default, _DEFAULT)]
    return DescribeConfigsResourceResult(
        name=key,
        value=chain[0].value if chain else None,
        read_only=not setting.changeable,
        config_source=chain[0].source if chain else _DEFAULT,
        is_sensitive=secret,
        synonyms=tuple(chain),
        config_type=setting.config_type,
        documentation=NO_EFFECT if kept is None else kept.documentation,
    )


def _group_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    # Kafka also describes groups that do not exist
    if not allowed(call, "describe_configs", "group", name):
        raise ClusterError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not name:
        raise ClusterError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    cluster = call.node.cluster
    own = cluster.catalogue.config("group", name)
    entries = []
    for key, text in GROUP_TEXTS.items():
        broker_key = f"group.{key}"
        chain = [DescribeConfigsSynonym(key, own[key], _GROUP_CONFIG)] if key in own else []
        chain += _broker_chain(call, broker_key)
        entries.append(
            DescribeConfigsResourceResult(
                name=key,
                value=chain[0].value,
                read_only=False,
                config_source=chain[0].source,
                is_sensitive=False,
                synonyms=tuple(chain),
                config_type=broker_type(broker_key),
                documentation=text,
            )
        )
    for key, setting in GROUP_SETTINGS.items():
        default_key = key if key in OF_GROUPS_ONLY else f"group.{key}"
        chain = [DescribeConfigsSynonym(key, own[key], _GROUP_CONFIG)] if key in own else []
        chain.append(DescribeConfigsSynonym(default_key, setting.default, _DEFAULT))
        entries.append(_kept_entry(key, setting, chain))
    return entries


def _kept_entry(
    key: str, setting: KeptSetting, chain: list[DescribeConfigsSynonym]
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key,
        value=chain[0].value if chain else setting.default,
        read_only=False,
        config_source=chain[0].source if chain else _DEFAULT,
        is_sensitive=False,
        synonyms=tuple(chain),
        config_type=setting.config_type,
        documentation=setting.documentation,
    )


def check_subscription_name(name: str) -> None:
    """Check the name of a client metrics resource.

    Raises:
        ClusterError: it is empty.
    """
    if not name:
        text = "Client metrics subscription name must not be empty"
        raise ClusterError(ErrorCode.INVALID_REQUEST, text)


def _client_metrics_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    if not cluster_allowed(call, "describe_configs"):
        raise ClusterError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    check_subscription_name(name)
    own = call.node.cluster.catalogue.config(CATALOGUE_NAMES[CLIENT_METRICS], name)
    return [
        _kept_entry(
            key,
            setting,
            [DescribeConfigsSynonym(key, own[key], _CLIENT_METRICS_CONFIG)] if key in own else [],
        )
        for key, setting in CLIENT_METRICS_SETTINGS.items()
    ]


def list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources that may have settings; requires "describe_configs" on the cluster.

    Version 0 requests client metrics only.
    """
    if not cluster_allowed(call, "describe_configs"):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = request.resource_types or (tuple(RESOURCES) if call.version else (CLIENT_METRICS,))
    if not set(asked) <= set(RESOURCES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    cluster = call.node.cluster
    found = []
    if BROKER in asked:
        found += [ConfigResource(str(node.node_id), BROKER) for node in cluster.running_nodes]
    if TOPIC in asked:
        found += [ConfigResource(name, TOPIC) for name in cluster.catalogue.topics]
    for resource_type in (GROUP, CLIENT_METRICS):
        if resource_type in asked:
            names = cluster.catalogue.configured(CATALOGUE_NAMES[resource_type])
            found += [ConfigResource(name, resource_type) for name in sorted(names)]
    return ListConfigResourcesResponse(config_resources=tuple(found))
