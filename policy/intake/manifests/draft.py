"""Build an engine of a manifest: its command's words with their places, its variables and its notes.

Keeps a controller's and the user's words in order, and adds notes on words whose values are not final.
"""

from __future__ import annotations

from collections import ChainMap
from posixpath import isabs
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from policy.intake.command import expansion, launcher
from policy.intake.command.earlier_scripts import doubts_after, effects_beside
from policy.intake.command.kubernetes_references import expand_references
from policy.intake.command.paths import ANY_FOLDER
from policy.intake.command.programs import STARTS_VLLM, is_program, passes_server, server_names, starts_server
from policy.intake.command.shell_options import shell_options, startup_doubt
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand, begins_with_model, only_shows_help
from policy.intake.command.volume_paths import NO_VOLUMES
from policy.intake.command.words import Unknown
from policy.intake.command_line import Container, FolderMounts, ImageVariable, Installation
from policy.intake.manifests import images, sagemaker
from policy.intake.manifests.cache_mounts import cache_doubt
from policy.intake.manifests.hardware import MAX_SIGNS
from policy.intake.manifests.image_labels import LABEL_CAUSE
from policy.intake.manifests.images import VLLM_SERVE
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.placed_programs import ProgramsBeside
from policy.intake.manifests.ray_nodes import may_run_on_ray, plain_variables, ray_node
from policy.intake.manifests.signs import are_server_arguments, names_hub_model, shows_vllm
from policy.intake.manifests.stated_variables import StatedVariables
from policy.intake.manifests.working_folder import start_folder, working_folder
from policy.messages import MAX_QUOTED, quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping, Sequence

    from policy.intake.command.earlier_scripts import CommandBeside
    from policy.intake.command.volume_paths import VolumePaths
    from policy.intake.command_line import HardwareSign, RayNode
    from policy.intake.manifests.cache_mounts import FileMount
    from policy.intake.manifests.images import ImageVersion
    from policy.intake.manifests.reading import ManifestNode

RUNNER_VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
REPLACED_VARIABLE: Final = (
    f"`envFrom` takes `{RUNNER_VARIABLE}` from a ConfigMap, and {{}} after it, which is not read, may replace it; set "
    "the variable in `env`"
)
MAX_NOTES: Final = 32
MORE_NOTES: Final = "more notes on this engine are left out"
TEMPLATE: Final = "{{"
ENTRY_POINT_PLACE: Final = "the image's entry point"
NO_OPTIONS: Final = shell_options("bash", (), 0)
KSERVE_SERVER: Final = ("python", "-m", "huggingfaceserver")
"""The entry point of KServe's Hugging Face server."""
LONG_COMMAND: Final = (
    f"expected a command of at most {expansion.MAX_WORDS} words and {expansion.MAX_TEXT} characters; "
    "write a shorter one"
)
UNKNOWN_IMAGE: Final = (
    "the manifest does not show the image, and its arguments, variables or name show that it may start vLLM"
)
SEND_RENDERED: Final = (
    "write the image, or send the rendered manifest, such as the output of `helm template …` or `kustomize build`"
)
NAMED_IMAGE: Final = (
    "the image has vLLM in its name and its entry point is not known, so that it may start vLLM; write `vllm serve "
    "MODEL …` as the command if it does"
)
ASSUMED_ENTRY_POINT: Final = (
    "the entry point of the image {} is not known; its arguments are those of vLLM's server, which it is assumed to be"
)
MOUNT_OVER_MODEL: Final = "the mount at {} may replace files of {}, which is at {}, such as its config.json"
OTHER_ENTRY_POINT: Final = (
    "the image's entry point, which is not known, has vLLM's server among its arguments and may start it; write "
    "`vllm serve MODEL …` as the command"
)
OTHER_SERVER: Final = "the script has another server with different arguments or variables, which should not run: {}"
PLACED_PROGRAM: Final = (
    "a hook, a mount or another container may put a program in the place of one that the command runs, and they name "
    "vLLM's server, which it may start then; start the server as the command of a container"
)
SEVERAL_WORDS: Final = (
    "the value of `{}` is not known, and it may be several arguments in a script; write the value, or leave it to "
    "LeaderWorkerSet"
)
EVALUATING_ENTRY_POINT: Final = (
    "a variable has a command of vLLM's server, and the image's entry point, which is not known, may run it; write "
    "`vllm serve MODEL …` as the command"
)


class EngineDraft:
    """An engine under construction, from a node of the manifest; ``finish`` adds it to the manifest's engines."""

    ray_variables: Mapping[str, str | None] | None = MappingProxyType({})
    """The variables that Ray sets for this engine's workers on any node; None if it runs outside of the manifest."""

    volumes: VolumePaths = NO_VOLUMES
    """The mounts of the volumes that commands of the container may write."""
    last_commands: tuple[CommandBeside, ...] = ()
    """The hooks that run when the container ends; what they change in a volume is there at its next start."""

    replacing_source = ""
    """The source of ``envFrom`` that may replace the stated variable of the rules; empty if none may."""

    group_items: tuple[ManifestNode, ...] = ()
    """The variables named like those of LeaderWorkerSet, whose values the manifest does not show."""
    several_words: tuple[str, ...] = ()
    """The names of those that count as one word in a script, although their values may be several."""

    def __init__(self, node: ManifestNode) -> None:
        self.node = node
        self.table = node.reader.images
        node.note_read()
        self.words: list[str] = []
        self.places: list[str] = []
        self.env = StatedVariables()
        """The variables that the manifest states, with the secrets that any of them had."""
        self.image_env: dict[str, ImageVariable] = {}
        self.image: str | None = None
        self.platform: str | None = None
        """The platform of the image that the controller chooses, if it does not run the stated one."""
        self.hardware: list[HardwareSign] = []
        self.file_mounts: list[FileMount] = []
        """The mounts with files that objects of the cluster state."""
        self.gpus = 0
        """The number of GPUs of the container, 0 if it is not known."""
        """The signs of the hardware that the manifest asks for."""
        self.has_command = False
        self.is_built = False
        """Whether the image is built from files that the manifest does not show, so that its name shows nothing."""
        self.has_default_image = False
        """Whether the controller sets an image if the manifest does not state one."""
        self.is_named_vllm = False
        """Whether something other than the command and the variables shows vLLM, such as the name of a service."""
        self.remedy = SEND_RENDERED
        """What to do if the image is not known."""
        self.models: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.mounts = Mounts()
        self.folder = ""
        """The working folder; empty if the manifest does not state it."""
        self.problem = ""
        self.unversioned = ""
        """Why no version is known, if the manifest shows no image."""
        self.label_version: str | None = None
        """The version of the image that a label states."""
        self.has_hidden_variables = False
        """Whether the container has variables whose names the manifest does not show."""
        self.server: ServerCommand | None = None
        """The server that the words start, once they have been parsed; None if they start none."""
        self.commands_beside: list[CommandBeside] = []
        """The hooks and probes that start no server, but may change what this engine loads."""
        self.programs = ProgramsBeside()
        """What hooks, mounts and other containers may do to the programs that this container runs."""
        self.notes: dict[str, None] = {}
        self.doubts: list[str] = []
        """Why vLLM may get other words or variables."""
        self.secrets: set[str] = set()
        """The values of secrets that the manifest states elsewhere than in its variables."""

    def stated_secrets(self) -> frozenset[str]:
        """Every secret that the manifest states for this engine, even in variables that the engine does not get."""
        return frozenset[str]().union(self.secrets, self.env.secrets)

    def add(self, place: str, *words: str) -> None:
        """Append words with the same place."""
        self.words.extend(words)
        self.places.extend([place] * len(words))

    def add_final(self, place: str, *words: str) -> None:
        """Append words in which Kubernetes expands no `$(NAME)`; an `Unknown` stays one."""
        self.add(place, *(_as_final(word) for word in words))

    def add_list(self, node: ManifestNode, name: str) -> None:
        """Append the strings of a list, each with the place ``name[i]``."""
        for place, item in enumerate(node.items()):
            word = item.text()
            if word is not None:
                self.add(f"{name}[{place}]", word)

    def doubt(self, why: str) -> None:
        """Add a doubt about the words or variables, with a note; a repeated one is left out."""
        self.note(why)
        if why not in self.doubts and len(self.doubts) < MAX_NOTES:
            self.doubts.append(why)

    def note(self, message: str) -> None:
        """Add a note for the user; repeated notes and those beyond the maximum are dropped."""
        if self.accepts_notes():
            self.notes[message] = None
        else:
            self.notes[MORE_NOTES] = None

    def accepts_notes(self) -> bool:
        """Whether another note can be added."""
        return len(self.notes) < MAX_NOTES

    def starts_vllm(self, *, by_image: bool = True) -> bool:
        """Whether the words so far start vLLM, or may start it.

        Without a command, the words are arguments of the image's entry point, which is `vllm serve` in a known image;
        `by_image` is false if the controller replaces a missing command. An unreadable command may start vLLM if the
        image is known or the command names vLLM's server; it becomes a fault later. If the manifest does not show the
        image, its arguments are a problem, and an unreadable command a fault, if any sign shows vLLM.

        In an unknown image, arguments may be flags of its own program, and `serve` its own subcommand.
        """
        self.note_ray(self.words.copy(), is_certain=False)
        return self._starts_vllm(by_image=by_image)

    def _starts_vllm(self, *, by_image: bool) -> bool:
        if not self.is_within_limits():
            return False
        try:
            return self._names_vllm(by_image=by_image) or (by_image and self._may_start_vllm())
        except expansion.ExpansionExhausted:
            return True  # deciding the engine reports this as its problem

    def note_ray(self, words: Sequence[str], *, is_certain: bool = True) -> None:
        """Note the command of the container, which may start Ray; ``is_certain``: whether it does, as in KubeRay's."""
        is_command = self.has_command or is_certain
        if not words:
            return

        def read() -> RayNode | None:
            if not (is_command or self._runs_words()):
                return None
            env = {**images.version_of(self.image, self.table).env, **self.env}
            plain = plain_variables(self.node.value, env)
            hidden = self.has_hidden_variables
            return ray_node(self.node.path, words, env, plain, has_hidden_variables=hidden, is_certain=is_certain)

        self.node.reader.ray.commands.append((read, is_certain))

    def starts_server(self) -> bool:
        """Whether the words start vLLM's server, or name it in a command that cannot be read.

        Unlike for an engine, a server that another file or image may start does not count: init containers often
        prepare something with vLLM's image.
        """
        if not self._starts_vllm(by_image=True):
            return False
        if self.problem:
            return self.problem in {NAMED_IMAGE, OTHER_ENTRY_POINT, EVALUATING_ENTRY_POINT, PLACED_PROGRAM}
        try:
            found = self._find_server()
        except expansion.ExpansionExhausted:
            return True
        if isinstance(found, UnreadableCommand):
            return found.names_vllm
        return not self.has_command if found is None else not only_shows_help(found)

    def _names_vllm(self, *, by_image: bool) -> bool:
        is_known = images.starts_vllm(self.image, self.table)
        if is_known and by_image and not self.has_command and sagemaker.is_sagemaker(self.image):
            self._add_sagemaker()
            return True
        if not self.has_command and by_image and not self._runs_words():
            if is_known or (self.words and images.names_vllm(self.image)):
                self._add_entry_point()
                return True
            if self.words and images.is_kserve_server(self.image, self.table):
                self.words[:0] = KSERVE_SERVER
                self.places[:0] = [ENTRY_POINT_PLACE] * len(KSERVE_SERVER)
        if not self.words:
            return by_image and self._may_evaluate()
        if not (self.has_command or is_known):
            filled = self.expanded_words()
            if by_image and self._has_servers_arguments(filled):
                self._add_entry_point()
                self.doubts.append(ASSUMED_ENTRY_POINT.format(quoted(self.image)))
                return True
            if filled[0].startswith("-"):
                if STARTS_VLLM.search(" ".join(filled)) is None and passes_server(filled):
                    self.problem = OTHER_ENTRY_POINT
                is_named = bool(self.problem) or STARTS_VLLM.search(" ".join(filled)) is not None
                return is_named or (by_image and self._may_evaluate())
            if filled[0].rpartition("/")[2] == "serve" and not any("vllm" in word for word in filled):
                return False
        is_known = self._has_servers_image()
        is_any_doubted = is_known and self.has_command and self.node.reader.is_under_review
        found = self._find_server(doubts_programs=is_any_doubted)
        if isinstance(found, ServerCommand) and found.unreached and self.node.reader.is_under_review:
            self.doubts.append(OTHER_SERVER.format(found.unreached))
        if self.may_run_placed(self.words, found):
            self.problem = PLACED_PROGRAM
            return True
        if not isinstance(found, UnreadableCommand):
            return found is not None
        read = self.expanded_words()
        is_no_argument = self.has_command and (read[0] == "serve" or begins_with_model(read))  # as without a command
        if found.is_any_program or is_no_argument:
            self.problem = f"{found.why}, {found.remedy}"
        return is_known or found.names_vllm

    def may_run_placed(self, words: Sequence[str], found: ServerCommand | UnreadableCommand | None) -> bool:
        """Whether a command that by itself starts no server may start one, because another one replaces its programs.

        ``words`` are the container's own, or those of a hook, which runs after them; ``found`` is what they start.
        """
        if found is not None and (isinstance(found, ServerCommand) or found.names_vllm):
            return False
        own = self._server_names(words)
        if all(own) and (at := self.mounts.first_program(words)) is not None and all(self._server_names(words[at:])):
            return True
        first = self.words if self.has_command and words is not self.words else ()
        return self.programs.may_start(own, self.env, self.mounts, self.commands_beside, first, is_read=found is None)

    def _server_names(self, words: Sequence[str]) -> tuple[bool, bool]:
        """Which parts of a server's command words and variables name, as `server_names`; vLLM's image names vLLM."""
        has_name, has_command = server_names([*words, *filter(None, self.env.values())])
        return has_name or (has_command and self.has_vllms_image()), has_command

    def _may_evaluate(self) -> bool:
        """Whether the entry point of an unknown image may run a variable as a command; if so, adds the problem."""
        is_other = self.has_command or images.runs_other_program(self.image, self.table)
        if is_other or not any(value and starts_server(value) for value in self.env.values()):
            return False
        self.problem = EVALUATING_ENTRY_POINT
        return True

    def _add_sagemaker(self) -> None:
        """Replace the words with those that the entry point of the image for SageMaker makes from the variables."""
        if self.words:
            self.note(sagemaker.IGNORED_ARGUMENTS)
        self.words, self.places = [], []
        for place, word in sagemaker.command_of_variables(self.env):
            self.add(place, word)
        self.has_command = True
        if self.has_hidden_variables:
            self.doubts.append(sagemaker.HIDDEN_VARIABLES)
        elif why := sagemaker.doubt_about_variables(self.env, self.mounts):
            self.doubts.append(why)
        elif not sagemaker.names_model(self.env):
            self.problem = sagemaker.NO_MODEL

    def _has_servers_arguments(self, filled: list[str]) -> bool:
        """Whether the arguments of a named image, whose entry point is not known, are those of vLLM's server."""
        if self.has_unknown_image() or images.runs_other_program(self.image, self.table):
            return False
        return are_server_arguments(filled)

    def has_vllms_image(self) -> bool:
        """Whether the image starts vLLM, or has its name."""
        return self._has_servers_image() or images.names_vllm(self.image)

    def has_unknown_image(self) -> bool:
        """Whether the manifest does not show the image: its name is not known, or it is built."""
        is_default = self.image is None and self.has_default_image
        return self.is_built or (images.is_unknown(self.image) and not is_default)

    def _may_start_vllm(self) -> bool:
        """Whether a sign shows that an unknown image may start vLLM; without a command that is a problem.

        So may an image with vLLM in its name, if the container asks for an accelerator or has vLLM's variables.
        """
        if images.has_vllm_in_name(self.image) and (self.hardware or shows_vllm((), self.env)):
            if self.has_command or self.words:
                return self.has_command and isinstance(self._find_server(), UnreadableCommand)
            self.problem = NAMED_IMAGE
            return True
        if not self.has_unknown_image() or not self._shows_vllm():
            return False
        if self.has_command or self._runs_words():
            return isinstance(self._find_server(), UnreadableCommand)
        self.problem = f"{UNKNOWN_IMAGE}; {self.remedy}"
        return True

    def _shows_vllm(self) -> bool:
        """Whether anything but the image shows vLLM: a name, a word, a variable, or a model on an accelerator."""
        if self.is_named_vllm:
            return True
        words = self.expanded_words()
        return shows_vllm(words, self.env) or (bool(self.hardware and words) and names_hub_model(words[0]))

    def starts_other_program(self) -> bool:
        """Whether the words are a command, whatever the image is, and start a program other than vLLM."""
        return self.has_command and bool(self.words) and self._find_server() is None

    def runs_other_program_in_vllms_image(self) -> bool:
        """Whether the image is known to start vLLM, and the command that replaces its entry point does not."""
        return self._has_servers_image() and self.starts_other_program()

    def _has_servers_image(self) -> bool:
        """Whether the image starts vLLM, directly or through KServe's Hugging Face server."""
        return images.starts_vllm(self.image, self.table) or images.is_kserve_server(self.image, self.table)

    def _find_server(self, *, doubts_programs: bool = False) -> ServerCommand | UnreadableCommand | None:
        """Parse the words as a command, and store the server that they start."""
        found = launcher.find_server(
            self.words,
            self.env,
            is_command=self.has_command,
            has_hidden_variables=self.has_hidden_variables,
            doubts_programs=doubts_programs,
            has_vllms_image=self.has_vllms_image(),
            folder=self.start_folder(),
            volumes=self.volumes,
        )
        self.server = found if isinstance(found, ServerCommand) else None
        return found

    def _runs_words(self) -> bool:
        """Whether the words begin with a program and the image's entry point may run them as a command."""
        if not self.words or images.serves_its_arguments(self.image, self.table):
            return False
        program = self.expanded_words()[0]
        return is_program(program) and ("/" not in program or "/bin/" in program)

    def _add_entry_point(self) -> None:
        """Prepend the image's entry point to its arguments.

        If the entry point is `vllm serve`, even words that start vLLM are arguments, which it then rejects. Another
        entry point may run them.
        """
        words = images.entry_point(self.image, self.table)
        if self.words and self.expanded_words()[0].startswith("-") and words == VLLM_SERVE:
            return  # flags alone are those of vLLM's server
        if self.words and not images.serves_its_arguments(self.image, self.table) and self._find_server() is not None:
            return
        self.words[:0] = words
        self.places[:0] = [ENTRY_POINT_PLACE] * len(words)

    def expanded_words(self, assumed: MutableMapping[str, str | None] | None = None) -> list[str]:
        """The words as Kubernetes expands them; as written if their values exceed the limits.

        Variables have the ``assumed`` values, if there are any for them.

        Raises:
            ExpansionExhausted: the scripts of the request expand to too much text.
        """
        budget = expansion.ExpansionBudget()
        env = ChainMap(assumed, self.env) if assumed else self.env
        try:
            return [
                expand_references(word, env, budget, has_hidden_variables=self.has_hidden_variables)
                for word in self.words
            ]
        except expansion.ExpansionExhausted:
            raise
        except expansion.ShellSyntaxError:
            return self.words

    def finish(self, installed: Sequence[Installation] = ()) -> None:
        """Add the engine to the manifest's engines, with the last certain version of vLLM.

        ``installed`` has earlier installations of vLLM, in order.
        """
        if not self.is_within_limits():
            return
        self._doubt_several_words()
        is_replaced = self.replacing_source and self.env.get(RUNNER_VARIABLE) is not None
        if is_replaced and RUNNER_VARIABLE not in ({} if self.server is None else self.server.env):
            self.doubt(REPLACED_VARIABLE.format(self.replacing_source))
        if self.commands_beside or self.last_commands:
            installed = [*installed, *self._read_beside()]
        if not self.places or self.places[0] == ENTRY_POINT_PLACE or self.places[0].startswith("args"):
            self.doubts += filter(None, [startup_doubt("bash", NO_OPTIONS, self.env)])  # an entry point may be a script
        found = images.version_of(self.image, self.table)
        version, version_cause, row, doubt = found.version, "", found.row, found.doubt
        if self._add_image_variables(found) and self.server is not None:
            self._find_server()  # as they may change what its command installs
        own = None if self.server is None else launcher.installation_of(self.server, self.env)
        likely = None
        for other in installed if own is None else (*installed, own):
            likely = other.likely or likely
            if other.version is not None:
                version, version_cause, row, doubt = other.version, other.cause, "", ""
        is_labelled = version is None and self.label_version is not None
        if is_labelled:
            version, version_cause = self.label_version, LABEL_CAUSE
        folder, image_folder = self.working_folders()
        mounted = self.mounts.other_vllm(
            self.server, self.folder, self.env, "" if image_folder == ANY_FOLDER else image_folder
        ) or self.mounts.vllm_of_variables(self.server, self.env, self.words)
        replaced = self.mounts.mount_over(path for path, name in self.models.items() if name != path)
        if replaced is not None:
            mount, path = replaced
            self.doubts.append(MOUNT_OVER_MODEL.format(quoted(mount), quoted(self.models[path]), quoted(path)))
        if self.file_mounts or self.files:
            env = {**self.env, **({} if self.server is None else self.server.env)}
            self.doubts += filter(None, [cache_doubt(self.file_mounts, self.files, env, (folder, image_folder))])
        is_hidden = False  # until the next flag after a secret's flag, because a shell may have split the secret
        has_template = TEMPLATE in " ".join(self.words)  # most have none, and each word would take two calls
        for place, word in zip(self.places, self.words, strict=True) if has_template else ():
            if TEMPLATE in word:
                shown = "the value" if is_hidden else quoted(word)
                self.note(f"{place}: {shown} is a template; only the rendered output shows its value")
            is_hidden = hides_next(word, is_hidden=is_hidden)
        for name, value in self.env.items():
            if value is not None and TEMPLATE in value:
                self.note(f"env.{name[:MAX_QUOTED]}: the value is a template; only the rendered output shows it")
        if self.server is not None:
            self.doubts += [doubt for doubt in self.server.folder_doubts if doubt not in self.server.doubts]
            mounted = mounted or self.server.folder_installation
        env = {name: None if value and TEMPLATE in value else value for name, value in self.env.items()}
        container = Container(
            path=self.node.path,
            words=[Unknown(word) if TEMPLATE in word else word for word in self.words],
            places=self.places,
            env=env,
            image_env=self.image_env,
            image=self.image,
            platform=self.platform,
            hardware=tuple(dict.fromkeys(self.hardware[:MAX_SIGNS])),
            gpus=self.gpus,
            vllm_version=version,
            version_cause=version_cause,
            version_row="" if version is None else row,
            version_is_presumed=is_labelled or (found.is_presumed and not version_cause),
            likely_version=likely,
            unversioned=found.unversioned or self.unversioned,
            installation=installed[-1] if installed else mounted or (Installation(None, doubt) if doubt else None),
            has_hidden_variables=self.has_hidden_variables,
            models=self.models,
            files=self.files,
            notes=list(self.notes),
            doubts=self.doubts,
            problem=self.problem,
            secrets=frozenset[str]().union(self.secrets, self.env.secrets.difference(env.values())),
            mounts=self.mounts.model_mounts(folder),
            file_mount=self.mounts.file_mount(folder),
            folder=folder,
            image_folder=self._mounts_around(image_folder),
        )
        self.node.reader.add(container, self.node)
        if self.ray_variables is not None and self._may_run_on_ray():
            self.node.reader.ray.engines.append((container, self.ray_variables))

    def _may_run_on_ray(self) -> bool:
        if self.server is not None:
            words = self.server.words
        else:  # expanding many references takes longer than all else, and without values it adds no text
            words = self.expanded_words() if any(self.env.values()) else self.words
        return may_run_on_ray((*words, *self.files.values()))

    def _doubt_several_words(self) -> None:
        """Add a doubt for each variable that a script may use and that counts as one word there, but may be several."""
        names = [name for name in self.several_words if self.env.get(name, "") is None]
        texts = [*self.words, *self.files.values(), *filter(None, self.env.values())] if names else []
        for name in names:
            if any(name in text.replace(f"$({name})", "") for text in texts):
                self.doubt(SEVERAL_WORDS.format(name))

    def _read_beside(self) -> list[Installation]:
        """Return the installations of vLLM by hooks and probes, and add a doubt for all else that they may change."""
        server = self.server
        if server is None:  # the image's entry point starts it
            words = self.words if self.words and not self.words[0].startswith("-") else [*VLLM_SERVE, *self.words]
            found = launcher.find_server(words, self.env, is_command=True)
            server = found if isinstance(found, ServerCommand) else None
        folder, start, volumes = self.folder, self.start_folder(), self.volumes
        effects = effects_beside(self.commands_beside, self.env, server, folder, start, volumes)
        self.doubts += effects.doubts
        if self.last_commands and server is not None:
            later = doubts_after(self.last_commands, self.env, server, folder, start, volumes)
            self.doubts += [doubt for doubt in later if doubt not in (*self.doubts, *server.doubts)]
        return effects.installations

    def folder_after(self, folders: Iterable[str]) -> str:
        """The working folder after a command changes to ``folders`` from the container's; see ``working_folder``."""
        return working_folder(self.folder, folders, self.mounts, () if self.server is None else self.server.words)

    def start_folder(self) -> str:
        """The absolute folder in which the container starts, by the manifest or its image; empty if it is not known."""
        return start_folder(self.folder, images.working_folder(self.image, self.table))

    def working_folders(self) -> tuple[str, str]:
        """The server's working folder as stated, and the one that it has if its container starts in the image's folder.

        The second is empty if it is not known or equals the first, or if nothing is mounted.
        """
        folders = () if self.server is None else self.server.folders
        if not self.mounts:
            return self.folder_after(folders), ""
        words = () if self.server is None else self.server.words
        folder, start = self.folder_after(folders), self.start_folder()
        from_image = working_folder(start, folders, self.mounts, words) if start and not isabs(self.folder) else ""
        return folder, "" if from_image == folder else from_image

    def _mounts_around(self, folder: str) -> FolderMounts | None:
        """The mounts that may have a model in a working folder; None if none may."""
        mounts, file_mount = (
            (self.mounts.model_mounts_near(folder), self.mounts.file_mount(folder)) if folder else ((), "")
        )
        return FolderMounts(folder, mounts, file_mount) if mounts or file_mount else None

    def _add_image_variables(self, found: ImageVersion) -> bool:
        """Set the variables that the image sets, unless the manifest sets them; returns whether there are any."""
        for name, value in found.env.items():
            self.image_env[name] = ImageVariable(value, found.row, is_used=name not in self.env)
            if name not in self.env:
                self.env[name] = value
                self.note(f"the image {quoted(self.image)} sets `{name}={value}` (`{found.row}`)")
        return bool(found.env)

    def is_within_limits(self) -> bool:
        """Whether the command is within the limits on words and characters; a longer one is a fault."""
        if len(self.words) <= expansion.MAX_WORDS and sum(map(len, self.words)) <= expansion.MAX_TEXT:
            return True
        self.node.fault(LONG_COMMAND)
        return False

    def names_vllm(self) -> bool:
        """Whether the image, the words or the variables name vLLM or KServe's server, also with quotes in the name."""
        texts = [*self.words, *filter(None, self.env.values())]
        return self.has_vllms_image() or server_names(texts)[0] or any(KSERVE_SERVER[-1] in text for text in texts)


def _as_final(word: str) -> str:
    """A word that Kubernetes' expansion turns into this one."""
    text = word.replace("$", "$$")
    return Unknown(text) if type(word) is Unknown else text


def hides_next(word: str, *, is_hidden: bool) -> bool:
    """Whether the word after this one may be a secret; ``is_hidden``: whether this one may be."""
    return is_secret(word) or (is_hidden and (word == "--" or not word.startswith("-")))
