"""The hooks of a Compose service (``post_start``, ``pre_stop``) and the test of its ``healthcheck``: commands.

Their texts are interpolated and split as those of ``command`` are; what Compose refuses is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.words import Unknown
from policy.intake.manifests.go_shellwords import MAX_COMMAND, split
from policy.intake.manifests.hooks import UNREAD_HOOK, read_hook
from policy.intake.manifests.interpolation import interpolate

if TYPE_CHECKING:
    from policy.intake.manifests.compose_services import ComposeService
    from policy.intake.manifests.draft import EngineDraft

AFTER_START: Final = "post_start"
HOOKS: Final = (AFTER_START, "pre_stop")
"""The fields with hooks; ``pre_stop`` counts, as a restarted service has the files that its hooks left."""
SHELL: Final = ("sh", "-c")
"""The shell that runs the text of a `healthcheck`."""


def read_service_hooks(service: ComposeService, draft: EngineDraft) -> None:
    """Read the hooks and the health check of a service.

    Of several hooks in a list that start vLLM, only the first is an item, because the path of each has the service's
    name, however long that is. A ``post_start`` that Compose refuses is a note on the service, if it is an engine.
    """
    for name in HOOKS:
        for node in service.each(name):
            hooks = node.value if isinstance(node.value, list) else [node.value] if node.value else []
            for place, hook in enumerate(hooks):
                fields = hook if isinstance(hook, dict) else {}
                words = _words(fields.get("command"))
                at = node.below([place]) if isinstance(node.value, list) else node
                folder = fields.get("working_dir")
                if words and read_hook(at, name, words, draft, folder=folder if isinstance(folder, str) else ""):
                    break
                if words is None and name == AFTER_START:
                    draft.note(UNREAD_HOOK.format(f"`{name}`"))
    check = service.nearest("healthcheck")
    test = check.value.get("test") if isinstance(check.value, dict) else None
    words = _words([*SHELL, test] if isinstance(test, str) else test)
    if words and words[0] == "CMD-SHELL":
        words = [*SHELL, *words[1:]]
    elif words and words[0] == "CMD":
        words = words[1:]
    if words:
        read_hook(check, "healthcheck", words, draft)


def _words(command: Any) -> list[str] | None:
    """The words of a command; None if Compose refuses it."""
    is_list = isinstance(command, list)
    texts = command if is_list else [command]
    if not all(isinstance(text, str) for text in texts):
        return None
    if not is_list and len(command) > MAX_COMMAND:
        return [Unknown(command)]
    try:
        found = [interpolate(text) for text in texts]
        if not is_list:
            return split(found[0].text, found[0].unknown).words
    except ValueError:
        return None
    return [Unknown(each.text) if each.unknown else each.text for each in found]
