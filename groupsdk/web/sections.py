"""Send a page only what changed: its content is sections of entries, each as JSON text by its key. Pure."""

import json
from collections.abc import Mapping
from typing import Any


Section = Mapping[str, str]
"""Entries as JSON text by key."""
Sections = Mapping[str, Section]


def encoded(entries: Mapping[str, Any], before: "Encoded | None" = None) -> "Encoded":
    """Return entries as JSON text; those that equal the entry `before` are not encoded again."""
    values, texts = dict(entries), {}
    for key, value in values.items():
        if before is not None and before.values.get(key, before) == value:
            texts[key] = before.texts[key]
        else:
            texts[key] = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Encoded(values, texts)


class Encoded:
    """The entries of a section with their JSON texts."""

    def __init__(self, values: Mapping[str, Any], texts: Section) -> None:
        self.values = values
        self.texts = texts


def message(sent: Sections | None, now: Sections) -> str:
    """Return one line of JSON that brings a page from the sections that it was sent to those of now.

    Entries that are gone are null. Without anything sent the line says that it is `whole`. A section that is not among
    those of now stays as it is.
    """
    parts = [] if sent is not None else ['"whole":true']
    for name, section in now.items():
        changed = _changes((sent or {}).get(name, {}), section)
        if changed:
            entries = ",".join(f"{json.dumps(key)}:{text}" for key, text in changed.items())
            parts.append(f"{json.dumps(name)}:{{{entries}}}")
    return f"{{{','.join(parts)}}}"


def _changes(sent: Section, now: Section) -> dict[str, str]:
    if sent is now:
        return {}
    changed = {key: text for key, text in now.items() if sent.get(key) != text}
    changed.update((key, "null") for key in sent.keys() - now.keys())
    return changed
