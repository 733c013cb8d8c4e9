"""A secret is in no answer and in no log, wherever it is in the request."""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode, encodebytes
from itertools import islice
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
import yaml
from deployments import TODAY
from representatives import slow_except
from tables import table

from policy.decision.decision import encode
from policy.errors import RequestInvalid
from policy.intake.command.certain_scripts import uncertain_construct
from policy.intake.command.flags import Flags, flags
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.intake.manifests.document_secrets import secrets_of
from policy.intake.model.tables import releases
from policy.intake.result import require_known_values
from policy.masking import LONG_TOKENS, SHORT_TOKENS, masked, masked_message
from policy.parser.yamltree import read_documents
from policy.render import as_text
from policy.render import decision as decision_for_people
from policy.request.manifest import containers_of, request_of, requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest, with_explanation
from policy.secret_values import SecretValues
from policy.stated_secrets import secrets_of_names, secrets_of_text
from service.documents.body import decode
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from policy.policy import Policy

    from .conftest import Server

SECRET: Final = "m4rk3r-0f-s3cr3t"
NUMBER: Final = 48151623420
ONE_IN: Final = 20
"""One in this many requests is sent to every endpoint, and explained."""
RELEASE: Final = "0.33.0"
IMAGE: Final = f"vllm/vllm-openai:v{RELEASE}"
NAME: Final = "Qwen/Qwen3-8B"
QWEN: Final = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
SIGNED_URL: Final = (
    *("X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "X-Goog-Credential"),
    *("Signature", "sig", "token", "access_token"),
)
"""Parameters of signed URLs."""
URL: Final = f"https://user:{SECRET}@example.com/path"
EXTRA: Final = json.dumps(
    {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"s3": {"secret_access_key": SECRET}},
    }
)
JSON_VALUES: Final = [
    json.dumps({"api_key": SECRET}),
    json.dumps({"s3": {"secret_access_key": SECRET}}),
    json.dumps({"headers": {"Authorization": f"Bearer {SECRET}"}}),
    json.dumps({"endpoint": URL}),
    json.dumps([{"token": SECRET}]),
    f"{{'api_key': '{SECRET}'}}",
    f'{{"password": "{SECRET}',
    f'{{"hub": "hf_{SECRET.replace("-", "")}",',
]
"""Settings as JSON; the last ones are invalid JSON."""
OBJECTS: Final = (
    "--kv-transfer-config",
    "--hf-overrides",
    "--override-generation-config",
    "--speculative-config",
    "--compilation-config",
    "-cc",
    "--nonsense",
)


def shortest(table: Flags, name: str) -> str:
    """The shortest abbreviation of a flag that argparse takes."""
    return next(name[:end] for end in range(4, len(name) + 1) if len(table.with_prefix(name[:end])) == 1)


def known_flags() -> Iterator[list[str]]:
    """Every flag that holds secrets in any release, in each way to write it."""
    names = {flag.name: release for release in releases() for flag in flags(release).by_name.values() if flag.secret}
    for name, release in names.items():
        for spelling in {name, "--" + name[2:].replace("-", "_"), shortest(flags(release), name)}:
            yield [spelling, SECRET]
            yield [f"{spelling}={SECRET}"]
            yield [spelling, f"-{SECRET}"]
            yield [spelling, URL]
            yield from ([spelling, text] for text in JSON_VALUES)
            yield [f"{spelling}.token", SECRET]
            yield [f"{spelling}.token={SECRET}"]
            yield [f"{spelling}.token", f"$(NOBODY){SECRET}"]


BLANKS: Final = (" ", "\t", "\n", "\u00a0", "\u2003", "\u2028", "\u200b", "\u2060", "\ufeff")
"""Whitespace, visible or not, that may separate a flag from its value in one word."""
DASHES: Final = tuple("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d")
"""Dashes that an editor may write for `-` or `--`."""
EQUALS: Final = ("\uff1d", "\ufe66", "\u207c", "\u208c", "\uff1a")
"""Characters whose compatibility form is `=` or `:`."""
FULL_WIDTH: Final = "\uff0d\uff0d\uff41\uff50\uff49\uff0d\uff4b\uff45\uff59"
"""`--api-key` in full-width characters."""
SECRET_FLAGS: Final = (
    "api-key",
    "hf-token",
    "otlp-traces-endpoint",
    "additional-config",
    "additional_config",
    "model-loader-extra-config",
)
WORDS: Final[list[list[str]]] = [
    *known_flags(),
    ["--my-token", SECRET],
    ["--my-token", f"-{SECRET}"],
    ["--my_token", SECRET, "--seed", "1"],
    [f"--my-token={SECRET}"],
    [f"--password={SECRET}"],
    ["--apikey", SECRET],
    [f"--api={SECRET}"],
    *(
        [f"{flag}{blank}{SECRET}"]
        for flag in ("--api-key", "--my-token", "--api-key.x", "--nonsense.token")
        for blank in BLANKS
    ),
    ["--aws-secret-access-key", SECRET],
    *(
        [f"{dashes}{name}", SECRET]
        for name in (*SECRET_FLAGS, "my-token", "password")
        for dashes in ("", "-", *DASHES, "\u2013\u2013")
    ),
    *([f"{dashes}{name}={SECRET}"] for name in SECRET_FLAGS for dashes in ("", "\u2013", "\u2014")),
    *(
        [f"--{name}", "--", *before, SECRET]
        for name in (*SECRET_FLAGS, "my-token")
        for before in ([], ["a"])
        if name != "hf-token"  # its value is optional, so a model follows
    ),
    *([f"--{name}{sign}{SECRET}"] for name in SECRET_FLAGS for sign in EQUALS),
    *([f"{FULL_WIDTH}={SECRET}"], [FULL_WIDTH, SECRET]),
    *([f"--{name}.{SECRET}", "1"] for name in SECRET_FLAGS),
    *([f"--{name}.a.{SECRET}=1"] for name in SECRET_FLAGS),
    ["--header", f"Authorization: Bearer {SECRET}"],
    [f"--header=Authorization: Bearer {SECRET}"],
    ["--kv-transfer-config", EXTRA],
    ["--kv-transfer-config.kv_connector_extra_config.token", SECRET],
    [f"--kv-transfer-config.kv_connector_extra_config.s3.secret_access_key={SECRET}"],
    ["--speculative-config.token", SECRET],
    ["--nonsense.token", SECRET],
    ["--seed.token", SECRET],
    ["--middleware", URL],
    ["--seed", URL],
    ["--hf-config-path", URL],
    ["--tokenizer", f"hf_{SECRET.replace('-', '')}"],
    [f"hf_{SECRET}"],
    [f"sk-{SECRET}"],
    [f"rp_{SECRET}"],
    [URL],
    *([f"s3.example/m?{name}={SECRET}"] for name in SIGNED_URL),
    [f"Authorization: Bearer {SECRET}"],
    [f"HF_TOKEN={SECRET}"],
    *([flag, text] for flag in OBJECTS for text in JSON_VALUES),
    *([f"{flag}={text}"] for flag in OBJECTS for text in JSON_VALUES),
]
SHELL: Final = [
    f"HF_TOKEN={SECRET} vllm serve {NAME}",
    f"export HF_TOKEN='{SECRET}'; vllm serve {NAME}",
    f'API_KEY={SECRET}; vllm serve {NAME} --api-key "$API_KEY"',
    f"HF_TOKEN={SECRET} python train.py",
    f"env HF_TOKEN={SECRET} python train.py",
    f"huggingface-cli login --token {SECRET}",
    f"python train.py --my-token {SECRET}",
    f"wget --password={SECRET} x",
    f"curl -H 'Authorization: Bearer {SECRET}' https://example.com",
    f"curl {URL}",
    f"vllm serve {NAME} --api-key '{SECRET}",
    f"vllm serve {NAME} --api-key {SECRET} <<EOF",
    f"AWS_SECRET_ACCESS_KEY={SECRET} && $(vllm serve {NAME}",
]
USES: Final = (
    ("serve", "VALUE"),
    ("serve", NAME, "VALUE"),
    ("serve", NAME, "--port", "VALUE"),
    ("serve", NAME, "--port=VALUE"),
    ("serve", NAME, "-tp", "VALUE"),
    ("serve", NAME, "-tp=VALUE"),
    ("serve", NAME, "--nonsense", "VALUE"),
    ("serve", NAME, "--VALUE"),
    ("serve", NAME, "--nonsense=VALUE"),
    ("serve", NAME, "--served-model-name", "VALUE"),
    ("serve", NAME, "--speculative-config", "VALUE"),
    ("serve", NAME, "--speculative-config.method", "VALUE"),
    ("serve", NAME, "--compilation-config.VALUE", "1"),
    ("serve", NAME, "--config", "VALUE"),
    ("serve", NAME, "--runner", "VALUE"),
)
"""Where a command may use a variable; no fact depends on its text."""
NAMES: Final = (
    f"HF_TOKEN={SECRET}",
    f"--api-key {SECRET}",
    f"\u2013api-key {SECRET}",
    f"hf_{SECRET.replace('-', '')}",
    f"sk-{SECRET}",
    f"Authorization: Bearer {SECRET}",
    URL,
)
"""Names of fields and variables that are secrets, or contain one."""
VARIABLES: Final = ("HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD")


def deployment(args: object, **members: Any) -> dict[str, Any]:
    return {"vllm_version": RELEASE, "deployment": {"args": args, "model_configs": {NAME: QWEN}, **members}}


def pod(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "vllm", "image": IMAGE, **container}]}
    metadata = {"name": "p", "namespace": "n", "annotations": {"runner-policy/model-configs": json.dumps({NAME: QWEN})}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def manifest(document: object) -> dict[str, Any]:
    return {"manifest": document, "model_configs": {NAME: QWEN}}


def custom(kind: str, group: str, spec: object) -> dict[str, Any]:
    return manifest({"apiVersion": group, "kind": kind, "spec": spec})


def option_file(words: list[str]) -> str | None:
    """The words as a file for `--config`, if they can be written in one."""
    if not words[0].startswith("--") or len(words) > 2:  # a flag and its value
        return None
    key, _, value = words[0][2:].partition("=")
    return f"{key}: {json.dumps(words[1] if len(words) > 1 else value)}\n"


def pods() -> Iterator[dict[str, Any]]:
    """Pods for reviews."""
    for words in WORDS:
        yield pod(args=["--model", NAME, *words])
        yield pod(command=["sh", "-c", f"vllm serve {NAME} {shlex.join(words)}"])
        yield pod(args=["--model", NAME, *words, "{{ .Values.x }}"])
        yield pod(args=["--model", NAME, *words[:-1], f"{words[-1]}{{{{ .Values.x }}}}"])
    for script in SHELL:
        yield pod(command=["bash", "-c", script])
    for name in VARIABLES:
        yield pod(args=["--model", NAME, "--api-key", f"$({name})"], env=[{"name": name, "value": SECRET}])
        yield pod(args=["--model", NAME], env=[{"name": name, "value": f"{SECRET}{{{{ .Values.x }}}}"}])
        yield pod(args=["--model", NAME], env=[{"name": name, "value": NUMBER}])
    yield pod(args=["--model", NAME, "--api-key", NUMBER])


def requests() -> Iterator[dict[str, Any]]:
    """Every way to send a secret."""
    for words in WORDS:
        yield deployment(["vllm", "serve", NAME, *words])
        yield deployment([*words, "--model", NAME])
        yield deployment(["serve", *words])
        yield deployment(f"vllm serve {NAME} {shlex.join(words)}")
        yield deployment(f"python train.py {shlex.join(words)}")
        yield deployment(["python", "train.py", *words])
        text = option_file(words)
        if text is not None:
            yield deployment(["vllm", "serve", NAME, "--config", "s.yaml"], files={"s.yaml": text})
        yield manifest({"services": {"vllm": {"image": IMAGE, "command": ["--model", NAME, *words]}}})
        main = {"name": "main", "image": IMAGE, "args": words}
        yield custom(
            "LLMInferenceService",
            "serving.kserve.io/v1alpha1",
            {"model": {"uri": f"hf://{NAME}"}, "template": {"containers": [main]}},
        )
        yield custom(
            "VLLMRuntime",
            "production-stack.vllm.ai/v1alpha1",
            {"model": {"modelURL": NAME}, "vllmConfig": {"extraArgs": words}},
        )
    for script in SHELL:
        yield deployment(script)
        yield manifest({"run": script, "resources": {}})
    for name in VARIABLES:
        for value in (SECRET, f" {SECRET}", f"{SECRET} {'x' * 100}", f"{SECRET}\n`x`", f"{'x' * 100}{SECRET}"):
            for used in USES:
                yield deployment([word.replace("VALUE", f"$({name})") for word in used], env={name: value})
                text = " ".join(used).replace("VALUE", f'"${name}"')
                yield deployment(text, env={name: value})
                yield deployment(f"vllm {text}", env={name: value})
                yield deployment(f"export {name}={shlex.quote(value)}; vllm {text}")
                yield deployment(f"{name}={shlex.quote(value)}; vllm {text}")
            yield manifest(pod(args=["--model", f"$({name})"], env=[{"name": name, "value": value}]))
            yield manifest(pod(args=["--port", f"$({name})"], env=[{"name": name, "value": value}]))
            yield deployment(f"${name} vllm serve {NAME}", env={name: value})
            yield deployment(f"{name}={shlex.quote(value)}; ${name}")
        yield deployment(["--model", NAME, "--api-key", f"$({name})"], env={name: SECRET})
        yield deployment(["--model", NAME], env={name: NUMBER})
        yield manifest(
            {"services": {"vllm": {"image": IMAGE, "command": ["--model", NAME], "environment": {name: [SECRET]}}}}
        )
        yield manifest(
            {"llm_configs": [{"model_loading_config": {"model_id": NAME}, "runtime_env": {"env_vars": {name: NUMBER}}}]}
        )
        yield manifest(
            {"llm_configs": [{"model_loading_config": {"model_id": NAME}, "engine_kwargs": {name.lower(): SECRET}}]}
        )
    for name in NAMES:
        yield deployment(["--model", NAME], env={name: 1})
        yield deployment(["--model", NAME], files={name: 1})
        yield deployment(["--model", NAME], **{name: 1})
        yield {"vllm_version": RELEASE, "facts": {name: 1}}
        yield {"vllm_version": RELEASE, "facts": {"model_config": {name: 1}}}
        yield {"vllm_version": RELEASE, "facts": {}, name: 1}
        yield {"deployment": {"args": ["--model", NAME], "model_configs": {name: 1}}}
        yield {"deployment": {"args": ["--model", name], "model_configs": {name: {"architectures": 1}}}}
        yield manifest({"services": {name: {"image": IMAGE, "command": 1}}})
        yield manifest(
            {"services": {"vllm": {"image": IMAGE, "command": ["--model", NAME], "environment": {name: []}}}}
        )
    yield deployment(["--model", NAME, "--api-key", NUMBER])
    yield deployment(["--model", URL])
    yield from models_named_like_secrets()
    yield manifest({"servingEngineSpec": {"vllmApiKey": SECRET, "modelSpec": [{"modelURL": NAME}]}})
    yield from map(manifest, pods())


def models_named_like_secrets() -> Iterator[dict[str, Any]]:
    """Every secret as the name of a model, also as the value of a variable."""
    for value in QUOTED_VALUES:
        yield from models_named(value)
    yield from models_named_by_a_variable()


def models_named(value: str) -> Iterator[dict[str, Any]]:
    """A value as the name of the model, or of another that the engine loads, with its configuration."""
    draft = {"num_speculative_tokens": 2, "method": "draft_model"}
    for name in (value, f"/models/{value}"):
        configs = {name: QWEN, NAME: QWEN}
        yield deployment(["serve", name], model_configs=configs)
        yield deployment(["serve", name, "--served-model-name", name, "--tokenizer", name], model_configs=configs)
        yield deployment(["serve", NAME, "--hf-config-path", name], model_configs=configs)
        options = json.dumps({**draft, "model": name})
        yield deployment(["serve", NAME, "--speculative-config", options], model_configs=configs)


def models_named_by_a_variable() -> Iterator[dict[str, Any]]:
    """The value of a variable with a secret's name as the name of the model."""
    for script in ("vllm serve $API_KEY", "vllm serve --model=$API_KEY", "vllm serve /models/$API_KEY"):
        configs = {f"/models/{SECRET}" if "/" in script else SECRET: QWEN}
        yield deployment(script, env={"API_KEY": SECRET}, model_configs=configs)
        yield deployment(f"API_KEY={SECRET}; {script}", model_configs=configs)
        yield deployment(script, env={"API_KEY": SECRET})


def review(document: dict[str, Any]) -> dict[str, Any]:
    """The review of the creation of a pod."""
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "name": "p",
        "namespace": "n",
        "userInfo": {"username": "u"},
        "object": document,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def has_secret(text: str) -> bool:
    return SECRET in text or SECRET.replace("-", "") in text or str(NUMBER) in text


def answers(policy: Policy, document: dict[str, Any], *, explain: bool) -> Iterator[str]:
    """The answers: each decision as JSON and, with an explanation, as text; or every fault."""
    try:
        asked = read_request_or_manifest(document, policy.releases)
        asked = with_explanation(asked) if explain else asked
        found = requests_of(asked, policy.releases) if isinstance(asked, Manifest) else [("", asked)]
    except RequestInvalid as error:
        yield str(error)
        return
    for path, request in found:
        try:
            if isinstance(request, RequestInvalid):
                raise request
            decision = policy.decide(request, TODAY)
        except RequestInvalid as error:
            yield f"{path} {error}"
        else:
            yield encode(decision).decode() + (as_text(decision_for_people(decision)) if explain else "")


SPELLINGS: Final = (
    *(f"https://h/x?sv=1&sig=Zq8%2F{SECRET}%3D", f"password=a%20{SECRET}", f"%70assword={SECRET}"),
    *(f'{{"password": ["{SECRET}"]}}', f'{{"auth": {{"user": "a", "x": "{SECRET}"}}}}', f'["--api-key", "{SECRET}"]'),
    *(f"'--api-key' '{SECRET}'", f'{{"password": "a b {SECRET}"}}', f"password='a {SECRET}'", f"password=a,{SECRET}"),
    *(f"password: |\n  {SECRET}", f"password:\n  {SECRET}", f"--api-key\t{SECRET}", f"--hf-token \\\n {SECRET}"),
    *(f"Authorization: Negotiate {SECRET}", f'Authorization: Digest username="a", response="{SECRET}"'),
    *(f"password:a@{SECRET}", f"HF_TOKEN:a@{SECRET}", f'{{"pass\\u0077ord": "{SECRET}"}}', f"password|{SECRET}"),
    *(f'{{"value":"{SECRET}","name":"HF_TOKEN"}}', f'{{"key": "token", "value": "{SECRET}"}}', f'"token" "{SECRET}"'),
    *(f"https://u:a{mark}{SECRET}@h/x" for mark in ("'", '"', "`", " ", "\t", ";", "%20", "/", "@")),
    *(
        f"https://u:{SECRET}\uff20h/x",
        f"https%3A%2F%2Fu%3A{SECRET}%40h%2Fx",
        f"u:a'{SECRET}@h",
        f"https:\\/\\/u:{SECRET}@h",
    ),
    *(
        f"- name: API_KEY\n  value: {SECRET}",
        f"<password>{SECRET}</password>",
        f"&quot;token&quot;:&quot;{SECRET}&quot;",
    ),
)
"""Values of which all may be a secret that follows its name, whatever is between them, or that precedes a host."""
QUOTED_VALUES: Final = (
    *SPELLINGS,
    *(f"api_key: {SECRET}1", f"token={SECRET}", f"x,token={SECRET},y", f"--api-key {SECRET}", f"password={SECRET}"),
    *(f"Bearer {SECRET}", f"Authorization: Basic {SECRET}", f'{{"api_key": "{SECRET}"}}', f'[{{"token": "{SECRET}"}}]'),
    *(URL, f"//user:{SECRET}@h", f"user:{SECRET}@host", f"http://user:p/{SECRET}@h", f"GITHUB_PAT={SECRET}"),
    *(f"{start}{SECRET}" for start in ("hf_", "sk-", "ghp_", "github_pat_", "glpat-", "rp_")),
)
"""Secrets of known forms, in values that vLLM's own messages repeat."""
QUICK_VALUES: Final = (f"Bearer {SECRET}", URL, f"GITHUB_PAT={SECRET}", f"hf_{SECRET}")
"""One of each form: a scheme, a URL, an assignment and the first letters of a token."""
QUOTING_FLAGS: Final = (
    *("--quantization", "--attention-backend", "--kv-cache-dtype", "--limit-mm-per-prompt", "--reasoning-parser"),
    *("--tool-call-parser", "--distributed-executor-backend", "--dtype", "--tokenizer-mode", "--load-format"),
)


@pytest.mark.parametrize("value", slow_except(QUICK_VALUES, QUOTED_VALUES))
def test_no_message_of_vllm_repeats_a_secret(policy: Policy, value: str) -> None:
    documents = [deployment(["serve", NAME, flag, value]) for flag in QUOTING_FLAGS]
    documents.append(deployment(["serve", NAME], env={"VLLM_USE_V2_MODEL_RUNNER": value}))
    for config in ({"model_type": value}, {"architectures": [value]}, {"quantization_config": {"quant_method": value}}):
        documents.append(deployment(["serve", NAME]))
        documents[-1]["deployment"]["model_configs"] = {NAME: {**QWEN, **config}}
    documents += [
        manifest({"services": {"vllm": {"image": f"registry/{value}/vllm{end}", "command": ["vllm", "serve", NAME]}}})
        for end in ("", ":v0.33.0", "@sha256:" + "0" * 64)
    ]
    shown = [
        (document, text)
        for document in documents
        for explain in (False, True)
        for text in answers(policy, document, explain=explain)
        if has_secret(text)
    ]
    assert shown == []


@pytest.mark.parametrize(
    "text",
    [
        "the image `vllm/vllm-openai:v0.33.0@sha256:0123` is named by its digest",
        "the image `vllm-openai:v0.33.0@sha256:0123` is named by its digest",
        "unknown key `foo`; legal: `architectures`, `model_type`",
        "`--api-key` needs a value; write `--api-key VALUE`",
        "max_num_batched_tokens=160000, stop_token_ids: 151643",
        *(
            f"{name}: 151643, {name}=fp8_e4m3, --{name.replace('_', '-')} 151643"
            for name in (
                *(
                    "bos_token_id",
                    "eos_token_id",
                    "pad_token",
                    "mask_token_id",
                    "image_token_index",
                    "audio_token_id",
                    "token_type_ids",
                ),
                *("vision_start_token_id", "decoder_start_token_id", "token_id", "max_tokens", "min_tokens"),
                *(
                    "logprob_token_ids",
                    "returned_token_ids",
                    "num_experts_per_token",
                    "encoder_cudagraph_token_budgets",
                ),
                *(
                    "max_num_batched_tokens",
                    "long_prefill_token_threshold",
                    "thinking_token_budget",
                    "tokens_per_second",
                ),
            )
        ),
        *(
            f"{name}: 151643, {name}=fp8_e4m3"
            for name in (
                "num_key_value_heads",
                "linear_num_key_heads",
                "pass_config",
                "compilation_config.pass_config.x",
            )
        ),
        *("install https://github.com/a/b@v1.2", "kv@10.0.0.1:8000@a/b", "kv@$(POD_IP):8000@a/b", "a@b.c"),
        "a key: `tokens`; the config.json of `Qwen/Qwen3-8B` is needed",
        "the value of `${API_KEY}` is not known, nor that of `${KEYS[@]}`; set the variable",
        "`${PORT:-8000}` and `https://h/a%3Fb%3D1` are read as written",
    ],
)
def test_a_message_without_a_secret_is_kept(text: str) -> None:
    assert masked_message(text) == text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "api_token_id",
            "access_token_type",
            "auth_token_index",
            "hf_token",
            "start_token",
            "image_token",
            "tokens_key",
        ),
        *("secret_key_id", "aws_secret_access_key", "api_key_value", "private_key_pass", "key_pass", "MY_PW", "db-pw"),
        *("bos_token_secret", "pad_token_password", "token", "session_token", "TOKEN_VALUE", "value_key", "pass_word"),
    ],
)
def test_a_name_of_a_secret_is_one_whatever_is_around_it(name: str) -> None:
    assert masked_message(f"{name}=151643abc") == f"{name}=…"
    assert masked(f"--{name} 151643abc") == f"--{name} …"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "KEY_VALUE",
            "key_value",
            "PASS_CONFIG",
            "pass-config",
            "PASS_MANAGER",
            "pass_through",
            "KEY_CACHE",
            "KEY_DIM",
        ),
        *(
            "KEY_LENGTH",
            "KEYS_VALUES",
            "TOKEN_ID",
            "TOKEN_TYPE",
            "TOKEN_INDEX",
            "PAD_TOKEN",
            "STOP_TOKEN_ID",
            "TokenId",
        ),
        *(
            "DBPASS",
            "userpass",
            "rootpasswd",
            "dbpwd",
            "DB_PW",
            "ROOTPW",
            "WPA_PSK",
            "privatekey",
            "SSHKEY",
            "signingkey",
            "AUTHKEY",
            "appkey",
        ),
        *("MyAPIKEYvalue", "passwords", "passcode", "pswd", "creds", "DB_CRED", "cookie", "Set-Cookie", "JWT", "otp"),
        *("oauth", "OAUTH2", "basicauth", "htpasswd", "API_TOKENS", "access_tokens", "PAT", "githubPat", "accesskeyid"),
        *("DATABASE_DSN", "sharedaccesssignature", "secretname", "a.key_value", "pass_config.token", "KEY_value_heads"),
    ],
)
def test_every_name_of_a_secret_is_one_in_every_text(name: str) -> None:
    for text in (
        f"{name}={SECRET}",
        f"--{name}={SECRET}",
        f"--{name} {SECRET}",
        f"{name}: {SECRET}",
        f"-{name} {SECRET}",
    ):
        assert not has_secret(masked(text)), text
        assert not has_secret(masked(f'{{"a": "{text}"}}')) or " " in text.replace(": ", ":"), text
    for text in (f"{name}={SECRET}", f"--{name}={SECRET}", f"--x-{name} {SECRET}", f'{{"{name}": "{SECRET}"}}'):
        assert not has_secret(masked_message(f"of {text} it")), text


@pytest.mark.parametrize(
    "flag", ["--model-l", "-model-l", "--model_l", "--model_loa", "\u2014model-lo", "--otlp-t", "--hf-t"]
)
def test_an_abbreviation_of_the_flag_of_a_secret_is_one_in_every_text(flag: str) -> None:
    for text in (f"{flag} {SECRET}", f"{flag}={SECRET}", f"serve a {flag}={SECRET}", f'["{flag}={SECRET}"]'):
        assert not has_secret(masked(text)), text
        assert "=" not in text or not has_secret(masked_message(f"of {text} it")), text


@pytest.mark.parametrize("beginning", [*SHORT_TOKENS, *LONG_TOKENS, "--api-key ", "password="])
def test_a_number_is_masked_as_any_other_secret(beginning: str) -> None:
    assert str(NUMBER) not in masked(f"{beginning}{NUMBER}{NUMBER}")


@pytest.mark.parametrize(
    "token",
    [
        *(
            "hf_",
            "api_org_",
            "sk-",
            "sk-ant-",
            "sk-proj-",
            "sk_live_",
            "rk_test_",
            "ghp_",
            "gho_",
            "github_pat_",
            "glpat-",
        ),
        *("gldt-", "xoxb-", "xapp-", "nvapi-", "gsk_", "r8_", "rpa_", "npm_", "pypi-", "dckr_pat_", "dop_v1_", "hvs."),
        *("AKIA", "ASIA", "AIza", "ya29.", "glsa_", "SG.", "shpat_", "sntrys_", "xai-", "pplx-", "lsv2_pt_", "tskey-"),
        *("rp_", "dapi", "eyJ"),
    ],
)
def test_a_token_of_a_known_shape_is_masked_wherever_it_stands(token: str) -> None:
    body = "4f0A9b" * 8 if token != "dapi" else "4f0a9b" * 6
    value = f"{token}{body.upper() if token in {'AKIA', 'ASIA'} else body}" + (
        ".eyJ4f0A9b4f0A9b.4f0A9b" * (token == "eyJ")
    )
    for text in (value, f"foo {value}", f"--x={value}", f'{{"a": "{value}"}}', f"/models/{value}/x"):
        assert "4f0a9b4f0a9b" not in masked(text).lower(), text
        assert "4f0a9b4f0a9b" not in masked_message(f"got `{text}`, so").lower(), text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "sk-learn",
            "task-specific-model",
            "dapi",
            "AIza",
            "eyJ",
            "r8_x",
            "SG.x",
            "npm_config_cache",
            "hf_config",
            "AKIA",
        ),
        *("hf_overrides", "rp_rank", "pypi-mirror", "api_organisation", "xai-org/grok-1", "nvapi", "/data/sk-data/x"),
    ],
)
def test_a_text_that_only_begins_like_a_token_is_kept(text: str) -> None:
    assert masked(text) == masked_message(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"postgres://u:p@{SECRET}@h/db",
            f"p@{SECRET}:xyz@h",
            f"//u:{'x' * 300}{SECRET}@h",
            f"redis://:{SECRET}@h:1/0",
        ),
        *(f"https://{SECRET}@github.com/x", f"u:p@{SECRET}@h", f"https://u:a/{SECRET}/b@h", f"u:{'x' * 300}{SECRET}@h"),
        *(f"https://{'x' * 300}{SECRET}@h/x", f"http://h/?u=https://u:{SECRET}@h"),
    ],
)
def test_a_user_and_a_password_of_a_url_are_masked(text: str) -> None:
    assert not has_secret(masked(text))
    assert not has_secret(masked_message(f"got `{text}`, so"))


@pytest.mark.parametrize(
    "command",
    [
        *(f"docker login -u me -p {SECRET}", f"mysql -p{SECRET} -e x", f"curl -u user:{SECRET} https://example.com"),
        *(f"redis-cli -a {SECRET}", f"wandb login {SECRET}", f"foo {SECRET}", f"echo {SECRET} | foo --password-stdin"),
        *(
            f"foo --key-value {SECRET}",
            f"KEY_VALUE={SECRET} foo",
            f"python train.py {SECRET}",
            f"eval foo {SECRET} vllm",
        ),
        *(f"command vault login {SECRET}", f"command -p foo {SECRET}", f"builtin foo {SECRET}"),
    ],
)
def test_no_argument_of_an_unknown_command_is_shown(policy: Policy, command: str) -> None:
    for document in (
        deployment(command),
        deployment(shlex.split(command)),
        deployment(["bash", "-c", command]),
        manifest(pod(command=["bash", "-c", f"{command}; vllm serve {NAME} --nonsense"])),
        manifest(pod(command=["bash", "-c", f"{command} vllm serve {NAME}"])),
    ):
        assert not has_secret("".join(answers(policy, document, explain=False))), document


WAYS: Final = (
    *(f"API_KEY=${{OTHER{sign}{SECRET}}}" for sign in (":-", "-", ":=", "=")),
    *(f": ${{API_KEY{sign}{SECRET}}}" for sign in (":=", "=")),
    *(f"set -- {SECRET}; API_KEY=$1", f"set -- --api-key {SECRET}; API_KEY=${{2}}", f"API_KEY=({SECRET})"),
    *(f"API_KEY[0]={SECRET}", f"API_KEY=$'{SECRET}'", f'API_KEY={SECRET[:3]}"{SECRET[3:]}"', f"API_KEY=''{SECRET}"),
    *(f"API_KEY=\\{SECRET}", f"API_KEY={SECRET[:2]}\\\n{SECRET[2:]}", f"B={SECRET[:5]}; API_KEY=$B{SECRET[5:]}"),
    *(f"A={SECRET}; API_KEY=$A", f"A={SECRET}; export API_KEY=$A", f"A={SECRET}; API_KEY=${{A:0:100}}"),
    *(f"A={SECRET}; B=$A; API_KEY=${{B%x}}", f"A={SECRET}; readonly API_KEY=$A", f"A={SECRET}; declare API_KEY=$A"),
    *(f'A="API_KEY={SECRET}"; export $A', f"if true; then API_KEY=''{SECRET}; fi", f"cd /x || API_KEY=''{SECRET}"),
    *(f"API_KEY[0]={SECRET}", f"export API_KEY[0]={SECRET}"),
    *(f"eval \"API_KEY='{SECRET}'\"", f"f() {{ API_KEY=$1; }}; f {SECRET}", f"A={SECRET} API_KEY=$A true"),
)
"""The ways in which a value gets to a variable whose name is that of a secret, without standing behind it."""
EXPANSIONS: Final = (
    *(f"${{API_KEY{sign}{SECRET}}}" for sign in (":-", "-", ":=", "=", ":+", "+", ":?", "?", "/x/", "%", "#")),
    *(f"${{HF_TOKEN-{SECRET}}}", f"x${{HF_TOKEN-{SECRET}}}y", f"${{A:-${{HF_TOKEN-{SECRET}}}}}"),
    *(f"${{API_KEY[0]-{SECRET}}}", f"${{API_KEY:-'{SECRET}'}}", f"$(get --token {SECRET})"),
    *(f"https://h/x{sign}sig{equals}{SECRET}" for sign in ("?", "%3F", "%3f", "%253F") for equals in ("=", "%3D")),
    *(f"https://h/x?a=1{sign}sig={SECRET}" for sign in ("&", "%26", "%2526", "%3B")),
)
"""Words that have a secret in them."""
QUICK_EXPANSIONS: Final = (
    *(f"${{API_KEY{sign}{SECRET}}}" for sign in (":-", ":=", ":?", "/x/", "%")),
    *(f"${{A:-${{HF_TOKEN-{SECRET}}}}}", f"${{API_KEY[0]-{SECRET}}}", f"$(get --token {SECRET})"),
    *(f"https://h/x?sig={SECRET}", f"https://h/x%253Fsig%3D{SECRET}", f"https://h/x?a=1%2526sig={SECRET}"),
)
"""One of each kind: an operator that uses, sets or edits a value, a word in another, a command, a URL."""
SHOWN: Final = (
    f'vllm serve {NAME} --port "VALUE"',
    f'vllm serve {NAME} --runner="VALUE"',
    f'vllm serve {NAME} --"VALUE"',
    f'vllm serve {NAME} "VALUE"',
    'vllm serve "VALUE"',
    'python3 "VALUE"',
)
"""Scripts that use a value so that messages repeat it."""


@pytest.mark.parametrize("way", slow_except(WAYS[::3], WAYS))
def test_a_value_that_gets_to_the_name_of_a_secret_is_not_shown(policy: Policy, way: str) -> None:
    used = ("$API_KEY", *(["$A"] if way.startswith(f"A={SECRET};") else []), *(["$1"] if "set -- m4" in way else []))
    scripts = [f"{way}; {shown.replace('VALUE', name)}" for shown in SHOWN for name in used]
    documents = [document for text in scripts for document in (deployment(text), deployment(["bash", "-c", text]))]
    documents += [manifest(pod(command=["bash", "-c", text])) for text in scripts]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=False)))] == []


@pytest.mark.parametrize("word", slow_except(QUICK_EXPANSIONS, EXPANSIONS))
def test_a_word_with_a_secret_is_not_shown(policy: Policy, word: str) -> None:
    scripts = [shown.replace("VALUE", word) for shown in SHOWN]
    scripts += [f'A="{word}"; {shown.replace("VALUE", "$A")}' for shown in SHOWN]
    documents = [document for text in scripts for document in (deployment(text), deployment(["bash", "-c", text]))]
    documents += [deployment([*shlex.split(shown)[:-1], word]) for shown in SHOWN]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=True)))] == []
    assert not has_secret(masked(word))
    assert not has_secret(masked_message(f"the value of `{word}` is not known"))


CLEARED: Final = (
    *("SERVE", "sudo SERVE", "sudo -E SERVE", "sudo API_KEY=x SERVE", "sudo -x a SERVE", "sudo nohup SERVE"),
    *(
        "env -u API_KEY SERVE",
        "env --unset=API_KEY SERVE",
        "env -i PATH=/bin SERVE",
        "env - SERVE",
        "env API_KEY=x SERVE",
    ),
    *("API_KEY= SERVE", "API_KEY=x SERVE", "API_KEY=$API_KEY SERVE", "env API_KEY=$API_KEY SERVE", "exec -c SERVE"),
    *("conda run -n x SERVE", "strace SERVE", "unset API_KEY; SERVE", "SERVE; unset API_KEY", "read API_KEY; SERVE"),
    *("mapfile API_KEY; SERVE", "printf -v API_KEY x; SERVE", "export -n API_KEY; SERVE", "declare API_KEY; SERVE"),
    *("local API_KEY; SERVE", "API_KEY=; SERVE", "API_KEY=x; SERVE", "API_KEY=(a b); SERVE", "API_KEY[0]=x; SERVE"),
    *(
        "export API_KEY=x; SERVE",
        "readonly API_KEY; SERVE",
        "API_KEY+=x; SERVE",
        "API_KEY=$(date); SERVE",
        ". /x; SERVE",
    ),
    *(
        "for API_KEY in x; do SERVE; done",
        "for API_KEY in x; do :; done; SERVE",
        "eval API_KEY=x; SERVE",
        "source x; SERVE",
    ),
    *("if [ -f /x ]; then unset API_KEY; fi; SERVE", "[ -f /x ] && API_KEY=x; SERVE", "getopts a API_KEY; SERVE"),
    *(
        "f() { unset API_KEY; }; f; SERVE",
        "f() { API_KEY=x; }; f; SERVE",
        ": ${API_KEY:=x}; SERVE",
        "let API_KEY=1; SERVE",
    ),
    *(
        "unset API_KEY; export API_KEY; SERVE",
        "(unset API_KEY; SERVE)",
        "{ unset API_KEY; SERVE; }",
        "! SERVE",
        "SERVE | tee x",
    ),
    *(
        "case x in x) unset API_KEY;; esac; SERVE",
        "wait -p API_KEY; SERVE",
        "trap 'unset API_KEY' EXIT; SERVE",
        "if SERVE; then :; fi",
    ),
    *("select API_KEY in x; do SERVE; done", "while read API_KEY; do SERVE; done", "coproc API_KEY { SERVE; }"),
)
"""Scripts that may clear or change a variable before or after the server's start, or that no shell reads."""
QUOTING: Final = (
    *("vllm serve MODEL --dtype VALUE", "vllm serve MODEL --chat-template VALUE", "vllm serve VALUE", "bash VALUE"),
    *("vllm serve MODEL --VALUE", "vllm serve MODEL --max-model-len=VALUE", "python3 VALUE", "VALUE", "nohup -VALUE x"),
    *(
        "vllm serve MODEL --config VALUE",
        "vllm serve MODEL --hf-overrides.VALUE 1",
        "vllm serve MODEL VALUE",
        ". VALUE",
    ),
)
"""Commands that use a value so that messages, `ignored_args` or facts repeat it."""
COPIES: Final = ("$API_KEY", "${API_KEY}", "prefix-$API_KEY", '"$API_KEY"', "$A", "$(API_KEY)")
WORDS_BEFORE: Final = (
    *("", "sudo", "sudo API_KEY=$(API_KEY)", "env -u API_KEY", "env -i PATH=/bin", "env API_KEY=x", "nohup", "strace"),
    *("conda run -n x", "env -u API_KEY bash -c", "env -S", "tini --", "timeout 1"),
)
"""What may stand before a command that no shell reads."""


@pytest.mark.parametrize("quoting", slow_except((QUOTING[0], QUOTING[1], "bash VALUE"), QUOTING))
def test_a_stated_secret_is_not_shown_whatever_its_command_does_to_the_variable(policy: Policy, quoting: str) -> None:
    used = [quoting.replace("MODEL", NAME).replace("VALUE", copy) for copy in COPIES]
    scripts = [f"{'A=$API_KEY; ' if '$A' in use else ''}{way.replace('SERVE', use)}" for way in CLEARED for use in used]
    env = [{"name": "API_KEY", "value": SECRET}]
    documents = [manifest(pod(command=["bash", "-c", text], env=env)) for text in scripts]
    documents += [deployment(text, env={"API_KEY": SECRET}) for text in scripts[::7]]
    words = [f"{before} {used[-1]}".split() for before in WORDS_BEFORE]
    documents += [manifest(pod(command=each, env=env)) for each in words]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=False)))] == []


SERVE_IT: Final = f"vllm serve {NAME} --dtype $API_KEY"
UNITS: Final = (
    f"[Service]\nEnvironment=API_KEY={SECRET}\nUnsetEnvironment=API_KEY\nExecStart=vllm serve {NAME} --dtype {SECRET}",
    f"[Service]\nEnvironment=API_KEY={SECRET}\nEnvironment=API_KEY=x\nExecStart=vllm serve {NAME} --dtype {SECRET}",
    f"[Service]\nEnvironment=API_KEY={SECRET}\nExecStart=/bin/docker run {IMAGE} --model {NAME} --dtype ${{API_KEY}}",
    f"[Service]\nEnvironment=API_KEY={SECRET}\nExecStart=/bin/docker run {IMAGE} {NAME} $API_KEY --$API_KEY",
    f"[Service]\nEnvironment=API_KEY={SECRET}\n[Container]\nImage={IMAGE}\nExec=--model {NAME} --dtype ${{API_KEY}}",
)
"""Units that state a secret which the server does not get as a variable."""


def stating_manifests() -> Iterator[object]:
    """Objects in which a stated secret is replaced, removed, unknown in part, or of something that cannot be read."""
    secret = {"name": "API_KEY", "value": SECRET}
    again: list[list[dict[str, Any]]] = [
        [secret, {"name": "API_KEY", "value": "x"}],
        [secret, {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        [{"name": "API_KEY", "value": f"{SECRET}{{{{ .Values.x }}}}"}],
        [secret, {"name": "API_KEY"}],
    ]
    for env in again:
        for words in (["vllm", "serve", NAME, "--dtype", SECRET], ["bash", SECRET], ["sh", "-c", f"bash {SECRET}"]):
            yield pod(command=words, env=env)
        yield pod(command=["bash", "-c", SERVE_IT], env=env)
        yield pod(args=["--model", NAME, "--dtype", "$(API_KEY)"], env=env)
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "n"},
        "data": {"API_KEY": SECRET},
    }
    source = {"envFrom": [{"configMapRef": {"name": "c"}}]}
    for env in ([], [{"name": "API_KEY", "value": "x"}]):
        for words in (["bash", "-c", SERVE_IT], ["env", "-u", "API_KEY", "vllm", "serve", NAME, "--dtype", SECRET]):
            yield [data, pod(command=words, env=env, **source)]
    for broken in (
        {"command": {"a": SECRET}},
        {"args": [SECRET, {"b": SECRET}]},
        {"env": [secret, {"name": {"a": SECRET}}]},
    ):
        yield pod(**{"command": ["vllm", "serve", NAME], "env": [secret], **broken})
        yield [pod(**{"command": ["vllm", "serve", NAME], "env": [secret], **broken}), pod()]
    encoded = b64encode(SECRET.encode()).decode()
    held = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n"},
        "data": {"API_KEY": encoded},
    }
    yield [held, pod(command={"a": SECRET}), pod(command={"a": encoded})]
    words = ["--model", NAME, "--worker-cls", SECRET]
    for text in (f"{encoded}\n", f"{encoded[:8]}\r\n{encoded[8:]}", encodebytes(f"{SECRET}x".encode() * 30).decode()):
        yield [{**held, "data": {"API_KEY": text}}, pod(args=words)]
        yield [custom("X", "example.com", {"password": {"a": [{"b": text}]}}), pod(args=words)]
        yield pod(args=words, env=[{"name": "API_KEY", "value": text}])
    for hook in ({"exec": {"command": ["bash", "-c", f"bash {SECRET}; {SERVE_IT}"]}}, {"exec": {"command": SECRET}}):
        yield pod(command=["vllm", "serve", NAME], env=[secret], lifecycle={"postStart": hook})
    for environment in ({"API_KEY": SECRET}, [f"API_KEY={SECRET}", "API_KEY=x"], [f"API_KEY={SECRET}", "API_KEY"]):
        for command in (["--model", NAME, "--dtype", SECRET], {"a": SECRET}):
            yield {"services": {"vllm": {"image": IMAGE, "command": command, "environment": environment}}}
        entry = ["env", "-u", "API_KEY", "bash", "-c", SERVE_IT.replace("$", "$$")]
        yield {"services": {"vllm": {"image": IMAGE, "entrypoint": entry, "environment": environment}}}
    for unit in UNITS:
        yield {"unit": unit}
    for before in (f"export API_KEY={SECRET}", f"API_KEY=''{SECRET}", f"read API_KEY <<< {SECRET}"):
        yield {"script": f"{before}\ndocker run {IMAGE} --model {NAME} --dtype $API_KEY"}
        yield {"script": f"{before}\nA=$API_KEY\nunset API_KEY\ndocker run {IMAGE} --model {NAME} --dtype $A --$A"}
    yield {"script": f"docker run -e API_KEY={SECRET} -e API_KEY=x {IMAGE} --model {NAME} --dtype {SECRET}"}
    yield from stating_elsewhere()
    for script in (SERVE_IT, f"A=$API_KEY; unset API_KEY; vllm serve {NAME} --dtype $A", f"sudo {SERVE_IT}"):
        yield {"run": script, "envs": {"API_KEY": SECRET}, "resources": {"image_id": f"docker:{IMAGE}"}}
        yield {"type": "service", "image": IMAGE, "env": [f"API_KEY={SECRET}"], "commands": [script], "port": 8000}


def stating_elsewhere() -> Iterator[object]:
    """Manifests in which a name of a secret stands elsewhere than in an engine's variables, which get the value."""
    used = pod(args=["--model", NAME, "--worker-cls", "$(X)"], env=[{"name": "X", "value": "${HF_TOKEN}"}])
    for parameter in ({"name": "HF_TOKEN", "value": SECRET}, {"value": SECRET, "name": "HF_TOKEN"}):
        direct = pod(args=["--model", NAME, "--worker-cls", "${HF_TOKEN}"])
        template = {"apiVersion": "template.openshift.io/v1", "kind": "Template", "parameters": [parameter]}
        yield from ({**template, "objects": [each]} for each in (used, direct))
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}
    source = {"configMapKeyRef": {"name": "c", "key": "api_key"}}
    field = {"fieldRef": {"fieldPath": "metadata.annotations['token']"}}
    for origin in (source, field):
        words = ["--model", NAME, "--worker-cls", "$(X)"]
        annotated = pod(args=words, env=[{"name": "X", "valueFrom": origin}])
        annotated["metadata"]["annotations"]["token"] = SECRET
        yield [{**data, "data": {"api_key": SECRET}}, annotated]
    for value in (f"JjJ2t8g8${SECRET.replace('-', '')}", f"JjJ2t8g8$${SECRET}"):
        for environment in ({"API_KEY": value}, [f"API_KEY={value}"]):
            yield {"services": {"vllm": {"image": IMAGE, "command": ["--model", NAME], "environment": environment}}}
    for mark in ("'", "\\", ";", "&", "|"):
        command = f"--model {NAME} --worker-cls ${{API_KEY:-a{mark}{SECRET}}}"
        yield {"services": {"vllm": {"image": IMAGE, "command": command}}}
    repeating = ["--model", NAME, "--worker-cls", SECRET]
    before = pod(args=["--model", NAME], env=[{"name": "API_KEY", "value": SECRET}])
    for name in ("kubectl.kubernetes.io/last-applied-configuration", "example.com/template"):
        annotated = pod(args=repeating)
        annotated["metadata"]["annotations"][name] = f"{json.dumps(before)}\n"
        yield annotated
    url = f"https://bob:{SECRET}@h/x"
    hook = {"postStart": {"exec": {"command": ["curl", url]}}}
    for container in ({"env": [{"name": "PIP_INDEX_URL", "value": url}]}, {"lifecycle": hook}, {"workingDir": url}):
        yield pod(args=repeating, **container)
    script = f"pip install -i {url} x; vllm serve {NAME} --worker-cls {SECRET}"
    yield pod(command=["sh", "-c", script])
    for place in ("containers", "initContainers"):
        other = {"name": "x", "image": "b", "command": ["x", "--api-key"], "args": [SECRET]}
        crossed = pod(args=repeating)
        crossed["spec"].setdefault(place, []).append(other)
        yield crossed
    for begin, end in ((["x", "--api-key"], [SECRET, "y"]), ("x --api-key", f"{SECRET} y"), (["--api-key"], SECRET)):
        service = {"image": "b", "entrypoint": begin, "command": end}
        yield {"services": {"vllm": {"image": IMAGE, "command": repeating}, "x": service}}
        yield [
            custom("X", "example.com", {"config": {"entrypoint": begin, "args": end}})["manifest"],
            pod(args=repeating),
        ]
    yield pod(args=repeating, env=[{"name": "A", "value": json.dumps({"url": url})}])
    named = pod(args=["--model", NAME])
    named["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps({"api_key": SECRET})
    yield named


@pytest.mark.parametrize(
    "text",
    [
        f"api-key: &a {SECRET}\ndtype: *a\n",
        f"x: &a {{token: {SECRET}}}\ndtype: *a\n",
        f"quantization: {{password: [{SECRET}]}}\n",
        f"quantization: 'password: a {SECRET}'\n",
        f"my-token: |\n  {SECRET}\nquantization: {SECRET}\n",
    ],
)
def test_a_secret_in_a_file_of_options_is_not_shown(policy: Policy, text: str) -> None:
    document = deployment(["serve", NAME, "--config", "c.yaml"], files={"c.yaml": text})
    assert not has_secret("".join(answers(policy, document, explain=True)))


def test_a_stated_secret_is_not_shown_in_any_kind_of_manifest(policy: Policy) -> None:
    documents = [manifest(document) for document in stating_manifests()]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=True)))] == []


@pytest.mark.parametrize("blank", slow_except(["\n", "="], [" ", "\n", "\t", "\x01", "="]))
def test_no_word_of_a_stated_secret_is_shown(policy: Policy, blank: str) -> None:
    value = f"first{blank}{SECRET}{blank}{SECRET}x" if blank != "=" else f"optimization={SECRET}"
    scripts = [each.replace("MODEL", NAME).replace("VALUE", "$API_KEY") for each in QUOTING]
    scripts += [f"set -- $API_KEY; {each.replace('MODEL', NAME).replace('VALUE', '$2')}" for each in QUOTING]
    documents = [
        manifest(pod(command=["bash", "-c", each], env=[{"name": "API_KEY", "value": value}])) for each in scripts
    ]
    documents += [deployment(each, env={"API_KEY": value}) for each in scripts]
    documents.append(
        manifest({"unit": f'[Service]\nEnvironment="API_KEY=a {SECRET}"\nExecStart=vllm serve {NAME} $API_KEY'})
    )
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=True)))] == []


CHANGED_VALUES: Final = (
    *("Zq8Jbh*pkJG4", "Zq8Jbh?pkJG4", "[wqHnp7V8x", "*Zq8Jbhpk", "Zq8Jbhpk*", "~Zq8Jbhpk", "Zq8Jb{a,b}pkJG4rt"),
    *("'Zq8JbhpkJG4'", '"Zq8JbhpkJG4"', "Zq8Jbh\\pkJG4rt", "Zq8J'bhpk'JG4t", 'Zq8J"bhpk"', "'Zq8Jbh'", "Zq8J\\\\bhpk"),
    *("Zq8J''bhpk", "Zq8J\\nbhpk", "\\Zq8J\\bhpk\\JG4t", "ZqJb$'hpJG4'", "Zq8Jb\\x41pkJG4rt", "Zq8J\\\nbhpk"),
    *("ZqJbhpkJG&nWv47trx", "ZqJbhpkJG;nWv47trx", "ZqJbhpkJG|nWv47trx", "ZqJbhpkJG>nWv47trx", "Zq8J<bhpkJG4rt"),
    *("Zq8J(bhpkJG4", "(Zq8Jbhpk)", "Zq8J#bhpk", "Zq8J$Qbhpk", "Zq8J${Q}bhpkJG4", "Zq8J$(x)bhpkJG4", "Zq8J`x`bhpkJG4"),
    *("Zq8Jb$$hpkJG4", "Zq8Jb%%hpkJG4", "Zq8Jbhpk=x", "Zq8Jb_hpk_JG4", "Zq8Jb,hpkJG4", "Zq8J bhp kJG4"),
    *(f"Zq8J{blank}bhpk" for blank in (" ", "\t", "\n", "\r", "\x07", "\x7f", "\u00a0", "\u2003", "\u3000", "\u200b")),
)
"""Secrets of which a shell or an escape removes or replaces a part, or of which it makes several words."""
CHANGING: Final = (
    *(
        "vllm serve MODEL --dtype VALUE",
        "vllm serve MODEL --chat-template VALUE",
        "vllm serve MODEL --worker-cls VALUE",
    ),
    *("vllm serve MODEL --quantization VALUE", "vllm serve MODEL --dtype 'VALUE'", 'vllm serve MODEL --dtype "VALUE"'),
    *(
        'bash -c "vllm serve MODEL --dtype VALUE"',
        'eval "vllm serve MODEL --chat-template VALUE"',
        "vllm serve MODEL --VALUE",
    ),
    *("bash <<E\nvllm serve MODEL --dtype VALUE\nE", 'echo "vllm serve MODEL --dtype VALUE" | bash', "eval $B VALUE"),
    *('A=(VALUE b); bash -c "vllm serve MODEL --dtype ${A[0]}"', 'B="vllm serve MODEL --dtype VALUE"; eval "$B"'),
    *('A=(VALUE b); vllm serve MODEL --chat-template "${A[@]}"', "set -- VALUE; vllm serve MODEL --worker-cls $1"),
    *("bash -c \"vllm serve MODEL --dtype 'VALUE'\"", 'bash -c "bash -c \\"vllm serve MODEL --dtype VALUE\\""'),
    *('env -S "vllm serve MODEL --dtype VALUE"', f"vllm serve MODEL --chat-template {'x' * 70}VALUE"),
)
"""Ways to use such a value; Kubernetes replaces `$(API_KEY)` in them before the shell reads them."""


ENCODED: Final = "Zq8J/bhpk+JG4r=Wv47:trxK"
"""A secret with characters that addresses encode, of which each part is too short to be one."""


@pytest.mark.parametrize(
    ("stated", "repeated"),
    [
        (ENCODED, quote(ENCODED, safe="")),
        (ENCODED, quote(ENCODED)),
        (ENCODED, re.sub("%..", lambda found: found.group().lower(), quote(ENCODED, safe=""))),
        (ENCODED, quote(quote(ENCODED, safe=""), safe="")),
        (ENCODED, ENCODED.replace("/", "\\u002f").replace("+", "\\x2b")),
        (ENCODED, "".join(f"%{ord(each):02x}" for each in ENCODED)),
        (quote(ENCODED, safe=""), ENCODED),
        (ENCODED.replace("/", "\\u002f"), ENCODED),
        *(("Zq8Jb%25hpkJG4rt", "Zq8Jb%hpkJG4rt"), ("%5aq8Jb%25%68pkJG4rt", "Zq8Jb%hpkJG4rt")),
        ("Zq8Jb%2525hpkJG4rt", "Zq8Jb%hpkJG4rt"),
        (ENCODED, "".join(chr(ord(each) + 0xFEE0) for each in ENCODED)),
        ("".join(chr(ord(each) + 0xFEE0) for each in ENCODED), ENCODED),
    ],
)
def test_no_secret_is_shown_in_another_encoding(policy: Policy, stated: str, repeated: str) -> None:
    document = deployment(["serve", NAME, "--worker-cls", repeated, f"--{repeated}"], env={"API_KEY": stated})
    address = deployment(["serve", NAME, "--worker-cls", ENCODED], env={"A": f"https://bob:{quote(ENCODED)}@h"})
    for each in (document, address):
        shown = "".join(answers(policy, each, explain=True))
        assert [part for part in (ENCODED[:4], "ZqJ", repeated[:6], repeated[-6:]) if part in shown] == []


NOT_ASCII: Final = (
    "\u00fcZqJbhpkJGxr",
    "ZqJbhp\u00fckJGxr",
    "\u5bc6\u7801ZqJbhpkJGxr",
    "\U0001f600ZqJbhpkJGxr",
)
"""Secrets with characters outside ASCII among the first ones."""
ESCAPES: Final[dict[str, Callable[[str], str]]] = {
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "an address": quote,
    "an address in an address": lambda text: quote(quote(text)),
    "YAML": lambda text: yaml.safe_dump(text).strip().strip('"'),
    "numbers": lambda text: "".join(f"\\U{ord(each):08x}" for each in text),
    "bytes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
}
"""What programs write for such characters."""


@pytest.mark.parametrize("text", NOT_ASCII)
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_no_secret_is_shown_with_characters_outside_ascii_in_another_form(
    policy: Policy, text: str, escape: Callable[[str], str]
) -> None:
    for stated, repeated in ((text, escape(text)), (escape(text), text)):
        for env in ({"API_KEY": stated}, {"X": json.dumps({"token": stated})}, {"X": f"token={stated}"}):
            document = deployment(["serve", NAME, "--worker-cls", repeated], env=env)
            assert "loads `\u2026` from" in "".join(answers(policy, document, explain=False)), env


V: Final = "ZqJbhpkJGxr"
"""A secret without a digit."""
QUOTED_IN_SCRIPTS: Final = (
    *(
        f"$'{V}'",
        f'$"{V}"',
        f"\"\"'{V}'",
        f"''{V}",
        f"\\\n{V}",
        f"\"\"''$'{V}'",
        f"'{V[:2]}'{V[2:]}",
        f"{V[:2]}'{V[2:]}'",
    ),
    *(f"\"{V[:3]}\"'{V[3:]}'", f"{V[:3]}\\\n{V[3:]}", f"{V[:5]}$'{V[5:]}'", f"{V[:2]}\\ {V[2:]}"),
)
"""The secret with the quotes that a shell removes from a word."""
STATED: Final[dict[str, bool]] = {
    **dict.fromkeys(
        [
            *(
                f"API_KEY={V}",
                f"API_KEY += {V}",
                f"token: {V}",
                f"token {V}",
                f"password,{V}",
                f"<password>{V}</password>",
            ),
            *(f"--api-key {V}", f"--my-token={V}", f"Bearer {V}", f"Authorization: Bearer {V}", f"'token' '{V}'"),
            *(f"https://bob:{V}@h/x", f"https://{V}@h/x", f"bob:{V}@h", f"https://h/x?a=1&sig={V}", f"%74oken%3D{V}"),
            *(f"jdbc:mysql://bob:{V}@h/x", f"pip:git+https://{V}@h/x", f"a:b,https://bob:{V}@h"),
            *(f"https://a:1@b{mark}https://bob:{V}@h" for mark in (" ", ",", "\t")),
            *(f"bob:{V}@{host}" for host in ("$(DB_HOST):5432", "${DB_HOST}/x", "$DB_HOST", "[::1]:80", "{{ .host }}")),
            *(
                f"{before}:{V}@{host}"
                for before in ("", "x=bob")
                for host in ("/cloudsql/x", "(h)", "$(H)", "tcp(h:3306)/d")
            ),
            *(
                f"https://ab%2F{V}@h",
                f"https://{V}%2Fcd@h",
                f"x; curl https://ab%2F{V}@h; y",
                f"bob:{V}&c@h",
                f"bob:a;{V}@h",
            ),
            *(
                f"{address}{mark}{V}@h"
                for mark in "'\"`"
                for address in ("https://a", "x; curl https://a", "https://b:a")
            ),
            *(f"{V}{mark}a@h".join(("x https://", " y")) for mark in "'\"`"),
            *(f"url:bob:{V}@h", f"https://bob%40x:a'{V}@$HOST", f"x; curl https://bob@x.y:a'{V}@h; y"),
            *(f'["api_key","{V}"]', f'[["x","y"],["HF_TOKEN", "{V}"]]', f'{{"headers": [["X-Api-Key", "{V}"]]}}'),
            *(f'x=["token", {{"a": "{V}"}}]', f'["password", ["{V}"]]'),
            *(f"a:bcd@e f:{V}@h", f"https://a:1@b https://bob:{V}@h https://c:1@d", f"amqp://a:cdefgh@h,//b:{V}@i"),
            *(f"API_TOKENS={V}", f"EOS_TOKEN={V}", f"token={V} and more", f"token=${{X:-{V}}}", f"token={V[:6]}"),
            *(f"x; API_KEY={V}; y", f"x; API_KEY='{V}'; y", f"x; CFG[token]={V}; y", f"x; ${{HF_TOKEN:-{V}}}; y"),
            *(f"x; --api-key {V}; y", f"x; --api-key={V}; y", f"x; export TOKEN {V}; y", f"x; token: {V}; y"),
            *(f"x; curl -H 'Authorization: Basic {V}'; y", f"x; curl -H 'X-Api-Key: {V}'; y", f"x\n  - token: {V}\ny"),
            *(
                f"x; curl -H 'Authorization: {scheme} {V.lower()}'; y"
                for scheme in ("token", "basic", "BEARER", "ApiKey", "GenieKey", "key", "SSWS", "Splunk")
            ),
            f"x: 1\nAuthorization: basic {V.lower()}\n",
            *(
                f"x; curl https://bob:{V}@h; y",
                f"x; curl 'h?token={V}'; y",
                f"token:\n  {V}\nx: 1",
                f"x\ntoken: |\n  {V}",
            ),
            *(f'{{"token": "{V}"}}', f'x {{"a": {{"token": ["{V}"]}}}}', f'["--token", "{V}"]', f"{{'token': '{V}'}}"),
            *(
                f'{{"key": "token", "x": "{V}", "a": 1, "b": 1, "c": 1, "d": 1, "e": 1}}',
                f'{{"x": "{V}", "y": "HF_TOKEN"}}',
            ),
            *(f'{{"name": "{name}", "v": "{V}"}}' for name in ("secret/api-token", "my token", "$TOKEN", "token ")),
            *(f'{{"v": "{V}", "key": "{name}"}}' for name in ("api key", "X-Token:", "HF_TOKEN\\n", "a-" * 40 + "key")),
            *(
                f"- name: TOKEN\n  value: {V}\nx",
                f'- {{"name": "API_KEY", "value": "{V}"}}\nx',
                f"- key: PW\n  value: '{V}'",
            ),
            *(f"x; API_KEY={quoted}; y" for quoted in QUOTED_IN_SCRIPTS),
            *(f"x; export API_KEY={quoted}; y" for quoted in QUOTED_IN_SCRIPTS),
            *(f"x; --api-key={quoted}; y" for quoted in QUOTED_IN_SCRIPTS),
            *(f"x; --api-key {quoted}; y" for quoted in QUOTED_IN_SCRIPTS),
            *(f"x; API_KEY=($'{V}'); y", f"x; CFG[token]=$'{V}'; y", f"x; curl -H $'X-Api-Key: {V}'; y"),
            *(f"${{API_KEY:-{V}}}", f"x ${{API_KEY:-{V}}} y", f"--x=${{API_KEY:-{V}}}", f"${{hf_token-{V}}}"),
            *(f'${{API_KEY:-"{V}"}}', f"${{X:-${{API_KEY:-{V}}}}}", f'{{"a": "x ${{API_KEY:={V}}}"}}'),
            *(f"${{X:-y}} ${{API_KEY:-{V}}}", f"token=abcdef ${{API_KEY:-{V}}}"),
            *(
                f'{{"token": "{V}", "token": "b"}}',
                f'x={{"token": "{V}", "token": 1}}',
                f'{{"token": "b", "token": "{V}"}}',
            ),
            *(f'{{"a": {{"token": "{V}"}}, "a": 1}}', f'{{"token": {{"a": "{V}", "a": 1}}, "token": 1}}'),
            *(f'{{"a": ["--token", "{V}"], "a": 1}}', f'{{"a": "token={V}", "a": 1}}'),
            *(
                f'{{"name": "HF_TOKEN", "value": "{V}", "value": "b"}}',
                f'{{"name": "HF_TOKEN", "name": "b", "value": "{V}"}}',
            ),
            *(f"{flag}={V}" for flag in ("OTLP_TRACES_ENDPOINT", "ADDITIONAL_CONFIG", "MODEL_LOADER_EXTRA_CONFIG")),
            *(f"--OTLP-TRACES-ENDPOINT={V}", f"--Additional_Config {V}", f"otlp_traces_endpoint={V}", f"--Otlp={V}"),
            *(f'token"="{V}', f"a token' , '{V}'", f"x token>{V}", f"x my-token,{V}"),
            *(f"token=${V}", f"token=ab${V}", f"--api-key ${V}", f"x; --api-key='${V}'; y", f'{{"token": "${V}"}}'),
            *(f'{{"token": "aB${V}"}}', f'["--token", "${V}"]', f"token=a$${V}"),
        ],
        True,
    ),
    **dict.fromkeys(
        [
            *(f"TOKENS={V}", f"MAX_TOKENS={V}", f"toKen={V}", f"eos_token={V}", f"token;{V}", f"token={V[:5]}"),
            *(f"https://h/{V}@x", f"https://h/token/{V}", f"x; token {V}; y", f"x; token,{V}; y"),
            *(f"token=${V.upper()}", f'{{"token": "${V.upper()}"}}', f"token=ab$(X){V[:3]}", f"token=${{{V}}}ab"),
            f'{{"x": "{V}", "y": "HF_TOKEN", "a": 1, "b": 1, "c": 1, "d": 1, "e": 1}}',
            *(f'["token", "a", "{V}"]', f'["my token", "{V}"]', f'["{V}", "token"]', f'["x", "token", "{V}"]'),
            *(f"https://a','{V}@h", f"https://a%2Fb/{V}@h", f"x&bob:a;{V}@h"),
            *(f"x; --api-key {V.lower()}; y", f"hf_{V}"),
            *(f"x; API_KEY=$X-{V}; y", f'x; API_KEY="$X-{V}"; y', f"x; API_KEY=''; y {V}", f"x; API_KEY='' {V}; y"),
            *(f"${{API_KEY}}{V}", f"${{X:-{V}}}"),
            *(f'{{"a": "--token", "a": "{V}"}}', f'{{"a": "{V}", "a": {{"token": 1}}}}'),
            *(f'{{"x": "{name}", "v": "{V}"}}' for name in ("my token", "a-" * 40 + "key")),
            *(f"api-k={V}", f"HF_TOK={V}", f"otlp-traces={V}", f"additional={V}"),
            *(f'token"{V}"', f"token'{V}'", f"a token'{V}", f"x password,{V}", f"x token {V}"),
        ],
        False,
    ),
}
"""Texts of users, each with whether it states that `V` is a secret; docs/security.md says why."""


NAMED_LIKE_A_SECRET: Final = ("SuperSecretPassword1", "letmeinPassword", "my-secret-token-77x", "5hOPW88oDwGf4vRcPW")
"""Values of secrets that read as names of secrets."""


@pytest.mark.parametrize("value", NAMED_LIKE_A_SECRET)
@pytest.mark.parametrize(
    "text",
    [
        *('{"name": "DB_PASSWORD", "value": "VALUE"}', '{"key": "DB_PASSWORD", "value": "VALUE"}'),
        *('{"login": "DB_PASSWORD", "value": "VALUE"}', '{"x": "VALUE", "y": "DB_PASSWORD"}'),
        '{"headers": [{"name": "Authorization", "value": "VALUE"}]}',
        '{"kind": "env", "name": "DB_PASSWORD", "value": "VALUE"}',
        '{"name": "DB_PASSWORD", "value": "VALUE", "a": 1, "b": 1, "c": 1, "d": 1, "e": 1}',
    ],
)
def test_a_value_that_reads_as_the_name_of_a_secret_is_one_beside_another(text: str, value: str) -> None:
    assert value in secrets_of_text(text.replace("VALUE", value))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"kind": "Secret", "type": "{V}"}}',
        f'{{"login": "DB_PASSWORD", "value": "my-secret-token-77x", "type": "{V}"}}',
        f'{{"kind": "Secret", "login": "DB_PASSWORD", "value": "{V}"}}',
    ],
)
def test_a_kind_or_type_is_a_secret_beside_a_name_unless_it_reads_as_one(text: str) -> None:
    assert V in secrets_of_text(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "Secret", "name": "hf-token"}',
        '{"kind": "Secret", "type": "basic-password"}',
        '{"type": "api-key", "name": "my-secret"}',
    ],
)
def test_a_reference_to_a_secret_states_none(text: str) -> None:
    assert [*secrets_of_text(text)] == []


ESCAPED_VALUES: Final = {
    r'''"P4\$sw0rdKonto"''': "P4$sw0rdKonto",
    r'''"Pa\$\$Kontoauszug"''': "Pa$$Kontoauszug",
    r'''"Pass1\$w0rdKonto"''': "Pass1$w0rdKonto",
    r'''"Winte\"Kontoauszug"''': 'Winte"Kontoauszug',
    **{f"{V[:at]}\\{mark}{V[at:]}": f"{V[:at]}{mark}{V[at:]}" for at in (1, 4, 5, 6) for mark in "& '\"$!;"},
    f"{V[:5]}\\\n{V[5:]}": V,
    f'"{V[:5]}\\\n{V[5:]}"': V,
    rf"\{V[:5]}'{V[5:]}'": V,
    rf'\{V[:5]}"{V[5:]}"': V,
    rf"{V[:5]}\&'{V[5:]}'": f"{V[:5]}&{V[5:]}",
    rf"$'{V[:5]}\'{V[5:]}'": f"{V[:5]}'{V[5:]}",
    rf"$'\x5a{V[1:4]}'{V[4:]}": V,
    rf'{V[:3]}"{V[3:5]}\${V[5:]}"': f"{V[:3]}{V[3:5]}${V[5:]}",
    rf"\"\!{V[:4]}\\": f'"!{V[:4]}\\',
    rf"'{V[0]}'{V[1]}\<{V[2]}\){V[3:5]}": f"{V[0]}{V[1]}<{V[2]}){V[3:5]}",
}
"""Words of a script, each with what bash makes of it."""


@pytest.mark.parametrize("word", ESCAPED_VALUES)
@pytest.mark.parametrize("text", ["set -e\nexport DB_PASSWORD={}\n", "x; DB_PASSWORD={}; y", "x --db-password={} -y"])
def test_a_value_of_a_script_with_backslashes_is_not_shown_as_a_shell_reads_it(text: str, word: str) -> None:
    value = ESCAPED_VALUES[word]
    assert SecretValues(secrets_of_text(text.format(word))).hidden(f"no `{value}` here") in {
        "no `…` here",
        'no `"…` here',
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (rf'x; y "{{\"token\":\"{V}\",\"model\":\"Qwen/Qwen3-8B\"}}"; z', "Qwen/Qwen3-8B"),
        (rf'x; y "--token={V}\",\"model\":\"Qwen/Qwen3-8B\"}}"; z', "Qwen/Qwen3-8B"),
        (f"x; TOKEN='{V}' vllm serve Qwen/Qwen3-8B; y", "Qwen/Qwen3-8B"),
        (f'x; TOKEN="{V}\\""; vllm serve Qwen/Qwen3-8B; y', "Qwen/Qwen3-8B"),
    ],
)
def test_what_follows_a_value_of_a_script_is_shown(text: str, shown: str) -> None:
    values = SecretValues(secrets_of_text(text))
    assert values.hidden(f"no `{V}`") == "no `…`"
    assert values.hidden(f"no `{shown}`") == f"no `{shown}`"


@table(("text", "is_stated"), STATED.items(), ids=str)
def test_a_text_states_a_secret_as_it_is_documented(text: str, *, is_stated: bool) -> None:
    is_whole = V in text or any(quoted in text for quoted in QUOTED_IN_SCRIPTS)
    parts = (V.lower(), V.upper(), V[:6], V[:5], V[:3])
    value = V if is_whole else next(part for part in parts if part in text)
    for values in (SecretValues(secrets_of_text(text)), SecretValues(secrets_of({"env": {"A": text}}))):
        assert (values.hidden(f"no `{value}` here") != f"no `{value}` here") is is_stated


PARTLY_MASKED: Final = (
    *(
        f"Winter2026@{V}",
        f"bob:Winter2026@{V}",
        f"postgres://bob:Winter@{V}/x",
        f"Winter@2026@{V}",
        f"Winter2026@{V[:3]}",
    ),
    *(f"AKIAIOSFODNN7EXAMPLE:{V}", f"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH:{V}", f"sk-abcD12+{V[:3]}"),
    *(f"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH{mark}{V}" for mark in "@~#!/"),
    *(f"AKIAIOSFODNN7EXAMPLE:wJalr/{V}/bPxRfi", f"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH/a:{V}/b"),
)
"""Secrets that have a part which is hidden in any text: an address's user, or a token of a known form."""


@pytest.mark.parametrize("value", slow_except(PARTLY_MASKED[:1], PARTLY_MASKED))
def test_no_rest_of_a_secret_is_shown_whose_beginning_is_masked_in_any_text(policy: Policy, value: str) -> None:
    rest = V[:3] if value.endswith(V[:3]) else V
    repeated = [f"{before}{value}" for before in ("", "x:", "x=", "x ", "http://", ":", '"a":')]
    repeated += [f"x:{value.replace('@', '%40')}", f"x:{value.replace('@', chr(0xFF20))}", f"x:{value}/y"]
    repeated += [f"x:{value[:6]}''{value[6:]}", f"x{'y' * 60}:{value}"]
    documents: list[dict[str, Any]] = []
    for each in repeated:
        config = json.dumps({"kv_connector": each, "kv_role": "kv_both"})
        words = ["--worker-cls", each, "--kv-transfer-config", config]
        documents.append(deployment(["serve", NAME, *words], env={"API_KEY": value}))
        documents.append(deployment(["serve", NAME, each], env={"API_KEY": value}))
        documents.append(manifest(pod(args=["--model", NAME, *words])))
        documents[-1]["manifest"]["metadata"]["annotations"]["API_KEY"] = value
    assert [each for each in documents if rest in "".join(answers(policy, each, explain=False))] == []


@pytest.mark.parametrize("text", ["https://…@example.com/x", "`x:…@h` and `a@b`", "`…`, `@`"])
def test_an_address_is_shown_beside_other_secrets(text: str) -> None:
    assert SecretValues(["Winter2026@Kontoauszug", "abcdefgh"]).hidden(text) == text


OF_ANNOTATION: Final = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}}
ELSEWHERE: Final[dict[str, dict[str, Any]]] = {
    "a reference to another variable": {"env": [{"name": "X", "value": V}, {"name": "API_KEY", "value": "$(X)"}]},
    "an address with a variable": {"env": [{"name": "X", "value": V}, {"name": "A", "value": "https://bob:$(X)@h"}]},
    "an argument": {"env": [{"name": "X", "value": V}], "args": ["--model", NAME, "--api-key", "$(X)"]},
    "an argument of another program": {"env": [{"name": "X", "value": V}], "command": ["x", "--api-key=$(X)"]},
    "a ConfigMap": {"env": [{"name": "API_KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "x"}}}]},
    "a prefix": {"envFrom": [{"prefix": "PASS", "configMapRef": {"name": "m"}}]},
    "an annotation": {
        "env": [{"name": "API_KEY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}}]
    },
    "a label": {"env": [{"name": "API_KEY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a.b/x']"}}}]},
    "an annotation in an argument": {"env": [OF_ANNOTATION], "args": ["--model", NAME, "--api-key", "$(A)"]},
    "an annotation in a variable": {"env": [OF_ANNOTATION, {"name": "API_KEY", "value": "$(A)"}]},
    "an annotation in an address": {"env": [OF_ANNOTATION, {"name": "B", "value": "https://bob:$(A)@h"}]},
    "an annotation in two variables": {
        "env": [OF_ANNOTATION, {"name": "B", "value": "$(A)"}, {"name": "API_KEY", "value": "$(B)"}]
    },
}
"""Fields of a container, in which the secret comes to a name of one from elsewhere in the manifest."""


@pytest.mark.parametrize("fields", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize("place", ["containers", "initContainers", "the engine"])
@pytest.mark.parametrize("is_under_review", [False, True])
def test_a_secret_of_a_container_from_elsewhere_in_the_manifest_is_not_shown(
    policy: Policy, fields: dict[str, Any], place: str, *, is_under_review: bool
) -> None:
    engine = {"name": "vllm", "image": IMAGE, "args": ["--model", NAME, "--worker-cls", V]}
    other = {"name": "other", "image": "busybox", **fields}
    if place == "the engine":
        engine |= {name: value for name, value in fields.items() if "args" not in fields and "command" not in fields}
    spec: dict[str, list[Any]] = {"containers": [engine]}
    spec.setdefault(place if place != "the engine" else "initContainers", []).append(other)
    metadata = {"name": "p", "annotations": {"x": V}, "labels": {"a.b/x": V}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": V, "WORD": V}}
    document = [config_map, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]
    asked = read_request_or_manifest(manifest(document), policy.releases)
    assert isinstance(asked, Manifest)
    (container,) = containers_of(asked, policy.releases, is_under_review=is_under_review)
    request = request_of(container, asked, policy.releases)
    assert isinstance(request, Request)
    assert V not in encode(policy.decide(request, TODAY)).decode()


UNREADABLE: Final = (
    *(f"{V}: x\n{V}: y\ntoken: {V}\n", f"<<: {V}\ntoken: {V}\n", f"x: {{{V}: x, {V}: y}}\nAPI_KEY: {V}\n"),
    *(f"env:\n- name: API_KEY\n  value: {V}\n{V}: x\n{V}: y", f"args: [--api-key, {V}]\nx: {{{V}: x, {V}: y}}\n"),
    *(f"env: [{{name: API_KEY, value: {V}}}]\n<<: {V}", f"args:\n- --api-key\n- {V}\n{V}: x\n{V}: y\n"),
)
"""YAML with a fault whose message would repeat a secret of it."""


@pytest.mark.parametrize("text", UNREADABLE)
@pytest.mark.parametrize("is_nested", [False, True])
def test_what_is_wrong_with_yaml_shows_no_secret_that_it_states(text: str, *, is_nested: bool) -> None:
    body = "manifest:\n" + indent(text, "  ") if is_nested else text
    with pytest.raises(Refused, match=r"line .*`…`"):
        decode(body.encode(), b"application/yaml")


OPTION_FILES: Final = (
    *(f"x: &a {V}\napi-key: *a", f"x: &a {{y: {V}}}\nhf-token: *a", f"additional-config: {{a: {{b: {V}}}}}"),
    *(f"additional_config:\n  a:\n  - b\n  - {V}\n", f"x: &a\n  y: {V}\nmodel-loader-extra-config:\n  <<: *a"),
    *(f"api-k: {V}", f'"api-key":\n  {V}', f"api-key: >-\n\n  {V}", f"a: [1, {{token: {V}, 2: 3}}]"),
    *(f"1: a\nx: &a {V}\napi-key: *a\ndate: 2026-01-01", f'"token": {V}\nb: ['),
)
"""Files of options that have a secret."""


@pytest.mark.parametrize("text", OPTION_FILES)
def test_a_secret_of_a_file_of_options_is_not_shown_elsewhere(policy: Policy, text: str) -> None:
    for files in ({"c.yaml": text}, {"c.yaml": "dtype: auto", "d.yaml": text}):
        words = ["serve", NAME, "--config", "c.yaml", "--worker-cls", V]
        shown = "".join(answers(policy, deployment(words, files=files), explain=True))
        assert "`…`" in shown or "line 2" in shown or "expected a string as key" in shown
        assert V not in shown


@pytest.mark.parametrize(
    ("repeated", "is_hidden"),
    [
        *((each, True) for each in ("Zq8J+bhpk:JG4r", "aZq8J+bhpk:JG4r", "Zq8J+bhpk:JG4r.x", "Zq'8J'+bhpk:JG4r")),
        *((each, True) for each in ("Zq8J+bhpk:JG", "Zq8J%2bbhpk%3AJG4r", "Zq8J\\u002bbhpk:JG4r")),
        *((f"Zq8J{mark}+bhpk:JG4r", True) for mark in '"\\&|<>{}[]*?$%\t\u00a0\u200b\u00ad'),
        *((f"Zq8J{mark}+bhpk:JG4r", True) for mark in ("\\u200b", "%C2%AD", "\\x01", "\\u001f", "%1b", "\\x0b")),
        *((f"Zq8J{mark}+bhpk:JG4r", False) for mark in (*" ,;()=\n", "%20", "\\t", "%0A", "\\u000a")),
        *(
            (each, False)
            for each in ("Zq8J+bhpk", "bhpk:JG4r", "zq8j+bhpk:jg4r", "WnE4SitiaHBrOkpHNHI=", "Zq8J.bhpk:JG4r")
        ),
    ],
)
def test_a_secret_is_hidden_in_the_forms_that_are_documented(repeated: str, *, is_hidden: bool) -> None:
    shown = SecretValues(["Zq8J+bhpk:JG4r"]).hidden(f"no `{repeated}` here")
    assert (shown != f"no `{repeated}` here") is is_hidden


WRITTEN_NUMBERS: Final = (
    *("87654321", "87654321.5", "87654321.50", ".12345678", "+12345678", "-98765432", "12345678e9", "12345678e+9"),
    *("0123456789", "012345670", "0x1234567890", "1_234_567_890", "12_345_678.50", "12345678901234567890", "1" * 40),
    *("0b1011100011101011010", "0.000001", "300000000000000000.0", "20000000000000000000000.0"),
)
"""Numbers as YAML is written."""
NUMBERS_STATED: Final = {
    "a variable of Compose": "services: {x: {image: b, environment: {API_KEY: NUMBER}}, vllm: &vllm SERVICE}",
    "the engine's own": "services: {vllm: {image: IMAGE, command: WORDS, environment: {API_KEY: NUMBER}}}",
    "a ConfigMap": "[{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {API_KEY: NUMBER}}, POD]",
    "a field": "[{apiVersion: example.com/v1, kind: X, spec: {password: NUMBER}}, POD]",
    "a variable": "[{apiVersion: v1, kind: X, spec: {env: [{name: API_KEY, value: NUMBER}]}}, POD]",
    "an argument": "[{apiVersion: v1, kind: X, spec: {args: [--api-key, NUMBER]}}, POD]",
}
"""Manifests that have a number as the value of a secret."""


@pytest.mark.parametrize("text", NUMBERS_STATED.values(), ids=NUMBERS_STATED)
@pytest.mark.parametrize("number", slow_except(WRITTEN_NUMBERS[::4], WRITTEN_NUMBERS))
def test_a_number_that_is_a_secret_is_not_shown_as_it_is_written(policy: Policy, text: str, number: str) -> None:
    words = json.dumps(["--model", NAME, "--worker-cls", number])
    stated = text.replace("NUMBER", number).replace("SERVICE", "{image: IMAGE, command: WORDS}").replace("WORDS", words)
    stated = stated.replace("POD", json.dumps(pod(args=json.loads(words)))).replace("IMAGE", IMAGE)
    (document,) = read_documents(stated, "x", resolve=resolve_variables)
    shown = "".join(answers(policy, manifest(document), explain=True))
    assert "outside vLLM" in shown
    assert number not in shown


@pytest.mark.parametrize(
    "number",
    [48151623, 48151623.5, 4.8151623e23, -48151623, "0.000001", "300000000000000000.0", "20000000000000000000000.0"],
)
def test_a_number_in_json_that_is_a_secret_is_not_shown(policy: Policy, number: float | str) -> None:
    words = ["serve", NAME, "--worker-cls", str(number)]
    for text in (f'{{"token": {number}}}', f'["--token", {number}]', f'{{"a": {{"token": [{number}]}}}}'):
        shown = "".join(answers(policy, deployment(words, env={"X": text}), explain=True))
        assert "outside vLLM" in shown
        assert str(number) not in shown


@pytest.mark.parametrize("text", ["12345.5", "x123456.50", "v123456.50", "123.456.50", "0.33.0", "12.34", "123457.5"])
def test_a_number_that_is_no_secret_is_shown(text: str) -> None:
    assert SecretValues(["123_456.5", "0.3300", "1_2.340"]).hidden(f"no `{text}` here") == f"no `{text}` here"


@pytest.mark.parametrize(
    ("number", "are_secrets"), [("00123456", False), ("0.500000", False), ("1.0e-5", True), ("12345.0", True)]
)
def test_a_number_is_as_long_as_its_spelling_without_an_exponent(number: str, *, are_secrets: bool) -> None:
    assert bool(SecretValues(secrets_of_names({"token": yaml.safe_load(number)}))) is are_secrets


def test_a_number_that_a_command_makes_of_a_secret_is_a_fact_as_it_is(policy: Policy) -> None:
    """Rules compare it: a decision with another one would be wrong."""
    document = deployment(["serve", NAME, "--data-parallel-size", "$(API_KEY)"], env={"API_KEY": "1234567"})
    (shown,) = answers(policy, document, explain=True)
    assert "1234567" in shown


NAMED: Final = (
    *(f'{{"value":"{SECRET}","header":"Authorization"}}', f'{{"id":"api_key","value":"{SECRET}"}}'),
    *(f'{{"val":"{SECRET}","var":"HF_TOKEN"}}', f'{{"string_value":"{SECRET}","field":"password","type":"string"}}'),
    *(f'{{"a":[{{"x":"{SECRET}","y":"client_secret"}}]}}', f'{{"option":"--api-key","values":["{SECRET}"]}}'),
    *(f"machine h login bob password {SECRET}", f"machine h\n  login bob\n  password {SECRET}"),
    *(f"default login bob password {SECRET}", f"machine h password {SECRET} login bob"),
)
"""Texts that give a secret to a name in another way than by one sign between both."""


@pytest.mark.parametrize("text", NAMED)
def test_a_secret_beside_any_name_of_one_is_not_shown(policy: Policy, text: str) -> None:
    documents = [
        deployment(["serve", NAME, "--worker-cls", text]),
        deployment(["serve", NAME, "--worker-cls", SECRET], env={"A": text}),
        manifest(pod(args=["--model", NAME, "--worker-cls", SECRET], env=[{"name": "A", "value": text}])),
    ]
    if not text.startswith("{"):  # in the middle of a script, JSON is not read as such
        script = f"cat > x <<E\n{text}\nE\nvllm serve {NAME} --worker-cls {SECRET}"
        documents.append(manifest(pod(command=["sh", "-c", script])))
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=True)))] == []


@pytest.mark.parametrize(
    "way",
    slow_except(
        ("words", CHANGING[0], CHANGING[6]),
        ("words", *CHANGING),
    ),
)
def test_no_part_of_a_secret_is_shown_that_a_shell_changes(policy: Policy, way: str) -> None:
    shown: list[tuple[str, str]] = []
    for value in CHANGED_VALUES:
        env = [{"name": "API_KEY", "value": value}]
        letters = "".join(filter(str.isalnum, value)).lower()
        parts = {letters[at : at + 7] for at in range(max(1, len(letters) - 6))}
        for copy in ("$API_KEY", "$(API_KEY)", "${API_KEY%x}"):
            script = way.replace("MODEL", NAME).replace("VALUE", copy)
            words = {"args": ["--model", NAME, "--chat-template", copy, "--quantization", copy]}
            container = words if way == "words" else {"command": ["bash", "-c", script]}
            document = manifest(pod(env=env, **container))
            plain = "".join(filter(str.isalnum, "".join(answers(policy, document, explain=False)))).lower()
            if any(part in plain for part in parts):
                shown.append((value, str(container)))
    assert shown == []


@pytest.mark.parametrize("value", ["Zq8Jbh*pkJG4", "*Zq8Jbhpk"])
def test_no_secret_is_in_what_must_be_known(policy: Policy, value: str) -> None:
    script = f"vllm serve {NAME} --chat-template $API_KEY"
    request = read_request_or_manifest(deployment(["bash", "-c", script], env={"API_KEY": value}), policy.releases)
    assert isinstance(request, Request)
    result = policy.evaluate(request, TODAY)
    assert result.intake is not None
    with pytest.raises(RequestInvalid, match=r"value of the argument `[^`]{0,5}…` .* is not known"):
        require_known_values(result.intake, "")


def test_a_message_keeps_its_own_words_that_are_a_secret_without_blanks() -> None:
    values = SecretValues(["notset", "changeme", "${HOME}/.cache/vllm", "${A:-x}/root/.cache"])
    kept = "`--dtype` is not set; change me: `/root/.cache/vllm`"
    assert values.hidden(kept) == kept
    assert values.hidden("`x` is `notset` and `change'me'`") == "`x` is `…` and `…`"


BESIDE: Final = (
    *("printf -v {} '%s' VALUE", "printf -v {} VALUE", "printf -v{} %s VALUE", "printf -v {}[0] %s VALUE"),
    *("printf -v A[{}] %s VALUE", "builtin printf -v {} %s VALUE", "A={}; printf -v $A %s VALUE", "printf -- {} VALUE"),
    *("CFG[{}]=VALUE", "CFG[{}]+=VALUE", "declare -A CFG; CFG[{}]=VALUE", "CFG['{}']=VALUE", 'CFG["{}"]=VALUE'),
    *("CFG[a,{}]=VALUE", "A={}; CFG[$A]=VALUE", "declare CFG[{}]=VALUE", "export CFG[{}]=VALUE", "CFG[{}_$I]=VALUE"),
    *("declare -A CFG=([{}]=VALUE)", "CFG=([{}]=VALUE)", "CFG=([{}]='VALUE' x)", "CFG+=([{}]=VALUE)", "CFG=({} VALUE)"),
    *("readonly {} VALUE", "export {} VALUE", "export -- {} VALUE", "declare -x {} VALUE", "typeset {} VALUE"),
    *("local {} VALUE", "export {} = VALUE", "export {}= VALUE", "A={}; export $A VALUE", "command export {} VALUE"),
    *("read {} <<< VALUE", "read {} <<E\nVALUE\nE", "read -rp VALUE {}", "mapfile {} <<< VALUE", "getopts VALUE {}"),
    *("let {}=VALUE", "set -- {} VALUE", "set {} VALUE", "unset {} VALUE", "eval {} VALUE", "alias {} VALUE"),
    *("hash -p VALUE {}", "wait -p {} VALUE", "bind {} VALUE", "complete {} VALUE", "pushd {} VALUE", "trap {} VALUE"),
    *("for {} in VALUE; do :; done", "select {} in VALUE; do :; done", "case {} in VALUE) ;; esac", "[ ${} = VALUE ]"),
    *(
        "[[ ${} == VALUE ]]",
        "test {} = VALUE",
        "setenv {} VALUE",
        "env {} VALUE",
        "{} VALUE",
        "{} = VALUE",
        "{}: VALUE",
    ),
    *("if true; then :; fi CFG[{}]=VALUE", "coproc {} {{ VALUE; }}", "shopt {} VALUE", "exec -a {} VALUE"),
)
"""Scripts in which a value stands beside the name of a secret, without an assignment to a variable of that name."""


@pytest.mark.parametrize("flag", ["api-key", *(f"{dashes}api-key" for dashes in (*DASHES, "\u2010\u2010"))])
def test_no_key_after_a_flag_without_its_dashes_is_shown(policy: Policy, flag: str) -> None:
    words = ["serve", NAME, flag, "short1", SECRET, f"{SECRET}2"]
    for args in (words, [*words, "--port", "1"], " ".join(["vllm", *words]), words[2:]):
        assert not has_secret("".join(answers(policy, deployment(args), explain=True))), args


@pytest.mark.parametrize(
    "name", slow_except(["TOKEN", "api_key"], ["TOKEN", "PASSWORD", "KEY", "pass", "HF_TOKEN", "api_key"])
)
def test_a_value_beside_the_name_of_a_secret_is_not_shown(policy: Policy, name: str) -> None:
    scripts = [script.replace("{}", name).replace("VALUE", SECRET) for script in BESIDE]
    texts = [f"{script}; vllm serve {NAME}" for script in scripts]
    texts += [f"{script}; vllm serve {NAME} --port ${{CFG[{name}]}} --nonsense ${name}" for script in scripts]
    texts += [
        f"{script}; vllm serve {NAME} --port {SECRET}" for script in scripts if script.startswith(("printf -v", "CFG["))
    ]
    documents = [deployment(["bash", "-c", text]) for text in texts]
    documents += [manifest(pod(command=["bash", "-c", text])) for text in texts[::3]]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=False)))] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CFG[token]=value1", "CFG[token]=…"),
        ("CFG['token_$I']+=value1", "CFG['token_$I']+=…"),
        ("KEY+=value1", "KEY+=…"),
        ("x; printf -v KEY value1", "x; printf -v KEY …"),
        ("x; printf -vKEY value1", "x; printf -vKEY …"),
        ("x; export -- KEY value1", "x; export -- KEY …"),
        ("x; readonly 'KEY' value1", "x; readonly 'KEY' …"),
        ("the KEY value1", "the KEY value1"),
        ("names[key] value1", "names[key] value1"),
        ("exports KEY value1", "exports KEY value1"),
    ],
)
def test_what_a_shell_gives_to_the_name_of_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("declare -i COUNT", "declare -i COUNT"),
        ("printf -v OUTPUT %s a-value", "printf -v OUTPUT %s a-value"),
        ("printf -v KEY %s a-value", "printf -v KEY …"),
        ("hash -p a-value KEY", "hash -p …"),
        ("printf -v $NAME %s a-value", "printf -v $NAME %s …"),
        ("command vault login a-value", "command vault login …"),
        ("command -p command ./mytool a-value", "command -p command ./mytool …"),
        ("command sudo mytool a-value", "command sudo …"),
        ("command -x mytool a-value", "command -x …"),
        ("builtin mytool a-value", "builtin mytool …"),
        ("builtin printf", "builtin printf"),
    ],
)
def test_a_command_of_a_shell_is_shown_up_to_what_may_be_a_secret(command: str, shown: str) -> None:
    assert uncertain_construct(command, is_bash=True) == f"the command `{shown}`"


COMMANDS: Final = (
    *(f"curl -u user:{SECRET} http://x", f"curl --user {SECRET} x", f"mysql -p{SECRET} -e q", f"echo {SECRET}"),
    *(f"sshpass -p {SECRET} ssh h cat f", f"redis-cli -a {SECRET} get x", f"docker login -p {SECRET} r"),
    *(f"vault login {SECRET}", f"echo {SECRET} | vault login -", f"az login -p {SECRET}", f"jq --arg x {SECRET} .a f"),
    *(f"openssl enc -d -k {SECRET} -in f", f"a $(curl -u {SECRET} h)", f"a ')' {SECRET}", f"a \\) {SECRET}"),
    *(f"A={SECRET} a", f"(a {SECRET}) | b", f"a {'b ' * 1000}{SECRET}", f"a # ) {SECRET}", f"$(NAME) {SECRET}"),
)
"""Commands of other programs that have a secret without a name that shows it."""
SUBSTITUTIONS: Final = ("$({})", "x$({}", "`{}`", "<({})", ">({})", "$(a) $({})", "${{A:-$({})}}")


@pytest.mark.parametrize("command", slow_except(COMMANDS[::4], COMMANDS))
def test_a_command_within_a_word_is_shown_up_to_what_may_be_a_secret(policy: Policy, command: str) -> None:
    words = [each.format(command) for each in SUBSTITUTIONS]
    scripts = [shown.replace('"VALUE"', word) for shown in SHOWN[::2] for word in words]
    scripts += [f"vllm serve {NAME} {flag} {word}" for flag in ("-tp", "-O", "--served-model-name") for word in words]
    scripts += [f"A={word}; vllm serve {NAME} --port $A {word}" for word in words]
    documents = [deployment(text) for text in scripts]
    documents += [manifest({"script": text}) for text in scripts[::3]]
    documents += [deployment(["vllm", "serve", NAME, "--port", word]) for word in words]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=False)))] == []
    assert not any(has_secret(masked(word)) for word in words)
    assert not any(has_secret(masked_message(f"no `{word}` here")) for word in words if "`" not in word)


@pytest.mark.parametrize(
    "reference",
    [
        *(f"${{API_KEY:-{SECRET}}}", f"${{HF_TOKEN-{SECRET}}}", f"${{A-${{HF_TOKEN-{SECRET}}}}}"),
        *(f"${{API_KEY:-{SECRET}{mark}x}}" for mark in "'\"`("),
    ],
)
def test_a_default_of_a_variable_of_compose_is_not_shown(policy: Policy, reference: str) -> None:
    used = [[flag, reference] for flag in ("--port", "--runner", "--served-model-name", f"--{reference}")]
    services: list[dict[str, Any]] = [{"command": ["--model", NAME, *words]} for words in (*used, [reference])]
    services += [{"command": f"--model {NAME} --port {reference}"}, {"command": ["--model", reference]}]
    documents = [manifest({"services": {"vllm": {"image": IMAGE, **service}}}) for service in services]
    assert [each for each in documents if has_secret("".join(answers(policy, each, explain=True)))] == []


def test_a_secret_as_the_value_of_the_runner_s_variable_or_a_mount_is_not_shown(policy: Policy) -> None:
    reference, own = f"${{HF_TOKEN:-{SECRET}}}", "VLLM_USE_V2_MODEL_RUNNER"
    services: list[dict[str, Any]] = [
        *({"environment": environment} for environment in ({own: reference}, [f"{own}={reference}"])),
        *({"volumes": [mount]} for mount in (f"x:/usr/local/bin/{reference}", {"target": f"/usr/bin/{reference}"})),
        *({"tmpfs": f"/usr/bin/{reference}"}, {"volumes_from": [f"container:{reference}"]}),
        {
            "entrypoint": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
            "working_dir": f"/x/{reference}",
            "volumes": ["x:/x"],
        },
    ]
    documents = [
        manifest({"services": {"vllm": {"image": IMAGE, "command": ["--model", NAME], **service}}})
        for service in services
    ]
    env = {"HF_TOKEN": SECRET, own: SECRET}
    documents += [{"deployment": {"args": ["--model", NAME], "env": env, "model_configs": {NAME: QWEN}}}]
    scripts = (f"HF_TOKEN={SECRET} {own}={SECRET}", f"export HF_TOKEN={SECRET}; export {own}=$HF_TOKEN;")
    documents += [
        {"deployment": {"args": f"{script} vllm serve {NAME}", "model_configs": {NAME: QWEN}}} for script in scripts
    ]
    shown = ["".join(answers(policy, each, explain=True)) for each in documents]
    assert [each for each in shown if has_secret(each)] == []


@pytest.mark.parametrize("value", ["000001", " 00001"])
def test_a_secret_that_is_a_number_keeps_its_meaning_as_the_runner_s_variable(policy: Policy, value: str) -> None:
    env = {"HF_TOKEN": value, "VLLM_USE_V2_MODEL_RUNNER": value}
    document = {"deployment": {"args": ["--model", NAME], "env": env, "model_configs": {NAME: QWEN}}}
    assert '"starts":true' in "".join(answers(policy, document, explain=False))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$(NAME) and some words", "$(NAME) and some words"),
        ("$(cat /x | wc -l)-longer words", "$(cat /x | wc -l)-longer words"),
        ("$(curl -u user:pw http://x)/y", "$(curl -u …)/y"),
        ("$(curl -u 'user:pw' http://x)/y", "$(curl -u …"),
        ("`curl -u user:pw x` `date +%s`", "`curl -u …` `date +%s`"),
        ("$((16 * NUMBER_OF_GPUS))", "$((16 * NUMBER_OF_GPUS))"),
        ("$(python3 port.py)", "$(python3 port.py)"),
        ("diff <(sort one) <(sort another)", "diff <(sort one) <(sort …)"),
        ("<(sort " + "a " * 1000 + ")", "<(sort " + "a " * 509 + "a…)"),
    ],
)
def test_of_a_command_within_a_word_the_beginning_is_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("flag", ["--api-key", "--my-token", "--token", "--hf-token", "token", "API_KEY"])
@pytest.mark.parametrize("equals", [" = ", "= ", " : ", " == ", " := "])
def test_a_word_after_the_flag_of_a_secret_and_an_equals_sign_is_not_shown(
    policy: Policy, flag: str, equals: str
) -> None:
    for text in (f"vllm serve {NAME} {flag}{equals}{SECRET}", f"vllm serve {flag}{equals}{SECRET}"):
        for document in (deployment(text), deployment(text.split()), manifest(pod(command=text.split()))):
            assert not has_secret("".join(answers(policy, document, explain=True))), document


@pytest.mark.parametrize("value", slow_except(QUICK_VALUES[::2], QUOTED_VALUES))
def test_a_secret_as_the_name_of_a_model_is_not_shown(policy: Policy, value: str) -> None:
    shown = ["".join(answers(policy, each, explain=True)) for each in models_named(value)]
    assert [each for each in shown if has_secret(each)] == []


def test_a_variable_with_a_secret_as_the_name_of_a_model_is_not_shown(policy: Policy) -> None:
    shown = ["".join(answers(policy, each, explain=True)) for each in models_named_by_a_variable()]
    assert [each for each in shown if has_secret(each)] == []


@pytest.mark.parametrize("value", ["JEzckcY718J/abcd", "JEzckcY7~18J/x", "/JEzckcY718Jabcd", "JEzckcY718Jabcd"])
def test_a_secret_as_a_part_of_a_position_is_not_shown(policy: Policy, value: str) -> None:
    env, draft = {"HF_TOKEN": value}, {"num_speculative_tokens": 2, "method": "draft_model", "model": value}
    configs = {value: QWEN, NAME: QWEN}
    documents = [
        deployment(["serve", f"--model={value}"], env=env, model_configs={value: QWEN}),
        deployment(["serve", NAME, "--hf-config-path", value], env=env, model_configs=configs),
        deployment(["serve", NAME, "--speculative-config", json.dumps(draft)], env=env, model_configs=configs),
        deployment(["serve", NAME], env=env, model_configs=configs),
    ]
    for name in (f"{value}.yaml", f"/etc/{value}/c.yaml"):
        documents.append(deployment(["serve", NAME, "--config", name], env=env))
        documents[-1]["deployment"]["files"] = {name: "tensor-parallel-size: 2\n"}
    engine = {"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "m"}}
    engine["spec"] = {"url": f"hf://{value}", "engine": "VLLM", "env": env}
    documents.append({**manifest(engine), "model_configs": {value: QWEN}})
    shown = [
        (document, text)
        for document in documents
        for explain in (False, True)
        for text in answers(policy, document, explain=explain)
        if value[:12] in text
    ]
    assert shown == []


JSON_MEMBERS: Final = {
    "--kv-transfer-config": ("kv_connector", "kv_role", "kv_connector_module_path", "engine_id"),
    "--ec-transfer-config": ("ec_connector", "ec_role"),
    "--speculative-config": ("method", "model", "quantization", "attention_backend", "draft_load_config"),
    "--compilation-config": ("mode", "cudagraph_mode", "backend", "custom_ops", "splitting_ops"),
    "--attention-config": ("backend",),
    "--hf-overrides": ("model_type", "architectures", "quantization_config", "dtype"),
    "--pooler-config": ("pooling_type", "seq_pooling_type"),
    "--profiler-config": ("profiler",),
}
"""Members of JSON options with texts, which facts or messages may have."""


@pytest.mark.parametrize("value", slow_except((SECRET,), (SECRET, json.dumps([SECRET]), f"a,{SECRET}")))
def test_a_secret_as_the_value_of_any_flag_or_field_is_not_shown(policy: Policy, value: str) -> None:
    uses = [[option.name, value] for option in flags(RELEASE).by_name.values()]
    uses += [
        [flag, json.dumps({name: member, **({"method": "ngram"} if "spec" in flag and name != "method" else {})})]
        for flag, names in JSON_MEMBERS.items()
        for name in names
        for member in (SECRET, [SECRET], {SECRET: SECRET})
    ]
    documents = [deployment(["serve", NAME, *words], env={"HF_TOKEN": SECRET}) for words in uses]
    for field in ("model_type", "architectures", "torch_dtype", "layer_types", "quantization_config", "auto_map"):
        for changed in (SECRET, [SECRET], {"quant_method": SECRET}, {"AutoModel": SECRET}):
            documents.append(deployment(["serve", NAME], env={"HF_TOKEN": SECRET}))
            documents[-1]["deployment"]["model_configs"] = {NAME: {**QWEN, field: changed}}
    shown = [
        (document, text)
        for document in documents
        for text in answers(policy, document, explain=True)
        if has_secret(text)
    ]
    assert shown == []


def test_a_text_that_rules_name_is_shown_also_where_a_secret_s_variable_has_it(policy: Policy) -> None:
    backend = "external_launcher"
    document = deployment(["serve", NAME, "--distributed-executor-backend", backend], env={"HF_TOKEN": backend})
    asked = with_explanation(read_request_or_manifest(document, policy.releases))
    assert not isinstance(asked, Manifest)
    facts = policy.decide(asked, TODAY).facts
    assert isinstance(facts, dict)
    assert facts["parallel_config.distributed_executor_backend"].value == backend


def test_the_origin_of_a_fact_names_a_model_that_is_no_secret(policy: Policy) -> None:
    asked = with_explanation(read_request_or_manifest(deployment(["serve", NAME]), policy.releases))
    assert not isinstance(asked, Manifest)
    facts = policy.decide(asked, TODAY).facts
    assert isinstance(facts, dict)
    assert facts["model_config.runner_type"].from_ == f"model_configs/{NAME}/architectures"


@pytest.mark.slow
def test_no_answer_has_a_secret(policy: Policy) -> None:
    asked = enumerate(requests())
    shown = [
        (document, text)
        for place, document in asked
        for text in answers(policy, document, explain=place % ONE_IN == 0)
        if has_secret(text)
    ]
    assert shown == []


@pytest.mark.parametrize(
    ("architectures", "text"),
    [
        (["BertForTokenClassification", "Other"], "(BertForTokenClassification, Other)"),
        (["TokenEmbedding", "Other"], "(TokenEmbedding, Other)"),
        (["stop_token_ids: 1", "token_classify: 2"], "(stop_token_ids: 1, token_classify: 2)"),
        (["Token", "Other"], "(Token,…)"),
        (["HF_TOKEN other"], "(HF_TOKEN …)"),
        (["access_token_value: other"], "(access_token_value:…)"),
        (["tokenClassificationSecret: other"], "(tokenClassificationSecret:…)"),
    ],
)
def test_names_about_units_of_text_are_no_names_of_secrets(policy: Policy, architectures: list[str], text: str) -> None:
    document = {"facts": {"model_config": {"architectures": architectures}}, "vllm_version": "0.23.0"}
    request = read_request_or_manifest(document, policy.releases)
    assert not isinstance(request, Manifest)
    assert policy.decide(request, TODAY).summary == (
        f"V1: the architecture {text} is not on the list of those that default to V2"
    )


@pytest.mark.slow
def test_no_endpoint_and_no_log_has_a_secret(
    serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path
) -> None:
    """Send some of the requests to every endpoint: one by one, as text, as dry runs and in batches.

    Reviews are only validated, as a patch shows the object itself.
    """
    shown: list[tuple[dict[str, Any], str]] = []
    with serve(RUNNER_POLICY_LOG="", RUNNER_POLICY_LOG_STDOUT="true") as server, server.client() as client:

        def ask(path: str, document: dict[str, Any], **headers: str) -> None:
            answer = client.post(path, json=document, headers=headers)
            assert answer.status_code in {200, 422}
            if has_secret(answer.text):
                shown.append((document, answer.text))

        singles = [document for document in requests() if "deployment" in document]
        ask("/v1/decisions/batch", {"items": singles})
        ask("/v1/impact", {"deployments": singles, "releases": ["0.23.0", "0.33.0"]})
        ask("/v1/impact", {"deployments": singles, "to": "0.33.0"}, accept="text/plain")
        for document in singles[::ONE_IN]:
            ask("/v1/decisions", document)
            ask("/v1/decisions", document, accept="text/plain")
            ask("/v1/dry-run", document)
        for document in islice(pods(), 0, None, ONE_IN):
            ask("/v1/decisions", manifest(document))
            ask("/v1/admission", review(document))
    assert shown == []
    held = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert '"decision_id"' in held
    assert not has_secret(held)


@pytest.mark.parametrize(
    "unit", ["pw=", "token=a;", "--token=abcdef ", "${PW:-", "pw=${PW:-", "API_KEY='abcdef' ", "pw: "]
)
def test_values_of_a_text_do_not_overlap(unit: str) -> None:
    """Each is searched for by itself: names within the value of another would make of a text 256 times as much."""
    text = unit * 3000
    assert sum(map(len, secrets_of_text(text))) <= len(text)
