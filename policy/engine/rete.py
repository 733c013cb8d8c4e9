"""The only importer of durable_rules: runs a compiled ruleset on one fact and returns the actions that fired.

Owns the only safe way to call the C extension (durable_rules 2.0.28): one ruleset, one state, one fact with a constant
id, asserted, run to the end and retracted. The sentinel proves that the run was complete: after an action that was
started but not completed, decisions would be empty for half a minute, without an error.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from policy.engine.compiler import ACTION_WIDTH, SENTINEL
from policy.errors import EngineFailed

try:
    import durable_rules_engine as rete
except ImportError as error:  # on Python 3.13 it builds, but loads only if a removed function is renamed
    raise ImportError(
        "the rule engine (durable-rules) does not load; build it again: "
        "CPPFLAGS=-DPyEval_CallObject=PyObject_CallObject pip install --force-reinstall --no-deps --no-cache-dir "
        f"--no-binary durable-rules durable-rules==2.0.28 ({error})",
        name="durable_rules_engine",
    ) from error

if TYPE_CHECKING:
    from policy.engine.compiler import RulesetDefinition

STATE = "0"
RETRACTION = '{"id":1}'
NAME = slice(2, 2 + ACTION_WIDTH)  # an action is {"name":{…}}


class Engine:
    """A thread-safe ruleset in the engine, which runs one decision at a time."""

    def __init__(self, definition: RulesetDefinition) -> None:
        """Create the ruleset and run a canary decision: closing a ruleset that never ran would crash the process.

        Raises:
            EngineFailed: the engine refuses the definition or does not finish the canary run.
        """
        self._definition = definition
        self._lock = Lock()
        self._handle: int | None = None
        self._create()

    def fired(self, fact: str) -> list[str]:
        """The actions that fire for an encoded fact, by priority; an action with alternatives may occur twice.

        Raises:
            EngineFailed: the run failed, and failed again with a new ruleset.
        """
        with self._lock:
            try:
                return self._run(fact)
            except (EngineFailed, rete.error):
                self._create()
            try:
                return self._run(fact)
            except rete.error as error:
                raise EngineFailed(f"the engine refuses a fact: {error}") from error

    def close(self) -> None:
        """Free the ruleset; its state first, because deleting a ruleset does not free its state."""
        with self._lock:
            if self._handle is not None:
                rete.delete_state(self._handle, STATE)
                rete.delete_ruleset(self._handle)
            self._handle = None

    def _create(self) -> None:
        try:
            self._handle = rete.create_ruleset("policy", self._definition.ruleset)
            self._run(self._definition.canary)
        except rete.error as error:
            raise EngineFailed(f"the engine refuses the rules: {error}") from error

    def _run(self, fact: str) -> list[str]:
        """The actions that fire in one complete run.

        INVARIANT: a ruleset whose run did not finish, for any reason, is never used again. It is abandoned, not
        deleted: deleting one with an unfinished action crashes the process.
        """
        if self._handle is None:
            self._create()
        handle, self._handle = self._handle, None
        state = rete.assert_fact(handle, fact)[1]
        fired = []
        proceed = rete.complete_and_start_action
        started = rete.start_action_for_state(handle, state)
        action = started[1] if started is not None else None
        while action is not None:
            fired.append(action[NAME])
            action = proceed(handle, state)
        rete.retract_fact(handle, RETRACTION)
        if not fired or fired.pop() != SENTINEL:
            raise EngineFailed("the engine stopped before the last rule")
        self._handle = handle
        return fired
