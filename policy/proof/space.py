"""All facts that a deployment could have, as the propositions of a solver.

Owns which values of a fact the rules in question can tell apart, one representative each: a fact is one
proposition a value, of which exactly one holds. A list of texts is whether it holds each text that some
rule names (one for all that are named alike), whether it holds another, and which comes first.

What a leaf says of a value is asked of ``conditions.holds``, the same that explains a decision; nothing
of a condition's meaning is said again here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import z3

from policy.facts.facts import nested, to_json
from policy.facts.vocabulary import VARIABLE, VOCABULARY, FactKind, ancestors, parse_variable
from policy.rules.conditions import And, Condition, Leaf, Or, holds, leaves
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from policy.facts.vocabulary import Fact

TRUE: Final = z3.BoolVal(val=True)
FALSE: Final = z3.BoolVal(val=False)
MALFORMED: Final = parse_variable("true")


class Choice:
    """A fact with one proposition a value; ``values`` begins with its default."""

    def __init__(self, fact: Fact, asked: Sequence[Leaf]) -> None:
        self.fact = fact
        self.values = list(dict.fromkeys([fact.default, *_values(fact, asked)]))
        self.is_value = [z3.Bool(f"{fact.name}={value}") for value in self.values]
        self.stated = z3.Not(self.is_value[0])

    def laws(self) -> list[Any]:
        """Exactly one of the values holds."""
        return [z3.PbEq([(proposition, 1) for proposition in self.is_value], 1)]

    def leaf(self, leaf: Leaf, series: tuple[int, int]) -> Any:
        """When the leaf holds, the objects above being there; what nobody stated is what it is by default in the series."""
        return z3.Or(
            [
                proposition
                for n, proposition in enumerate(self.is_value)
                if holds(leaf, self.values[n] if n else self.fact.default_in(series))
            ]
        )

    def wishes(self) -> list[Any]:
        """What makes a deployment plainer: the default, else a value that comes early."""
        return [z3.Not(proposition) for proposition in reversed(self.is_value[1:])]

    def value(self, model: Any) -> Any:
        """The value that holds in a model."""
        return next(
            value
            for value, proposition in zip(self.values, self.is_value, strict=True)
            if z3.is_true(model.eval(proposition, model_completion=True))
        )


class Texts:
    """A list of texts: which are in it, and which comes first; by default there are none."""

    def __init__(self, fact: Fact, asked: Sequence[Leaf]) -> None:
        self.fact = fact
        named = sorted({text for leaf in asked for text in leaf.operand or ()})
        alike: dict[tuple[bool, ...], str] = {}
        for text in [*named, _another(named)]:
            alike.setdefault(tuple(text in (leaf.operand or ()) for leaf in asked), text)
        self.items = list(alike.values())
        self.holds_item = [z3.Bool(f"{fact.name} has {text}") for text in self.items]
        self.is_first = [z3.Bool(f"{fact.name} begins with {text}") for text in self.items]
        self.empty = z3.Bool(f"{fact.name}=[]")
        self.null = z3.Bool(f"{fact.name}=null") if fact.nullable else FALSE
        self.stated = z3.Not(self.null) if fact.nullable else z3.Not(self.empty)

    def laws(self) -> list[Any]:
        """One of the texts is the first, unless there is none; ``null`` has none."""
        first = z3.PbEq([(proposition, 1) for proposition in (self.empty, *self.is_first)], 1)
        return [
            first,
            z3.Implies(self.null, self.empty),
            *(z3.Implies(begins, has) for begins, has in zip(self.is_first, self.holds_item, strict=True)),
            *(z3.Implies(has, z3.Not(self.empty)) for has in self.holds_item),
        ]

    def leaf(self, leaf: Leaf, series: tuple[int, int]) -> Any:  # noqa: ARG002  # no release has another default
        """When the leaf holds, the objects above being there."""
        plain = Leaf(leaf.fact, leaf.test, leaf.operand, negated=False)
        match leaf.test:
            case Comparison.PRESENT:
                found = z3.Not(self.null)
            case Comparison.NOT_EMPTY:
                found = z3.Not(self.empty)
            case Comparison.FIRST_IS_IN:
                found = z3.Or(
                    [begins for text, begins in zip(self.items, self.is_first, strict=True) if holds(plain, (text,))]
                )
            case _:
                found = z3.Or(
                    [has for text, has in zip(self.items, self.holds_item, strict=True) if holds(plain, (text,))]
                )
        return z3.Not(found) if leaf.negated else found

    def wishes(self) -> list[Any]:
        """What makes a deployment plainer: no list, else few texts, and of those that come early."""
        return [z3.Not(self.stated), *(z3.Not(has) for has in reversed(self.holds_item))]

    def value(self, model: Any) -> list[str] | None:
        """The list that a model has."""

        def true(proposition: Any) -> bool:
            return bool(z3.is_true(model.eval(proposition, model_completion=True)))

        if true(self.null):
            return None
        first = [text for text, begins in zip(self.items, self.is_first, strict=True) if true(begins)]
        return first + [
            text for text, has in zip(self.items, self.holds_item, strict=True) if true(has) and text not in first
        ]


def _values(fact: Fact, asked: Sequence[Leaf]) -> list[Any]:
    """A value of each kind that the leaves can tell apart, the default aside."""
    operands = [leaf.operand for leaf in asked]
    match fact.kind:
        case FactKind.PRESENCE | FactKind.BOOLEAN:
            return [False, True]
        case FactKind.VARIABLE:
            return [True, False, MALFORMED]
        case FactKind.CHOICE:
            return [*fact.choices, *([None] if fact.nullable else [])]
        case FactKind.INTEGER:
            exact = [leaf.operand + 1 for leaf in asked if leaf.test is Comparison.IS]
            return sorted(number for number in {fact.least, *operands, *exact} if fact.admits(number))
        case FactKind.LIST:
            return [(), (_another([]),)]
    named = {
        text
        for operand in operands
        for text in (operand if isinstance(operand, tuple) else (operand,))
        if text is not None
    }
    return [*sorted(named), _another(named), *([None] if fact.nullable else [])]


def _another(named: Collection[str]) -> str:
    """A text that is none of these."""
    text = "Another"
    while text in named:
        text += "One"
    return text


class Space:
    """The facts that some conditions ask for, and what is legal of them."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        """``conditions`` are all that will be asked for, named ones put in place."""
        asked: dict[str, list[Leaf]] = {}
        for leaf in dict.fromkeys(leaf for condition in conditions for leaf in leaves(condition)):
            asked.setdefault(leaf.fact, []).append(leaf)
        names = {VARIABLE, *asked, *(above for name in asked for above in ancestors(name))}
        self.facts: dict[str, Choice | Texts] = {
            fact.name: (Texts if fact.kind is FactKind.TEXTS else Choice)(fact, asked.get(fact.name, ()))
            for fact in VOCABULARY
            if fact.name in names
        }
        self.laws = [law for fact in self.facts.values() for law in fact.laws()]
        self.laws += [
            z3.Implies(fact.stated, self._is_there(above))
            for name, fact in self.facts.items()
            for above in ancestors(name)[-1:]
        ]

    def _is_there(self, name: str) -> Any:
        return self.facts[name].stated

    def formula(self, condition: Condition | None, series: tuple[int, int], variable: bool | None = None) -> Any:  # noqa: FBT001  # the variable's value
        """When the condition holds in a series; with ``variable``, the operator's variable has that value whatever is stated."""
        match condition:
            case None:
                return TRUE
            case Leaf():
                return self._leaf(condition, series, variable)
            case And(parts):
                return z3.And([self.formula(part, series, variable) for part in parts])
            case Or(parts):
                return z3.Or([self.formula(part, series, variable) for part in parts])
        raise TypeError(condition)  # INVARIANT: named conditions are put in their place

    def _leaf(self, leaf: Leaf, series: tuple[int, int], variable: bool | None) -> Any:  # noqa: FBT001
        if leaf.fact == VARIABLE and variable is not None:
            return TRUE if holds(leaf, variable) else FALSE
        above = [self._is_there(name) for name in ancestors(leaf.fact)]
        return z3.And([*above, self.facts[leaf.fact].leaf(leaf, series)])

    def wishes(self) -> list[Any]:
        """What a plain deployment is: each is to be had where it can be."""
        return [wish for fact in self.facts.values() for wish in fact.wishes()]

    def stated(self, model: Any) -> dict[str, Any]:
        """The facts of a model, nested as in a request; what has its default is left out."""
        stated = {
            name: fact
            for name, fact in self.facts.items()
            if z3.is_true(model.eval(fact.stated, model_completion=True))
        }
        return nested({name: to_json(fact.value(model)) for name, fact in stated.items()})
