"""Read the files with which a user supplements a log."""

import json
from pathlib import Path

from groupsdk.errors import ConfigError


def read_topic_names(path: str) -> list[tuple[str, str]]:
    """Read topic ids and names from JSON lines; ConfigError for an unreadable file, or a line without topic_id and topic."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [(str(row["topic_id"]), str(row["topic"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"--topics {path} must have JSON lines with topic_id and topic: {error!r}"
        ) from error
