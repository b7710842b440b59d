"""Export metrics, rebalances and log records: Prometheus, OpenTelemetry, OpenMetrics text, JSON lines."""
