"""The flags of small sources like those before 0.9, which state most of a flag's values themselves."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from policy.vllm.tablegen.arguments import arguments
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = """
    from vllm.config import DeviceKind, ParallelConfig
    METHODS = {"awq": AWQConfig, "fp8": Fp8Config}
    class EngineArgs:
        @staticmethod
        def add_cli_args(parser):
            parser.add_argument("--model", type=str)
            parser.add_argument("--tokenizer", type=nullable_str)
            parser.add_argument("--block-size", type=int, choices=[8, 16, 128])
            parser.add_argument("--quantization", "-q", type=nullable_str, choices=[*METHODS, None])
            parser.add_argument("--device", choices=[kind.value for kind in DeviceKind])
            parser.add_argument("--chunked", action=StoreBoolean, nargs="?", const="True")
            parser.add_argument("--logprobs", type=bool)
            parser.add_argument("--max-model-len", type=human_readable_int)
            parser.add_argument("--limit-mm-per-prompt", type=nullable_kvs)
            parser.add_argument("--neuron", type=lambda text: {key: value for key, value in pairs(text)})
            parser.add_argument("--compilation-config", "-O", type=CompilationConfig.from_cli)
            parser.add_argument("--kv-transfer-config", type=KVTransferConfig.from_cli)
            parser.add_argument("--override-pooler-config", type=PoolerConfig.from_json)
            return parser
        @staticmethod
        def add_cli_args_for_vlm(parser):
            parser.add_argument("--image-token-id", type=int)
            return parser
    class AsyncEngineArgs(EngineArgs):
        @staticmethod
        def add_cli_args(parser):
            parser = EngineArgs.add_cli_args(parser)
            parser.add_argument("--engine-use-ray", action="store_true")
            return parser
    """
CONFIG = """
    import enum
    class DeviceKind(str, enum.Enum):
        CUDA = "cuda"
        CPU = "cpu"
        def shown(self): ...
    """
FLAGS = {
    "model": {"flags": ["--model"], "kind": "text"},
    "tokenizer": {"flags": ["--tokenizer"], "kind": "text", "optional": True},
    "block_size": {"flags": ["--block-size"], "kind": "int", "choices": [8, 16, 128]},
    "quantization": {
        "flags": ["--quantization", "-q"],
        "kind": "text",
        "choices": ["awq", "fp8", None],
        "optional": True,
    },
    "device": {"flags": ["--device"], "kind": "text", "choices": ["cpu", "cuda"]},
    "chunked": {"flags": ["--chunked"], "kind": "boolean", "nargs": "?"},
    "logprobs": {"flags": ["--logprobs"], "kind": "text"},
    "max_model_len": {"flags": ["--max-model-len"], "kind": "human"},
    "limit_mm_per_prompt": {"flags": ["--limit-mm-per-prompt"], "kind": "pairs"},
    "neuron": {"flags": ["--neuron"], "kind": "text"},
    "compilation_config": {"flags": ["--compilation-config", "-O"], "kind": "text"},
    "kv_transfer_config": {"flags": ["--kv-transfer-config"], "kind": "object"},
    "override_pooler_config": {"flags": ["--override-pooler-config"], "kind": "object"},
    "image_token_id": {"flags": ["--image-token-id"], "kind": "int"},
    "engine_use_ray": {"flags": ["--engine-use-ray"], "kind": "bool"},
    "port": {"flags": ["--port"], "kind": "int"},
}
CLI_ARGS = 'def make_arg_parser(parser):\n    parser.add_argument("--port", type=int)\n'
SCRIPTS = """
    def main():
        parser = FlexibleArgumentParser()
        parser.add_argument("-v", "--version", action="version")
        serve_parser = subparsers.add_parser("serve")
        serve_parser.add_argument("model_tag", type=str)
        serve_parser.add_argument("--config", type=str)
        serve_parser = make_arg_parser(serve_parser)
        chat_parser = subparsers.add_parser("chat")
        chat_parser.add_argument("--system-prompt", type=str)
    """
SERVE = """
    class ServeSubcommand:
        def subparser_init(self, subparsers):
            serve_parser.add_argument("--config", type=str)
    """
CONFIG_FLAG = {"config": {"flags": ["--config"], "kind": "text"}}


def written(folder: Path, sources: dict[str, str]) -> World:
    for path, text in {"engine/arg_utils.py": ENGINE, "config.py": CONFIG, **sources}.items():
        (folder / "vllm" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vllm" / path).write_text(dedent(text), encoding="utf-8")
    return World(SourceReader(FolderSource(folder)))


@pytest.mark.parametrize(
    ("sources", "more"),
    [
        ({"entrypoints/openai/api_server.py": CLI_ARGS.replace("make_arg_parser(parser)", "parse_args()")}, {}),
        ({"entrypoints/openai/cli_args.py": CLI_ARGS, "entrypoints/openai/api_server.py": "def parse_args(): ..."}, {}),
        ({"entrypoints/openai/cli_args.py": CLI_ARGS, "scripts.py": SCRIPTS}, CONFIG_FLAG),
        (
            {"entrypoints/openai/cli_args.py": CLI_ARGS, "scripts.py": "", "entrypoints/cli/serve.py": SERVE},
            CONFIG_FLAG,
        ),
    ],
)
def test_flags_are_read_from_the_server_the_engine_and_the_command(
    tmp_path: Path, sources: dict[str, str], more: dict[str, object]
) -> None:
    assert arguments(written(tmp_path, sources)) == {**FLAGS, **more}


def test_a_function_inside_another_uses_only_the_type_of_a_field(tmp_path: Path) -> None:
    engine = """
        from vllm.config import ParallelConfig
        class EngineArgs:
            def add_cli_args(parser):
                def get_kwargs(cls): ...
                given = get_kwargs(ParallelConfig)
                parser.add_argument("--size", **given["size"])
                parser.add_argument("--workers", **given["workers"])
                parser.add_argument("--backend", choices=["ray", "mp"], **given["backend"])
                parser.add_argument("--expert", action="store_true", **given["expert"])
                parser.add_argument("--pair", action=argparse.BooleanOptionalAction, **given["expert"])
        """
    config = """
        from typing import Optional, Union
        class ParallelConfig:
            size: int = 1
            workers: Optional[int] = None
            backend: Union[str, Type[Executor]] = "mp"
            expert: bool = False
        """
    sources = {"engine/arg_utils.py": engine, "config.py": config, "entrypoints/openai/cli_args.py": CLI_ARGS}
    assert arguments(written(tmp_path, sources)) == {
        "port": FLAGS["port"],
        "size": {"flags": ["--size"], "kind": "int"},
        "workers": {"flags": ["--workers"], "kind": "text", "optional": True},
        "backend": {"flags": ["--backend"], "kind": "text", "choices": ["mp", "ray"]},
        "expert": {"flags": ["--expert"], "kind": "bool"},
        "pair": {"flags": ["--pair"], "kind": "bool", "off": ["--no-pair"]},
    }


def test_all_alternatives_of_several_literals_are_legal(tmp_path: Path) -> None:
    engine = """
        from vllm.config import DecodingConfig
        def get_kwargs(cls): ...
        class EngineArgs:
            def add_cli_args(parser):
                given = get_kwargs(DecodingConfig)
                parser.add_argument("--backend", **given["backend"])
        """
    config = """
        from typing import Literal, Union
        Old = Literal["auto", "outlines"]
        New = Literal["auto", "guidance"]
        class DecodingConfig:
            backend: Union[Old, New] = "auto"
        """
    sources = {"engine/arg_utils.py": engine, "config.py": config, "entrypoints/openai/cli_args.py": CLI_ARGS}
    assert arguments(written(tmp_path, sources))["backend"] == {
        "flags": ["--backend"],
        "kind": "text",
        "choices": ["auto", "guidance", "outlines"],
    }
