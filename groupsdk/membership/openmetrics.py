"""Write metrics as OpenMetrics text, for Prometheus and its kin."""

import math
import re
from collections.abc import Mapping
from typing import Final

from groupsdk.membership.metrics import METRICS


PREFIX: Final = "groupsdk_coordinator_"
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def openmetrics(snapshot: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Return a whole OpenMetrics exposition of one member's metrics.

    ``join-time-avg`` becomes the gauge ``groupsdk_coordinator_join_time_avg``, ``join-total`` the counter
    ``groupsdk_coordinator_join_total``.

    Args:
        snapshot: what `CoordinatorMetrics.snapshot` returned.
        labels: put on every sample, e.g. the group and the client id.

    Raises:
        ValueError: a label's name is not letters, digits and underscores.
    """
    for label in labels:
        if not _LABEL_NAME.fullmatch(label):
            raise ValueError(f"{label!r} cannot name a label: letters, digits and underscores only")
    inner = ",".join(f'{label}="{_escape(value)}"' for label, value in labels.items())
    suffix = f"{{{inner}}}" if inner else ""
    lines: list[str] = []
    for name, value in snapshot.items():
        sample = PREFIX + name.replace("-", "_")
        counter = name.endswith("-total")
        family = sample.removesuffix("_total") if counter else sample
        lines.append(f"# TYPE {family} {'counter' if counter else 'gauge'}")
        if name in METRICS:
            lines.append(f"# HELP {family} {_escape(METRICS[name])}")
        lines.append(f"{sample}{suffix} {_number(value)}")
    lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
