#!/usr/bin/env python
"""List settings, errors and metrics, from the code: `python -m docs.list_settings`.

In docs/ for people; and the settings once more as types, for editors that complete keywords.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, cast

from typing_extensions import override

from docs.regions import DOCS, Pages, filled, table, write
from groupsdk import errors
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.metrics import CONSUMER_METRICS
from groupsdk.member.metrics import METRICS
from groupsdk.settings.config import ALIASES, MemberConfig
from groupsdk.settings.security import (
    OAUTH_GRANTS,
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    SecuritySettings,
)
from groupsdk.shards.config import ShardConfig


_NO_KEYS = ("security", "member", "librdkafka")
"""Fields that hold other settings."""
_CHOICES = {
    "SECURITY_PROTOCOLS": SECURITY_PROTOCOLS,
    "SASL_MECHANISMS": SASL_MECHANISMS,
    "OAUTH_GRANTS": OAUTH_GRANTS,
}


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


def field_types(owner: type) -> dict[str, str]:
    """Return the types of the fields of a dataclass, as its source has them."""
    (definition,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        node.target.id: ast.unparse(_unquoted(node.annotation)).replace("'", '"')
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def settings_type(name: str, doc: str, *owners: type, base: str = "TypedDict") -> str:
    """Return the source of a `TypedDict` with the settings of some dataclasses, none of them required."""
    lines = [f"class {name}({base}, total=False):", f'    """{doc}"""', ""]
    for owner in owners:
        types, texts = field_types(owner), field_texts(owner)
        for each in fields(owner):
            if each.name in ("member", "librdkafka"):
                continue
            lines.append(f"    {each.name}: {types[each.name]}")
            lines += textwrap.wrap(
                f'"""{_explained(texts[each.name])}"""',
                98,
                initial_indent="    ",
                subsequent_indent="    ",
                break_on_hyphens=False,
            )
            lines += [
                f'    {alias}: {types[each.name]}\n    """The same, as librdkafka spells it."""'
                for alias, meant in ALIASES.items()
                if meant == each.name
            ]
    return "\n".join(lines)


def settings_modules() -> Mapping[str, str]:
    """Return the modules with the types of settings, by their places in groupsdk/."""
    head = '''"""Name the settings of {}, so that editors complete them and type checkers know them.

Made from the code by `python -m docs.list_settings`, like the tables in docs/configuration.md. Only type
checkers import it.
"""

'''
    member = settings_type(
        "MemberSettings",
        "A member's settings as keywords: what `MemberConfig.of` takes.",
        MemberConfig,
        SecuritySettings,
    )
    consumer = settings_type(
        "ConsumerSettings",
        "A consumer's settings as keywords; those of librdkafka are taken as well.",
        ConsumerConfig,
        base="MemberSettings",
    )
    shards = settings_type(
        "ShardSettings",
        "A shard worker's settings as keywords: what `ShardConfig.of` takes.",
        ShardConfig,
        base="MemberSettings",
    )
    return {
        "settings/keywords.py": head.format("a member")
        + "from collections.abc import Callable, Iterable\n"
        "from typing import Any, Literal, TypedDict\n\n"
        "from groupsdk.settings.security import OAuthToken, SecuritySettings\n\n\n"
        f"{member}\n",
        "consumer/keywords.py": head.format("a consumer")
        + "from collections.abc import Sequence\nfrom typing import Literal\n\n"
        "from groupsdk.assignment import AssignorLike\n"
        "from groupsdk.settings.keywords import MemberSettings\n\n\n"
        f"{consumer}\n",
        "shards/keywords.py": head.format("a shard worker")
        + "from collections.abc import Iterable\n\n"
        "from groupsdk.settings.keywords import MemberSettings\n\n\n"
        f"{shards}\n",
    }


def _unquoted(annotation: ast.expr) -> ast.expr:
    """Return an annotation with the types in it that are strings as types."""

    class Unquote(ast.NodeTransformer):
        @override
        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            if isinstance(node.value, str):
                return ast.parse(node.value, mode="eval").body
            return node

        @override
        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            if isinstance(node.value, ast.Name) and node.value.id == "Literal":
                return node
            self.generic_visit(node)
            return node

    changed: ast.expr = Unquote().visit(annotation)
    return changed


def settings_table(
    owner: type[MemberConfig | SecuritySettings | ConsumerConfig | ShardConfig],
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
    """Return the pages of docs/ and the modules that list settings, errors and metrics, as they have to be."""
    settings = {
        "settings": settings_table(MemberConfig),
        "consumer": settings_table(ConsumerConfig),
        "shards": settings_table(ShardConfig),
        "security": settings_table(SecuritySettings),
    }
    lists = {"errors": error_table(), "metrics": metric_table(METRICS)}
    consumer = {"consumer-metrics": metric_table(CONSUMER_METRICS)}
    types = {DOCS.parent / "groupsdk" / name: text for name, text in settings_modules().items()}
    return (
        filled("configuration.md", settings)
        | filled("workers.md", lists)
        | filled("consumer.md", consumer)
        | types
    )


def _explained(text: str) -> str:
    """Return a docstring as Markdown, with the values of a constant in place of its name."""
    for name, values in _CHOICES.items():
        text = text.replace(f"`{name}`", ", ".join(f"`{value}`" for value in values))
    return text.replace("``", "`")


def _default(field: "Field[Any]") -> str:
    if field.default is MISSING:
        return "required"
    default: object = field.default
    if isinstance(default, tuple) and default:
        return f"`{','.join(map(str, cast('tuple[object, ...]', default)))}`"
    return "none" if default in (None, (), "") else f"`{default}`"


if __name__ == "__main__":
    write(pages)
