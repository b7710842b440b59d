"""Handle AlterConfigs and IncrementalAlterConfigs: change and store settings of topics, brokers and groups."""

import logging
from collections.abc import Mapping

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.config import KINDS
from groupsdk.broker.consumer_groups.settings import group_settings_problem
from groupsdk.broker.coordinators import consumer_group_settings
from groupsdk.broker.dynamic_config import problem
from groupsdk.broker.kept_settings import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    group_problem,
    interval_problem,
    selector_problem,
    value_problem,
)
from groupsdk.broker.log.config import LogConfig
from groupsdk.broker.log.errors import InvalidLogConfigError
from groupsdk.broker.server.call import CHANGE_COSTS, Call, Pace, Steps, allowed, cluster_allowed
from groupsdk.broker.server.handlers.configs import (
    BROKER,
    CATALOGUE_NAMES,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    check_broker_name,
    check_subscription_name,
    shown,
)
from groupsdk.broker.setting_types import LIST, broker_type, topic_type
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from groupsdk.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse as IncrementalResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


logger = logging.getLogger(__name__)
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def alter_configs(call: Call, request: AlterConfigsRequest) -> Steps:
    """Replace all settings of topics, brokers and groups, in steps; each resource has its own error.

    Requires "alter_configs" on the topic, the group, or, for a broker, the cluster.
    """
    responses = []
    pace = Pace()
    for each in request.resources:
        if pace.due(CHANGE_COSTS):
            yield
        entries = {entry.name: entry.value for entry in each.configs if entry.value is not None}
        code: int
        text: str | None
        try:
            _check_resource(call, each.resource_type, each.resource_name)
            _store(call, each.resource_type, each.resource_name, entries, request.validate_only)
            code, text = 0, None
        except ClusterError as error:
            code, text = error.error_code, str(error)
        responses.append(
            AlterConfigsResourceResponse(code, text, each.resource_type, each.resource_name)
        )
    return AlterConfigsResponse(responses=tuple(responses))


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> Steps:
    """Set, delete, append or subtract single settings of topics, brokers and groups, in steps (KIP-339).

    Each resource has its own error. Requires "alter_configs" on the topic, the group, or, for a broker, the cluster.
    """
    responses = []
    pace = Pace()
    for each in request.resources:
        if pace.due(CHANGE_COSTS):
            yield
        code: int
        text: str | None
        try:
            _check_resource(call, each.resource_type, each.resource_name)
            entries = _changed(call, each)
            _store(call, each.resource_type, each.resource_name, entries, request.validate_only)
            code, text = 0, None
        except ClusterError as error:
            code, text = error.error_code, str(error)
        responses.append(IncrementalResponse(code, text, each.resource_type, each.resource_name))
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _check_resource(call: Call, resource_type: int, name: str) -> None:
    if resource_type == TOPIC:
        if not allowed(call, "alter_configs", "topic", name):
            raise ClusterError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if name not in call.node.cluster.catalogue.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ClusterError(code, f"The topic '{name}' does not exist.")
    elif resource_type in {BROKER, CLIENT_METRICS}:
        if not cluster_allowed(call, "alter_configs"):
            raise ClusterError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if resource_type == BROKER:
            check_broker_name(call, name)
        else:
            check_subscription_name(name)
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


def _changed(call: Call, asked: AlterConfigsResource) -> dict[str, str]:
    """Return all entries of a resource after the changes."""
    catalogue = call.node.cluster.catalogue
    entries = dict(catalogue.config(CATALOGUE_NAMES[asked.resource_type], asked.resource_name))
    now = _values(call, asked)
    for change in asked.configs:
        operation, name, value = change.config_operation, change.name, change.value
        if operation == _DELETE:
            entries.pop(name, None)
        elif value is None:
            raise ClusterError(ErrorCode.INVALID_REQUEST, f"the value of {name} must not be null")
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


def _values(call: Call, asked: AlterConfigsResource) -> Mapping[str, str]:
    cluster = call.node.cluster
    if asked.resource_type == TOPIC:
        return cluster.logs.topic_config(asked.resource_name).properties()
    if asked.resource_type == BROKER:
        return cluster.config.as_texts()
    return {}


def _is_list(resource_type: int, key: str) -> bool:
    if resource_type == BROKER:
        return key.replace(".", "_") in KINDS and broker_type(key) == LIST
    return key in LogConfig().properties() and topic_type(key) == LIST


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
        _check_group(call, entries)
    elif resource_type == CLIENT_METRICS:
        _check_client_metrics(entries)
    else:
        before = cluster.catalogue.config(kind, name)
        found = problem(entries, before, cluster.static_config, for_all=not name)
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


def _check_group(call: Call, entries: Mapping[str, str]) -> None:
    kept = {key: value for key, value in entries.items() if key in GROUP_SETTINGS}
    own = {key: value for key, value in entries.items() if key not in GROUP_SETTINGS}
    config = consumer_group_settings(call.node.cluster).config()
    found = group_settings_problem(own, config) or group_problem(kept)
    if found is not None:
        raise ClusterError(ErrorCode.INVALID_CONFIG, found)


def _check_client_metrics(entries: Mapping[str, str]) -> None:
    """Check a subscription to metrics of clients (Kafka: `ClientMetricsConfigs.validate`)."""
    for key in entries:
        if key not in CLIENT_METRICS_SETTINGS:
            text = f"Unknown client metrics configuration: {key}"
            raise ClusterError(ErrorCode.INVALID_REQUEST, text)
    interval = entries.get("interval.ms", CLIENT_METRICS_SETTINGS["interval.ms"].default)
    found = value_problem("interval.ms", CLIENT_METRICS_SETTINGS["interval.ms"], interval)
    found = found or selector_problem(entries.get("match", ""))
    if found is not None:
        raise ClusterError(ErrorCode.INVALID_CONFIG, found)
    found = interval_problem(interval)
    if found is not None:
        raise ClusterError(ErrorCode.INVALID_REQUEST, found)
