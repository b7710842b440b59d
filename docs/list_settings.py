#!/usr/bin/env python
"""List settings, errors and metrics in docs/, from the code: `python -m docs.list_settings`."""

import ast
import inspect
from dataclasses import MISSING, Field, fields
from typing import Any

from docs.regions import Pages, filled, table, write
from groupsdk import errors
from groupsdk.config import MemberConfig
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.metrics import CONSUMER_METRICS
from groupsdk.membership.metrics import METRICS
from groupsdk.security import SASL_MECHANISMS, SECURITY_PROTOCOLS, SecuritySettings


_NO_KEYS = ("security", "member", "librdkafka")
"""Fields that hold other settings."""
_CHOICES = {"SECURITY_PROTOCOLS": SECURITY_PROTOCOLS, "SASL_MECHANISMS": SASL_MECHANISMS}


def field_texts(owner: type) -> dict[str, str]:
    """Return the texts that stand under the fields of a dataclass, which Python itself does not keep."""
    (definition,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    name = None
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            texts[name] = " ".join(str(node.value.value).split())
            name = None
        else:
            name = None
    return texts


def settings_table(
    owner: type[MemberConfig] | type[SecuritySettings] | type[ConsumerConfig],
) -> str:
    """Return the settings of a dataclass, with defaults and explanations."""
    texts = field_texts(owner)
    rows = [
        (
            f"`{each.name.replace('_', '.')}`",
            _default(each),
            _explained(texts[each.name]),
        )
        for each in fields(owner)
        if each.name not in _NO_KEYS
    ]
    return table(("Key", "Default", "What it does"), rows)


def error_table() -> str:
    """Return all exceptions, with what they mean and what they say about trying again."""
    found = [
        error
        for error in vars(errors).values()
        if inspect.isclass(error) and issubclass(error, errors.GroupSdkError)
    ]
    rows = [
        (
            f"`{error.__name__}`",
            "retriable" if error.retriable else "fatal" if error.fatal else "",
            (error.__doc__ or "").partition("\n")[0],
        )
        for error in found
    ]
    return table(("Exception", "", "When"), rows)


def metric_table(metrics: dict[str, str]) -> str:
    """Return the names of metrics and what they mean."""
    return table(("Metric", "Meaning"), [(f"`{name}`", text) for name, text in metrics.items()])


def pages() -> Pages:
    """Return the pages of docs/ that list settings, errors and metrics, as they have to be."""
    settings = {
        "settings": settings_table(MemberConfig),
        "consumer": settings_table(ConsumerConfig),
        "security": settings_table(SecuritySettings),
    }
    lists = {"errors": error_table(), "metrics": metric_table(METRICS)}
    consumer = {"consumer-metrics": metric_table(CONSUMER_METRICS)}
    return (
        filled("configuration.md", settings)
        | filled("workers.md", lists)
        | filled("consumer.md", consumer)
    )


def _explained(text: str) -> str:
    """Return a docstring as Markdown, with the values of a constant in place of its name."""
    for name, values in _CHOICES.items():
        text = text.replace(f"`{name}`", ", ".join(f"`{value}`" for value in values))
    return text.replace("``", "`")


def _default(field: "Field[Any]") -> str:
    if field.default is MISSING:
        return "required"
    if isinstance(field.default, tuple):
        return f"`{','.join(field.default)}`"
    return "none" if field.default is None else f"`{field.default}`"


if __name__ == "__main__":
    write(pages)
