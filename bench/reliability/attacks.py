"""Requests within the limits that cause as much work as possible, by name.

Owns the requests, and ``python -m bench.reliability.attacks PORT NAME``, which sends one until it is terminated.
``hostile`` sends each of them along with normal requests, and the tests check that none is answered with a 5xx.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BODY: Final = (1 << 20) - 64
BATCH: Final = (16 << 20) - 64
CONFIG: Final = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
FACTS: Final = {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}
YAML: Final = {"content-type": "application/yaml"}
TEXT: Final = {"accept": "text/plain"}
LINES: Final = {"content-type": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Attack:
    """A request: its path, its headers, and its body, which is built on demand."""

    path: str
    body: Callable[[], bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def _engines(number: int, args: str = "--model m", name: str = "c") -> dict[str, Any]:
    containers = [
        {"name": f"{name}{n}", "image": "vllm/vllm-openai:v0.24.0", "args": args.split()} for n in range(number)
    ]
    spec = {"template": {"spec": {"containers": containers}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}


def _manifest(*engines: Any, **members: Any) -> bytes:
    return json.dumps({"manifest": _engines(*engines), "model_configs": {"m": CONFIG}, **members}).encode()


def _invalid_manifest() -> bytes:
    """A manifest whose secrets are looked for because another field of the request has a fault."""
    data = {"A": "key=abcdefg1 " * 460}
    variables = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": data}
    containers = [{"name": "a", "envFrom": [{"configMapRef": {"name": "c"}}]}] * 110
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    return json.dumps({"manifest": [variables, pod], "explain": 5}).encode()


def _deployment(args: object, **members: Any) -> bytes:
    return json.dumps({"deployment": {"args": args, "model_configs": {"m": CONFIG}, **members}}).encode()


def _batch(item: Callable[[int], Any], number: int) -> bytes:
    return json.dumps({"items": [item(n) for n in range(number)]}).encode()


def _item(number: int, **members: Any) -> dict[str, Any]:
    return {
        "deployment": {"args": ["--model", "m"], "env": {"N": str(number)}, "model_configs": {"m": CONFIG}},
        **members,
    }


def _review() -> bytes:
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {"uid": "1", "operation": "CREATE", "kind": kind, "object": _engines(1000)}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _impact(deployment: bytes, number: int) -> bytes:
    return b'{"deployments":[' + b",".join([deployment] * number) + b"]}"


IMPACT = "/v1/impact"
DECIDE, BATCHES, DRY = "/v1/decisions", "/v1/decisions/batch", "/v1/dry-run"
ATTACKS: Final[dict[str, Attack]] = {
    "a list of ones": Attack(DECIDE, lambda: b"[" + b"1," * (BODY // 2 - 1) + b"1]"),
    "a batch of ones": Attack(BATCHES, lambda: b'{"items":[' + b"1," * (BATCH // 2 - 8) + b"1]}"),
    "a batch of empty lists": Attack(BATCHES, lambda: b'{"items":[' + b"[]," * (BATCH // 3 - 8) + b"1]}"),
    "quotes and escapes": Attack(DECIDE, lambda: b'"\\"' * (BODY // 3)),
    "quotes and escapes, small": Attack(DECIDE, lambda: b'"\\"' * 5400),
    "quotes and escapes in a flag": Attack(
        DECIDE, lambda: _deployment(["--model", "m", "-sc", '{"a":"' + '"\\"' * 130_000])
    ),
    "a deep list": Attack(DECIDE, lambda: b"[" * BODY),
    "unknown members": Attack(DECIDE, lambda: json.dumps({"facts": {f"x{n}": 1 for n in range(70_000)}}).encode()),
    "unknown members, small": Attack(DECIDE, lambda: json.dumps({"facts": {f"x{n}": 1 for n in range(1300)}}).encode()),
    "unknown flags": Attack(DECIDE, lambda: _deployment(["--model", "m", *(f"--flag{n}" for n in range(4000))])),
    "unknown flags, small": Attack(DECIDE, lambda: _deployment(["--model", "m", *(f"--fl{n}" for n in range(1300))])),
    "an open shell": Attack(DECIDE, lambda: _deployment("vllm serve m " + "${a:-" * 180_000)),
    "a long shell": Attack(DECIDE, lambda: _deployment("vllm serve m " + "-tp '1' " * 2000 + "# " + "x" * 900_000)),
    "YAML values": Attack(DECIDE, lambda: b"facts:\n" + b"".join(b" a%d: 1\n" % n for n in range(19_000)), YAML),
    "a batch of facts": Attack(BATCHES, lambda: _batch(lambda _: FACTS, 10_000)),
    "a batch of deployments": Attack(BATCHES, lambda: _batch(_item, 10_000)),
    "a batch of explained deployments": Attack(BATCHES, lambda: _batch(lambda n: _item(n, explain=True), 10_000)),
    "a batch of manifests": Attack(BATCHES, lambda: _batch(lambda _: json.loads(_manifest(100)), 400)),
    "a manifest": Attack(DECIDE, lambda: _manifest(1024)),
    "a manifest with a fault, small": Attack(DECIDE, _invalid_manifest),
    "a file with a fault, small": Attack(
        DECIDE, lambda: _deployment([], files={"/c.yaml": "api-key: abcdefgh1\n" * 190}, version=5)
    ),
    "explained facts, small": Attack(
        DECIDE,
        lambda: json.dumps({"explain": True, "facts": {"model_config": {"logits_processors": [1] * 4000}}}).encode(),
    ),
    "a script that repeats its text, small": Attack(
        DECIDE, lambda: _deployment(f'A="A=\\$(docker run m);";B="{"$A" * 8}";C="{"$B" * 8}";eval "{"$C" * 32}"')
    ),
    "a manifest as text": Attack(DECIDE, lambda: _manifest(1024), TEXT),
    "long names as text": Attack(DECIDE, lambda: _manifest(120, "--model m", "n" * 8000), TEXT),
    "an impact of engines over all releases": Attack(IMPACT, lambda: _impact(_manifest(1024), 16)),
    "an impact of facts": Attack(
        IMPACT, lambda: json.dumps({"deployments": [FACTS] * 10_000, "to": "v1-removed"}).encode(), TEXT
    ),
    "an explained manifest": Attack(DRY, lambda: _manifest(1024)),
    "a stream of empty lines": Attack(BATCHES, lambda: b"\n" * BATCH, LINES),
    "a stream of deployments": Attack(
        BATCHES, lambda: b"\n".join(json.dumps(_item(n)).encode() for n in range(2_000)), LINES
    ),
    "a review": Attack("/v1/admission", _review),
}


def main() -> None:
    """Send the named attack to a local port repeatedly, and print the status of each answer."""
    port, name = sys.argv[1:]
    attack = ATTACKS[name]
    body = attack.body()
    print("ready", flush=True)
    connection = HTTPConnection("127.0.0.1", int(port))
    while True:
        connection.request("POST", attack.path, body, dict(attack.headers))
        answer = connection.getresponse()
        answer.read()
        print(answer.status, flush=True)


if __name__ == "__main__":
    main()
