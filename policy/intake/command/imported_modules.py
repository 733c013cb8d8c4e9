"""Which paths in a folder Python may import in place of a module that vLLM uses, if it searches the folder first.

A file counts by its name's end, and a folder by the module that it is named like: folders of data are often mounted.
Read at the requirements of vLLM 0.23 to 0.33 and of Dynamo; other packages are not known.
"""

from __future__ import annotations

import re
import sys
from typing import Final

MODULE_FILE: Final = re.compile(r"[^/]++(?<=\.py|\.so|pyc)|[^/]++/__init__\.[^/]++")
"""Matches the path of a module's file in a folder."""
PACKAGES: Final = frozenset(
    {
        *("vllm", "vllm_omni", "vllm_flash_attn", "dynamo", "huggingfaceserver", "kserve", "lmcache", "nixl", "ray"),
        *("torch", "torchaudio", "torchvision", "torchgen", "functorch", "torch_xla", "tpu_inference", "triton"),
        *("numpy", "scipy", "numba", "llvmlite", "sympy", "mpmath", "networkx", "einops", "ml_dtypes", "pandas"),
        *("transformers", "huggingface_hub", "tokenizers", "safetensors", "sentencepiece", "tiktoken", "hf_xet"),
        *("accelerate", "peft", "datasets", "fsspec", "gguf", "mistral_common", "compressed_tensors", "bitsandbytes"),
        *("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "websockets", "anyio", "sniffio", "h11"),
        *("aiohttp", "httpx", "httpcore", "requests", "urllib3", "certifi", "idna", "charset_normalizer", "openai"),
        *("anthropic", "mcp", "grpc", "google", "opentelemetry", "prometheus_client", "zmq", "msgspec", "msgpack"),
        *("pydantic", "pydantic_core", "pydantic_settings", "annotated_types", "typing_extensions", "attr", "attrs"),
        *("jsonschema", "referencing", "jinja2", "markupsafe", "yaml", "click", "typer", "rich", "dotenv"),
        *("regex", "tqdm", "filelock", "packaging", "psutil", "cpuinfo", "cloudpickle", "dill", "blake3", "cachetools"),
        *("xgrammar", "outlines", "outlines_core", "llguidance", "lark", "lmformatenforcer", "partial_json_parser"),
        *("PIL", "cv2", "soundfile", "librosa", "pybase64", "cbor2", "ijson", "diskcache", "depyf", "astor"),
        *("watchfiles", "setproctitle", "setuptools", "pkg_resources", "wheel", "six", "ninja", "pynvml", "cuda"),
        *("amdsmi", "aiter", "flashinfer", "flash_attn", "xformers", "deep_gemm", "deep_ep", "cutlass", "tvm_ffi"),
        *("tvm", "cupy", "quack", "runai_model_streamer", "tensorizer", "fastsafetensors", "boto3", "botocore"),
        *("model_hosting_container_standards", "intel_extension_for_pytorch", "sitecustomize", "usercustomize"),
    }
)
"""The packages that vLLM, Dynamo or one of their dependencies imports."""
MODULES: Final = PACKAGES | sys.stdlib_module_names
MODULE_ENDS: Final = ("py", "so", "pyc")
UNUSED_MODULES: Final = frozenset({"antigravity", "idlelib", "test", "this", "turtle", "turtledemo"})
"""The modules of Python that programs do not import, and whose names others may have."""


def may_be_imported(path: str) -> bool:
    """Whether a file or folder at a relative path may be, or be in, a module that vLLM imports."""
    return path.partition("/")[0] in MODULES or MODULE_FILE.fullmatch(path) is not None


def imports_name(name: str, *, is_folder: bool) -> bool:
    """Whether a file with a name is a module that vLLM imports; with ``is_folder`` also a folder, or a link to one.

    Scripts often write programs of their own (`prepare.py`), so that unlike for mounts only known modules count.
    """
    module, _, rest = name.partition(".")
    if not rest:
        return is_folder and module in PACKAGES
    return rest.endswith(MODULE_ENDS) and module in MODULES and module not in UNUSED_MODULES
