"""Convert Kubernetes quantities such as ``10Gi`` to whole numbers, rounded up."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

QUANTITY: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
DECIMAL_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
BINARY_UNITS: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


def round_up(node: ManifestNode) -> int | None:
    """The quantity at a node, rounded up; None if the node is null. Anything else is a fault."""
    if node.value is None:
        return None
    found = (
        QUANTITY.fullmatch(str(node.value))
        if isinstance(node.value, str | int | float) and not isinstance(node.value, bool)
        else None
    )
    if found is None:
        node.fault(f"expected a quantity such as `10Gi`, got {quoted(node.value)}")
        return None
    unit = Decimal("0.001") if found[2] == "m" else Decimal({**DECIMAL_UNITS, **BINARY_UNITS}[found[2] or ""])
    return int((Decimal(found[1]) * unit).to_integral_value(ROUND_CEILING))
