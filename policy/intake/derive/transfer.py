"""Connectors: the facts ``kv_transfer_config.*`` and ``ec_transfer_config``.

Follows ``VllmConfig._post_init_kv_transfer_config`` for the offloading flags, 0.20 to 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.provenance import Provenance

SIMPLE: Final = "VLLM_USE_SIMPLE_KV_OFFLOAD"
NATIVE: Final = "native"
MULTIPLE: Final = "MultiConnector"
MAX_CONNECTOR_DEPTH: Final = 4
"""The maximum nesting of connectors."""
OPTIONS: Final = frozenset({"kv_transfer_config", "kv_offloading_size", "ec_transfer_config"})


def derive_transfer(
    derived: Provenance, options: ParsedOptions, env: Mapping[str, str], series: tuple[int, int]
) -> None:
    """Set the facts of connectors, which are stated or implied by ``--kv-offloading-size``."""
    if OPTIONS.isdisjoint(options.values):
        return
    given, place = options.values.get("kv_transfer_config"), options.places.get("kv_transfer_config", DEFAULT)
    is_configured = isinstance(given, dict)
    connector = given.get("kv_connector") if isinstance(given, dict) else None
    role = given.get("kv_role") if isinstance(given, dict) else None
    connector_from = place
    if options.values.get("kv_offloading_size") is not None:
        connector_from = options.places.get("kv_offloading_size", DEFAULT)
        place = place if is_configured else connector_from
        is_configured, role = True, "kv_both"
        match options.values.get("kv_offloading_backend", NATIVE):
            case "native":
                connector = (
                    "SimpleCPUOffloadConnector"
                    if env.get(SIMPLE, "0").strip() not in {"", "0"}
                    else "OffloadingConnector"
                )
            case "lmcache":
                connector = "LMCacheMPConnector" if series >= (0, 23) else "LMCacheConnectorV1"
    derived.facts["kv_transfer_config"] = is_configured, place
    if is_configured:
        derived.facts["kv_transfer_config.kv_connector"] = connector, connector_from
        if connector == MULTIPLE:
            derived.facts["kv_transfer_config.connectors"] = [*dict.fromkeys(_combined(given))], connector_from
        derived.facts["kv_transfer_config.kv_role"] = role, connector_from
    derived.facts["ec_transfer_config"] = (
        isinstance(options.values.get("ec_transfer_config"), dict),
        options.places.get("ec_transfer_config", DEFAULT),
    )


def is_encode_only(options: ParsedOptions) -> bool:
    """Whether the engine only encodes for others, as a producer of the encoder cache that does not consume it."""
    given = options.values.get("ec_transfer_config")
    return isinstance(given, dict) and given.get("ec_connector") is not None and given.get("ec_role") == "ec_producer"


def has_connector(options: ParsedOptions, name: str) -> bool:
    """Whether a KV connector is configured, alone or as one of several."""
    given = options.values.get("kv_transfer_config")
    if not isinstance(given, dict):
        return False
    return given.get("kv_connector") == name or name in _combined(given)


def _combined(config: object, depth: int = 1) -> Iterator[str]:
    """The names of the connectors that a connector combines, and of those that they combine."""
    if not isinstance(config, dict) or config.get("kv_connector") != MULTIPLE or depth > MAX_CONNECTOR_DEPTH:
        return
    extra = config.get("kv_connector_extra_config")
    several = extra.get("connectors") if isinstance(extra, dict) else None
    for connector in several if isinstance(several, list) else ():
        name = connector.get("kv_connector") if isinstance(connector, dict) else None
        if isinstance(name, str):
            yield name
        yield from _combined(connector, depth + 1)
