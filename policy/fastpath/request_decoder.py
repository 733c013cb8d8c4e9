"""The short way in: a usual request's bytes → what is asked, read and checked in C by msgspec.

Owns the types that msgspec reads by, made from the vocabulary. It takes what is plainly legal and
nothing else: for a fault, a ``null`` object, a member beside the facts or an explanation it gives up, and
``request.read_request``, which can say what is wrong, reads the body again. Where it does not give up,
both read the same; a law in the tests holds them to it.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from policy.facts.facts import TREE, Facts, Member, defaults
from policy.facts.vocabulary import MAX_INTEGER, MAX_ITEMS, MAX_TEXT, VARIABLE, VARIABLE_INDEX, Fact, FactKind
from policy.request.request import MAX_REQUEST_ID, NEAREST, Request
from policy.rules.effects import Layer
from policy.rules.releases import InvalidVersion, UnknownRelease, series

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.facts.vocabulary import Tristate
    from policy.rules.releases import Releases

Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]
LAYERS: Final[dict[tuple[str, ...] | None, bool]] = {
    None: False,
    (Layer.UPSTREAM,): True,
    (Layer.UPSTREAM, Layer.HOUSE): False,
    (Layer.HOUSE, Layer.UPSTREAM): False,
}


def _type(fact: Fact) -> Any:
    """The type of a fact that is no object."""
    kinds: dict[FactKind, Any] = {
        FactKind.BOOLEAN: bool,
        FactKind.INTEGER: Annotated[int, Meta(ge=fact.least, le=MAX_INTEGER)],
        FactKind.CHOICE: Literal[fact.choices],
        FactKind.TEXT: Text,
        FactKind.TEXTS: Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)],
        FactKind.LIST: Annotated[tuple[str | int | tuple[int, ...], ...], Meta(max_length=MAX_ITEMS)],
        FactKind.VARIABLE: Annotated[str, Meta(max_length=MAX_TEXT, pattern="^[^\0]*$")] | bool | None,
    }
    return kinds[fact.kind] | None if fact.nullable else kinds[fact.kind]


def _shape(member: Member) -> type[Struct]:
    """The type of an object of the request; its class says that it is ``present``."""
    fields = []
    for name, child in member.members.items():
        if child.fact is None or child.fact.kind is FactKind.PRESENCE:
            shape = _shape(child)
            absent = shape if child.fact is None else type(f"No{shape.__name__}", (shape,), {"present": False})
            fields.append((name, shape, absent()))
        else:
            fields.append((name, _type(child.fact), () if child.fact.default == [] else child.fact.default))
    name = "".join(part.title() for part in member.path.replace("_", ".").split(".")) or "Facts"
    return msgspec.defstruct(
        name, fields, namespace={"present": True}, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True
    )


FACTS: Final = _shape(TREE)
_CommonRequest: Final = msgspec.defstruct(
    "Usual",
    [
        ("facts", FACTS),
        ("vllm_version", str | None, None),
        ("layers", tuple[Layer, ...] | None, None),
        ("request_id", Annotated[str, Meta(max_length=MAX_REQUEST_ID)] | None, None),
        ("explain", bool, False),
        ("beyond_verified", Literal[NEAREST] | None, None),
    ],
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
)
_variable: Final = attrgetter(f"facts.{VARIABLE}")
read: Final[Callable[[Any], Any]] = msgspec.json.Decoder(_CommonRequest).decode
"""The members of a usual request's body."""


@lru_cache(maxsize=64)
def _unset(release: str) -> Tristate:
    """What an unset variable means in a release."""
    unset: Tristate = defaults(series(release))[VARIABLE_INDEX]
    return unset


def decode_fast(body: bytes, releases: Releases) -> Request | None:
    """What a JSON body asks, or ``None`` where it is not a usual request and has to be looked at in full.

    The facts' ``stated`` and ``ignored`` are empty: nobody asks for them who does not ask for an explanation.
    """
    try:
        asked: Any = read(body)
        release = releases.resolve(asked.vllm_version, nearest=asked.beyond_verified is not None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UnknownRelease, InvalidVersion):
        return None
    upstream_only = LAYERS.get(asked.layers)
    if asked.explain or upstream_only is None:
        return None
    facts = Facts(read=asked.facts)
    if _variable(asked) is None and (unset := _unset(release.decided_as)) is not None:
        facts = facts.changed(VARIABLE_INDEX, unset)
    return Request(
        facts, asked.vllm_version or release.decided_as, release, upstream_only, asked.request_id, explain=False
    )
