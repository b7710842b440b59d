"""Handle AlterConfigs and IncrementalAlterConfigs: change and store settings of topics, brokers and groups."""

import logging
from collections.abc import Mapping

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.server.call import Call, allowed, cluster_allowed
from groupsdk.broker.server.handlers.configs import (
    BROKER,
    CATALOGUE_NAMES,
    GROUP,
    TOPIC,
    check_broker_name,
    shown,
)
from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps
from groupsdk.broker.settings.declaration import LIST
from groupsdk.broker.settings.effective import group_settings_problem, problem
from groupsdk.broker.settings.table import SETTINGS
from groupsdk.broker.settings.topic import TOPIC_SETTINGS, InvalidLogConfigError, LogConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResourceResponse as IncrementalResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
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
    for resource in request.resources:
        if pace.due(CHANGE_COSTS):
            yield
        entries = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
        code: int
        text: str | None
        try:
            _check_resource(call, resource.resource_type, resource.resource_name)
            _store(
                call, resource.resource_type, resource.resource_name, entries, request.validate_only
            )
            code, text = 0, None
        except ClusterError as error:
            code, text = error.error_code, str(error)
        responses.append(
            AlterConfigsResourceResponse(code, text, resource.resource_type, resource.resource_name)
        )
    return AlterConfigsResponse(responses=tuple(responses))


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> Steps:
    """Set, delete, append or subtract single settings of topics, brokers and groups, in steps (KIP-339).

    Each resource has its own error. Requires "alter_configs" on the topic, the group, or, for a broker, the cluster.
    """
    responses = []
    pace = Pace()
    for resource in request.resources:
        if pace.due(CHANGE_COSTS):
            yield
        code: int
        text: str | None
        try:
            _check_resource(call, resource.resource_type, resource.resource_name)
            entries = _changed(call, resource)
            _store(
                call, resource.resource_type, resource.resource_name, entries, request.validate_only
            )
            code, text = 0, None
        except ClusterError as error:
            code, text = error.error_code, str(error)
        responses.append(
            IncrementalResponse(code, text, resource.resource_type, resource.resource_name)
        )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _check_resource(call: Call, resource_type: int, name: str) -> None:
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
