"""The files generated from the vocabulary, the rule language and the folders: schemas for editors, and ``docs``.

Owns the list of files and their content. ``make generate`` writes them, and ``--check`` fails if one is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policy.facts.vocabulary import ALL_FACTS, REQUEST_VOCABULARY, VOCABULARY, FactKind
from policy.rules.catalogue import load
from policy.rules.documents import read_by
from policy.rules.effects import TABLE
from policy.rules.known_problems import CERTAINTIES, SYMPTOMS
from policy.rules.known_problems import FIELDS as PROBLEM_FIELDS
from policy.rules.loader import read_folder
from policy.rules.operators import OPERATORS, operators_for
from policy.rules.releases import spans
from policy.rules.request_rule import MEANINGS
from policy.rules.rule import HOUSE_FIELDS, NOTICE
from policy.rules.schemas import SCHEMAS

if TYPE_CHECKING:
    from policy.facts.vocabulary import Fact
    from policy.rules.catalogue import Catalogue

ROOT = Path(__file__).resolve().parents[2]
DESIGN = "docs/design.md"
INDEX = "## Index of modules\n"
"""The heading of the last section of the page about the design, which is generated."""
MODULES = ("policy/**/*.py", "service/**/*.py", "service/page/src/**/*.ts*")
NO_MODULES = ("__init__.py", "__main__.py", ".d.ts")
"""The ends of the names of files that are no modules; those with types are made from the API."""
INSTALLED = "node_modules"


def generated(catalogue: Catalogue) -> dict[str, str]:
    """The text of every generated file by its path below the project's root."""
    files = {
        f"rules/{name}.schema.json": json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
        for name, schema in SCHEMAS.items()
    }
    return {
        **files,
        "docs/facts.md": facts_page(catalogue),
        "docs/language.md": language_page(),
        DESIGN: (ROOT / DESIGN).read_text().partition(INDEX)[0] + module_index(),
    }


def module_index() -> str:
    """The section of the page about the design that lists all modules, a row for each folder."""
    folders: dict[str, set[str]] = {}
    for path in (path for pattern in MODULES for path in ROOT.glob(pattern)):
        if not path.name.endswith(NO_MODULES) and INSTALLED not in path.parts:
            folders.setdefault(f"{path.parent.relative_to(ROOT)}/", set()).add(path.stem)
    rows = [f"| `{folder}` | {', '.join(sorted(names))} |" for folder, names in sorted(folders.items())]
    lines = [
        INDEX,
        "Every module, to search by name; `make generate` writes this section. A module's docstring says what it owns.",
        "",
        "| folder | modules |",
        "|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def facts_page(catalogue: Catalogue) -> str:
    """The page of the vocabulary."""
    readers = read_by(catalogue)
    lines = [
        "# Facts",
        "",
        "The facts that rules read, under vLLM's own names. In a request the names are nested:",
        '`model_config.is_moe` is `{"model_config": {"is_moe": true}}`.',
        "An object is absent if it is `null` or missing; `{}` is present. A fact that is not stated has its default.",
        "",
        "Generated from the vocabulary by `make generate`.",
        "",
        "| fact | type | legal values | default | read by | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for fact in VOCABULARY:
        default = "absent" if fact.kind is FactKind.PRESENCE else _defaults_of(fact)
        releases = spans(readers.get(fact.name, []), catalogue.releases.known, "…") or "none"
        lines.append(f"| `{fact.name}` | {fact.kind} | {fact.legal} | {default} | {releases} | {fact.meaning} |")
    lines += [
        "",
        "## Facts of a request",
        "",
        "Only the rules about requests ([requests.md](requests.md)) read these, and nobody states them: they follow",
        "from the parameters of a request and from its engine. Of a list only its length counts.",
        "",
        "| fact | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for fact in REQUEST_VOCABULARY:
        lines.append(f"| `{fact.name}` | {fact.kind} | {json.dumps(fact.default)} | {fact.meaning} |")
    return "\n".join(lines) + "\n"


def _defaults_of(fact: Fact) -> str:
    """The default of a fact, and those of older releases."""

    def shown(value: Any) -> str:
        return "unset" if fact.kind is FactKind.VARIABLE and value is None else json.dumps(value)

    older = [
        f"from {first[0]}.{first[1]} to {end[0]}.{end[1] - 1} {shown(value)}"
        for first, end, value in fact.other_defaults
    ]
    return "; ".join([shown(fact.default), *older])


def language_page() -> str:
    """The page of the rule language: operators, effects, and the fields of known problems and house rules."""
    lines = [
        "# The rule language",
        "",
        "Generated by `make generate`; how to write a rule is in [rules/README.md](../rules/README.md).",
        "",
        "## Operators",
        "",
        "| operator | operand | types of facts | holds if |",
        "|---|---|---|---|",
    ]
    for word, operator in OPERATORS.items():
        kinds = ", ".join(sorted({str(fact.kind) for fact in ALL_FACTS if word in operators_for(fact)}))
        lines.append(f"| `{word}` | {operator.takes} | {kinds} | {operator.meaning} |")
    lines += [
        "",
        "`all`, `any` and `not` nest; `uses` names a condition that several rules share.",
        "Below an absent object every condition is false, even a negated one.",
        "",
        "## Effects, in the order in which they decide",
        "",
        "| effect | layer | runner | outcome | text in | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for effect in TABLE:
        runner = effect.runner.upper() if effect.runner and effect.decides else ""
        lines.append(
            f"| `{effect.name}` | {effect.layer} | {runner} | {effect.outcome or ''} | `{effect.says}` "
            f"| {effect.meaning} |"
        )
    lines += ["", "## Effects of rules about requests, the worst first", "", "| effect | what it means |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in MEANINGS.items()]
    lines += ["", "## Fields of known problems", "", "| field | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in PROBLEM_FIELDS.items()]
    lines += ["", "| symptom, the worst first | meaning |", "|---|---|"]
    lines += [f"| `{symptom}` | {meaning} |" for symptom, meaning in SYMPTOMS.items()]
    lines += ["", "| certainty | meaning |", "|---|---|"]
    lines += [f"| `{certainty}` | {meaning} |" for certainty, meaning in CERTAINTIES.items()]
    lines += ["", "## Fields that only house rules have", "", "| field | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in HOUSE_FIELDS.items()]
    lines += [
        "",
        "A rule with `until: 2027-03-01` holds up to and including that day. From 2027-03-02 on (UTC) every decision",
        f"is made as if the rule did not exist. From {NOTICE} days before its last day, each decision that the rule is",
        "part of has a warning; after that day, each decision that it would be part of.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every generated file."""
    for path, text in generated(load(read_folder(ROOT / "rules"))).items():
        (ROOT / path).write_text(text)


def check() -> None:
    """Exit with 1, naming the files that differ from what ``main`` would write."""
    files = generated(load(read_folder(ROOT / "rules")))
    stale = [path for path, text in files.items() if not (ROOT / path).is_file() or (ROOT / path).read_text() != text]
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run `make generate`")


if __name__ == "__main__":
    check() if "--check" in sys.argv else main()
