"""Handle the APIs that describe, list and change the settings of topics, brokers and groups."""

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.server.call import Call, allowed, cluster_allowed
from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps, counted
from groupsdk.broker.settings.declaration import INT, LIST, PASSWORD, value_text
from groupsdk.broker.settings.effective import group_settings_problem, problem
from groupsdk.broker.settings.table import GROUP_SETTINGS, SETTINGS, TOPIC_DEFAULTS
from groupsdk.broker.settings.topic import FIXED, TOPIC_SETTINGS, InvalidLogConfigError, LogConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
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
CATALOGUE_NAMES: Final = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}
"""The catalogue's names of the resource types whose settings it keeps."""
_DYNAMIC_TOPIC: Final = 1
_DYNAMIC_BROKER: Final = 2
_DYNAMIC_DEFAULT_BROKER: Final = 3
_STATIC_BROKER: Final = 4
_DEFAULT: Final = 5
_GROUP_CONFIG: Final = 8
_RESOURCE_COSTS: Final = 256
"""The weight of a resource with all its settings, in simple elements."""


def describe_configs(call: Call, request: DescribeConfigsRequest) -> Steps:
    """Describe the settings of topics, brokers and groups, and the source of each, in steps; each resource has its own error.

    Requires "describe_configs" on the topic, the group, or, for a broker, the cluster.
    """
    results = []
    pace = Pace()
    for asked in request.resources:
        if pace.due(_RESOURCE_COSTS):
            call.large = True
            yield
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
                entry,
                synonyms=entry.synonyms if request.include_synonyms else (),
                documentation=entry.documentation if request.include_documentation else None,
            )
            for entry in entries
            if not wanted or entry.name in wanted
        ),
    )


def shown(resource_type: int, name: str) -> str:
    """Return a resource as shown in error messages, such as "TOPIC 'orders'"."""
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
        chain = [DescribeConfigsSynonym(key, own[key], _DYNAMIC_TOPIC)] if key in own else []
        if key in TOPIC_DEFAULTS:
            chain += _broker_chain(call, TOPIC_DEFAULTS[key])
        row = TOPIC_SETTINGS[key]
        entries.append(_entry(key, value, chain, row.config_type, row.text, read_only=key in FIXED))
    return entries


def _entry(
    key: str,
    value: str | None,
    chain: list[DescribeConfigsSynonym],
    config_type: int,
    text: str,
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key,
        value=value,
        read_only=read_only,
        config_source=chain[0].source if chain else _DEFAULT,
        is_sensitive=config_type == PASSWORD,
        synonyms=tuple(chain),
        config_type=config_type,
        documentation=text,
    )


def _broker_chain(call: Call, key: str) -> list[DescribeConfigsSynonym]:
    """List the sources of a broker setting, the effective one first."""
    cluster = call.node.cluster
    row = SETTINGS[key]
    chain = [
        DescribeConfigsSynonym(key, entries[key], source)
        for source, entries in _dynamic_entries(call)
        if key in entries
    ]
    static = getattr(cluster.static_config, key.replace(".", "_"))
    if static != row.default:
        chain.append(DescribeConfigsSynonym(key, value_text(static), _STATIC_BROKER))
    if not row.null:
        chain.append(DescribeConfigsSynonym(key, value_text(row.default), _DEFAULT))
    return chain


def _dynamic_entries(call: Call) -> Iterable[tuple[int, Mapping[str, str]]]:
    catalogue = call.node.cluster.catalogue
    yield _DYNAMIC_BROKER, catalogue.config("broker", str(call.node.node_id))
    yield _DYNAMIC_DEFAULT_BROKER, catalogue.config("broker", "")


def check_broker_name(call: Call, name: str) -> None:
    """Raise INVALID_REQUEST unless the name of a broker resource is the id of this node, or empty for all brokers."""
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
    if not name:
        source, stored = list(_dynamic_entries(call))[-1]
        return [
            _broker_entry(key, [DescribeConfigsSynonym(key, value, source)])
            for key, value in stored.items()
            if key in SETTINGS
        ]
    return [
        *(_broker_entry(key, _broker_chain(call, key)) for key in SETTINGS),
        *_facts(call),
    ]


def _facts(call: Call) -> Iterator[DescribeConfigsResourceResult]:
    """Describe Kafka's settings that follow from what this broker is."""
    node_id = str(call.node.node_id)
    for key, value, config_type, text in (
        ("broker.id", node_id, INT, "The id of the node."),
        ("log.dirs", call.node.cluster.logs.path, LIST, "The data directory."),
        ("node.id", node_id, INT, "The id of the node."),
        ("process.roles", "broker,controller", LIST, "The roles of the node."),
    ):
        chain = [DescribeConfigsSynonym(key, value, _STATIC_BROKER)]
        if key == "broker.id":
            chain.append(DescribeConfigsSynonym(key, "-1", _DEFAULT))
        yield _entry(key, value, chain, config_type, text, read_only=True)


def _broker_entry(key: str, chain: list[DescribeConfigsSynonym]) -> DescribeConfigsResourceResult:
    row = SETTINGS[key]
    if row.config_type == PASSWORD:
        chain = [replace(each, value=None) for each in chain if each.source != _DEFAULT]
    value = chain[0].value if chain else None
    return _entry(key, value, chain, row.config_type, row.text, read_only=not row.dynamic)


def _group_entries(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    # Kafka also describes groups that do not exist
    if not allowed(call, "describe_configs", "group", name):
        raise ClusterError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not name:
        raise ClusterError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    cluster = call.node.cluster
    own = cluster.catalogue.config("group", name)
    entries = []
    for key, broker_key in GROUP_SETTINGS.items():
        chain = [DescribeConfigsSynonym(key, own[key], _GROUP_CONFIG)] if key in own else []
        chain += _broker_chain(call, broker_key)
        row = SETTINGS[broker_key]
        entries.append(_entry(key, chain[0].value, chain, row.config_type, row.text))
    return entries


def list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources that may have settings; requires "describe_configs" on the cluster.

    Version 0 requests client metrics only, of which there are none.
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
    if GROUP in asked:
        names = cluster.catalogue.configured(CATALOGUE_NAMES[GROUP])
        found += [ConfigResource(name, GROUP) for name in sorted(names)]
    return ListConfigResourcesResponse(config_resources=tuple(found))


logger = logging.getLogger(__name__)
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def alter_configs(call: Call, request: AlterConfigsRequest) -> Steps:
    """Replace all settings of topics, brokers and groups, in steps; each resource has its own error.

    Requires "alter_configs" on the topic, the group, or, for a broker, the cluster.
    """
    responses = yield from _altered_in_steps(call, request)
    return AlterConfigsResponse(responses=responses)


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> Steps:
    """Set, delete, append or subtract single settings of topics, brokers and groups, in steps (KIP-339).

    Each resource has its own error. Requires "alter_configs" on the topic, the group, or, for a broker, the cluster.
    """
    responses = yield from _altered_in_steps(call, request)
    return IncrementalAlterConfigsResponse(responses=responses)


def _altered_in_steps(
    call: Call, request: AlterConfigsRequest | IncrementalAlterConfigsRequest
) -> Generator[None, None, tuple[AlterConfigsResourceResponse, ...]]:
    counts = yield from counted(
        (each.resource_type, each.resource_name) for each in request.resources
    )
    responses = []
    pace = Pace()
    for resource in request.resources:
        if pace.due(CHANGE_COSTS):
            yield
        named = counts[resource.resource_type, resource.resource_name]
        responses.append(_altered(call, resource, request.validate_only, named))
    return tuple(responses)


def _altered(
    call: Call,
    resource: AlterConfigsResource | IncrementalAlterConfigsResource,
    validate_only: bool,
    named: int,
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    try:
        _check_resource(call, kind, name, named)
        _store(call, kind, name, _entries(call, resource), validate_only)
    except ClusterError as error:
        return AlterConfigsResourceResponse(error.error_code, str(error), kind, name)
    return AlterConfigsResourceResponse(0, None, kind, name)


def _entries(
    call: Call, resource: AlterConfigsResource | IncrementalAlterConfigsResource
) -> dict[str, str]:
    if isinstance(resource, IncrementalAlterConfigsResource):
        return _changed(call, resource)
    _check_changes(resource.configs)
    return {entry.name: entry.value or "" for entry in resource.configs}


def _check_changes(changes: Sequence[AlterableConfig | IncrementalAlterableConfig]) -> None:
    if len({each.name for each in changes}) < len(changes):
        raise ClusterError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [
        each.name
        for each in changes
        if each.value is None and getattr(each, "config_operation", _SET) != _DELETE
    ]
    if missing:
        text = f"Null value not supported for : {','.join(missing)}"
        raise ClusterError(ErrorCode.INVALID_REQUEST, text)


def _check_resource(call: Call, resource_type: int, name: str, named: int) -> None:
    if named > 1:
        text = "Each resource must appear at most once."
        raise ClusterError(ErrorCode.INVALID_REQUEST, text)
    if resource_type == TOPIC:
        if not allowed(call, "alter_configs", "topic", name):
            raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if name not in call.node.cluster.catalogue.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ClusterError(code, f"The topic '{name}' does not exist.")
    elif resource_type == BROKER:
        if not cluster_allowed(call, "alter_configs"):
            raise ClusterError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        check_broker_name(call, name)
    elif resource_type == GROUP:
        if not allowed(call, "alter_configs", "group", name):
            raise ClusterError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not name:
            text = "Default group resources are not allowed."
            raise ClusterError(ErrorCode.INVALID_REQUEST, text)
    else:
        raise ClusterError(
            ErrorCode.INVALID_REQUEST,
            f"cannot change the settings of {shown(resource_type, name)}",
        )


def _changed(call: Call, asked: IncrementalAlterConfigsResource) -> dict[str, str]:
    """Return all entries of a resource after the changes."""
    _check_changes(asked.configs)
    catalogue = call.node.cluster.catalogue
    entries = dict(catalogue.config(CATALOGUE_NAMES[asked.resource_type], asked.resource_name))
    now = _values(call, asked)
    for change in asked.configs:
        operation, name, value = change.config_operation, change.name, change.value or ""
        if operation == _DELETE:
            entries.pop(name, None)
        elif operation == _SET:
            entries[name] = value
        elif operation in {_APPEND, _SUBTRACT} and _is_list(asked.resource_type, name):
            parts = [part for part in entries.get(name, now.get(name, "")).split(",") if part]
            for part in value.split(","):
                if operation == _APPEND and part not in parts:
                    parts.append(part)
                elif operation == _SUBTRACT and part in parts:
                    parts.remove(part)
            entries[name] = ",".join(parts)
        else:
            raise ClusterError(
                ErrorCode.INVALID_CONFIG, f"operation {operation} does not apply to {name}"
            )
    return entries


def _values(call: Call, asked: IncrementalAlterConfigsResource) -> Mapping[str, str]:
    cluster = call.node.cluster
    if asked.resource_type == TOPIC:
        return cluster.logs.topic_config(asked.resource_name).properties()
    if asked.resource_type == BROKER:
        return cluster.config.as_texts()
    return {}


def _is_list(resource_type: int, key: str) -> bool:
    rows = SETTINGS if resource_type == BROKER else TOPIC_SETTINGS
    return key in rows and rows[key].config_type == LIST


def _store(
    call: Call, resource_type: int, name: str, entries: dict[str, str], validate_only: bool
) -> None:
    cluster = call.node.cluster
    kind = CATALOGUE_NAMES[resource_type]
    if resource_type == TOPIC:
        try:
            LogConfig.parse(entries, cluster.logs.defaults)
        except InvalidLogConfigError as error:
            raise ClusterError(ErrorCode.INVALID_CONFIG, str(error)) from error
    elif resource_type == GROUP:
        found = group_settings_problem(entries, cluster.config)
        if found is not None:
            raise ClusterError(ErrorCode.INVALID_CONFIG, found)
    else:
        before = cluster.catalogue.config(kind, name)
        found = problem(entries, before, cluster.static_config)
        if found is not None:
            raise ClusterError(ErrorCode.INVALID_REQUEST, found)
    if validate_only:
        return
    cluster.catalogue.set_config(kind, name, entries)
    if resource_type == TOPIC:
        cluster.logs.config_changed(name)
    elif resource_type == BROKER:
        cluster.apply_broker_configs()
    # the names only: a value may be a secret sent for the wrong setting
    logger.info("%s %s: settings changed: %s", kind, name, ", ".join(sorted(entries)))
