"""Export metrics, rebalances and log records: Prometheus, OpenTelemetry, OpenMetrics text, JSON lines.

`groupsdk.telemetry.prometheus` and `groupsdk.telemetry.opentelemetry` need the extras of these names.
"""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from groupsdk.telemetry.json_log import GroupFieldsFilter, JsonFormatter
    from groupsdk.telemetry.registry import MetricsRegistry

_HOMES: Final = {
    "GroupFieldsFilter": "groupsdk.telemetry.json_log",
    "JsonFormatter": "groupsdk.telemetry.json_log",
    "MetricsRegistry": "groupsdk.telemetry.registry",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "GroupFieldsFilter",
    "JsonFormatter",
    "MetricsRegistry",
]
