"""Compose files: variables in every text, and the values of variables, as compose-go reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_images import read_manifest
from tables import table

from policy.errors import RulesInvalid
from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.words import Unknown
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.intake.manifests.interpolation import MAX_NESTED, InterpolationError, interpolate
from policy.parser.yamltree import read_documents

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

UNKNOWN = "its value is not known"
DEFAULT = "is assumed to be its default"
UNSET = "is assumed not to be set"


def read(**service: Any) -> tuple[list[Container], list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_manifest({"services": {"a": {"entrypoint": ["vllm", "serve"], **service}}}, "", faults), faults


def engine(**service: Any) -> Container:
    (container,), faults = read(**service)
    assert faults == []
    return container


def started(**service: Any) -> list[str]:
    """The words that a container runs."""
    found = engine(**service)
    return expand_words(found.words, found.env)


INTERPOLATED: list[tuple[str, str | None, list[tuple[str, str]]]] = [
    ("no variables", "no variables", []),
    ("$$", "$", []),
    ("$${A}", "${A}", []),
    ("$$$$A", "$$A", []),
    ("a $ string", "a $ string", []),
    ("^REGEX$", "^REGEX$", []),
    ("$}", "$}", []),
    ("$5 $(A) $-", "$5 $(A) $-", []),
    ("$A", None, [("A", UNKNOWN)]),
    ("${A}", None, [("A", UNKNOWN)]),
    ("$_a1-bar", None, [("_a1", UNKNOWN)]),
    ("$$$A", None, [("A", UNKNOWN)]),
    ("a${A}b", None, [("A", UNKNOWN)]),
    ("${A:-d}", "d", [("A", DEFAULT)]),
    ("${A-d}", "d", [("A", DEFAULT)]),
    ("${A:-}", "", [("A", DEFAULT)]),
    ("${A-}", "", [("A", DEFAULT)]),
    ("${A:?no}", None, [("A", UNKNOWN)]),
    ("${A?no}", None, [("A", UNKNOWN)]),
    ("${A:?}", None, [("A", UNKNOWN)]),
    ("${A?${B}}", None, [("A", UNKNOWN)]),
    ("${A:+b}c", "c", [("A", UNSET)]),
    ("${A+b}c", "c", [("A", UNSET)]),
    ("${A:+${A},}B", "B", [("A", UNSET)]),
    ("${A:+$B}", "", [("A", UNSET)]),
    ("${A:-${B:-1}}", "1", [("A", DEFAULT), ("B", DEFAULT)]),
    ("${A:-${B-${C:-1}}}", "1", [("A", DEFAULT), ("B", DEFAULT), ("C", DEFAULT)]),
    ("${A:-$B}", None, [("A", DEFAULT), ("B", UNKNOWN)]),
    ("${A:-x${B}}", None, [("A", DEFAULT), ("B", UNKNOWN)]),
    ("${A-${B:-1} ${C:-2}}", "1 2", [("A", DEFAULT), ("B", DEFAULT), ("C", DEFAULT)]),
    ("${A:-${B:+x}}", "", [("A", DEFAULT), ("B", UNSET)]),
    ("${A:-${B:?x}}", None, [("A", DEFAULT), ("B", UNKNOWN)]),
    ("${A:-1} ${B:-2}", "1 2", [("A", DEFAULT), ("B", DEFAULT)]),
    ("${A:-1}}", "1}", [("A", DEFAULT)]),
    ("${A:-$$}", "$", [("A", DEFAULT)]),
    ("${A:-/non:-alphanumeric}", "/non:-alphanumeric", [("A", DEFAULT)]),
    ("${A--d}", "-d", [("A", DEFAULT)]),
    ("${A-:-d}", ":-d", [("A", DEFAULT)]),
    (":-ok ${A-d}", ":-ok d", [("A", DEFAULT)]),
    ('${A:-{"json":1}}', '{"json":1}', [("A", DEFAULT)]),
    ('${A:-{"json":1}} ${B:-{"x":{"y":2}}}', '{"json":1} {"x":{"y":2}}', [("A", DEFAULT), ("B", DEFAULT)]),
    ("${A:-{}}", "{}", [("A", DEFAULT)]),
    ("${A:-{}", "{", [("A", DEFAULT)]),
    ("${A:-{}\n${B:-1}", "{\n1", [("A", DEFAULT), ("B", DEFAULT)]),
]


@table(("text", "value", "assumptions"), INTERPOLATED)
def test_a_text_is_interpolated_as_by_compose(text: str, value: str | None, assumptions: list[tuple[str, str]]) -> None:
    found = interpolate(text)
    assert (None if found.unknown else found.text) == value
    assert [name for name, _ in found.assumptions] == [name for name, _ in assumptions]
    assert all(what in said for (_, said), (_, what) in zip(found.assumptions, assumptions, strict=True)), (
        found.assumptions
    )


@table(("text", "value", "assumptions"), INTERPOLATED)
def test_every_text_of_a_service_is_interpolated(
    text: str, value: str | None, assumptions: list[tuple[str, str]]
) -> None:
    for environment in ([f"V={text}"], {"V": text}):
        container = engine(environment=environment)
        assert container.env == {"V": value}
        assert [note.split("`")[1] for note in container.notes[: len(assumptions)]] == [
            f"${{{name}}}" for name, _ in assumptions
        ]
    word = started(command=[text])[2]
    assert (None if type(word) is Unknown else word) == value
    program = started(entrypoint=["vllm", "serve", text], command=["--enforce-eager"])[2]
    assert (None if type(program) is Unknown else program) == value


@table(
    "text",
    ["${", "${}", "${ }", "${ foo}", "${foo }", "${foo!}", "${1}", "${A:b}", "${A:-d", "${A:-\n}", "${A:-${}}", "${é}"],
)
@table("where", ["environment", "variable", "command", "word", "entrypoint", "image"])
def test_an_invalid_reference_is_a_fault(text: str, where: str) -> None:
    services: dict[str, tuple[dict[str, Any], str]] = {
        "environment": ({"environment": [f"A=x{text}"]}, "environment/0"),
        "variable": ({"environment": {"A": text}}, "environment/A"),
        "command": ({"command": f"--x {text}"}, "command"),
        "word": ({"command": [text]}, "command/0"),
        "entrypoint": ({"entrypoint": ["vllm", "serve", text]}, "entrypoint/2"),
        "image": ({"image": text}, "image"),
    }
    service, pointer = services[where]
    (fault,) = read(**service)[1]
    assert fault.pointer == f"/services/a/{pointer}"
    assert "is invalid; write `$NAME`" in fault.message


def test_the_nesting_of_defaults_is_limited() -> None:
    def nested(depth: int) -> str:
        return "${A:-" * depth + "1" + "}" * depth

    assert interpolate(nested(MAX_NESTED)).text == "1"
    with pytest.raises(InterpolationError, match="nested more than 8 deep"):
        interpolate(nested(MAX_NESTED + 1))


@given(st.text(alphabet="${}:-+?AB1 \n", max_size=24))
def test_a_text_is_interpolated_or_refused(text: str) -> None:
    try:
        found = interpolate(text)
    except InterpolationError:
        return
    assert all(found.text[position:].startswith("${") for position in found.unknown)
    assert bool(found.unknown) == any(UNKNOWN in what for _, what in found.assumptions)


@table(
    ("command", "words"),
    [
        ("--model ${M:-a/b} -tp ${TP:-2}", ["--model", "a/b", "-tp", "2"]),
        ("${ARGS:---model 'a b' -tp 2}", ["--model", "a b", "-tp", "2"]),
        ("--model ${M:+x}", ["--model"]),
        ("--model '${M:-a b}'", ["--model", "a b"]),
        ("-tp ${TP} x", ["-tp", Unknown("${TP!}"), "x"]),
        ("-tp '${TP}'\"$TP\"  x", ["-tp", Unknown("${TP!}${TP!}"), "x"]),
        ("--tp=$TP", [Unknown("--tp=${TP!}")]),
        ("a $$TP", ["a", "$TP"]),
    ],
)
def test_a_command_is_interpolated_before_it_is_split(command: str, words: list[str]) -> None:
    found = started(command=command)[2:]
    assert [(type(word), word) for word in found] == [(type(word), word) for word in words]


@table(
    ("text", "expected"),
    [
        ("$(A)", "$(A)"),
        ("--port=$$(A)", "--port=$(A)"),
        ("$$$$", "$$"),
        ("$$$$(A)", "$$(A)"),
        ("${B:-$$(A)}", "$(A)"),
        ("$B$$(A)", Unknown("${B!}$(A)")),
    ],
)
@table("environment", [{"A": "1"}, {}])
def test_nothing_is_expanded_in_a_command_after_its_interpolation(
    text: str, expected: str, environment: dict[str, str]
) -> None:
    commands: tuple[str | list[str], ...] = ([text], f"'{text}'")
    found = [started(command=command, environment=environment)[2:] for command in commands]
    assert [[(type(word), word) for word in words] for words in found] == [[(type(expected), expected)]] * 2


def test_the_tag_of_an_image_may_have_a_default_and_may_be_unknown() -> None:
    assert engine(image="vllm/vllm-openai:${TAG:-v0.23.0}", entrypoint=None).vllm_version == "0.23.0"
    assert engine(image="vllm/vllm-openai:v0.23.0${SUFFIX}", entrypoint=None).vllm_version is None
    assert engine(image="vllm/vllm-openai:$TAG", entrypoint=None).vllm_version is None
    assert engine(image="$REGISTRY/vllm/vllm-openai:v0.23.0", entrypoint=None).vllm_version == "0.23.0"


@table(
    ("environment", "env", "note"),
    [
        (["A=${B:-1}"], {"A": "1"}, ""),
        (["${A:-B=1}"], {"B": "1"}, ""),
        (["${A:-B}=1"], {"B": "1"}, ""),
        (["A${B}=1"], {}, "`A${B!}=1` sets a variable whose name is not known"),
        (["$A"], {}, "`${A!}` sets a variable whose name is not known"),
        (["A=1", "A=$B"], {"A": None}, ""),
        (["A"], {"A": None}, ""),
        (["A="], {"A": ""}, ""),
        ({"A": None}, {"A": None}, ""),
        ({"$A": "1"}, {"$A": "1"}, ""),
    ],
)
def test_the_name_of_a_variable_may_come_from_another(
    environment: object, env: dict[str, str | None], note: str
) -> None:
    container = engine(environment=environment)
    assert container.env == env
    assert not note or note in container.notes


@table(
    ("value", "text"),
    [
        (1, "1"),
        (0, "0"),
        (-1, "-1"),
        (1000, "1000"),
        (2**63 - 1, "9223372036854775807"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e+19"),
        (-(2**63), "-9223372036854775808"),
        (-(2**63) - 1, "-9.223372036854776e+18"),
        (10**400, "1" + "0" * 400),
        (1.0, "1"),
        (0.0, "0"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1500.0, "1500"),
        (123456.0, "123456"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (21000000.0, "2.1e+07"),
        (1e20, "1e+20"),
        (1e21, "1e+21"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (1e300, "1e+300"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_number_or_a_boolean_has_the_text_that_go_prints(value: object, text: str) -> None:
    assert engine(environment={"A": value}).env == {"A": text}


@pytest.mark.parametrize("value", [[], {}, ["1"], {"a": 1}])
def test_a_list_or_an_object_is_not_a_legal_value_of_a_variable(value: object) -> None:
    (fault,) = read(environment={"A": value})[1]
    assert fault.pointer == "/services/a/environment/A"


def test_a_number_in_a_list_is_a_fault() -> None:
    (fault,) = read(environment=[1])[1]
    assert (fault.pointer, fault.message) == ("/services/a/environment/0", "expected a string in quotes, got `1`")


SCALARS: list[tuple[str, str | None]] = [
    ("1", "1"),
    ("+1", "1"),
    ("-0", "0"),
    ("01", "1"),
    ("010", "8"),
    ("08", "8"),
    ("0o1", "1"),
    ("0O17", "15"),
    ("-0o17", "-15"),
    ("0o8", "0o8"),
    ("0x1", "1"),
    ("0XfF", "255"),
    ("0b11", "3"),
    ("0b12", "0b12"),
    ("1_000", "1000"),
    ("1__0_", "10"),
    ("_1", "_1"),
    ("0x_1", "1"),
    ("0xFFFFFFFFFFFFFFFF", "18446744073709551615"),
    ("0x1FFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF"),
    ("18446744073709551616", "1.8446744073709552e+19"),
    ("07777777777777777777777", "7.777777777777777e+21"),
    ("-9223372036854775809", "-9.223372036854776e+18"),
    ("1.0", "1"),
    ("1.", "1"),
    (".5", "0.5"),
    ("+.5", "0.5"),
    ("1_0.5", "10.5"),
    ("._5", "._5"),
    ("-0.0", "-0"),
    ("1e3", "1000"),
    ("1E+3", "1000"),
    ("1e6", "1e+06"),
    ("1.5e-7", "1.5e-07"),
    ("1e400", "1e400"),
    ("0x1.8p1", "0x1.8p1"),
    ("1:30", "1:30"),
    ("true", "true"),
    ("True", "true"),
    ("FALSE", "false"),
    ("yes", "yes"),
    ("No", "No"),
    ("on", "on"),
    ("off", "off"),
    ("y", "y"),
    ("null", None),
    ("Null", None),
    ("~", None),
    ("", None),
    ("=", "="),
    ("'1.0'", "1.0"),
    ('"yes"', "yes"),
    ('"0o1"', "0o1"),
    ("'null'", "null"),
    ("'${A:-1.0}'", "1.0"),
]


@table(("scalar", "text"), SCALARS)
def test_the_yaml_of_a_variable_is_read_as_go_reads_it(scalar: str, text: str | None) -> None:
    compose = f"{{services: {{a: {{entrypoint: [vllm, serve], environment: {{A: &v {scalar}\n, B: *v}}}}}}}}"
    for written in (compose, f"manifest: {compose}", f"items:\n- manifest: [{compose}]"):
        (document,) = read_documents(written, "", resolve=resolve_variables)
        while "services" not in document:
            document = document[0] if isinstance(document, list) else next(iter(document.values()))
        faults: list[RequestFault] = []
        (container,) = read_manifest(document, "", faults)
        assert (container.env, faults) == ({"A": text, "B": text}, [])


@pytest.mark.parametrize("scalar", [".inf", "-.Inf", ".nan"])
def test_a_variable_that_is_not_a_finite_number_is_refused(scalar: str) -> None:
    with pytest.raises(RulesInvalid, match="expected a finite number"):
        read_documents(f"services: {{a: {{environment: {{A: {scalar}}}}}}}", "", resolve=resolve_variables)


def test_only_the_variables_of_services_are_read_as_go_reads_them() -> None:
    text = "{apiVersion: v1, environment: {A: yes}, services: [{environment: {A: 1e3}}], a: {environment: {A: 0o1}}}"
    assert read_documents(text, "", resolve=resolve_variables) == read_documents(text, "")


@table(
    ("fields", "starts"),
    [
        ({"command": ["--model", "a/b"]}, True),
        ({"entrypoint": None, "command": ["--model", "a/b"]}, True),
        ({"entrypoint": [], "command": ["--model", "a/b"]}, False),
        ({"entrypoint": "", "command": ["--model", "a/b"]}, False),
        ({"entrypoint": [], "command": "--model a/b"}, False),
        ({"entrypoint": [], "command": ["sleep", "infinity"]}, False),
        ({"entrypoint": [], "command": ["vllm", "serve", "a/b"]}, True),
        ({"entrypoint": "", "command": "vllm serve a/b"}, True),
    ],
)
def test_an_empty_entry_point_removes_the_images(fields: dict[str, Any], starts: bool) -> None:  # noqa: FBT001  # a table's value
    service = {"image": "vllm/vllm-openai:v0.23.0", **fields}
    found = read_manifest({"services": {"a": service}}, "", [])
    assert [each.problem for each in found] == ([""] if starts else [])


PART = "Zq8JbhpkJG4r"
"""What follows a `$` in a password, where Compose takes it for the name of a variable."""
PASSWORDS = [
    *(f"pA5${PART}", f"${PART}", f"pA5${{{PART}}}", f"${{X:-pA5${PART}}}", f"${{X:-${{Y:-pA5${PART}}}}}"),
    *(f"pA5${{{PART}:-x}}", f"pA 5${PART}", f"${{X:-pA 5${PART}}}", f"${PART}$Y", f"${{X:-x}}${PART}"),
    *(f"pA5$$${PART}", f"pA5${{{PART}:+x}}", f"pA5${{{PART}?x}}"),
]
SCRIPTS = [
    *("vllm serve m --api-key '{}'", "vllm serve m --api-key='{}'", "export API_KEY='{}'; vllm serve m"),
    *("curl -H 'Authorization: Bearer {}' h; vllm serve m", "curl 'https://bob:{}@h'; vllm serve m"),
    'X=\'{{"token": "{}"}}\' vllm serve m',
]


@table("password", PASSWORDS)
@table(
    "service",
    [
        *({"environment": each} for each in ({"API_KEY": "{}"}, ["API_KEY={}"], {"A": "--api-key '{}'"})),
        *({"environment": each} for each in ({"A": '{"password": "{}"}'}, {"A": "https://bob:{}@h"}, ["A=token={}"])),
        {"environment": {"A": '{"value": "{}", "name": "HF_TOKEN"}'}},
        *(
            {"command": [*words]}
            for words in (("m", "--api-key", "{}"), ("m", "--api-key={}"), ("m", "–hf-token", "{}"))
        ),
        *({"command": [*words]} for words in (("m", "--token", "{}"), ("m", "--a", '{"password": "{}"}'))),
        *({"entrypoint": ["bash", "-c", script]} for script in SCRIPTS),
        *({"entrypoint": ["vllm", "serve", "m", "--api-key"], "command": ["{}"]},),
        *({"command": f"m {word}"} for word in ("--api-key '{}'", "--api-key='{}'", '--a \'{"token": "{}"}\'')),
        {"image": "h/${API_KEY:-{}}"},
    ],
)
def test_a_part_of_a_password_is_not_shown_as_the_name_of_a_variable(service: dict[str, Any], password: str) -> None:
    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        return [filled(item) for item in value] if isinstance(value, list) else value.replace("{}", password)

    containers, _ = read(**filled(service))
    assert [note for each in containers for note in each.notes if PART in note] == []


@table(
    "service",
    [
        *({"environment": each} for each in ({"API_KEY": "${A}"}, {"API_KEY": "${A:-x}"}, ["API_KEY=${A}"])),
        *({"environment": each} for each in ({"A": "$A"}, {"A": "--api-key ${A}"}, {"A": "--api-key x --port $A"})),
        *({"command": each} for each in (["m", "--api-key", "${A}"], "m --api-key ${A}", "m --api-key '${A}' --a 'b'")),
        *({"command": each} for each in ("m --api-key x --port $A", ["m", "--api-key", "x", "--port", "$A"])),
        *({"command": each} for each in ("m --a ${API_KEY:-x} --port $A", "m --api-key ${B} --port $A")),
        {"entrypoint": ["bash", "-c", "export API_KEY=x; vllm serve m --port $A"]},
    ],
)
def test_the_name_of_a_variable_that_is_no_part_of_a_password_is_shown(service: dict[str, Any]) -> None:
    assert any("`${A}`" in note for note in engine(**service).notes)
