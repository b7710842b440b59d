"""Serve a `MetricsRegistry` to prometheus-client: `pip install groupsdk[prometheus]`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from groupsdk.lazy_imports import override
from groupsdk.telemetry.openmetrics import Family
from groupsdk.telemetry.registry import MetricsRegistry


if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_KINDS: Final = {
    "info": InfoMetricFamily,
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


class MetricsCollector(Collector):
    """A collector for prometheus-client's own registry.

    .. code-block:: python

        registry = MetricsRegistry()
        registry.add_member(worker)
        prometheus_client.REGISTRY.register(MetricsCollector(registry))
        prometheus_client.start_http_server(9100, addr="127.0.0.1")

    Args:
        metrics: the metrics to export; members may be added and removed later.
    """

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._metrics = metrics

    @override
    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics of all members, workers and brokers at this moment."""
        for family in self._metrics.families():
            yield _metric(family)

    def describe(self) -> "Iterator[Metric]":
        """Yield nothing: registering must not ask members, which may not have started."""
        return iter(())


def _metric(family: Family) -> "Metric":
    metric: Metric = _KINDS[family.kind](family.name, family.help)
    for labels, value in family.samples:
        metric.add_sample(family.sample_name, dict(labels), value)
    return metric
