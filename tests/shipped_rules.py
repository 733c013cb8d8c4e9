"""The shipped rules, read and compiled once for the many commands and services of the tests that use them.

Owns functions that take the place of those that read and compile rules. For the folder and the texts of the shipped
rules they return what they returned before. Other folders are read, and of other texts only the files and rules that
differ from the shipped ones are read and compiled, as a service does when its rules change.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from policy.checks.cases import Case, read_cases
from policy.intake.model_lookup import no_models
from policy.parser.yamltree import read_rule_file
from policy.policy import Policy
from policy.render import as_text, decision
from policy.request.request import Request, read_request, with_explanation
from policy.rules.catalogue import Catalogue, load
from policy.rules.loader import Sources, no_pause, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.model_lookup import Find
    from policy.parser.yamltree import YamlNode

RULES: Final = Path(__file__).resolve().parent.parent / "rules"
ANY_DAY: Final = date(2026, 11, 1)
create = Policy.__init__


class ShippedRules:
    """The catalogue, the cases and the compiled rulesets of the shipped rules."""

    def __init__(self) -> None:
        sources = read_folder(RULES)
        self._rules, self._cases = sources.rules, sources.cases
        self.catalogue = load(sources)
        self._read_cases = read_cases(sources.cases, self.catalogue)
        self._parsed: dict[str, YamlNode] = {}
        self.policy = Policy(self.catalogue)

    @property
    def create_policy(self) -> Callable[..., None]:
        """In place of ``Policy.__init__``: rulesets that are the same as shipped ones are not compiled again."""
        shipped = self.policy

        def create_policy(
            self: Policy,
            catalogue: Catalogue,
            default_release: str | None = None,
            find: Find = no_models,
            before: Policy | None = None,
            **more: Any,
        ) -> None:
            create(self, catalogue, default_release, find, before or shipped, **more)
            self.compiled = shipped.compiled | self.compiled  # for releases that are compiled at their first request

        return create_policy

    def read_folder(self, folder: Path, pause: Callable[[], object] = no_pause) -> Sources:
        """In place of ``loader.read_folder``: the shipped rules, which no test changes, are not read again."""
        with suppress(OSError):
            if folder.samefile(RULES):
                return Sources(dict(self._rules), dict(self._cases))
        return read_folder(folder, pause)

    def load(
        self, sources: Sources, pause: Callable[[], object] = no_pause, before: Catalogue | None = None
    ) -> Catalogue:
        """In place of ``catalogue.load``."""
        if sources.rules == self._rules:
            return self.catalogue
        return load(sources, pause, before or self.catalogue)

    def read_cases(self, texts: Mapping[str, str], catalogue: Catalogue) -> list[Case]:
        """In place of ``cases.read_cases``."""
        is_shipped = catalogue is self.catalogue and texts == self._cases
        return list(self._read_cases) if is_shipped else read_cases(texts, catalogue)

    def parse_cases(self) -> None:
        """Parse the shipped cases, for the processes that are forked from this one."""
        for path, text in self._cases.items():
            self.read_rule_file(text, path)

    def read_rule_file(self, text: str, path: str) -> YamlNode:
        """In place of ``cases.read_rule_file``: the shipped cases are parsed once."""
        if self._cases.get(path) != text:
            return read_rule_file(text, path)
        if path not in self._parsed:
            self._parsed[path] = read_rule_file(text, path)
        return self._parsed[path]

    def decide_once(self) -> None:
        """Decide and explain a deployment, for the processes that are forked from this one.

        The first decision of a process takes 0.25 s longer than later ones: it reads the tables of models and flags,
        and compiles the checks of their values.
        """
        config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_attention_heads": 32}
        deployment = {"args": ["serve", "a/b"], "model_configs": {"a/b": config}}
        request = with_explanation(read_request({"deployment": deployment}, self.policy.releases))
        assert isinstance(request, Request)
        as_text(decision(self.policy.decide(request, ANY_DAY)))


@cache
def shipped_rules() -> ShippedRules:
    """Those of this process, or of the one from which it was forked."""
    found = ShippedRules()
    found.parse_cases()
    found.decide_once()
    return found
