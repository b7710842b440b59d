"""Answer DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources: topics' settings can be
changed, brokers' are for reading.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.config import KINDS, BrokerConfig, dotted, value_text
from groupsdk.broker.log.config import FIXED, LogConfig
from groupsdk.broker.log.errors import InvalidLogConfigError
from groupsdk.broker.logs import TOPIC_DEFAULTS
from groupsdk.broker.server.access import allowed, cluster_allowed
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from groupsdk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from groupsdk.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse as IncrementalResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from groupsdk.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


_LOG = logging.getLogger(__name__)
_TOPIC: Final = 2
_BROKER: Final = 4
_CLIENT_METRICS: Final = 16
_GROUP: Final = 32
_RESOURCES: Final = {
    _TOPIC: "TOPIC",
    _BROKER: "BROKER",
    8: "BROKER_LOGGER",
    _CLIENT_METRICS: "CLIENT_METRICS",
    _GROUP: "GROUP",
}
"""Kafka's names for what may have settings, by number."""
_DYNAMIC_TOPIC: Final = 1
_STATIC_BROKER: Final = 4
_DEFAULT: Final = 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_TYPES: Final = {bool: 1, str: 2, int: 5, float: 6}
_LIST: Final = 7
_PASSWORD: Final = 9
_LISTS: Final = frozenset(
    {
        "cleanup.policy",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
    }
)
_INT: Final = 3
_INTS: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "index.interval.bytes",
        "max.message.bytes",
        "min.insync.replicas",
        "segment.bytes",
        "segment.index.bytes",
    }
)
"""The settings of topics that are int32 in Kafka; the other whole numbers are int64."""


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Show the settings of topics and brokers, and where each comes from."""
    results = []
    for asked in request.resources:
        try:
            results.append(_described(call, asked, synonyms=request.include_synonyms))
        except ClusterError as error:
            results.append(
                DescribeConfigsResult(
                    error.error_code, str(error), asked.resource_type, asked.resource_name
                )
            )
    return DescribeConfigsResponse(results=tuple(results))


def _described(
    call: Call, asked: DescribeConfigsResource, *, synonyms: bool
) -> DescribeConfigsResult:
    if asked.resource_type == _TOPIC:
        entries = _topic_entries(call, asked.resource_name, synonyms=synonyms)
    elif asked.resource_type == _BROKER:
        entries = _broker_entries(call, asked.resource_name, synonyms=synonyms)
    elif asked.resource_type == _GROUP:
        entries = _group_entries(call, asked.resource_name)
    else:
        raise ClusterError(
            ErrorCode.INVALID_REQUEST,
            f"{_shown(asked.resource_type, asked.resource_name)} has no settings here",
        )
    wanted = asked.configuration_keys
    # clients of Kafka before 2.0 sent an empty list for "all"
    if wanted:
        entries = [each for each in entries if each.name in wanted]
    return DescribeConfigsResult(0, None, asked.resource_type, asked.resource_name, tuple(entries))


def _shown(resource_type: int, name: str) -> str:
    return f"{_RESOURCES.get(resource_type, f'resource type {resource_type}')} {name!r}"


def _topic_entries(call: Call, name: str, *, synonyms: bool) -> list[DescribeConfigsResourceResult]:
    cluster = call.node.cluster
    if not allowed(call, "describe_configs", "topic", name):
        raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name not in cluster.catalogue.topics:
        raise ClusterError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    own = cluster.catalogue.config("topic", name)
    broker = cluster.config.as_texts()
    plain = BrokerConfig().as_texts()
    shown = []
    for key, value in cluster.logs.topic_config(name).properties().items():
        broker_key = TOPIC_DEFAULTS.get(key)
        chain = []
        if key in own:
            chain.append(DescribeConfigsSynonym(key, own[key], _DYNAMIC_TOPIC))
        if broker_key is not None:
            if broker[broker_key] != plain[broker_key]:
                text = broker[broker_key]
                chain.append(DescribeConfigsSynonym(broker_key, text, _STATIC_BROKER))
            chain.append(DescribeConfigsSynonym(broker_key, plain[broker_key], _DEFAULT))
        source = chain[0].source if chain else _DEFAULT
        shown.append(
            DescribeConfigsResourceResult(
                key,
                value,
                key in FIXED,
                source,
                False,
                tuple(chain) if synonyms else (),
                _topic_type(key),
                None,
            )
        )
    return shown


def _topic_type(key: str) -> int:
    if key in _LISTS:
        return _LIST
    if key in _INTS:
        return _INT
    if key in FIXED:
        return _TYPES[bool if FIXED[key] == "false" else int]
    return _TYPES.get(type(getattr(LogConfig(), key.replace(".", "_"))), 2)


def _broker_entries(
    call: Call, name: str, *, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    cluster = call.node.cluster
    if not cluster_allowed(call, "describe_configs"):
        raise ClusterError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if name and name != str(call.node.node_id):
        raise ClusterError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.node.node_id} or empty string, but received {name}",
        )
    if not name:
        return []  # nothing was set for all brokers while they run
    config, plain = cluster.config, BrokerConfig()
    shown = []
    for key, kind in KINDS.items():
        value, default = getattr(config, key), getattr(plain, key)
        secret = "password" in key
        text = None if secret else value_text(value)
        chain = []
        if value != default:
            chain.append(DescribeConfigsSynonym(dotted(key), text, _STATIC_BROKER))
        if not secret:
            chain.append(DescribeConfigsSynonym(dotted(key), value_text(default), _DEFAULT))
        shown.append(
            DescribeConfigsResourceResult(
                dotted(key),
                text,
                True,
                _DEFAULT if value == default else _STATIC_BROKER,
                secret,
                tuple(chain) if synonyms else (),
                _PASSWORD if secret else _TYPES[kind],
                None,
            )
        )
    return shown


def _group_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    # in Kafka all of them are of the groups of KIP-848, KIP-932 and KIP-1071, which are not served here; and it
    # describes groups that are not there, too
    if not allowed(call, "describe_configs", "group", name):
        raise ClusterError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not name:
        raise ClusterError(ErrorCode.INVALID_REQUEST, "a group needs a name")
    return []


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of topics."""
    responses = []
    for each in request.resources:
        entries = {entry.name: entry.value for entry in each.configs if entry.value is not None}
        code, text = _set(
            call, each.resource_type, each.resource_name, entries, request.validate_only
        )
        responses.append(
            AlterConfigsResourceResponse(code, text, each.resource_type, each.resource_name)
        )
    return AlterConfigsResponse(responses=tuple(responses))


def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single settings of topics."""
    responses = []
    for each in request.resources:
        code: int
        text: str | None
        try:
            entries = _changed(call, each)
        except ClusterError as error:
            code, text = error.error_code, str(error)
        else:
            code, text = _set(
                call, each.resource_type, each.resource_name, entries, request.validate_only
            )
        responses.append(IncrementalResponse(code, text, each.resource_type, each.resource_name))
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _changed(call: Call, asked: AlterConfigsResource) -> dict[str, str]:
    catalogue = call.node.cluster.catalogue
    if asked.resource_type != _TOPIC:
        return {}
    entries = dict(catalogue.config("topic", asked.resource_name))
    now: Mapping[str, Any] = (
        call.node.cluster.logs.topic_config(asked.resource_name).properties()
        if asked.resource_name in catalogue.topics
        else {}
    )
    for change in asked.configs:
        operation, name, value = change.config_operation, change.name, change.value
        if operation == _DELETE:
            entries.pop(name, None)
        elif value is None:
            raise ClusterError(ErrorCode.INVALID_REQUEST, f"{name} has no value")
        elif operation == _SET:
            entries[name] = value
        elif operation in {_APPEND, _SUBTRACT} and name in _LISTS:
            parts = [part for part in str(entries.get(name, now.get(name, ""))).split(",") if part]
            for part in value.split(","):
                if operation == _APPEND and part not in parts:
                    parts.append(part)
                elif operation == _SUBTRACT and part in parts:
                    parts.remove(part)
            entries[name] = ",".join(parts)
        else:
            raise ClusterError(
                ErrorCode.INVALID_CONFIG, f"operation {operation} cannot be done to {name}"
            )
    return entries


def _set(
    call: Call, resource_type: int, name: str, entries: dict[str, str], validate_only: bool
) -> tuple[int, str | None]:
    cluster = call.node.cluster
    if resource_type != _TOPIC:
        return (
            ErrorCode.INVALID_REQUEST,
            f"settings of {_shown(resource_type, name)} cannot be changed while the broker runs",
        )
    if not allowed(call, "alter_configs", "topic", name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED.text
    if name not in cluster.catalogue.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code, f"The topic '{name}' does not exist."
    try:
        LogConfig.parse(entries, cluster.logs.defaults)
    except InvalidLogConfigError as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    if not validate_only:
        cluster.catalogue.set_config("topic", name, entries)
        cluster.logs.config_changed(name)
        # the names only: what a client sends may be a secret in the wrong place
        _LOG.info("topic %s: has settings of its own now: %s", name, ", ".join(sorted(entries)))
    return 0, None


def list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List what has settings: topics and nodes. Version 0 asks for client metrics, and there are none."""
    if not cluster_allowed(call, "describe_configs"):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = request.resource_types or (tuple(_RESOURCES) if call.version else (_CLIENT_METRICS,))
    if not set(asked) <= set(_RESOURCES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    cluster = call.node.cluster
    found = []
    if _BROKER in asked:
        found += [ConfigResource(str(node.node_id), _BROKER) for node in cluster.running_nodes]
    if _TOPIC in asked:
        found += [ConfigResource(name, _TOPIC) for name in cluster.catalogue.topics]
    return ListConfigResourcesResponse(config_resources=tuple(found))
