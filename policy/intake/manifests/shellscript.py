"""A shell script as a manifest: `{"script": TEXT}`, which the command line makes from a file that ends in `.sh`.

The whole script is read as bash does, with arguments and variables that are not known. Each command that starts a
container of an image that starts vLLM, such as `docker run`, is an engine too, with the command's options. It may stand
in a substitution: `ID=$(docker run …)`.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from msgspec.structs import replace

from policy.intake.command.container_programs import container_run, may_run_image, names_vllm, text_after_run
from policy.intake.command.expansion import MAX_COPIED, ExpansionBudget, ShellSyntaxError
from policy.intake.command.image_words import NO_NAMES, named_images
from policy.intake.command.launcher import find_server
from policy.intake.command.made_images import NO_IMAGES, made_images
from policy.intake.command.passed_variables import passed_variables
from policy.intake.command.shell import parse_script
from policy.intake.command.shell_options import shell_options
from policy.intake.command.vllm_command import DEPLOYMENT_REMEDY, UnreadableCommand
from policy.intake.command.words import Unknown
from policy.intake.manifests.containerrun import add_words, passed_names, read_container_run
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.reading import ManifestNode
from policy.intake.manifests.script_header import BASH, ScriptHeader, header_of
from policy.stated_secrets import stated_secrets

SHAPE: Final = "a shell script (`script` alone)"
ARGUMENTS: Final = Unknown("$@", is_several=True)
DEFAULTS: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]{0,100}:?-", re.ASCII)
"""Matches a variable with a default."""
DEFAULTS_NOTE: Final = "the script's defaults are assumed (`${NAME:-default}`); it may be started with other variables"
MAX_RUNS: Final = 256
UNREAD_COMMAND: Final = "a command of the script may start a container of vLLM in a way that is not read"
SEND_COMMAND: Final = "write `docker run …` as a command of the script itself, or send its arguments as a deployment"
EXCESS_CONTAINERS: Final = f"the script starts more than {MAX_RUNS} containers; those after them are not read"


def is_script(document: ManifestNode) -> bool:
    """Whether a document has only the text of a script."""
    value = document.value
    return isinstance(value, dict) and list(value) == ["script"] and isinstance(value["script"], str)


def read_script(document: ManifestNode) -> None:
    """Read the engine that the script starts, and those of the containers that it starts."""
    script = document.get("script")
    text = script.value
    header = header_of(text)
    is_read = _read_containers(script, text, header)
    draft = EngineDraft(script)
    add_words(draft, "script", [*header.words, text, "script", ARGUMENTS])
    draft.has_command = True
    draft.has_hidden_variables = header.has_hidden_variables
    if draft.starts_vllm() and not _only_starts_containers(draft):
        if DEFAULTS.search(text) is not None:
            draft.note(DEFAULTS_NOTE)
        for note in header.notes:
            draft.note(note)
        draft.doubts += header.doubts
        if not is_read:
            draft.note(UNREAD_COMMAND)
            draft.doubts.append(UNREAD_COMMAND)
        draft.unversioned = "a script does not show vLLM's version"
        draft.finish()
    elif not is_read:
        draft.problem = f"{UNREAD_COMMAND}; {SEND_COMMAND}"
        draft.finish()


def _only_starts_containers(draft: EngineDraft) -> bool:
    """Whether a script is only known to start containers of vLLM, which are read separately."""
    found = None if draft.server is not None else find_server(draft.words, draft.env)
    return isinstance(found, UnreadableCommand) and found.remedy == DEPLOYMENT_REMEDY


def _read_containers(script: ManifestNode, text: str, header: ScriptHeader) -> bool:
    """Read the containers of vLLM that a script starts; false if another command may start one as well."""
    options = shell_options(BASH, header.options, 0)
    budget, own, within = ExpansionBudget(), ExpansionBudget(), ExpansionBudget()
    try:
        commands = parse_script(
            text,
            header.env,
            ["script", ARGUMENTS],
            is_bash=True,
            has_hidden_variables=header.has_hidden_variables,
            ends_on_failure=options.ends_on_failure,
            has_pipefail=options.has_pipefail,
            refuses_unset=options.refuses_unset,
            budget=own,
            substitution_budget=within,
        )
    except ShellSyntaxError:
        return True  # reading the whole script reports this
    read = [(command, container_run(command.words)) for command in commands]
    runs = [(command, run) for command, run in read if run is not None and run.words and run.starts]
    named = named_images(text) if runs else NO_NAMES
    made = made_images(command.words for command in commands if not command.unreached) if runs else NO_IMAGES
    secrets = frozenset(
        islice([*stated_secrets(header.env), *own.secrets, *within.secrets], MAX_COPIED // max(1, len(runs)))
    )
    for place, (command, run) in enumerate(runs[:MAX_RUNS]):
        names = passed_names(run)
        env = command.env
        if header.env:
            budget.copy(len(header.env) + len(env))
            env = {**header.env, **env}
        variables = passed_variables(command.words, run.at, env, budget, is_script=True, names=names)
        if variables is None:
            continue
        is_hidden = variables.has_hidden_variables or header.has_hidden_variables
        all_notes = (*header.notes, *variables.notes)
        variables = replace(variables, has_hidden_variables=is_hidden, notes=all_notes, secrets=secrets)
        node = ManifestNode(script.reader, None, shares_pointer=True)
        node.parent, node.key = script, place
        doubts = [doubt for doubt in (*header.doubts, command.doubt, command.unreached) if doubt]
        doubts += [EXCESS_CONTAINERS] if len(runs) > MAX_RUNS else []
        is_engine = read_container_run(node, run, variables, "script", doubts, named=named, made=made)
        if is_engine and DEFAULTS.search(text) is not None:
            notes = script.reader.containers[-1].notes
            notes += [DEFAULTS_NOTE] * (DEFAULTS_NOTE not in notes)
    others = (command for command, run in read if not command.unreached and (run is None or not run.words))
    started = [(command.words[0], after) for command in others if (after := text_after_run(command.words)) is not None]
    if any(run is None and not command.unreached and may_run_image(command.words) for command, run in read):
        return False
    by_input = any(program == "xargs" for program, _ in started) and names_vllm(text)  # which may have the image
    return not by_input and not any(names_vllm(after) for program, after in started if program != "xargs")
