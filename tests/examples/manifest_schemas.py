"""The JSON schemas of the files in examples/deploy, of which a copy is kept here: Kubernetes, KEDA and the Compose Specification.

`python -m tests.examples.manifest_schemas` writes the copy again. It needs Go, whose module proxy has KEDA and Compose, and pip
downloads kubernetes-validate, which has the schemas of Kubernetes' releases. All three are under the Apache License 2.0.
"""

import gzip
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]


Schema = dict[str, Any]

COPY: Final = Path(__file__).with_name("manifest_schemas.json.gz")
COMPOSE: Final = "compose"
_KUBERNETES: Final = "1.37.0"
_KINDS: Final = ("deployment-apps-v1", "statefulset-apps-v1", "service-v1")
_SCALED_OBJECT: Final = "scaledobject-keda-v1alpha1"
_KEDA: Final = "github.com/kedacore/keda/v2@v2.21.0"
_COMPOSE: Final = "github.com/compose-spec/compose-go/v2@v2.16.2"
_REFERENCE: Final = re.compile(r'"(?:/api/_definitions\.json)?#/\$defs/([^"]+)"')
_FIELD: Final = re.compile(r'`keda:"name=(\w+),order=([\w;]+)([^"]*)"`')
"""A setting of a trigger in KEDA's source, such as `keda:"name=topic,order=triggerMetadata;resolvedEnv,optional"`."""


@cache
def schemas() -> dict[str, Schema]:
    """Return the schemas by the names that kubeconform looks for, and that of compose files."""
    found: dict[str, Schema] = json.loads(gzip.decompress(COPY.read_bytes()))
    return found


def name_of(manifest: dict[str, Any]) -> str:
    """Return the name of a manifest's schema."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    parts = [manifest["kind"].lower(), group.split(".")[0], version]
    return "-".join(each for each in parts if each)


def problems(name: str, value: Any) -> list[str]:
    """Return what is wrong with a value by a schema, each problem with its place; empty: nothing."""
    found = Draft202012Validator(schemas()[name]).iter_errors(value)
    return sorted(f"{each.json_path}: {each.message}" for each in found)


def _kubernetes(folder: Path) -> Iterator[tuple[str, Schema]]:
    wanted = ["--no-deps", "--dest", str(folder), f"kubernetes-validate=={_KUBERNETES}"]
    subprocess.run([sys.executable, "-m", "pip", "-q", "download", *wanted], check=True)
    (wheel,) = folder.glob("*.whl")
    below = f"kubernetes_validate/kubernetes-json-schema/v{_KUBERNETES}-local-strict"
    with zipfile.ZipFile(wheel) as packed:
        read = {e: packed.read(f"{below}/{e}.json").decode() for e in (*_KINDS, "_definitions")}
    definitions = json.loads(read["_definitions"])["$defs"]
    for name in _KINDS:
        defined: Schema = {}
        waiting = _REFERENCE.findall(read[name])
        while waiting:
            each = waiting.pop()
            if each not in defined:
                text = json.dumps(definitions[each])
                waiting += _REFERENCE.findall(text)
                defined[each] = _local(text)
        yield name, {**_local(read[name]), "$defs": defined}


def _local(text: str) -> Schema:
    found: Schema = json.loads(_REFERENCE.sub(r'"#/$defs/\1"', text))
    return found


def _module(name: str) -> Path:
    done = subprocess.run(
        ["go", "mod", "download", "-json", name], capture_output=True, text=True, check=True
    )
    return Path(json.loads(done.stdout)["Dir"])


def _scaled_object(keda: Path) -> Schema:
    """Return KEDA's schema, closed as strict ones are, and the settings that its trigger of Kafka knows."""
    text = (keda / "config/crd/bases/keda.sh_scaledobjects.yaml").read_text()
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    found: Schema = _closed(version["schema"]["openAPIV3Schema"])
    fields = {
        name: rest
        for name, places, rest in _FIELD.findall((keda / "pkg/scalers/kafka_scaler.go").read_text())
        if "triggerMetadata" in places
    }
    metadata: Schema = {
        "properties": {
            name: {"enum": each[1].split(";")}
            if (each := re.search(r"enum=([\w;]+)", rest))
            else {}
            for name, rest in fields.items()
        },
        "required": [e for e, rest in fields.items() if not re.search("optional|default=", rest)],
        "additionalProperties": False,
    }
    trigger = found["properties"]["spec"]["properties"]["triggers"]["items"]
    trigger["if"] = {"properties": {"type": {"const": "kafka"}}}
    trigger["then"] = {"properties": {"metadata": metadata}}
    return found


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _closed(each) for key, each in value.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def _shorter(value: Any) -> Any:
    """Leave out the sentences for people, which are most of a schema."""
    if isinstance(value, list):
        return [_shorter(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _shorter(each)
        for key, each in value.items()
        if not (key == "description" and isinstance(each, str))
    }


def _read() -> dict[str, Schema]:
    with tempfile.TemporaryDirectory() as folder:
        found = dict(_kubernetes(Path(folder)))
    found[_SCALED_OBJECT] = _scaled_object(_module(_KEDA))
    # KEDA leaves these to the API server, which knows them
    found[_SCALED_OBJECT]["properties"]["metadata"] = {"type": "object"}
    found[COMPOSE] = json.loads((_module(_COMPOSE) / "schema/compose-spec.json").read_text())
    return found


if __name__ == "__main__":
    COPY.write_bytes(gzip.compress(json.dumps(_shorter(_read()), sort_keys=True).encode(), mtime=0))
