"""Connectors: the facts ``kv_transfer_config.*`` and ``ec_transfer_config``.

Owns what ``VllmConfig._post_init_kv_transfer_config`` makes of the offloading flags, 0.20 to 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.commandline import Options
    from policy.intake.derived import Derived

SIMPLE: Final = "VLLM_USE_SIMPLE_KV_OFFLOAD"
NATIVE: Final = "native"


def derive_transfer(derived: Derived, options: Options, env: Mapping[str, str], series: tuple[int, int]) -> None:
    """The facts of connectors, stated or implied by ``--kv-offloading-size``."""
    given, place = options.get("kv_transfer_config"), options.place("kv_transfer_config")
    there = isinstance(given, dict)
    connector = given.get("kv_connector") if isinstance(given, dict) else None
    role = given.get("kv_role") if isinstance(given, dict) else None
    connector_from = place
    if options.get("kv_offloading_size") is not None:
        connector_from = options.place("kv_offloading_size")
        place = place if there else connector_from
        there, role = True, "kv_both"
        match options.get("kv_offloading_backend", NATIVE):
            case "native":
                connector = "SimpleCPUOffloadConnector" if env.get(SIMPLE, "0").strip() not in {"", "0"} else "OffloadingConnector"
            case "lmcache":
                connector = "LMCacheMPConnector" if series >= (0, 23) else "LMCacheConnectorV1"
    derived.put("kv_transfer_config", there, place)
    if there:
        derived.put("kv_transfer_config.kv_connector", connector, connector_from)
        derived.put("kv_transfer_config.kv_role", role, connector_from)
    derived.put("ec_transfer_config", isinstance(options.get("ec_transfer_config"), dict), options.place("ec_transfer_config"))


def is_encode_only(options: Options) -> bool:
    """Whether the engine only encodes for others: an encoder-cache producer that is no consumer."""
    given = options.get("ec_transfer_config")
    return isinstance(given, dict) and given.get("ec_role") == "ec_producer"
