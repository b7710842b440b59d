"""Metrics as families of samples, and families as text: OpenMetrics, or Prometheus' own format."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from groupsdk.printable import printable


CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The media type of `openmetrics`."""
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of `text_format`."""
_OPENMETRICS: Final = "application/openmetrics-text"
_REFUSED: Final = re.compile(r"q=0(\.0*)?")
_SUFFIXES: Final = {"counter": "_total", "gauge": "", "info": "_info"}
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_WORKER_PREFIXES: Final = {
    "connect-worker-metrics": "groupsdk_connect_worker",
    "connect-worker-rebalance-metrics": "groupsdk_connect_worker_rebalance",
    "connector-metrics": "groupsdk_connector",
    "connector-task-metrics": "groupsdk_connector_task",
    "task-error-metrics": "groupsdk_task_error",
}

Kind = Literal["counter", "gauge", "info"]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    """The metric's name, without the suffix `_total` or `_info`."""
    kind: Kind
    """The OpenMetrics type."""
    help: str
    """The description; "": none."""
    samples: tuple[tuple[Labels, float], ...]
    """Labels and value of each sample."""

    @property
    def sample_name(self) -> str:
        return self.name + _SUFFIXES[self.kind]


def family_of(name: str, explained: str, samples: tuple[tuple[Labels, float], ...]) -> Family:
    """Build a counter for a name that ends with `_total`, else a gauge."""
    if name.endswith("_total"):
        return Family(name.removesuffix("_total"), "counter", explained, samples)
    return Family(name, "gauge", explained, samples)


class WorkerMetric(Protocol):
    """One value of a worker: `groupsdk.connect.worker_metrics.Metric`."""

    @property
    def group(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def value(self) -> float | str: ...

    @property
    def tags(self) -> Mapping[str, str]: ...


class Worker(Protocol):
    """A `ConnectWorker`."""

    def metrics(self) -> Sequence[WorkerMetric]: ...


def worker_families(worker: Worker, labels: Labels) -> Iterator[Family]:
    """Yield the metrics of a worker: `groupsdk_connect_worker_task_count` and the like.

    A value that is a string becomes the label `value` of a sample that is 1, as in `groupsdk_connector_status_info`."""
    found: dict[str, list[WorkerMetric]] = {}
    for metric in worker.metrics():
        name = f"{_WORKER_PREFIXES[metric.group]}_{metric.name.replace('-', '_')}"
        found.setdefault(name, []).append(metric)
    for name, metrics in found.items():
        explained = f"{metrics[0].name} of Kafka Connect's {metrics[0].group}"
        if isinstance(metrics[0].value, str):
            samples = tuple(({**labels, **m.tags, "value": str(m.value)}, 1.0) for m in metrics)
            yield Family(name, "info", explained, samples)
        else:
            yield family_of(
                name, explained, tuple(({**labels, **m.tags}, float(m.value)) for m in metrics)
            )


def exposition(families: Iterable[Family], accept: str = "") -> tuple[str, str]:
    """Return families as text with its media type: OpenMetrics if the Accept header of a request names it, else Prometheus' own."""
    if _accepts_openmetrics(accept):
        return openmetrics(families), CONTENT_TYPE
    return text_format(families), TEXT_TYPE


def _accepts_openmetrics(accept: str) -> bool:
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        refused = any(_REFUSED.fullmatch(parameter) for parameter in parameters)
        if name == _OPENMETRICS and not refused:
            return True
    return False


def openmetrics(families: Iterable[Family]) -> str:
    """Return an OpenMetrics 1.0 exposition of families, each name once."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.help:
            lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines += _samples(family)
    return "\n".join([*lines, "# EOF"]) + "\n"


def text_format(families: Iterable[Family]) -> str:
    """Return an exposition of families in Prometheus' text format 0.0.4, where a sample has the name of its metric."""
    lines: list[str] = []
    for family in families:
        name = family.sample_name
        if family.help:
            lines.append(f"# HELP {name} {_escaped_help(family.help)}")
        # an info is a gauge that is always 1
        lines.append(f"# TYPE {name} {'counter' if family.kind == 'counter' else 'gauge'}")
        lines += _samples(family)
    return "".join(f"{line}\n" for line in lines)


def _samples(family: Family) -> Iterator[str]:
    sample = family.sample_name
    # a scrape with one series twice is refused, and two names may be escaped to the same string
    values: dict[str, float] = {}
    for labels, value in family.samples:
        for label in labels:
            check_label(label)
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        values.setdefault(f"{sample}{{{inner}}}" if inner else sample, value)
    return (f"{name} {_number(value)}" for name, value in values.items())


def check_label(name: str) -> None:
    """Raise ValueError if a name, which must have letters, digits and underscores, cannot be that of a label."""
    if not _LABEL_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a label: letters, digits and underscores only")


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escaped(text: str) -> str:
    text = "\n".join(map(printable, text.split("\n")))
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
