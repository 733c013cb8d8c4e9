"""Which callers share a limit."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

CACHE_SIZE: Final = 1024
"""IPv6 callers whose share is cached."""
HOST_BITS: Final = 64
"""Bits of an IPv6 address that one machine may choose freely, usually (RFC 4291, section 2.5.1)."""


def share_of(caller: str) -> str:
    """The name under which a caller's use of a limit is counted.

    It is the /64 network of an IPv6 address, the IPv4 address of an IPv4-mapped one, and any other caller's own name.
    """
    return _network_of(caller) if ":" in caller else caller


def share_of_user(caller: str, user: str) -> str:
    """The name under which a limit's use by a user for whom the caller acts is counted; without one, the caller's."""
    return f"{share_of(caller)} {user}" if user else share_of(caller)


@lru_cache(maxsize=CACHE_SIZE)
def _network_of(caller: str) -> str:
    try:
        address = IPv6Address(caller)
    except AddressValueError:
        return caller
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> HOST_BITS << HOST_BITS)}/{HOST_BITS}"
