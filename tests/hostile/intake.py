"""The readers of deployments, and families of texts that are built to make them do too much work.

A text has about the requested size. It is read and decided like the body of a request.
"""

from __future__ import annotations

import json
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hostile.reader import Reader

from policy.errors import RequestInvalid
from policy.intake.command.flag_values import parse_value
from policy.intake.command.flags import flags
from policy.intake.command.shell import parse_script
from policy.intake.deployment import MAX_VARIABLES
from policy.intake.manifests.registry import read_manifest
from policy.parser.jsontext import read_json
from policy.policy import Policy
from policy.request.manifest import requests_of
from policy.request.request import Manifest, read_request_or_manifest
from policy.rules.catalogue import load
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.errors import RequestFault

    Family = Callable[[int], bytes]

TODAY: Final = date(2026, 1, 1)
RULES: Final = Path(__file__).resolve().parents[2] / "rules"
RELEASE: Final = "0.33.0"
NAME: Final = "m"
CONFIG: Final[dict[str, Any]] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 4,
}
IMAGE: Final = "vllm/vllm-openai:v0.33.0"
CONNECTED_WORKER: Final = {
    "type": "server",
    "config": {"kv-transfer-config": '{"kv_connector": "NixlConnector"}'},
}
WORKER: Final = {"type": "server", "image": IMAGE, "config": {"max-num-seqs": 1}, "extraEnv": "x"}


@cache
def shipped() -> Policy:
    """The shipped policy, loaded once."""
    return Policy(load(read_folder(RULES)))


def decide(body: bytes) -> list[object]:
    """The decisions of a request's body: one for a deployment, one for each engine of a manifest."""
    policy = shipped()
    parsed = read_request_or_manifest(read_json(body), policy.releases)
    if not isinstance(parsed, Manifest):
        return [policy.answer(parsed, TODAY)]
    return [_decided(policy, request) for _, request in requests_of(parsed, policy.releases)]


def _decided(policy: Policy, request: Any) -> object:
    try:
        return request if isinstance(request, RequestInvalid) else policy.answer(request, TODAY)
    except RequestInvalid as error:
        return error


def repeated(unit: str, size: int) -> str:
    """A unit repeated up to a size."""
    return unit * (size // len(unit))


def numbered(unit: str, size: int) -> list[str]:
    """Copies of a unit with a number for ``{}``, as many as fit a size as JSON."""
    return [unit.format(n) for n in range(size // (len(json.dumps(unit)) + 5))]


UNITS: Final[dict[str, str]] = {
    "plain": "a",
    "blanks": " ",
    "short words": "a ",
    "quotes": '"',
    "single quotes": "'",
    "pairs of quotes": "''",
    "escaped quotes": '\\"',
    "escapes": "\\a",
    "closed strings": '"\\"" ',
    "dollars": "$",
    "arguments": "$@",
    "sums, open": "$[",
    "variables": "$A",
    "variables, open": "${A",
    "variables, nested": "${A:-${A}}",
    "commands, open": "$(",
    "commands, closed": "$(a)",
    "backticks": "`a`",
    "open and closed": "${A}$(a)`a`",
    "separators": ";",
    "commands": "a;",
    "assignments": "A=1;",
    "appended values": "A+=1;",
    "chains": "a && A=1;",
    "one chain": "a && A=1 || ",
    "groups": "{ a && A=1;",
    "arguments set": 'set -- "$@" a;',
    "arguments shifted": "shift;",
    "vLLM in commands": "$(vllm serve)",
    "vLLM in arguments": "vllm ",
    "redirections": "2>a ",
    "pipes to files": "&>a ",
    "comments": "#\n",
    "here-documents": "<<A\n",
    "closed here-documents": "a <<A\nA\n",
    "here-documents on one line": "<<A ",
    "appended arrays": "[ ] && A+=(b)\n",
    "digits": "1",
    "numbers": "1.5k ",
    "dotted digits": "1.",
    "brackets": "[",
    "braces": '{"a":',
    "null bytes": "\0",
    "letters of other scripts": "\u0661",
}
"""The units of shell texts and flag values."""


def nested(unit: str, size: int) -> str:
    """Nested opening brackets, and as many closing ones."""
    return repeated(unit, size // 2) + {"${A:-": "}", "$(": ")", '{"a":': "}", "[": "]"}[unit] * (
        size // 2 // len(unit)
    )


def defined(size: int) -> str:
    """A variable that is half of the text, and its uses in the other half."""
    return f"A={repeated('a ', size // 2)};" + repeated("$A ", size // 2)


def chained(size: int) -> str:
    """Variables that each contain the previous one twice."""
    return "".join(f"A{n + 1}=$A{n}$A{n};" for n in range(size // 16)) + f"vllm serve $A{size // 16}"


def many_variables(size: int) -> str:
    """Exported variables, and between them commands that get all of them."""
    return "set -a;" + "".join(f"A{n}=1;b;" for n in range(size // 10)) + "vllm serve m"


def nested_scripts(size: int) -> str:
    """A script that is run many times."""
    return f"export A='{repeated('a;', size // 2)}';" + repeated('bash -c "$A";', size // 2)


def starts(size: int) -> str:
    """A script that starts vLLM many times."""
    return repeated("env A=1 vllm serve m;", size)


def exported_again(name: str, size: int) -> str:
    """A value that may start vLLM, exported many times."""
    return f"{name}='{repeated('x vllm y ', size // 2)}';" + repeated(f"export {name};", size // 2) + "a;vllm serve m"


def secrets_of_one(size: int) -> str:
    """Unknown secrets that all contain a value that may start vLLM."""
    secrets = "".join(numbered("TOKEN{}=${{A%x}};", size // 2))
    return f"A='{repeated('x vllm y ', size // 2)}';{secrets}a;vllm serve m"


def parts_used(use: str, size: int) -> str:
    """A value whose parts name vLLM's server, and many uses of it that are not known."""
    return f"A='{repeated('vllm_z serve_', size // 2)}';" + repeated(use, size // 2) + ";vllm serve m"


def shells_naming(size: int) -> str:
    """A value that may start vLLM, and shells that name its variable."""
    value = repeated("x y ", size // 2)
    return f"export A='{value}';" + repeated("bash -c 'echo \"\\$A\"';", size // 2) + "vllm serve m"


def nested_background(size: int) -> str:
    """Nested blocks that all run in the background."""
    depth = min(900, size // 8)
    return "{ " * depth + repeated("a;", size - 8 * depth) + "a" + "& }" * depth + "&"


def installations(size: int) -> str:
    """Variables that may change where pip installs, and commands that install."""
    return "".join(f"export PIP_A{n}=1;" for n in range(size // 40)) + repeated("pip install vllm==1;", size // 2)


SHELL: Final[dict[str, Callable[[int], str]]] = {
    **{name: partial(repeated, unit) for name, unit in UNITS.items()},
    "line ends after a command": lambda size: "vllm serve m" + repeated("\n", size),
    "line ends before an operator": lambda size: repeated("\n", size) + ";a",
    "line ends and blanks after a command": lambda size: "vllm serve m" + repeated(" \n", size),
    "an open string": lambda size: '"' + repeated('\\"', size),
    "an open single quote": lambda size: "'" + repeated("a", size),
    "an open backtick": lambda size: repeated("`a` ", size) + "`",
    "nested variables": partial(nested, "${A:-"),
    "nested commands": partial(nested, "$("),
    "one variable, used often": defined,
    "variables in chains": chained,
    "variables for many commands": many_variables,
    "scripts in scripts": nested_scripts,
    "many starts": starts,
    "a value exported again": partial(exported_again, "A"),
    "a secret exported again": partial(exported_again, "TOKEN"),
    "secrets with one value": secrets_of_one,
    "parts of a value as commands": partial(parts_used, "${A%x};"),
    "parts of a value as arguments": lambda size: "IFS=_;" + parts_used("$A ", size),
    "parts of another value": lambda size: (
        f"IFS=_;A='{repeated('x_', size // 2)}';" + repeated("echo $A;", size // 2) + "vllm serve m"
    ),
    "shells that name a value": shells_naming,
    "installations": lambda size: repeated("pip install vllm==1;", size) + "vllm serve m",
    "installations and variables": lambda size: installations(size) + "vllm serve m",
    "installations in the background": lambda size: repeated("pip install vllm==1&", size) + "vllm serve m",
    "installations in one list": lambda size: repeated("pip install vllm==1&&", size) + "a& vllm serve m",
    "one installation of many packages": lambda size: "pip install" + repeated(" vllm==1", size) + "; vllm serve m",
    "environments": lambda size: repeated(". /v/bin/activate;uv pip install vllm==1;", size) + "vllm serve m",
    "managers without a command": lambda size: repeated("uv -a ", size) + "install; vllm serve m",
    "substitutions that install": lambda size: repeated("A=$(pip install vllm);", size) + "vllm serve m",
    "nested lists in the background": nested_background,
    "a program moved many times": lambda size: "mv " + repeated("vllm ", size) + "; vllm serve m",
    "copies to a folder above": lambda size: "cp -r " + repeated("a ", size) + "/usr; vllm serve m",
    "archives unpacked": lambda size: repeated("cd a;tar xf x;", size) + "b/vllm serve m",
    "one archive": lambda size: "cd /x; tar xf " + repeated("a/ ", size) + "; vllm serve m",
    "variables that are not set": lambda size: "set -u;unset A " + repeated("B ", size) + repeated("$B", size),
    "pipelines that fail": lambda size: "set -eo pipefail;" + repeated("false|", size) + "x;vllm serve m",
    "images passed on": lambda size: "f run " + repeated("a/b ", size) + "vllm/a:1;vllm serve m",
    "pip configured": lambda size: repeated("pip config set --a a.b ;", size) + "vllm serve m",
    "programs moved to folders": lambda size: "mv " + repeated("a/python3.11 bin vllm ", size) + "; vllm serve m",
    "programs in folders": lambda size: "x " + "".join(numbered("bin python{} ", size)) + "; vllm serve m",
    "archives in a long folder": lambda size: f"cd /{'a' * 250};" + repeated("tar xf x;", size) + "vllm serve m",
    "files in a long folder": lambda size: f"cd /{'a' * 250}; touch " + repeated("a ", size) + "; vllm serve m",
    "deep folder of models": lambda size: f"cd /{'a/' * 120};" + repeated("touch a;vllm serve a;", size),
    "files in deep folders": lambda size: (
        "touch " + "".join(numbered("/{0}" + "/a" * 400 + " ", size)) + ";vllm serve /a"
    ),
    "folders and starts": lambda size: repeated("cd a;vllm serve a;", size),
    "links": lambda size: repeated("ln -s /a /b; cp x /b/a; ", size) + "cd /b; vllm serve a",
    "links of links": lambda size: (
        "".join(f"ln -s /l{n} /l{n + 1};" for n in range(size // 60))
        + repeated("cp x /l9/a;", size // 2)
        + "vllm serve a"
    ),
    "links in a deep folder": lambda size: (
        f"cd /{'a/' * 120};ln -s /x y;" + repeated("cp x a/b;", size) + "cd y; vllm serve a"
    ),
    "models filled": lambda size: f"cd /{'a/' * 120};tar xf x;" + repeated("vllm serve a;", size),
    "code that names paths": lambda size: "python3 -c 'x(" + repeated("/a", size) + ")'; vllm serve /a",
    "code that names no paths": lambda size: "python3 -c 'x/ " + repeated("a", size) + "'; vllm serve /a",
    "files in loops": lambda size: repeated("for a in /a/b;do x $a;done;", size) + "vllm serve /a",
    "files in one loop": lambda size: "for a in /a/*;do " + repeated("x $a;", size) + "done;vllm serve /a",
    "files of many loops": lambda size: "".join(numbered("for a{} in /a;do :;done;", size)) + "x $a1;vllm serve /a",
    "files for xargs": lambda size: repeated("ls /a/b|xargs rm;", size) + "vllm serve /a",
    "variables of unknown names": lambda size: "env " + repeated('"$A"=1 B=1 ', size) + "vllm serve /a",
    "unknown options of shells": lambda size: repeated("sh -c$A x;", size) + "vllm serve /a",
    "an unknown option": lambda size: "python3 -" + repeated("u", size) + "$A -m vllm.entrypoints.openai.api_server",
    "files listed": lambda size: repeated("ls /a/b|", size) + "xargs rm;vllm serve /a",
    "patterns of files": lambda size: "sed -i s/a/b/ " + repeated("/a/*/b ", size) + ";vllm serve /a",
    "possible paths": lambda size: "touch " + "".join(numbered("$X/{}/a.json ", size)) + "; vllm serve a/b",
    "possible paths of models": lambda size: "touch $X/b/a.txt; vllm serve a " + repeated("--x=1 a/b ", size),
    "possible folders of models": lambda size: "cp -r " + repeated("/x/* ", size) + "$X/b; vllm serve a/b",
    "commands of sed": lambda size: "sed 's/we/a/" + repeated("gs/we/a/", size) + "' /x; vllm serve a/b",
    "options of sort": lambda size: "sort " + repeated("-u -k1 ", size) + "/x; vllm serve a/b",
    "programs that are not known": lambda size: "flock /l " + repeated("A serve ", size) + "$A serve",
    "parts before a command": lambda size: "flock /l '" + repeated("$a) serves ", size) + "'",
    "programs renamed": lambda size: repeated("cp $A x;x serve;", size),
    "references by name": lambda size: "".join(numbered("declare -n A{0}=B{0};A{0}=C{0};", size)) + "$A1 serve",
    "models named": lambda size: "touch /a/b; vllm serve /a " + repeated("--x=1 /a ", size),
    "folders of models": lambda size: "cp -r " + "".join(numbered("a/m{} ", size)) + "; vllm serve m",
    "vllm and blanks": lambda size: "vllm serve m" + " " * size,
    "vllm and short words": lambda size: "vllm serve m " + repeated("a ", size),
    "vllm and escapes": lambda size: "vllm serve m " + repeated("\\a", size),
}

VALUES: Final[dict[str, Callable[[int], str]]] = {
    **{name: partial(repeated, unit) for name, unit in UNITS.items()},
    "an open string": lambda size: '"' + repeated('\\"', size),
    "an open string in an object": lambda size: '{"' + repeated('\\"', size),
    "an open string with a backslash last": lambda size: '{"' + repeated('\\"', size) + "\\",
    "deep": partial(nested, "["),
    "deep objects": partial(nested, '{"a":'),
    "an object of suffixes": lambda size: "{" + ",".join(numbered('"a{}": 1k', size)) + "}",
    "an object of suffixes, open": lambda size: "{" + ",".join(numbered('"a{}": 1k', size)),
    "an object of unknown fields": lambda size: "{" + ",".join(numbered('"a{}": 1', size)) + "}",
    "an object of a long number": lambda size: '{"a": ' + repeated("9", size) + "}",
    "a list": lambda size: "[" + ",".join(["1"] * (size // 2)) + "]",
    "a list of strings": lambda size: json.dumps(["a"] * (size // 5)),
    "a list of devices": lambda size: ",".join(["1"] * (size // 2)),
}

KINDS: Final = {
    flag.kind: flag
    for flag in flags(RELEASE).by_name.values()
    if flag.kind in {"devices", "human-or-auto", "json-or-text", "object"}
}
"""A flag of each kind whose values have parts."""


def _parsed(kind: str, body: bytes) -> object:
    return parse_value(KINDS[kind], body.decode())


def deployment(**members: Any) -> bytes:
    """A request for a deployment."""
    return json.dumps(
        {"vllm_version": RELEASE, "deployment": {"model_configs": {NAME: CONFIG}, **members}}, ensure_ascii=False
    ).encode()


def _args(words: list[str]) -> bytes:
    return deployment(args=["vllm", "serve", NAME, *words])


def _value(flag: str, value: Callable[[int], str], size: int) -> bytes:
    return _args([flag, value(size)])


def _many(unit: str, size: int) -> bytes:
    return _args(numbered(unit, size))


def _script(text: Callable[[int], str], size: int) -> bytes:
    return deployment(args=text(size))


ARGS: Final[dict[str, Family]] = {
    **{
        f"a value of {name}": partial(_value, "--kv-transfer-config", text)
        for name, text in VALUES.items()
        if name not in UNITS
    },
    **{
        f"a number of {name}": partial(_value, "--max-model-len", VALUES[name])
        for name in ("digits", "numbers", "plain")
    },
    **{f"devices: {name}": partial(_value, "--device-ids", VALUES[name]) for name in ("digits", "a list of devices")},
    **{f"a script of {name}": partial(_script, text) for name, text in SHELL.items() if name not in UNITS},
    "programs that may not exist": lambda size: deployment(args=[*numbered("$A{}/nohup", size), "vllm", "serve"]),
    "unknown flags": partial(_many, "--nonsense-{}"),
    "unknown short flags": partial(_many, "-x{}"),
    "unknown flags, no model": lambda size: deployment(args=["serve", *numbered("--nonsense-{}", size)]),
    "flags that are nearly known": partial(_many, "--tensor-paralel-size{}"),
    "flags of other releases": lambda size: _args(["--rope-scaling", "--disable-log-requests"] * (size // 52)),
    "one flag many times": lambda size: _args(["--seed=1"] * (size // 12)),
    "one object many times": lambda size: _args(["-cc", "{}"] * (size // 12)),
    "ambiguous flags": lambda size: _args(["--e"] * (size // 7)),
    "ambiguous flags with blanks": lambda size: _args(["--e=1 1"] * (size // 11)),
    "flags without a value": lambda size: _args(["--model"] * (size // 11)),
    "dashes": lambda size: _args(["-"] * (size // 5)),
    "a long unknown flag": lambda size: _args(["--" + "x" * size]),
    "a long flag of blanks": lambda size: _args(["--x" + " " * size]),
    "a flag of many dots": lambda size: _args(["--x" + "." * size, "1"]),
    "dotted flags": partial(_many, "-cc.a{}=1"),
    "dotted flags, deep": lambda size: _args(["-cc" + ".a" * 60 + "=1"] * (size // 130)),
    "dotted lists": lambda size: _args(["-cc.splitting_ops+=a,b"] * (size // 26)),
    "dotted flags of many spellings": lambda size: _args(
        [f"--{'compilation-config'[: 5 + n % 14]}.a{n}=1" for n in range(size // 24)]
    ),
    "dotted unknown flags": partial(_many, "--x{}.a=1"),
    "unexpected words": lambda size: _args(["a"] * (size // 5)),
    "unknown words": lambda size: _args(["$(A)", "$X"] * (size // 14)),
    "faults": lambda size: _args(["--seed=x"] * (size // 12)),
    "words that are not strings": lambda size: deployment(args=[1] * (size // 3)),
    "many processors": lambda size: _args(["--logits-processors", *["a.b:C"] * (size // 9)]),
    "envs": lambda size: deployment(args=["env"] * (size // 7)),
    "envs that set": lambda size: deployment(args=["env", "A=1"] * (size // 14)),
    "starters": lambda size: deployment(args=["time"] * (size // 8)),
    "a name": lambda size: _args(["--served-model-name", "x" * size]),
    "a model's name": lambda size: deployment(
        args=["--model", "x/" + "x" * (size // 2)], model_configs={"x/" + "x" * (size // 2): CONFIG}
    ),
    "a model that is missing": lambda size: deployment(args=["--model", "x/" + "x" * size]),
    "bars": lambda size: _args(["--chat-template", "{{" * (size // 2)]),
}


def _referring(size: int) -> bytes:
    """One variable that is half of the body, and as many references to it as fit."""
    return deployment(args=["vllm", "serve", NAME, *["$(A)"] * min(size // 16, 3000)], env={"A": "x" * (size // 2)})


def _referring_in_a_word(size: int) -> bytes:
    return deployment(args=["vllm", "serve", NAME, "$(A)" * (size // 8)], env={"A": "x" * (size // 2)})


def _referring_script(size: int) -> bytes:
    return deployment(args="vllm serve m " + "$A" * (size // 4), env={"A": "\\x" * (size // 8)})


def _nested_scripts(script: str, size: int) -> bytes:
    """Scripts in a variable that use another variable."""
    env = {"V": script * (size // 3 // len(script)), "W": "w;" * (size // 6)}
    return deployment(args='bash -c "$V";' * (size // 40) + "vllm serve m", env=env)


def _script_without_start(unit: str, size: int) -> bytes:
    """A script that names vLLM's server, and starts none as it is read."""
    return deployment(args=["sh", "-c", "echo vllm serve;" + unit * (size // len(unit))])


def _env_reference_script(size: int) -> bytes:
    return deployment(args=["bash", "-c", "vllm serve m $A$A"], env={"A": repeated("--x ", size)})


def _variables(size: int, most: int) -> dict[str, str]:
    """Variables whose names depend on the size, so that what is known of a name is not cached from another size."""
    return {f"A{size.bit_length()}_{number}": "1" for number in range(min(size // 15, most))}


def _shells_with(name: str, size: int) -> bytes:
    """A variable that shells evaluate, and many of them."""
    script = repeated("bash -c true;", size // 2) + "vllm serve m"
    return deployment(args=["sh", "-c", script], env={name: repeated("x vllm y ", size // 2)})


ENVIRONMENT: Final[dict[str, Family]] = {
    "many variables": lambda size: deployment(args=["--model", NAME], env=_variables(size, MAX_VARIABLES)),
    "more variables than are accepted": lambda size: deployment(args=["--model", NAME], env=_variables(size, size)),
    "variables that are not strings": lambda size: deployment(
        args=["--model", NAME], env={f"A{n}": 1 for n in range(size // 10)}
    ),
    "references to one": _referring,
    "references to one, in a word": _referring_in_a_word,
    "references that do not close": lambda size: deployment(
        args=["--model", NAME, "$(A" * (size // 3)], env={"A": "1"}
    ),
    "references in a script": _referring_script,
    "a trace of many shells": partial(_shells_with, "PS4"),
    "a function of many shells": partial(_shells_with, "BASH_FUNC_x%%"),
    "a script out of a variable": _env_reference_script,
    "scripts in scripts": partial(_nested_scripts, "a;"),
    "scripts in scripts, with variables": partial(_nested_scripts, "$W"),
    "scripts in scripts, escaped": partial(_nested_scripts, "\\a"),
    "shells for many variables": lambda size: deployment(
        args="bash -c a;" * (size // 24), env={f"A{n}": "1" for n in range(min(size // 24, MAX_VARIABLES))}
    ),
    "programs that may run variables": lambda size: deployment(
        args="a b;" * (size // 40) + "vllm serve m",
        env={f"A{n}": "vllm serve m" for n in range(min(size // 40, MAX_VARIABLES))},
    ),
    "a program that may put variables together": lambda size: deployment(
        args="a '" + "$A " * (size // 12) + "';vllm serve m", env={"A": "vllm" + "x" * (size // 2)}
    ),
    "programs that may run variables of the script": lambda size: deployment(
        args="".join(f"export A{n}='vllm serve m';pip $A;" for n in range(size // 40)) + "vllm serve m"
    ),
    **{
        f"scripts that start no server: {unit}": partial(_script_without_start, unit)
        for unit in (
            "cp $A /b;",
            "env ",
            "cat|",
            "sed s/a/b/;",
            "ln -s sh ",
            "cat <<E\nE\\\\\nx\nE\n",
            "${A%x};",
            "A=$(ln a);",
        )
    },
    "quotes in a variable": lambda size: deployment(args="a b;vllm serve m", env={"A": "vllm '\"" * (size // 7)}),
    "a long runner variable": lambda size: deployment(
        args=["--model", NAME], env={"VLLM_USE_V2_MODEL_RUNNER": "1" * size}
    ),
    "a long number": lambda size: deployment(args=["--model", NAME], env={"VLLM_MLA_DISABLE": "1" * size}),
    "a secret's value many times": lambda size: deployment(
        args=["--model", NAME, "--served-model-name", "abcdef`" * (size // 7)], env={"TOKEN": "abcdef"}
    ),
    "many secrets and many words": lambda size: deployment(
        args=["--model", NAME, *(f"word{n}" for n in range(min(size // 24, 4000)))],
        env={f"TOKEN{n}": f"abcdef{n}" for n in range(min(size // 48, 4000))},
    ),
    "a secret of many parts": lambda size: deployment(
        args=["--model", NAME, "--served-model-name", "abcdef;' " * (size // 18)],
        env={"TOKEN": "abcdef${;' \\x" * (size // 24)},
    ),
    "users of addresses in a value": lambda size: deployment(
        args=["--model", NAME, "--quantization", "https://u: @a %40 //b:c@" * (size // 24)]
    ),
    "names and values in JSON": lambda size: deployment(
        args=[
            "--model",
            NAME,
            "--hf-overrides",
            json.dumps({"a": [{"value": "abcdef", "name": "token"}] * (size // 36)}),
        ]
    ),
    "names of secrets without values": lambda size: deployment(
        args=["--model", NAME, "--served-model-name", "name=token token: pass\\u0077ord %70ass " * (size // 37)]
    ),
    "names of secrets within their values": lambda size: deployment(
        args=["--model", NAME, "--quantization", "pw:" * (size // 3)], env={"A": "pw=" * (size // 3)}
    ),
    "names of secrets in a file": lambda size: deployment(
        args=["--model", NAME, "--config", "c.yaml"], files={"c.yaml": "a-token: &a |\n- b\n" * (size // 18)}
    ),
    "numbers that are secrets": lambda size: deployment(
        args=["--model", NAME, "--served-model-name", "1234567.50 " * (size // 22)],
        env={f"TOKEN{n}": f"7654321.{n}" for n in range(min(size // 44, 4000))},
    ),
    "separators within a secret": lambda size: deployment(
        args=["--model", NAME, "--served-model-name", "abc" + ";" * (size // 4) + "def"],
        env={"TOKEN": "abcdef", "A_TOKEN": "a`${(" * (size // 8)},
    ),
}


def _file(text: str, name: str = "a.yaml") -> bytes:
    return deployment(args=["vllm", "serve", NAME, "--config", name], files={name: text})


def _file_of(unit: str, size: int) -> bytes:
    return _file(repeated(unit, size))


OPTION_FILES: Final[dict[str, Family]] = {
    **{f"a file of {name}": partial(_file_of, unit) for name, unit in UNITS.items()},
    "options": lambda size: _file("".join(f"nonsense-{n}: 1\n" for n in range(size // 17))),
    "false options": lambda size: _file("".join(f"nonsense-{n}: false\n" for n in range(size // 21))),
    "a list": lambda size: _file("logits-processors: [" + "a, " * (size // 3) + "a]"),
    "a deep list": lambda size: _file("logits-processors: " + "[" * (size // 2)),
    "aliases": lambda size: _file("a: &a [1]\nb: [" + "*a, " * (size // 4) + "*a]"),
    "a long value": lambda size: _file("kv-transfer-config: '{\"" + '\\"' * (size // 2) + "'"),
    "a map": lambda size: _file("kv-transfer-config:\n" + "".join(f"  a{n}: 1\n" for n in range(size // 10))),
    "a long name": lambda size: _file("".join(f"a{n}: 1\n" for n in range(size // 16)), "x" * (size // 2) + ".yaml"),
    "names that are near": lambda size: deployment(
        args=["vllm", "serve", NAME, "--config", "a" * (size // 64) + ".yaml"],
        files={f"{'a' * (size // 64)}{n}.yaml": "" for n in range(60)},
    ),
    "names that are not given": lambda size: _args(["--config", "a.yaml"] * (size // 22)),
}


def _model(**members: Any) -> bytes:
    return deployment(args=["--model", NAME], model_configs={NAME: {**CONFIG, **members}})


MODELS: Final[dict[str, Family]] = {
    "architectures": lambda size: _model(architectures=["A"] * (size // 5)),
    "architectures of models": lambda size: _model(architectures=["AForCausalLM"] * (size // 16)),
    "an architecture": lambda size: _model(architectures=["Model" * (size // 5)]),
    "architectures that are not strings": lambda size: _model(architectures=[1] * (size // 3)),
    "layer types": lambda size: _model(layer_types=["full_attention"] * (size // 18)),
    "layer types of a hybrid": lambda size: _model(
        architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", layer_types=["full_attention"] * (size // 18)
    ),
    "blocks": lambda size: _model(block_configs=[{"block_type": "moe"}] * (size // 25)),
    "experts": lambda size: _model(num_experts=[0] * (size // 3)),
    "members": lambda size: _model(**{f"a{n}": n for n in range(size // 16)}),
    "members of the language model": lambda size: _model(
        model_type="qwen2_5_vl", text_config={f"a{n}": n for n in range(size // 16)}
    ),
    "a deep document": lambda size: (
        b'{"deployment": {"args": ["--model", "m"], "model_configs": {"m": {"a": '
        + b"[" * (size // 2)
        + b"]" * (size // 2)
        + b"}}}}"
    ),
    "a long number": lambda size: _model(num_attention_heads=int("9" * min(size, 4000))),
    "layers, of which some have attention": lambda size: _model(
        architectures=["BambaForCausalLM"],
        model_type="bamba",
        num_hidden_layers=10_000,
        attn_layer_indices=[-1] * (size // 4),
    ),
    "layers, of which some are local": lambda size: _model(
        model_type="inkling_text", num_hidden_layers=10_000, local_layer_ids=[-1] * (size // 4)
    ),
    "layers that are looked up": lambda size: _model(model_type="lfm2", num_hidden_layers=10_000, a="a" * size),
    "a pattern of layers": lambda size: _model(
        architectures=["NemotronHForCausalLM"], model_type="nemotron_h", hybrid_override_pattern="M" * size
    ),
    "speculators": lambda size: _model(
        speculators_config={"verifier": {"name_or_path": "x" * size}, "proposal_methods": [{}]}
    ),
    "overrides": lambda size: deployment(
        args=["--model", NAME, "--hf-overrides", json.dumps({f"a{n}": n for n in range(size // 16)})]
    ),
    "models": lambda size: deployment(
        args=["--model", "x"], model_configs={f"{'x' * (size // 64)}{n}": {} for n in range(60)}
    ),
    "models that are not objects": lambda size: deployment(
        args=["--model", "x"], model_configs={f"x{n}": 1 for n in range(60)}, a="a" * size
    ),
    "modules": lambda size: deployment(
        args=["--model", NAME], files={f"{NAME}/modules.json": json.dumps([{"type": "a"}] * (size // 14))}
    ),
    "modules that are not JSON": lambda size: deployment(
        args=["--model", NAME], files={f"{NAME}/modules.json": '["' + '\\"' * (size // 2)}
    ),
    "unknown fields": lambda size: deployment(args=["--model", NAME], **{f"arg{n}": 1 for n in range(size // 12)}),
    "plugins": lambda size: deployment(
        args=["--model", NAME], environment={"plugins": {"logits_processors": ["a"] * (size // 5)}}
    ),
}


def _installed(parameters: object = None, **fields: Any) -> dict[str, Any]:
    """An application of Argo CD with an engine in its values."""
    values = {"server": {"image": IMAGE, "command": ["vllm", "serve", NAME], **fields}}
    spec = {"source": {"helm": {"valuesObject": values, "parameters": parameters}}}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec}


def _parameters(size: int, path: str) -> list[dict[str, str]]:
    return [{"name": path.format(n), "value": "1"} for n in range(max(1, size // 40))]


def _chart(kind: str, size: int) -> dict[str, Any]:
    """A chart of K3s with an engine, or its configuration, and as many other values."""
    values = {
        "server": {"image": IMAGE, "command": ["vllm", "serve", NAME]},
        "x": {str(n): n for n in range(size // 16)},
    }
    metadata = {"name": "x", "namespace": "x"}
    spec = {"valuesContent": json.dumps(values)}
    return {"apiVersion": "helm.cattle.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _entries(size: int) -> dict[str, str]:
    """The entries of a ConfigMap of about ``size`` bytes."""
    return {f"a{n}": "" for n in range(size // 12)}


def manifest(document: Any, **members: Any) -> bytes:
    """A request for the engines of a manifest."""
    return json.dumps({"manifest": document, "model_configs": {NAME: CONFIG}, **members}).encode()


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Pod."""
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": list(containers), **spec}}


def engine(**members: Any) -> dict[str, Any]:
    """A container that starts vLLM."""
    return {"image": IMAGE, "args": ["--model", NAME], **members}


def _unit_that_repeats(value: str, use: str, size: int) -> bytes:
    """A service whose command uses a long variable often."""
    start = '[Service]\nEnvironment="A=' + repeated(value, size // 3) + '"\n'
    commands = f"ExecStart=/usr/bin/vllm serve a {repeated(use, size // 3)}\n"
    return manifest({"unit": start + commands + f"[Container]\nImage={IMAGE}\nExec={repeated(use, size // 6)}\n"})


MOUNTS: Final = [{"name": "v", "mountPath": "//m"}]


def _config_map(data: dict[str, str], name: str = "c") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _custom(
    kind: str, spec: dict[str, Any], group: str = "serving.kserve.io/v1beta1", **members: Any
) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "spec": spec, **members}


def _env(size: int) -> list[dict[str, str]]:
    return [{"name": f"A{n}", "value": "1"} for n in range(size // 35)]


def _engines(size: int, most: int = 1024, **members: Any) -> list[dict[str, Any]]:
    one = engine(**members)
    return [one] * min(size // len(json.dumps(one)), most)


ENGINES: Final = 20
"""The number of engines that share a growing text.

If both grew, the work would be their product, up to the limit of what one manifest may copy.
"""
FIELD: Final = "{{ .ObjectMeta.Name }}"


def _mounting(size: int, engines: int = ENGINES, text: int | None = None) -> bytes:
    mounts = [{"name": "v", "mountPath": "/c"}]
    one = engine(args=["vllm", "serve", NAME, "--config", "/c/a.yaml"], volumeMounts=mounts)
    of_pods = pod(*[one] * engines, volumes=[{"name": "v", "configMap": {"name": "c"}}])
    return manifest(
        [
            _config_map({"a.yaml": repeated("a: b\n", 5) + repeated("# a\n", size // 2 if text is None else text)}),
            of_pods,
        ]
    )


def _sharing(size: int) -> bytes:
    """A ConfigMap that is most of the body, and engines whose arguments use a variable of it."""
    one = engine(args=["--model", NAME, "--kv-transfer-config", "$(a)"], envFrom=[{"configMapRef": {"name": "c"}}])
    return manifest([_config_map({"a": '{"' + '\\"' * (size // 2)}), pod(*[one] * ENGINES)])


def _runtime(size: int) -> bytes:
    runtime = _custom(
        "ServingRuntime",
        {"containers": [{"name": "kserve-container", **engine(args=["vllm", "serve", NAME, "x" * size])}]},
        metadata={"name": "r"},
    )
    service = _custom("InferenceService", {"predictor": {"model": {"runtime": "r"}}})
    return manifest([runtime, *[service] * ENGINES])


def _selected(size: int) -> bytes:
    """Runtimes of many formats, and services that name none of them."""
    formats = [{"name": f"f{n}", "version": f"{n}", "autoSelect": True, "priority": n} for n in range(20)]
    protocols = ["v1", "v2", "grpc-v1", "grpc-v2"]
    containers = [{"name": "kserve-container", **engine(args=["vllm", "serve", NAME])}]
    spec = {"containers": containers, "supportedModelFormats": formats, "protocolVersions": protocols}
    runtimes = [
        _custom("ServingRuntime", spec, metadata={"name": f"r{n}", "namespace": f"n{n}"}) for n in range(size // 2400)
    ]
    other = _custom("InferenceService", {"predictor": {"model": {"modelFormat": {"name": "other"}}}})
    return manifest([*runtimes, *[other] * (size // 400)])


def _merged_variables(size: int) -> bytes:
    """Variables of a runtime and of a service; half of the service's have names of the runtime's."""
    runtime, predictor = (
        [{"name": f"a{step * n}", "value": "b"} for n in range(size // 60)] for step in (1, 2)
    )  # fmt: skip
    container = {"name": "kserve-container", **engine(args=["vllm", "serve", NAME]), "env": runtime}
    base = _custom("ServingRuntime", {"containers": [container]}, metadata={"name": "r"})
    model = {"runtime": "r", "env": predictor[::-1]}
    return manifest([base, _custom("InferenceService", {"predictor": {"model": model}})])


def _canaries(size: int) -> dict[str, Any]:
    """A service of KServe with a large predictor, and many canaries that have all of it but a field."""
    model = {"modelFormat": {"name": "vLLM"}, "args": ["--model", NAME, *["x"] * (size // 20)]}
    canary = {"predictor": {"model": {"env": [{"name": "A", "value": "1"}]}}}
    return _custom("InferenceService", {"predictor": {"model": model}, "canary": [canary] * ENGINES})


def _rendered(labels: dict[str, str]) -> dict[str, Any]:
    """A service of KServe that is rendered with templates in its labels."""
    main = {"name": "main", **engine(command=["vllm", "serve", NAME])}
    return _custom("LLMInferenceService", {"labels": labels, "template": {"containers": [main]}})


def _presets(options: list[str], engines: int = 1) -> bytes:
    """Workspaces of KAITO with one ConfigMap."""
    one = {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "inference": {"preset": {"name": "a/b"}, "config": "c"},
    }
    return manifest(
        [_config_map({"inference_config.yaml": "".join([f"vllm:\n  model: {NAME}\n", *options])}), *[one] * engines]
    )


def _template(parameters: list[dict[str, str]], args: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "template.openshift.io/v1",
        "kind": "Template",
        "parameters": parameters,
        "objects": [pod(engine(args=["--model", NAME, *args]))],
    }


def _named(size: int) -> bytes:
    """Long names, each above many values that have a path."""
    services = {
        f"{'x' * 4000}{n}": engine(command=["vllm", "serve", NAME, *["a"] * 800]) for n in range(max(size // 8000, 1))
    }
    return manifest({"services": services})


MANIFESTS: Final[dict[str, Family]] = {
    "containers that another program starts": lambda size: manifest(
        {"script": "xargs docker run;" * (size // 40) + "echo " + "a/b " * (size // 8)}
    ),
    "programs before containers": lambda size: manifest(
        {
            "script": "export A=a\n" * (size // 40)
            + f"sudo env B=b docker run -e A {'x ' * 8} vllm serve m;" * (size // 80)
        }
    ),
    "programs named like those of containers": lambda size: manifest(
        {"script": "srun " + "docker apptainer " * (size // 32) + "docker run vllm/vllm-openai m"}
    ),
    "empty volumes that others may fill": lambda size: manifest(
        pod(
            *(
                engine(name=f"c{n}", volumeMounts=[{"name": f"v{n}", "mountPath": "/x"}])
                for n in range(min(size // 400, 500))
            ),
            initContainers=[{"name": f"i{n}", "volumeMounts": [{"name": f"v{n % 9}"}]} for n in range(size // 200)],
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(size // 150)],
        )
    ),
    "hooks of many variables": lambda size: manifest(
        pod(
            *(
                engine(
                    env=[{"name": f"A{m}", "value": "$(A0)"} for m in range(20)],
                    startupProbe={"exec": {"command": ["sh", "-c", "kill $(ps | grep 'vllm serve');" * 9]}},
                    lifecycle={name: {"exec": {"command": ["env", "A=b", "x"]}} for name in ("preStop", "postStart")},
                )
                for n in range(size // 1800)
            )
        )
    ),
    "probes of many variables": lambda size: manifest(
        pod(
            *(
                engine(
                    env=[{"name": f"A{m}", "value": "$(A0)vllm"} for m in range(20)],
                    **{
                        name: {"exec": {"command": ["sh", "-c", "$(A1)$(A2) $X serve;" * 9]}}
                        for name in ("startupProbe", "livenessProbe", "readinessProbe")
                    },
                )
                for n in range(size // 1800)
            )
        )
    ),
    "references in one probe": lambda size: manifest(
        pod(
            engine(
                command=["sleep", "1"],
                env=[{"name": "A", "value": "v" * (size // 4)}],
                startupProbe={"exec": {"command": ["$(A)"] * (size // 20)}},
            )
        )
    ),
    "folders of libraries and mounts": lambda size: manifest(
        pod(
            engine(
                args=None,
                command=["sh", "-c", "export LD_LIBRARY_PATH=/x:$A;" * (size // 90) + "vllm serve m"],
                env=[{"name": "LD_LIBRARY_PATH", "value": ":".join(f"/a/{n}" for n in range(size // 30))}],
                volumeMounts=[{"name": "v", "mountPath": f"/m/{n}"} for n in range(size // 120)],
            )
        )
    ),
    "names like Python's": lambda size: manifest(
        pod(engine(env=[{"name": f"PYTHON_{n}", "value": "a"} for n in range(size // 60)]))
    ),
    "commands of a hook": lambda size: manifest(
        pod(engine(startupProbe={"exec": {"command": ["sh", "-c", "cp -r /x/a b/c; pip install a;" * (size // 30)]}}))
    ),
    "models on volumes that are mounted at several paths": lambda size: manifest(
        pod(
            engine(
                args=None,
                command=[
                    "sh",
                    "-c",
                    "cp -r /x /z/y; echo a > /z/b/c;" * (size // 120)
                    + "vllm serve /m/1/q "
                    + " ".join(f"/m/{n}/q" for n in range(size // 40)),
                ],
                volumeMounts=[{"name": "v", "mountPath": f"/m/{n}", "subPath": f"{n}/a"} for n in range(64)],
                lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "cp -r /x a/b/c;" * (size // 60)]}}},
            ),
            *(engine(name=f"c{n}", volumeMounts=[{"name": "w", "mountPath": "/x"}]) for n in range(size // 800)),
            volumes=[{"name": "v"}, {"name": "w", "csi": {f"f{n}": "v" for n in range(size // 60)}}],
        )
    ),
    "containers that may put programs into volumes": lambda size: manifest(
        pod(
            *(
                engine(
                    name=f"c{n}",
                    command=["sh", "-c", f"ln -s /bin/sh /x/cat{n}; cat <<E\nserve\nE"],
                    volumeMounts=[{"name": f"v{m}", "mountPath": f"/x/{m}"} for m in range(4)],
                    lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "cp /bin/sh /x/tr"]}}},
                )
                for n in range(min(size // 700, 900))
            ),
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(size // 150)],
        )
    ),
    "hooks beside a command that they may replace": lambda size: manifest(
        {
            "services": {
                "a": {
                    "image": "x",
                    "command": ["sh", "-c", "cat <<E\nserve\nE\n" * (size // 60)],
                    "post_start": [{"command": f"ln -s /bin/sh /x/{n}"} for n in range(size // 60)],
                }
            }
        }
    ),
    "hooks that change files": lambda size: manifest(
        {
            "services": {
                "a": {
                    "image": "vllm/vllm-openai:v0.23.0",
                    "command": ["--model", NAME],
                    "environment": {f"A{n}": "a" for n in range(min(size // 40, 200))},
                    "post_start": [
                        {"command": f"sed -i {n} /x/{n}/a", "working_dir": f"/{n}"} for n in range(size // 80)
                    ],
                }
            }
        }
    ),
    "checks of the tasks of a group": lambda size: manifest(
        {
            "Job": {
                "TaskGroups": [
                    {
                        "Tasks": [{"Name": f"t{n}", "Driver": "docker"} for n in range(size // 120)],
                        "Services": [{"Checks": [{"TaskName": f"t{n}", "Command": "x"}]} for n in range(size // 120)],
                    }
                ]
            }
        }
    ),
    "hooks that start vLLM": lambda size: manifest(
        {"services": {"a" * (size // 4): {"image": "x", "post_start": [{"command": "vllm serve m"}] * (size // 40)}}}
    ),
    "commands beside that of a service": lambda size: manifest(
        {
            "unit": "[Service]\nExecStart=/bin/x\n"
            + "".join(f"Environment=A{n}=a\n" for n in range(size // 60))
            + "ExecStartPost=/bin/sh -c 'x $A1 vllm'\n" * (size // 80)
        }
    ),
    "health checks of one container": lambda size: manifest(
        {"script": "docker run " + "--health-cmd 'vllm serve m' " * (size // 30) + "alpine"}
    ),
    "claims of many pods": lambda size: manifest(
        {
            "apiVersion": "example.com/v1",
            "kind": "Pods",
            "spec": {
                "volumeClaimTemplates": [{"metadata": {"name": f"v{n}"}} for n in range(size // 60)],
                **{
                    f"t{n}": {"spec": {"containers": [engine(volumeMounts=[{"name": "v", "mountPath": "/x"}])]}}
                    for n in range(min(size // 300, 500))
                },
            },
        }
    ),
    **{
        f"a unit that repeats {name}": partial(_unit_that_repeats, value, use)
        for name, value, use in (
            ("a variable of words", "a ", "$A "),
            ("a variable of blanks", "  ", "$A "),
            ("a variable of text", "a", "$A "),
            ("a variable within words", "a", "x${A} "),
            ("a variable within a word", "a", "${A}"),
        )
    },
    "a working folder of slashes": lambda size: manifest(
        pod(engine(command=["vllm", "serve", NAME], workingDir="/" * (size // 2) + "m", volumeMounts=MOUNTS))
    ),
    "working folders with two slashes": lambda size: manifest(
        pod(
            *(
                engine(command=["bash", "-c", "cd //m; vllm serve a"], workingDir="//", volumeMounts=MOUNTS)
                for _ in range(min(size // 300, 500))
            )
        )
    ),
    "models that are mounted in many containers": lambda size: manifest(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "spec": {
                "predictor": {
                    "storageUris": [{"uri": "pvc://a", "mountPath": f"/v{n}"} for n in range(size // 100)],
                    "containers": [engine(name=f"c{n}") for n in range(min(size // 400, 500))],
                }
            },
        }
    ),
    "canaries of one predictor": lambda size: manifest(_canaries(size)),
    "workers with fields that are not read": lambda size: manifest(
        {
            "apiVersion": "workload.serving.volcano.sh/v1alpha1",
            "kind": "ModelBooster",
            "spec": {
                "backend": {
                    "type": "vLLM",
                    "modelURI": "hf://m",
                    "workers": [WORKER] * min(size // 200, 500),
                    **{f"extra{n}": n for n in range(size // 40)},
                }
            },
        }
    ),
    "workers with a connector": lambda size: manifest(
        {
            "apiVersion": "workload.serving.volcano.sh/v1alpha1",
            "kind": "ModelBooster",
            "spec": {"backend": {"type": "vLLM", "workers": [CONNECTED_WORKER] * (size // 120)}},
        }
    ),
    "mounts of a container that many engines share": lambda size: manifest(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "spec": {
                "serveConfigV2": json.dumps(
                    {"llm_configs": [{"model_loading_config": {"model_id": "m"}}] * (size // 140)}
                ),
                "rayClusterConfig": {
                    "headGroupSpec": {
                        "template": pod(
                            engine(
                                image="rayproject/ray-llm:2.59.0",
                                volumeMounts=[{"name": "v", "mountPath": f"/{n}"} for n in range(size // 60)],
                            )
                        )
                    }
                },
            },
        }
    ),
    "fields of an application with many engines": lambda size: manifest(
        {
            "applications": [
                {
                    "import_path": "ray.serve.llm:build_openai_app",
                    "args": {
                        **{f"x{n}": 0 for n in range(size // 20)},
                        "llm_configs": [{"model_loading_config": {"model_id": "m"}}] * (size // 90),
                    },
                }
            ]
        }
    ),
    "formats of a runtime with many containers": lambda size: manifest(
        {
            "apiVersion": "ome.io/v1beta1",
            "kind": "ClusterServingRuntime",
            "metadata": {"name": "r"},
            "spec": {
                "supportedModelFormats": [{}] * (size // 5),
                "engineConfig": {"containers": [{"image": IMAGE}] * (size // 100)},
            },
        }
    ),
    "formats of a runtime with many services": lambda size: manifest(
        [
            {
                "apiVersion": "ome.io/v1beta1",
                "kind": "ClusterServingRuntime",
                "metadata": {"name": "r"},
                "spec": {"supportedModelFormats": [{}] * (size // 8)},
            },
            *[
                {
                    "apiVersion": "ome.io/v1beta1",
                    "kind": "InferenceService",
                    "spec": {
                        "engine": {"runner": {"image": IMAGE}},
                        "decoder": {"runner": {}},
                        "runtime": {"name": "r"},
                    },
                }
            ]
            * (size // 300),
        ]
    ),
    "empty engines of an application with many fields": lambda size: manifest(
        {
            "applications": [
                {
                    "import_path": "ray.serve.llm:build_openai_app",
                    "args": {**{f"x{n}": 0 for n in range(size // 20)}, "llm_configs": [{}] * (size // 8)},
                }
            ]
        }
    ),
    "flavors of a model with many claims": lambda size: manifest(
        [
            {
                "apiVersion": "llmaz.io/v1alpha1",
                "kind": "OpenModel",
                "metadata": {"name": "m"},
                "spec": {"inferenceConfig": {"flavors": [{}] * (size // 10)}},
            },
            *[
                {
                    "apiVersion": "inference.llmaz.io/v1alpha1",
                    "kind": "Playground",
                    "spec": {"modelClaim": {"modelName": "m", "inferenceFlavors": ["z"]}},
                }
            ]
            * (size // 250),
        ]
    ),
    "GPUs that many groups share": lambda size: manifest(
        {"type": "task", "image": "x", "groups": [{}] * (size // 6), "resources": {"gpu": "a," * (size // 4)}}
    ),
    "a long path that many containers mount": lambda size: manifest(
        {
            "modelArtifacts": {"mountPath": "/a" * (size // 4)},
            "decode": {"containers": [{"mountModelVolume": True}] * (size // 60)},
        }
    ),
    "labels of a service with many canaries": lambda size: manifest(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"labels": {f"a{n}": "" for n in range(size // 20)}},
            "spec": {
                "predictor": {"model": {"modelFormat": {"name": "vLLM"}}},
                "canary": [{"predictor": {"minReplicas": 1}}] * (size // 80),
            },
        }
    ),
    "annotations that are a list": lambda size: manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"annotations": [""] * (size // 8)},
            "spec": {"containers": [{}] * (size // 8)},
        }
    ),
    "a long prefix of many variables": lambda size: manifest(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": _entries(size // 2)},
            pod(engine(envFrom=[{"prefix": "p" * (size // 2), "configMapRef": {"name": "c"}}])),
        ]
    ),
    "a long path of many files": lambda size: manifest(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": _entries(size // 2)},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {
                    "volumes": [{"name": "v", "configMap": {"name": "c"}}],
                    "containers": [engine(volumeMounts=[{"name": "v", "mountPath": "/p" * (size // 4)}])],
                },
            },
        ]
    ),
    "resources with fields that are not read": lambda size: manifest(
        {"run": "vllm serve m", "resources": {"any_of": [{"image_id": "docker:x"} for _ in range(size // 30)]}}
    ),
    "containers of images in variables": lambda size: manifest(
        {"script": "".join(f"A{n}=$A{n + 1};" for n in range(size // 30)) + "vllm=1;" + "docker run $A1 x;" * 100}
    ),
    "images in variables of one line": lambda size: manifest(
        {
            "script": "A=vllm; "
            + " ".join(f"A{n}=x" for n in range(size // 20))
            + "".join(f" B=$A{n}" for n in range(size // 20))
            + ";docker run $A x"
        }
    ),
    "words before an image that may be options": lambda size: manifest(
        {"script": "docker run " + "$A " * (size // 6) + ";apptainer run " + "$A " * (size // 6) + "$A:vllm"}
    ),
    "an image of many expansions": lambda size: manifest(
        {"script": f"docker run vllm/vllm-openai:{'$(a ${b})`c`$d' * (size // 14)} m"}
    ),
    "engines": lambda size: manifest(pod(*_engines(size))),
    "more engines than are accepted": lambda size: manifest(pod(*_engines(size, size))),
    "engines of many models": lambda size: manifest(
        pod(*_engines(size // 2)), model_configs={NAME: {**CONFIG, "a": "a" * (size // 2)}}
    ),
    "engines with an invalid flag": lambda size: manifest(pod(*_engines(size, args=["--model", NAME, "--seed=x"]))),
    "pods": lambda size: manifest([pod(engine())] * (size // 150)),
    "a list of lists": lambda size: manifest({"kind": "List", "items": [{"kind": "List", "items": []}] * (size // 32)}),
    "objects of unknown kinds": lambda size: manifest(
        [{"kind": f"Deploymen{n}", "apiVersion": "x/v1"} for n in range(size // 50)]
    ),
    "numbers instead of objects": lambda size: manifest([1] * (size // 3)),
    "arguments": lambda size: manifest(pod(engine(args=["--model", NAME, *["a"] * (size // 5)]))),
    "arguments that are not strings": lambda size: manifest(pod(engine(args=[1] * (size // 3)))),
    "arguments of templates": lambda size: manifest(pod(engine(args=["--model", NAME, *["{{"] * (size // 6)]))),
    "variables": lambda size: manifest(pod(engine(env=_env(size)))),
    "variables that refer": lambda size: manifest(
        pod(
            engine(
                env=[
                    {"name": "A0", "value": "aa"},
                    *({"name": f"A{n + 1}", "value": f"$(A{n})$(A{n})"} for n in range(size // 50)),
                ]
            )
        )
    ),
    "variables that refer to one": lambda size: manifest(
        pod(
            engine(
                env=[
                    {"name": "A", "value": "x" * (size // 2)},
                    *({"name": f"B{n}", "value": "$(A)"} for n in range(size // 80)),
                ]
            )
        )
    ),
    "references that do not close": lambda size: manifest(
        pod(engine(env=[{"name": "A", "value": "$(A" * (size // 3)}]))
    ),
    "parameters of a chart": lambda size: manifest(_installed(parameters=_parameters(size, "a{}"))),
    "parameters of a list": lambda size: manifest(_installed(parameters=_parameters(size, "server.list[{}]"))),
    "parameters of one list": lambda size: manifest(
        _installed(
            parameters=_parameters(size // 2, "server.other[0].x{}"), other=[{str(n): n for n in range(size // 32)}]
        )
    ),
    "parameters that do not fit": lambda size: manifest(
        _installed(parameters=_parameters(size, "server.command[{}].a"))
    ),
    "a parameter of many names": lambda size: manifest(
        _installed(parameters=_parameters(40, "a" + ".a" * (size // 2)))
    ),
    "a parameter of many indexes": lambda size: manifest(
        _installed(parameters=_parameters(40, "a" + "[0]" * (size // 3)))
    ),
    "generators of applications": lambda size: manifest(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ApplicationSet",
            "spec": {
                "template": {"spec": _installed()["spec"]},
                "generators": [{"list": {"template": {}}}] * (size // 24),
            },
        }
    ),
    "charts with one configuration": lambda size: manifest(
        [_chart("HelmChartConfig", size), *[_chart("HelmChart", 8)] * ENGINES]
    ),
    "charts with a small configuration": lambda size: manifest(
        [_chart("HelmChartConfig", 64), *[_chart("HelmChart", 8)] * (size // 250)]
    ),
    "ConfigMaps": lambda size: manifest([_config_map({"a": "b"}, f"c{n}") for n in range(size // 90)]),
    "ConfigMaps as variables": lambda size: manifest(
        [
            _config_map({f"A{n}": "1" for n in range(size // 24)}),
            pod(engine(envFrom=[{"configMapRef": {"name": "c"}}] * (size // 80))),
        ]
    ),
    "ConfigMaps as variables before Secrets": lambda size: manifest(
        [
            _config_map({f"A{n}": "1" for n in range(size // 24)}),
            pod(
                engine(
                    envFrom=[
                        {"configMapRef": {"name": "c"}},
                        *({"prefix": f"B{n}", "secretRef": {"name": "s"}} for n in range(size // 80)),
                    ]
                )
            ),
        ]
    ),
    "ConfigMaps that are mounted": _mounting,
    "engines that mount a ConfigMap": lambda size: _mounting(size, size // 250, 100),
    "ConfigMaps that are shared": _sharing,
    "volumes": lambda size: manifest(
        pod(*_engines(size // 2, volumeMounts=[{"name": "v"}]), volumes=[{"name": f"v{n}"} for n in range(size // 30)])
    ),
    "annotations": lambda size: manifest(
        {**pod(engine()), "metadata": {"annotations": {f"a{n}": '"\\"' for n in range(size // 16)}}}
    ),
    "names": _named,
    "a name of dots": lambda size: manifest(
        {"services": {"a." * (size // 2): engine(command=["vllm", "serve", NAME])}}
    ),
    "Compose services": lambda size: manifest(
        {"services": {f"a{n}": {"image": IMAGE, "command": "--model m"} for n in range(min(size // 75, 1024))}}
    ),
    "references of Compose in secrets": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "environment": {"A": repeated("token='$B ${A:-$B} ", size)}}}}
    ),
    "a Compose command": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "command": repeated("'a' ", size)}}}
    ),
    "a Compose command, open": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "command": "'" + repeated('\\"', size)}}}
    ),
    "Compose variables": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "command": ["--model", *numbered("${{A{}}}", size)]}}}
    ),
    "Compose variables, open": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "command": ["--model", "${A:-" * (size // 5)]}}}
    ),
    "Compose variables, nested": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "environment": {"A": repeated("${A:-" * 8 + "1" + "}" * 8, size)}}}}
    ),
    "Compose variables, in braces": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "environment": {"A": repeated("${A:-{", size) + "}"}}}}
    ),
    "Compose variables, unknown": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "environment": {"A": "".join(numbered("$A{} ", size))}}}}
    ),
    "a Compose command of variables": lambda size: manifest(
        {"services": {"a": {"image": IMAGE, "command": repeated("$A '$B' ", min(size, 1 << 15))}}}
    ),
    "a Truss": lambda size: manifest(
        {"docker_server": {"start_command": repeated("a 'b' \\\\ #;\n", size // 2) + "vllm serve m"}}
    ),
    "a Truss of packages": lambda size: manifest(
        {"docker_server": {"start_command": "vllm serve m"}, "requirements": ["vllm[a," * 4] * (size // 40)}
    ),
    "a dstack task": lambda size: manifest({"type": "task", "commands": ["a &"] * (size // 8) + ["vllm serve m"]}),
    "a dstack entry point": lambda size: manifest(
        {"type": "task", "commands": ["vllm"], "entrypoint": repeated("a\\ 'b'", size)}
    ),
    "dstack groups with fields that are not read": lambda size: manifest(
        {
            "type": "task",
            "groups": [{"commands": ["vllm serve m"]}] * min(size // 100, 500),
            **{f"extra{n}": 1 for n in range(size // 40)},
        }
    ),
    "scenarios that share variables, mounts and fields that are not read": lambda size: manifest(
        {
            "scenario": [{"model": {}}] * min(size // 100, 500),
            "shared": {
                "decode": {
                    "vllm": {"customCommand": "vllm serve m"},
                    "extraEnvVars": [{"name": f"E{n}"} for n in range(size // 100)],
                },
                "vllmCommon": {
                    "volumeMounts": [{"mountPath": f"/v{n}"} for n in range(size // 100)],
                    **{f"extra{n}": 1 for n in range(size // 40)},
                },
            },
        }
    ),
    "a systemd unit with mounts and many commands": lambda size: manifest(
        {
            "unit": "[Service]\nType=oneshot\n"
            + "BindPaths=/x:/v/y\n" * (size // 40)
            + "".join(f"TemporaryFileSystem=/w{n}\n" for n in range(size // 60))
            + "ExecStart=/a/vllm serve m\n" * min(size // 60, 900)
        }
    ),
    "dstack groups": lambda size: manifest(
        {
            "type": "task",
            "env": {f"A{place}": "b" for place in range(size // 64)},
            "groups": [{"commands": ["vllm serve m"]}] * (size // 64),
        }
    ),
    "a systemd unit of commands and variables": lambda size: manifest(
        {
            "unit": "[Service]\n"
            + "".join(f"Environment=A{place}=1\n" for place in range(size // 64))
            + "ExecStart=vllm serve m\n" * (size // 64)
        }
    ),
    **{
        f"a systemd unit of {name}": partial(lambda text, size: manifest({"unit": repeated(text, size)}), text)
        for name, text in {
            "lines that go on": "A=\\\n",
            "backslashes": "\\\\",
            "comments": "#\\\n",
            "words of a command": "[Service]\nExecStart=a 'b' \\x41\\q\n",
            "lists of a container": "[Container]\nVolume=a\nSecret='b' \\q\n",
        }.items()
    },
    "a systemd unit with one long command": lambda size: manifest(
        {"unit": "[Service]\nExecStart=vllm serve " + repeated("\\q'a' \\xc3\\xa9\"", size)}
    ),
    "a systemd unit with many commands in a line": lambda size: manifest(
        {"unit": "[Service]\nExecStart=" + repeated("-@bin/vllm x serve m ; vllm serve m ; ", size)}
    ),
    "a container of Podman's with one long list": lambda size: manifest(
        {"unit": "[Container]\nImage=vllm/vllm-openai\nExec=" + repeated("'a' \\x41", size)}
    ),
    "values of a chart": lambda size: manifest(
        {f"a{place}": {"image": "vllm", "command": ["vllm", "serve", "a/b"]} for place in range(size // 64)}
    ),
    "values of a chart without vLLM": lambda size: manifest(
        {f"a{place}": {"image": {"repository": "b"}, "controllers": {"c": {}}} for place in range(size // 64)}
    ),
    "values of an app-template": lambda size: manifest(
        {
            "controllers": {
                "a": {
                    "containers": {
                        f"a{place}": {"image": {"repository": "vllm"}, "command": ["vllm", "serve", "a/b"]}
                        for place in range(size // 128)
                    }
                }
            },
            "persistence": {f"a{place}": {} for place in range(size // 32)},
        }
    ),
    "values of OPEA": lambda size: manifest(
        {f"vllm-{place}": {"LLM_MODEL_ID": "a/b", "extraCmdArgs": ["--x"]} for place in range(size // 64)}
    ),
    "a SkyPilot task": lambda size: manifest({"run": repeated("a;", size) + "vllm serve m", "resources": {}}),
    "a SkyPilot setup": lambda size: manifest({"run": "vllm serve m", "setup": repeated("vllm[a,", size)}),
    "a unit of commands before the start": lambda size: manifest(
        {
            "unit": "[Service]\n"
            + "ExecStartPre=/bin/touch /m/a\n" * (size // 64)
            + "ExecStart=vllm serve /m\n" * (size // 64)
        }
    ),
    "a SkyPilot setup of commands": lambda size: manifest(
        {"run": "cd /m && vllm serve m", "setup": repeated("cd a;tar xf x;pip install triton;sh x;", size)}
    ),
    "a SkyPilot setup of files": lambda size: manifest(
        {"run": "vllm serve m", "setup": "touch " + repeated("~/.bashrc ", size)}
    ),
    "a Truss of commands": lambda size: manifest(
        {
            "base_image": {"image": IMAGE},
            "docker_server": {"start_command": "vllm serve m"},
            "build_commands": ["cd /m; tar xf x; sh x"] * (size // 25),
        }
    ),
    "a SkyPilot task of variables": lambda size: manifest(
        {"run": repeated("$A;", size // 2) + "vllm serve m", "envs": {"A": "b " * (size // 4)}}
    ),
    "runtimes": _runtime,
    "selected runtimes": _selected,
    "merged variables": _merged_variables,
    "a Hugging Face server": lambda size: manifest(
        _custom(
            "InferenceService",
            {"predictor": {"model": {"modelFormat": {"name": "huggingface"}, "args": ["--model_id=m"] * (size // 16)}}},
        )
    ),
    "an LLMInferenceService": lambda size: manifest(
        _custom(
            "LLMInferenceService",
            {
                "model": {"uri": "hf://m"},
                "template": {"containers": [{"name": "main", "args": ["$A;a"] * (size // 8)}]},
            },
        )
    ),
    "an LLMInferenceService of variables": lambda size: manifest(
        _custom(
            "LLMInferenceService",
            {
                "model": {"uri": "hf://m"},
                "template": {
                    "containers": [
                        {
                            "name": "main",
                            "args": ["--x", *["a;$A"] * (size // 16)],
                            "env": [{"name": "A", "value": "b" * (size // 2)}],
                        }
                    ]
                },
            },
        )
    ),
    "templates of an LLMInferenceService": lambda size: manifest(
        _rendered({f"a{n}": FIELD for n in range(size // 30)})
    ),
    "a template of an LLMInferenceService": lambda size: manifest(
        _rendered({"a": repeated("{{ if and .Name (not `x`) }}{{ .Name }}{{ end }}", size)})
    ),
    "a long action of an LLMInferenceService": lambda size: manifest(
        _rendered({"a": "{{ or" + repeated(" .Name", size) + " }}"})
    ),
    "open actions of an LLMInferenceService": lambda size: manifest(_rendered({"a": repeated("{{ (", size)})),
    "adapters": lambda size: manifest(
        _custom(
            "LLMInferenceService",
            {"model": {"uri": "hf://m", "lora": {"adapters": [{"name": f"a{n}"} for n in range(size // 16)]}}},
        )
    ),
    "a runtime of vLLM": lambda size: manifest(
        _custom(
            "VLLMRuntime",
            {"model": {"modelURL": "m"}, "vllmConfig": {"extraArgs": ["a"] * (size // 5)}},
            "production-stack.vllm.ai/v1alpha1",
        )
    ),
    "options of a preset": lambda size: _presets(numbered("  a{}: b\n", size)),
    "an option of a preset": lambda size: _presets(["  a: '", "b" * size, "'\n"], ENGINES),
    "presets": lambda size: _presets(["  a: b\n"], size // 130),
    "parameters of a template": lambda size: manifest(
        _template([{"name": f"A{n}", "value": "b"} for n in range(size // 60)], numbered("${{A{}}}", size // 4))
    ),
    "a parameter of a template": lambda size: manifest(
        _template([{"name": "A", "value": "b" * (size // 2)}], ["${A}"] * ENGINES)
    ),
    "a text of a template": lambda size: manifest(
        _template([{"name": "A", "value": "b"}], [repeated("${A", size // 2), repeated("${A}", size // 2)])
    ),
    "a Dynamo graph": lambda size: manifest(
        _custom(
            "DynamoGraphDeployment",
            {
                "envs": _env(size // 2),
                "services": {
                    f"s{n}": {"extraPodSpec": {"mainContainer": engine(command=["python3", "-m", "dynamo.vllm"])}}
                    for n in range(size // 2 // 150)
                },
            },
            "nvidia.com/v1alpha1",
        )
    ),
    "Dynamo connectors": lambda size: manifest(
        _custom(
            "DynamoGraphDeployment",
            {
                "services": {
                    "s": {
                        "extraPodSpec": {
                            "mainContainer": engine(
                                args=["python3", "-m", "dynamo.vllm", "--connector", *["lmcach"] * (size // 10)]
                            )
                        }
                    }
                }
            },
            "nvidia.com/v1alpha1",
        )
    ),
    "modelservice values": lambda size: manifest(
        {
            "modelArtifacts": {"name": "n" * 2000, "uri": "{{ .Values.modelArtifacts.name }}" * 50},
            "decode": {"containers": [{"modelCommand": "vllmServe"}] * min(size // 30, 1024)},
        }
    ),
    "modelservice values, mounted": lambda size: manifest(
        {
            "modelArtifacts": {"uri": "pvc://x", "mountPath": "x" * (size // 2)},
            "decode": {"containers": [{"modelCommand": "vllmServe"}] * min(size // 60, 1024)},
        }
    ),
    "production-stack values": lambda size: manifest(
        {"servingEngineSpec": {"env": _env(size // 2), "modelSpec": [{"modelURL": NAME}] * min(size // 2 // 18, 1024)}}
    ),
    "Ray Serve": lambda size: manifest(
        {
            "llm_configs": [
                {"model_loading_config": {"model_id": NAME}, "engine_kwargs": {f"a{n}": 1 for n in range(size // 12)}}
            ]
        }
    ),
    "a RayService": lambda size: manifest(
        _custom("RayService", {"serveConfigV2": "llm_configs:\n" + "- {}\n" * (size // 6)}, "ray.io/v1")
    ),
}


def _group(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [container]}}}


def _ray_service(head: dict[str, Any], size: int, params: dict[str, str] | None = None) -> bytes:
    """A RayService with an engine, its head's container and options, and as many groups of workers as fit a size."""
    group = _group(x=1)
    groups = [group] * (size // len(json.dumps(group)))
    spec = {
        "serveConfigV2": json.dumps({"llm_configs": [{"model_loading_config": {"model_id": NAME}}]}),
        "rayClusterConfig": {
            "headGroupSpec": {**_group(**head), "rayStartParams": params or {}},
            "workerGroupSpecs": groups,
        },
    }
    return json.dumps(_custom("RayService", spec, "ray.io/v1")).encode()


def _containers_of(body: bytes) -> list[object]:
    """The engines of a manifest, without deciding them."""
    faults: list[RequestFault] = []
    return [*read_manifest(read_json(body), "", faults, shipped().releases.images)]


RAY: Final[dict[str, Family]] = {
    "variables and groups": lambda size: _ray_service({"env": _env(size // 2)}, size // 2),
    "mounts and groups": lambda size: _ray_service(
        {"volumeMounts": [{"name": "v", "mountPath": f"/{n}"} for n in range(size // 80)]}, size // 2
    ),
    "a command that is joined": lambda size: _ray_service({"command": ["vllm", "serve", *["a b"] * (size // 7)]}, 100),
    "a command of quotes": lambda size: _ray_service({"command": ["vllm", "serve", "'" * size]}, 100),
    "a command of one variable": lambda size: _ray_service(
        {"command": ["vllm", "serve", *["$(A)"] * (size // 16)], "env": [{"name": "A", "value": "x " * (size // 4)}]},
        100,
    ),
    "a script before Ray in each group": lambda size: _ray_service(
        {"command": ["export A=1; cd /a; cp -r /x /b; pip install a; " * (size // 100)]}, size // 2
    ),
    "a script before Ray and engines": lambda size: json.dumps(
        _custom(
            "RayService",
            {
                "serveConfigV2": json.dumps(
                    {"llm_configs": [{"model_loading_config": {"model_id": NAME}}] * (size // 120)}
                ),
                "rayClusterConfig": {"headGroupSpec": _group(command=["echo a; cp -r /x /b; " * (size // 50)])},
            },
            "ray.io/v1",
        )
    ).encode(),
    "a script before a job": lambda size: json.dumps(
        _custom(
            "RayJob",
            {
                "entrypoint": "vllm serve m",
                "rayClusterSpec": {"headGroupSpec": _group(command=["export A=1; cp -r /x /b; " * (size // 25)])},
            },
            "ray.io/v1",
        )
    ).encode(),
    "options of Ray": lambda size: json.dumps(
        _custom(
            "RayJob",
            {
                "entrypoint": "vllm serve m",
                "rayClusterSpec": {
                    "headGroupSpec": {**_group(x=1), "rayStartParams": {f"a{n}": "$;" for n in range(size // 16)}}
                },
            },
            "ray.io/v1",
        )
    ).encode(),
    "the address of the head in each group": lambda size: _ray_service({}, size // 2, {"port": "$(A);" * (size // 10)}),
    "resources of Ray": lambda size: json.dumps(
        _custom(
            "RayCluster",
            {
                "headGroupSpec": {
                    **_group(resources={"limits": {"google.com/tpu": 1}}),
                    "resources": {f"';{n}nvidia.com/mig-1": 1 for n in range(size // 32)},
                    "labels": {f"a{n}": "$(A)" for n in range(size // 32)},
                }
            },
            "ray.io/v1",
        )
    ).encode(),
    "an entrypoint with variables of its submitter": lambda size: json.dumps(
        _custom(
            "RayJob",
            {
                "entrypoint": "$(A) $B;" * (size // 16),
                "metadata": {"a": "$(A)"},
                "submitterPodTemplate": _group(env=[{"name": name, "value": "x " * (size // 8)} for name in "AB"])[
                    "template"
                ],
            },
            "ray.io/v1",
        )
    ).encode(),
    "an entrypoint that is submitted": lambda size: json.dumps(
        _custom("RayJob", {"entrypoint": "echo " + repeated("'\\\"a b' ", size)}, "ray.io/v1")
    ).encode(),
}
"""Clusters with many containers in which Ray may run an engine, of which one has much, or with a long command."""

COMPOSE: Final[dict[str, Family]] = {
    "secrets in many variables": lambda size: json.dumps(
        {
            "services": {
                "a": {
                    "image": IMAGE,
                    "environment": {f"T{n}": f"${{A_TOKEN:-s{n}}}" for n in range(size // 32)},
                    "command": ["--model", NAME],
                }
            }
        }
    ).encode(),
    "volumes of many services": lambda size: json.dumps(
        {
            "services": {
                **{f"s{n}": {"volumes": [f"/a{n}"]} for n in range(size // 48)},
                "a": {
                    "image": IMAGE,
                    "command": ["--model", NAME],
                    "volumes_from": [f"s{n}" for n in range(size // 48)],
                },
            }
        }
    ).encode(),
    "volumes of many containers": lambda size: json.dumps(
        {
            "services": {
                "a": {
                    "image": IMAGE,
                    "command": ["--model", NAME],
                    "volumes_from": [f"container:c{n}" for n in range(size // 24)],
                }
            }
        }
    ).encode(),
}
"""Files with one engine that has much, or much of which depends on other services."""


def _encoded(text: Callable[[int], str], size: int) -> bytes:
    return text(size).encode()


COUNTED_SIZE: Final = 16_384
"""The largest size that is counted; larger texts take too long."""

READERS: Final[Mapping[str, Reader]] = {
    "shell": Reader(
        lambda body: parse_script(body.decode(), {"A": "a b"}, ["bash", "a", "b"]),
        1 << 20,
        {name: partial(_encoded, text) for name, text in SHELL.items()},
        COUNTED_SIZE,
    ),
    **{
        f"values of {kind}": Reader(
            partial(_parsed, kind), 1 << 20, {name: partial(_encoded, text) for name, text in VALUES.items()}
        )
        for kind in KINDS
    },
    "arguments": Reader(decide, 1 << 20, ARGS, COUNTED_SIZE),
    "environment": Reader(decide, 1 << 20, ENVIRONMENT, COUNTED_SIZE),
    "option files": Reader(decide, 1 << 18, OPTION_FILES, COUNTED_SIZE),
    "configurations of models": Reader(decide, 1 << 20, MODELS, COUNTED_SIZE),
    "manifests": Reader(decide, 1 << 20, MANIFESTS, COUNTED_SIZE),
    "Ray clusters": Reader(_containers_of, 1 << 20, RAY, 1 << 18),
    "Compose files": Reader(_containers_of, 1 << 20, COMPOSE, 1 << 18),
}
