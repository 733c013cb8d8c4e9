"""The shapes that a deployment has on its way in: a container of a manifest, a command line, the options it sets.

Owns nothing but the words; ``launcher`` and ``arguments`` make them of what users write, ``manifests`` of what controllers write.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from policy.intake.provenance import DEFAULT


class Container(Struct, frozen=True):
    """One vLLM engine that a manifest would start, as the manifest says it.

    ``words`` are the whole command, entry point included where the manifest states one, and ``places`` says of each word where it
    stands, or who added it: ``args[3]``, ``vllmConfig.tensorParallelSize``, ``added by KServe``. A variable whose value the manifest does
    not show is ``None``. ``models`` gives the model's own name for a path that the controller mounts it at (``/mnt/models``), ``files``
    the text of files that the manifest itself holds, by the path at which the engine would read them. ``unversioned`` says
    why the image does not tell vLLM's version. ``notes`` are warnings for the user.
    """

    path: str
    words: list[str] = []
    places: list[str] = []
    env: dict[str, str | None] = {}
    image: str | None = None
    vllm_version: str | None = None
    unversioned: str = ""
    models: dict[str, str] = {}
    files: dict[str, str] = {}
    notes: list[str] = []


class CommandLine(Struct, frozen=True):
    """The words that vLLM's own parser gets, each with its place, and the variables that the command sets for it.

    ``env`` holds only what the command line itself sets (``A=b vllm serve …``, ``export A=b``). A value of ``None`` is one that cannot be known.
    ``serve`` says that the words are those after ``vllm serve``, where the model may stand as the first positional word.
    """

    words: list[str] = []
    places: list[str] = []
    env: dict[str, str | None] = {}
    serve: bool = True
    warnings: list[str] = []


class ParsedOptions(Struct, frozen=True):
    """What a command line sets, under the names of vLLM's ``EngineArgs``, and where each stands.

    ``values`` has only options that were given (the last one counts, as in vLLM), typed: a flag's ``bool``, ``int``, ``float``, text, list,
    or the object of a JSON option with its dotted options merged as the release merges them. ``places`` has the place of each option, and under
    ``option.key`` that of a dotted one. ``ignored`` names the arguments that no fact depends on, as they were written.
    """

    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    ignored: list[str] = []
    warnings: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or ``default`` where it is not given."""
        return self.values.get(name, default)

    def place(self, name: str) -> str:
        """Where an option stands; for ``option.key`` that is not written dotted, where the option stands; ``default`` where nobody wrote it."""
        found = self.places.get(name)
        if found is None:
            found = self.places.get(name.partition(".")[0], DEFAULT) if "." in name else DEFAULT
        return found
