"""Check manifests against Kubernetes' own types, of which a copy is kept here: unknown fields, missing ones, wrong types.

`python -m tests.examples.kubernetes_types` writes the copy anew from the package kubernetes, which only this needs.
"""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final


COPY: Final = Path(__file__).with_name("kubernetes_types.json.gz")
KINDS: Final = {
    ("apps/v1", "Deployment"): "V1Deployment",
    ("apps/v1", "StatefulSet"): "V1StatefulSet",
    ("v1", "Service"): "V1Service",
}
_PLAIN: Final[dict[str, Any]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "datetime": str,
}


@cache
def types() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(COPY.read_bytes()))
    return found


def problems(manifest: dict[str, Any]) -> list[str]:
    """Say what is wrong with a manifest of one of `KINDS`; empty: nothing."""
    name = KINDS[manifest["apiVersion"], manifest["kind"]]
    return _of(name, manifest, manifest["kind"])


def _of(declared: str, value: Any, place: str) -> list[str]:
    if listed := re.fullmatch(r"List\[(.*)\]", declared):
        if not isinstance(value, list):
            return [f"{place} must be a list"]
        return [e for at, each in enumerate(value) for e in _of(listed[1], each, f"{place}[{at}]")]
    if mapped := re.fullmatch(r"Dict\[str, (.*)\]", declared):
        if not isinstance(value, dict):
            return [f"{place} must be a mapping"]
        return [e for key, each in value.items() for e in _of(mapped[1], each, f"{place}.{key}")]
    if declared == "object":
        return []
    if declared in _PLAIN:
        fits = isinstance(value, _PLAIN[declared]) and (declared == "bool") == isinstance(
            value, bool
        )
        return [] if fits else [f"{place} must be of type {declared}, not {value!r}"]
    if not isinstance(value, dict):
        return [f"{place} must be a {declared}"]
    fields = types()[declared]
    missing = [f"{place}.{each} is missing" for each in fields["required"] if each not in value]
    unknown = [f"{place}.{each} is unknown" for each in value if each not in fields["types"]]
    known = [
        each
        for key, below in value.items()
        if key in fields["types"]
        for each in _of(fields["types"][key], below, f"{place}.{key}")
    ]
    return missing + unknown + known


def _read() -> dict[str, Any]:
    from kubernetes.client import models  # type: ignore[import-not-found]  # only for a new copy

    found: dict[str, Any] = {}
    waiting = [*KINDS.values()]
    while waiting:
        name = waiting.pop()
        model = getattr(models, name, None)
        if name in found or model is None:
            continue
        declared = {model.attribute_map[key]: kind for key, kind in model.openapi_types.items()}
        required = [
            model.attribute_map[key]
            for key, each in model.model_fields.items()
            if each.is_required()
        ]
        found[name] = {"types": declared, "required": sorted(required)}
        waiting += [each for kind in declared.values() for each in re.findall(r"\w+", kind)]
    return found


if __name__ == "__main__":
    COPY.write_bytes(gzip.compress(json.dumps(_read(), sort_keys=True).encode(), mtime=0))
