"""Another address of the hub in a pod's `hostAliases`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tables import table

from .test_mounts import SERVE, pod, warnings

if TYPE_CHECKING:
    from deployments import Asking

HUB_ALIAS = (
    "`hostAliases` gives `huggingface.co` another address, so vLLM may load models from a different hub; check that "
    "the given `config.json` is the one that vLLM loads"
)


@table(
    ("aliases", "is_warned"),
    [
        ([{"ip": "10.1.2.3", "hostnames": ["huggingface.co"]}], True),
        ([{"ip": "10.1.2.4", "hostnames": ["a"]}, {"ip": "10.1.2.3", "hostnames": ["b", "huggingface.co"]}], True),
        ([{"ip": "10.1.2.3", "hostnames": ["nothuggingface.co", "huggingface.co.example"]}], False),
        ([{"ip": "10.1.2.3"}], False),
        ([], False),
        (None, False),
    ],
)
def test_another_address_of_the_hub_may_give_another_model(ask: Asking, aliases: Any, *, is_warned: bool) -> None:
    document = pod(command=SERVE)
    document["spec"]["hostAliases"] = aliases
    assert warnings(ask, document) == [HUB_ALIAS] * is_warned
