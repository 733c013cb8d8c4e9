"""The client's address if proxies are in front of the service.

`X-Forwarded-For` is read from configured proxies only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from service.auth.proxies import trust_proxies

from .conftest import QWEN, until
from .test_life import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from .conftest import Service

LOCAL = "127.0.0.1"
FORWARDED: dict[str, tuple[list[str], str]] = {
    "none": ([], LOCAL),
    "one address": (["192.0.2.7"], "192.0.2.7"),
    "the last one that is not a proxy": (["203.0.113.1, 192.0.2.7, 10.1.2.3, 127.0.0.1"], "192.0.2.7"),
    "a forged one before": (["1.2.3.4", "192.0.2.7"], "192.0.2.7"),
    "only proxies": (["10.9.9.9, 10.1.2.3"], "10.9.9.9"),
    "many headers": (["10.1.2.3"] * 60 + ["192.0.2.7"] + ["10.1.2.3"] * 60, "192.0.2.7"),
    "a port": (["192.0.2.7:4711"], "192.0.2.7"),
    "IPv6": (["2001:DB8:0:0::1"], "2001:db8::1"),
    "IPv6 in brackets": (["[2001:db8::1]"], "2001:db8::1"),
    "IPv6 with a port": (["[2001:db8::1]:4711"], "2001:db8::1"),
    "IPv4 as IPv6": (["::ffff:192.0.2.7"], "192.0.2.7"),
    "a proxy as IPv6": (["192.0.2.7, ::ffff:10.1.2.3"], "192.0.2.7"),
    "another address as IPv6": (["192.0.2.7, ::ffff:11.1.2.3"], "11.1.2.3"),
    "IPv6 with a zone": ([f"fe80::1%{'x' * 5000}"], LOCAL),
    "nothing": ([""], LOCAL),
    "nothing at the end": (["192.0.2.7,"], LOCAL),
    "a name": (["admin"], LOCAL),
    "a name after an address": (["192.0.2.7, unknown"], LOCAL),
    "control characters": (["192.0.2.7\t\x85admin"], LOCAL),
    "a long text": (["x" * 5000], LOCAL),
    "a port without end": ([f"192.0.2.7:{'9' * 5000}"], LOCAL),
    "an open bracket": (["[2001:db8::1"], LOCAL),
}


def callers(service: Service) -> dict[str, str]:
    """The caller of each decision, from its record."""
    names = {}
    with service.client() as client:
        for name, (values, _) in FORWARDED.items():
            headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in values]
            names[client.post("/v1/decisions", json=QWEN, headers=headers).json()["decision_id"]] = name
    until(lambda: len(_records(service)) == len(FORWARDED))
    return {names[record["decision_id"]]: record["requested_by"] for record in _records(service)}


def _records(service: Service) -> list[dict[str, Any]]:
    return [line for line in service.log_lines() if "requested_by" in line]


def test_the_client_of_a_configured_proxy_is_an_address_or_the_proxy_itself(serve: Callable[..., Any]) -> None:
    with serve(LOG_STDOUT="true", TRUSTED_PROXIES=" 127.0.0.1, 10.0.0.0/8 ,2001:db8:ffff::/48") as service:
        assert callers(service) == {name: expected for name, (_, expected) in FORWARDED.items()}


def test_other_peers_are_not_trusted(shared: Callable[..., Any]) -> None:
    with shared("open") as service:
        assert callers(service) == dict.fromkeys(FORWARDED, LOCAL)


def test_workers_trust_the_configured_proxies_too(shared: Callable[..., Any]) -> None:
    with shared("two-workers") as service:
        assert callers(service) == {name: expected for name, (_, expected) in FORWARDED.items()}


def test_an_entry_that_is_not_an_address_is_refused() -> None:
    for entry, fault in {
        "proxy.example": "'proxy.example' does not appear to be an IPv4 or IPv6 network",
        "*": "'*' does not appear to be an IPv4 or IPv6 network",
        "10.0.0.5/8": "10.0.0.5/8 has host bits set",
    }.items():
        expected = "expected an address or a network such as `10.0.0.5` or `10.0.0.0/8`"
        message = f"RUNNER_POLICY_TRUSTED_PROXIES: `{entry}`: {expected} ({fault}), not `127.0.0.1,{entry}`"
        assert refused(TRUSTED_PROXIES=f"127.0.0.1,{entry}") == (2, [message])


async def client_seen_for(client: tuple[str, int] | None, *proxies: str) -> Any:
    """The client that the application sees for a connection from this address."""
    found: list[Any] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        found.append(scope["client"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    scope = {
        "type": "http",
        "client": client,
        "headers": [(b"x-forwarded-for", b"192.0.2.7"), (b"x-forwarded-proto", b"https")],
    }
    await trust_proxies(proxies, app)(scope, nothing, nothing)
    return found[0]


def test_a_peer_may_have_no_address_or_a_mapped_one() -> None:
    async def ask() -> list[Any]:
        return [
            await client_seen_for(None, "10.0.0.0/8"),
            await client_seen_for(("::ffff:10.0.0.5", 1), "10.0.0.0/8"),
            await client_seen_for(("::1", 1), "::1"),
            await client_seen_for(("fe80::1%eth0", 1), "10.0.0.0/8"),
            await client_seen_for(("10.0.0.5", 1)),
        ]

    assert asyncio.run(ask()) == [None, ("192.0.2.7", 0), ("192.0.2.7", 0), ("fe80::1%eth0", 1), ("10.0.0.5", 1)]
