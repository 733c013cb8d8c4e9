"""vLLM's side: run by the Python of a release's own environment, on a stand-in for an H100 or on the CPU platform.

Owns the models that deployments use (every configuration class of Transformers and of the release, with the
architectures of the release's registry), and the release's result for a deployment: the facts of its configuration,
the runner, or its refusal. It imports nothing from this project and needs no accelerator: queries of the device return
the values of an H100.

    python inside.py models FOLDER                           writes models.json and classes.pickle
    python inside.py ask PLATFORM FOLDER IN OUT PART PARTS   evaluates the lines of IN that belong to PART
    python inside.py flags OUT                               writes the flags of the release's own parser
    python inside.py commands IN OUT                         writes what the parser says of each command in IN
"""

import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import logging
import os
import pickle
import re
import shlex
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from unittest.mock import MagicMock

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)

EXTENSIONS = frozenset(
    [
        "vllm." + name
        for name in ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch", "_qutlass_C", "cumem_allocator")
    ]
    + ["vllm.vllm_flash_attn._vllm_fa2_C", "vllm.vllm_flash_attn._vllm_fa3_C"]
)
"""Modules compiled for CUDA, which are not available here; no configuration depends on their content."""
STUBBED_PACKAGES = ("lmcache", "humming", "arctic_inference")
"""Packages that images contain and pip environments do not; vLLM only checks whether they are installed."""
PARSERS = (
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.common.cli_args",
)
"""The modules that define the flags of `vllm serve`: up to 0.28, up to 0.32, from 0.33 on."""
ARGUMENT_CHECKS = {
    "validate_parsed_serve_args": PARSERS,
    "validate_api_server_args": (
        PARSERS[2],
        "vllm.entrypoints.launchers.launcher",
        "vllm.entrypoints.openai.api_server",
    ),
}
"""The functions that check parsed arguments, and the modules that have them, by release."""
PLATFORM_SPECIFIC = "vllm.models."
"""Modules whose classes depend on the platform, so that the CPU's differ from an H100's."""
OLD_NAMES = {"rope_parameters": "rope_scaling"}
"""The former names that options of a configuration are still written with."""
TIME_LIMIT = 60
"""The seconds of processor time for a deployment."""
IMPORTS = (
    "vllm.",
    "transformers.",
    "ray",
    "sympy",
    "torch._inductor",
    "torch._dynamo",
    "torch.fx",
    "numba",
    "compressed_tensors",
)


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports stand-ins for modules that are not installed."""

    def find_spec(self, name, path, target=None):
        if name in EXTENSIONS or name.split(".")[0] in STUBBED_PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=name.startswith(STUBBED_PACKAGES))
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__.startswith(STUBBED_PACKAGES):
            module.__getattr__ = _mock


def _mock(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


def stand_in(platform):
    """Replace vLLM's platform by ``platform``.

    For CUDA this is eight H100s of 80 GB, with the compiled extensions reported as present.
    """
    import torch
    from vllm import platforms

    if platform == "cpu":
        from vllm.platforms.cpu import CpuPlatform

        platforms._current_platform = CpuPlatform()
        return
    sys.meta_path.insert(0, StandIn())
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    hopper = DeviceCapability(9, 0)

    class H100(cuda.NonNvmlCudaPlatform):
        get_device_capability = classmethod(lambda cls, device_id=0: hopper)
        has_device_capability = classmethod(
            lambda cls, capability, device_id=0: (
                hopper >= capability if isinstance(capability, tuple) else hopper.to_int() >= capability
            )
        )
        is_device_capability = classmethod(
            lambda cls, capability, device_id=0: (
                hopper == tuple(capability) if isinstance(capability, tuple) else hopper.to_int() == capability
            )
        )
        is_device_capability_family = classmethod(lambda cls, capability, device_id=0: capability // 10 == 9)
        get_device_name = classmethod(lambda cls, device_id=0: "NVIDIA H100 80GB HBM3")
        get_device_total_memory = classmethod(lambda cls, device_id=0: 80 << 30)
        device_count = classmethod(lambda cls: 8)
        is_fully_connected = classmethod(lambda cls, device_ids: True)
        num_compute_units = classmethod(lambda cls, device_id=0: 132)
        log_warnings = classmethod(lambda cls: None)
        support_deep_gemm = classmethod(lambda cls: True)
        is_cumem_allocator_available = is_sleep_mode_available = classmethod(lambda cls: True)

    platforms._current_platform = H100()
    torch.cuda.device_count = torch.accelerator.device_count = lambda: 8
    _report_kernels_as_supported()


def _report_kernels_as_supported():
    from torch._ops import _OpNamespace

    original = _OpNamespace.__getattr__

    def answer(self, name):
        try:
            return original(self, name)
        except AttributeError:
            if self.name.startswith(("_C", "_moe_C")) and "supports" in name:
                return lambda *_, **__: True
            raise

    _OpNamespace.__getattr__ = answer


def models(folder):
    """Write the release's data about its classes, and the configurations that deployments are drawn from."""
    stand_in("cpu")
    from vllm.model_executor.models import registry

    classes = {}
    for architecture, model in registry.ModelRegistry.models.items():
        with contextlib.suppress(Exception):
            cls = model.load_model_cls()
            if not cls.__module__.startswith(PLATFORM_SPECIFIC):
                classes[architecture] = registry._ModelInfo.from_model_cls(cls)
    (folder / "classes.pickle").write_bytes(pickle.dumps(classes))
    pool = dict(_transformers_models(set(classes))) | dict(_own_models(set(classes)))
    (folder / "models.json").write_text(json.dumps(pool))
    print(
        f"{len(pool)} configurations of {len({name.split('.')[1] for name in pool})} architectures, of {len(classes)} "
        "that are registered"
    )


def _transformers_models(architectures):
    from transformers.models.auto import configuration_auto, modeling_auto

    mappings = [getattr(modeling_auto, name) for name in dir(modeling_auto) if name.endswith("_MAPPING_NAMES")]
    for model_type in configuration_auto.CONFIG_MAPPING_NAMES:
        names = {
            name for mapping in mappings for name in _as_sequence(mapping.get(model_type)) if name in architectures
        }
        if names:
            with contextlib.suppress(Exception):
                yield from _configurations(model_type, configuration_auto.CONFIG_MAPPING[model_type], names)


def _as_sequence(names):
    return (names,) if isinstance(names, str) else names or ()


def _own_models(architectures):
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    for model_type in _CONFIG_REGISTRY:
        with contextlib.suppress(Exception):
            cls = _CONFIG_REGISTRY[model_type]
            stems = _letters(model_type), _letters(cls.__name__.removesuffix("Config"))
            yield from _configurations(
                model_type, cls, {name for name in architectures if _letters(name).startswith(stems)}
            )


def _letters(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _configurations(model_type, cls, architectures):
    for method in ("to_dict", "to_diff_dict"):
        written = json.loads(json.dumps(getattr(cls(), method)(), default=str))
        for name in ("transformers_version", "_name_or_path", "_attn_implementation_autoset"):
            written.pop(name, None)
        for architecture in sorted(architectures):
            yield (
                f"{model_type}.{architecture}.{method}",
                {"model_type": model_type, **written, "architectures": [architecture]},
            )


class ReleaseEvaluator:
    """Evaluates deployments with a release, one after another."""

    def __init__(self, platform, folder):
        stand_in(platform)
        import vllm.config.vllm
        from vllm.engine import arg_utils
        from vllm.model_executor.models import registry

        self.platform, self.config, self.arguments = platform, vllm.config.vllm, arg_utils
        self.facts = json.loads((folder / "facts.json").read_text())
        self.made = []
        classes = pickle.loads((folder / "classes.pickle").read_bytes())
        inspect = registry._LazyRegisteredModel.inspect_model_cls
        known = {id(model): classes[name] for name, model in registry.ModelRegistry.models.items() if name in classes}
        registry._LazyRegisteredModel.inspect_model_cls = lambda model: known.get(id(model)) or inspect(model)
        post_init = self.config.VllmConfig.__post_init__

        def record_config(config, *args, **keywords):
            self.made.append(config)
            return post_init(config, *args, **keywords)

        self.config.VllmConfig.__post_init__ = record_config

    def answer(self, line):
        """Evaluate a line's deployment with the release's own code.

        Returns its facts and runner, or the stage at which it stopped and the message.
        """
        deployment = line["request"]["deployment"]
        stage, result = "arguments", {"id": line["id"]}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self._write_files(deployment)
            try:
                arguments = self._parse(deployment["args"])
                stage = "configuration"
                config = self.arguments.AsyncEngineArgs.from_cli_args(arguments).create_engine_config(_context())
                result |= {"starts": True, "facts": self._facts_of(config), "runner": _runner(config)}
                if hasattr(config, "_get_v2_model_runner_unsupported_features"):
                    result["unsupported_features"] = config._get_v2_model_runner_unsupported_features()
            except (Exception, SystemExit) as error:  # noqa: BLE001  any error is a result
                stage = "runner" if self.made else stage
                result |= {
                    "starts": False,
                    "stage": stage,
                    "error": f"{type(error).__name__}: {error}"[:600],
                    "trace": traceback.format_exc()[-1500:],
                }
            os.chdir("/")
        return result

    def _write_files(self, deployment):
        files = {f"{name}/config.json": json.dumps(config) for name, config in deployment["model_configs"].items()}
        for name, text in {**files, **deployment.get("files", {})}.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        os.environ |= deployment["env"]
        environment = deployment["environment"]
        if environment["has_triton"] and self.platform != "cpu":
            for name, module in list(sys.modules.items()):
                if name.startswith("vllm.config") and hasattr(module, "HAS_TRITON"):
                    module.HAS_TRITON = True
        _install_plugins(environment["plugins"]["logits_processors"])

    def _parse(self, args):
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        words = shlex.split(args) if isinstance(args, str) else list(args)
        words = words[words.index("serve") + 1 :] if "serve" in words[:2] else words
        sys.argv = ["vllm", "serve", *words]
        with contextlib.redirect_stderr(io.StringIO()):
            parsed = _first(PARSERS).make_arg_parser(FlexibleArgumentParser(prog="vllm serve")).parse_args(words)
        parsed.model = getattr(parsed, "model_tag", None) or parsed.model
        for check in _argument_checks():
            check(parsed)
        return parsed

    def _facts_of(self, config):
        return {
            name: _value(name, kind, config)
            for name, kind in self.facts.items()
            if not name.startswith(("env.", "platform.", "plugins."))
        }


def _first(names):
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ModuleNotFoundError(f"none of {names}")


def _argument_checks():
    """What the server checks of its arguments before it makes a configuration."""
    for name, modules in ARGUMENT_CHECKS.items():
        for module in modules:
            with contextlib.suppress(ImportError):
                if (check := getattr(importlib.import_module(module), name, None)) is not None:
                    yield check
                    break


def _context():
    from vllm.usage.usage_lib import UsageContext

    return UsageContext.OPENAI_API_SERVER


def _runner(config):
    import vllm.envs

    runs_on_v2 = getattr(config, "use_v2_model_runner", None)
    return "v2" if (vllm.envs.VLLM_USE_V2_MODEL_RUNNER if runs_on_v2 is None else runs_on_v2) else "v1"


def _install_plugins(plugins):
    from importlib import metadata

    found = metadata.entry_points
    installed = [
        metadata.EntryPoint(name=name, value="module:Class", group="vllm.logits_processors") for name in plugins
    ]

    def entry_points(**query):
        return installed if query.get("group") == "vllm.logits_processors" else found(**query)

    metadata.entry_points = entry_points
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm") and getattr(module, "entry_points", None) is found:
            module.entry_points = entry_points


def _value(name, kind, config):
    value = config
    for step in name.split("."):
        value = _item(value, step) if isinstance(value, dict) else getattr(value, step, None)
    if callable(value):
        value = value()
    if kind == "PRESENCE":
        return value is not None
    if isinstance(value, enum.Enum):
        value = value.name if name.startswith("compilation_config") else value.value
    return json.loads(json.dumps(list(value) if isinstance(value, set | tuple) else value, default=repr))


def _item(options, name):
    """An option of a dictionary, which may be written with its former name."""
    return options.get(name, options.get(OLD_NAMES.get(name)))


def ask(platform, folder, source, target, part, parts):
    """Evaluate the lines of ``source`` that belong to ``part``, each in a child process.

    Modules that a child imported are then imported here, so that the next child has them.
    """
    release = ReleaseEvaluator(platform, folder)
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    with target.open("w") as out:
        for line in lines[part::parts]:
            result = _in_child_process(release, line)
            for name in result.pop("modules", ()):
                if name not in sys.modules:
                    with contextlib.suppress(Exception):
                        importlib.import_module(name)
            out.write(json.dumps(result) + "\n")
            out.flush()


def _in_child_process(release, line):
    before = set(sys.modules)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reader)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
        signal.alarm(3 * TIME_LIMIT)
        result = release.answer(line)
        result["modules"] = [name for name in sys.modules if name.startswith(IMPORTS) and name not in before]
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    return json.loads(output) if output else {"id": line["id"], "starts": False, "stage": "died", "error": "no answer"}


def flags(target):
    """Write the flags of `vllm serve`: for each attribute its spellings, choices, and how many words it takes.

    `nargs` is argparse's, or 0 for a flag without a value.
    """
    stand_in("cpu")
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def sets(word, dest):
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            return vars(parser.parse_args(["model", word]))[dest] is False
        return False

    subparsers = FlexibleArgumentParser(prog="vllm").add_subparsers()
    parser = ServeSubcommand().subparser_init(subparsers)
    found = {}
    for action in parser._actions:
        if not action.option_strings or action.dest == "help":
            continue
        row = found.setdefault(action.dest, {"flags": [], "nargs": action.nargs, "choices": None})
        row["flags"] += action.option_strings
        if action.nargs == 0:  # from 0.33 on the parser rewrites `--no-enable-x`, which no action has
            words = {f"--no-{word[2:]}" for word in action.option_strings if word.startswith("--")}
            row["flags"] += [word for word in sorted(words.difference(row["flags"])) if sets(word, action.dest)]
        if action.choices is not None:
            row["choices"] = [str(choice) for choice in action.choices]
    target.write_text(json.dumps(found))


def commands(source, target):
    """Write what the release's own parser says of each command line: null, or what it refuses.

    `unknown` has the flags that the release does not have, `invalid` a flag with a value that it does not take; `other`
    is anything else, such as an ambiguous abbreviation.
    """
    stand_in("cpu")
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    main = FlexibleArgumentParser(prog="vllm")
    ServeSubcommand().subparser_init(main.add_subparsers(required=True, dest="subparser"))
    module = _first(PARSERS).make_arg_parser(FlexibleArgumentParser(prog="api_server"))
    found = []
    for text in json.loads(source.read_text()):
        words = shlex.split(text)
        parser, words = (main, words[1:]) if words[0] == "vllm" else (module, words[3:])
        sys.argv = ["vllm", *words]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parsed = parser.parse_args(words)
            found.append(_speculative_refusal(parsed.speculative_config))
        except (Exception, SystemExit) as error:  # noqa: BLE001  any error is a result
            refused = said.getvalue() if isinstance(error, SystemExit) else f"error: {type(error).__name__}: {error}"
            found.append(_refusal(refused.partition("error: ")[2]))
    target.write_text(json.dumps(found))


def _speculative_refusal(given):
    """What the configuration's class refuses of a JSON that the parser only reads: a field's name or its type."""
    from pydantic import ValidationError
    from vllm.config import SpeculativeConfig

    try:
        SpeculativeConfig(**(given or {}))
    except ValidationError as error:
        if any(each["type"] != "value_error" for each in error.errors()):
            return {"invalid": "--speculative-config"}
    except Exception:  # noqa: BLE001  what needs the target's model is not asked
        return None
    return None


def _refusal(text):
    if text.startswith("unrecognized arguments:"):
        words = text.partition("\n")[0].split()
        return {"unknown": sorted({word.partition("=")[0] for word in words if word.startswith("-")} or {"words"})}
    if text.startswith("argument "):
        return {"invalid": text.removeprefix("argument ").partition(":")[0].split("/")[0]}
    return {"other": text.partition("\n")[0][:80]}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["models", folder]:
            models(Path(folder))
        case ["ask", platform, folder, source, target, part, parts]:
            ask(platform, Path(folder), Path(source), Path(target), int(part), int(parts))
        case ["commands", source, target]:
            commands(Path(source), Path(target))
        case ["flags", target]:
            flags(Path(target))
        case _:
            sys.exit(__doc__)
