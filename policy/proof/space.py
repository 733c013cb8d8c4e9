"""All facts that a deployment could have, as the propositions of a solver.

Owns the values of a fact that the given rules can distinguish, with one representative for each group. A fact has one
proposition for each value, of which exactly one holds. A list of texts has one proposition for each text in a rule (one
for all texts that the rules treat the same), one for any other text, and one for each text that may be the first.

Leaves are evaluated by ``conditions.holds``, as in explanations, so the meaning of a condition is defined only once.
"""

from __future__ import annotations

from ctypes import c_int
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

import z3

from policy.facts.facts import nested, to_json
from policy.facts.vocabulary import ALL_FACTS, VARIABLE, FactKind, ancestors, parse_variable
from policy.rules.conditions import And, Condition, Leaf, Or, holds, leaves, middle, shares
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from policy.facts.vocabulary import Fact

CONTEXT: Final = z3.main_ctx()
TRUE: Final = z3.BoolVal(val=True)
FALSE: Final = z3.BoolVal(val=False)
MALFORMED_VARIABLE: Final = parse_variable("true")


def all_of(parts: Iterable[Any]) -> Any:
    """The conjunction, simplified where a part is ``TRUE`` or ``FALSE``, because terms are slow to create."""
    left = [part for part in parts if part is not TRUE]
    if any(part is FALSE for part in left):
        return FALSE
    return TRUE if not left else left[0] if len(left) == 1 else _join(z3.Z3_mk_and, left)


def any_of(parts: Iterable[Any]) -> Any:
    """The disjunction, simplified like ``all_of``."""
    left = [part for part in parts if part is not FALSE]
    if any(part is TRUE for part in left):
        return TRUE
    return FALSE if not left else left[0] if len(left) == 1 else _join(z3.Z3_mk_or, left)


def none_of(parts: Iterable[Any]) -> Any:
    """The negation of ``any_of``."""
    found = any_of(parts)
    return FALSE if found is TRUE else TRUE if found is FALSE else _negation(found)


def _join(make: Callable[..., Any], parts: Sequence[Any]) -> Any:
    """A term of several formulas.

    ``z3.And`` and ``z3.Or`` would look up the sort of each part and cast it, which takes most of their time; they are
    all formulas of the one context. With them the comparison of a dry run with `changes: all` takes 0.83 instead of
    0.65 s of processor time.
    """
    return z3.BoolRef(make(CONTEXT.ref(), len(parts), asts(parts)), CONTEXT)


def asts(formulas: Sequence[Any]) -> Any:
    """Formulas as an array for the functions of z3's C API."""
    return (z3.Ast * len(formulas))(*[formula.ast for formula in formulas])


def at_most(number: int, propositions: Sequence[Any]) -> Any:
    """The formula that at most ``number`` of the propositions hold."""
    return z3.BoolRef(z3.Z3_mk_atmost(CONTEXT.ref(), len(propositions), asts(propositions), number), CONTEXT)


def _exactly_one(propositions: Sequence[Any]) -> Any:
    ones = (c_int * len(propositions))(*[1] * len(propositions))
    return z3.BoolRef(z3.Z3_mk_pbeq(CONTEXT.ref(), len(propositions), asts(propositions), ones, 1), CONTEXT)


def _negation(formula: Any) -> Any:
    return z3.BoolRef(z3.Z3_mk_not(CONTEXT.ref(), formula.ast), CONTEXT)


def holds_in(model: Any, formula: Any) -> bool:
    """Whether a formula is true in a model of the solver.

    With ``model.eval``, which makes an expression of each value, the comparison of a dry run with `changes: all` takes
    0.80 instead of 0.65 s of processor time.
    """
    value = (z3.Ast * 1)()
    z3.Z3_model_eval(CONTEXT.ref(), model.model, formula.ast, True, value)  # completed
    return bool(z3.Z3_get_bool_value(CONTEXT.ref(), value[0]) == z3.Z3_L_TRUE)


def unequal(one: Any, other: Any) -> Any:
    """Whether two formulas have different values; ``FALSE`` if they are the same formula."""
    return FALSE if one is other or one.eq(other) else _join(z3.Z3_mk_distinct, (one, other))


class Choice:
    """A fact with one proposition for each value; ``values`` begins with its default, for a fact that is not stated.

    If older series have another default, the default is also a stated value there.
    """

    def __init__(self, fact: Fact, comparisons: Sequence[Leaf]) -> None:
        self.fact = fact
        stated = dict.fromkeys(_values(fact, comparisons))
        if not fact.other_defaults:
            stated.pop(fact.default, None)
        self.values = [fact.default, *stated]
        self.is_value = [
            z3.Bool(f"{fact.name} is not stated"),
            *(z3.Bool(f"{fact.name}={value!r}") for value in stated),
        ]
        self.stated = z3.Not(self.is_value[0])

    def laws(self) -> list[Any]:
        """The law that exactly one of the values holds."""
        return [_exactly_one(self.is_value)]

    def leaf(self, leaf: Leaf, series: tuple[int, int]) -> Any:
        """The condition under which the leaf holds, with the defaults of ``series``, if its objects are present."""
        return any_of(
            proposition
            for n, proposition in enumerate(self.is_value)
            if holds(leaf, self.values[n] if n else self.fact.default_in(series))
        )

    def preferences(self) -> list[Any]:
        """The preferences for a simple deployment: the default, else one of the first values."""
        return [z3.Not(proposition) for proposition in reversed(self.is_value[1:])]

    def value(self, model: Any) -> Any:
        """The value that holds in a model."""
        return next(
            value for value, proposition in zip(self.values, self.is_value, strict=True) if holds_in(model, proposition)
        )


class Texts:
    """A fact that is a list of texts, with propositions for its items and its first item; it is empty by default."""

    def __init__(self, fact: Fact, comparisons: Sequence[Leaf]) -> None:
        self.fact = fact
        named = sorted({text for leaf in comparisons for text in leaf.operand or ()})
        one_of_each: dict[tuple[bool, ...], str] = {}
        for text in [*named, _another(named)]:
            one_of_each.setdefault(tuple(text in (leaf.operand or ()) for leaf in comparisons), text)
        self.items = list(one_of_each.values())
        self.holds_item = [z3.Bool(f"{fact.name} has {text}") for text in self.items]
        self.is_first = [z3.Bool(f"{fact.name} begins with {text}") for text in self.items]
        self.empty = z3.Bool(f"{fact.name}=[]")
        self.null = z3.Bool(f"{fact.name}=null") if fact.nullable else FALSE
        self.stated = z3.Not(self.null) if fact.nullable else z3.Not(self.empty)

    def laws(self) -> list[Any]:
        """The laws that exactly one text is the first unless the list is empty, and that ``null`` is empty."""
        first = _exactly_one([self.empty, *self.is_first])
        return [
            first,
            z3.Implies(self.null, self.empty),
            *(z3.Implies(begins, has) for begins, has in zip(self.is_first, self.holds_item, strict=True)),
            *(z3.Implies(has, z3.Not(self.empty)) for has in self.holds_item),
        ]

    def leaf(self, leaf: Leaf, series: tuple[int, int]) -> Any:  # noqa: ARG002  # no release has another default
        """The condition under which the leaf holds, if its objects are present."""
        plain = Leaf(leaf.fact, leaf.test, leaf.operand, negated=False)
        match leaf.test:
            case Comparison.PRESENT:
                found = z3.Not(self.null)
            case Comparison.NOT_EMPTY:
                found = z3.Not(self.empty)
            case Comparison.FIRST_IS_IN:
                found = any_of(
                    begins for text, begins in zip(self.items, self.is_first, strict=True) if holds(plain, (text,))
                )
            case _:
                found = any_of(
                    has for text, has in zip(self.items, self.holds_item, strict=True) if holds(plain, (text,))
                )
        return none_of([found]) if leaf.negated else found

    def preferences(self) -> list[Any]:
        """The preferences for a simple deployment: no list, else few texts, preferably the first ones, in order."""
        none = self.null if self.fact.nullable else self.empty
        return [none, *map(z3.Not, [*reversed(self.holds_item), *reversed(self.is_first[1:])])]

    def value(self, model: Any) -> list[str] | None:
        """The list in a model."""
        if holds_in(model, self.null):
            return None
        first = [text for text, begins in zip(self.items, self.is_first, strict=True) if holds_in(model, begins)]
        return first + [
            text
            for text, has in zip(self.items, self.holds_item, strict=True)
            if holds_in(model, has) and text not in first
        ]


def _values(fact: Fact, comparisons: Sequence[Leaf]) -> list[Any]:
    """One value of each group that the leaves can distinguish."""
    operands = [leaf.operand for leaf in comparisons]
    match fact.kind:
        case FactKind.PRESENCE | FactKind.BOOLEAN:
            return [False, True]
        case FactKind.VARIABLE:
            return [True, False, MALFORMED_VARIABLE]
        case FactKind.CHOICE:
            return [*fact.choices, *([None] if fact.nullable else [])]
        case FactKind.INTEGER:
            exact = [leaf.operand + 1 for leaf in comparisons if leaf.test is Comparison.IS]
            return sorted(number for number in {fact.least, *operands, *exact} if fact.admits(number))
        case FactKind.SHARE:
            return shares(operands)
        case FactKind.NUMBER:
            return _numbers(fact, operands)
        case FactKind.LIST:
            return [(), (_another([]),)]
    named = {
        text
        for operand in operands
        for text in (operand if isinstance(operand, tuple) else (operand,))
        if text is not None
    }
    return [*sorted(named), _another(named), *([None] if fact.nullable else [])]


def _numbers(fact: Fact, operands: Sequence[float | None]) -> list[float | None]:
    """A number of each group that these operands distinguish: small whole ones first, negative ones last.

    The whole number after a large one is exact, as the sum of a large ``float`` and 1 would not be.
    """
    bounds: list[float] = sorted({0, *(operand for operand in operands if operand is not None)})
    between = [floor(low) + 1 if floor(low) + 1 < high else middle(low, high) for low, high in pairwise(bounds)]
    numbers = {*bounds, *between, ceil(bounds[0]) - 1, floor(bounds[-1]) + 1}
    legal = filter(fact.admits, numbers)
    return [*sorted(legal, key=lambda number: (number < 0, number != int(number), abs(number))), None]


def _another(named: Collection[str]) -> str:
    """A string that is not in ``named``."""
    text = "Another"
    while text in named:
        text += "One"
    return text


class Space:
    """The facts that conditions read, and the laws of their legal values."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        """Create the space for ``conditions``, whose named conditions are resolved; no others can be used."""
        comparisons: dict[str, list[Leaf]] = {}
        for leaf in dict.fromkeys(leaf for condition in conditions for leaf in leaves(condition)):
            comparisons.setdefault(leaf.fact, []).append(leaf)
        names = {VARIABLE, *comparisons, *(above for name in comparisons for above in ancestors(name))}
        self.facts: dict[str, Choice | Texts] = {
            fact.name: (Texts if fact.kind is FactKind.TEXTS else Choice)(fact, comparisons.get(fact.name, ()))
            for fact in ALL_FACTS
            if fact.name in names
        }
        self._formulas: dict[tuple[Condition, tuple[int, int], bool | None], Any] = {}
        self.laws = [law for fact in self.facts.values() for law in fact.laws()]
        self.laws += [
            z3.Implies(fact.stated, self._is_present(above))
            for name, fact in self.facts.items()
            for above in ancestors(name)[-1:]
        ]

    def _is_present(self, name: str) -> Any:
        return self.facts[name].stated

    def formula(self, condition: Condition | None, series: tuple[int, int], variable: bool | None = None) -> Any:  # noqa: FBT001  # the variable's value
        """The formula of a condition in a series; ``variable`` overrides the operator's variable."""
        if condition is None:
            return TRUE
        key = (condition, series, variable)
        if key not in self._formulas:
            self._formulas[key] = self._formula(condition, series, variable)
        return self._formulas[key]

    def _formula(self, condition: Condition, series: tuple[int, int], variable: bool | None) -> Any:  # noqa: FBT001
        match condition:
            case Leaf():
                return self._leaf_formula(condition, series, variable)
            case And(parts):
                return all_of(self.formula(part, series, variable) for part in parts)
            case Or(parts):
                return any_of(self.formula(part, series, variable) for part in parts)
        raise TypeError(condition)  # INVARIANT: named conditions are resolved

    def _leaf_formula(self, leaf: Leaf, series: tuple[int, int], variable: bool | None) -> Any:  # noqa: FBT001
        if leaf.fact == VARIABLE and variable is not None:
            return TRUE if holds(leaf, variable) else FALSE
        above = [self._is_present(name) for name in ancestors(leaf.fact)]
        return all_of([*above, self.facts[leaf.fact].leaf(leaf, series)])

    def preferences(self) -> list[Any]:
        """The preferences for a simple deployment, of one fact after the other."""
        return [preference for fact in self.facts.values() for preference in fact.preferences()]

    def stated(self, model: Any) -> dict[str, Any]:
        """The facts of a model that differ from their defaults, nested as in a request."""
        stated = {name: fact for name, fact in self.facts.items() if holds_in(model, fact.stated)}
        return nested({name: to_json(fact.value(model)) for name, fact in stated.items()})
