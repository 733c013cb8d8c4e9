"""The multipart form of a dry run, as ``curl -F`` sends it.

Owns the names of the parts: ``deployment`` once, ``rules``, ``remove`` and ``cases`` any number of times, ``changes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from policy.checks.candidate import MAX_RULES
from policy.errors import RequestFault, RequestInvalid
from policy.messages import listed, nearest, quoted
from service.documents.body import decode
from service.documents.dry_run_request import DryRunRequest, read_changes
from service.problems import Refused

if TYPE_CHECKING:
    from starlette.types import Message, Scope

PARTS: Final = ("deployment", "rules", "remove", "cases", "changes")
MAX_TYPE: Final = 256
"""Characters of a form's content-type; its boundary has at most 70 (RFC 2046). Parsing parameters is not linear."""
UTF_8: Final = ("utf-8", "utf8")
BYTES: Final = "latin-1"
"""The character set in which the parser reads texts, because each byte has a character: those of a text are kept."""
YAML_ENDINGS: Final = (".yaml", ".yml")


async def read_form(scope: Scope, body: bytes) -> DryRunRequest:
    """Read a dry run from a form.

    Raises:
        Refused: the body is not a form.
        RequestInvalid: a part is unknown, missing or repeated, or is not UTF-8.
    """

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    content_type = dict(scope["headers"]).get(b"content-type", b"")
    if len(content_type) > MAX_TYPE:
        raise Refused(
            "malformed",
            f"not a form: its content-type has {len(content_type)} characters, more than the {MAX_TYPE} that are read",
        )
    parameters = parse_options_header(content_type)[1]
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in UTF_8:  # any other codec of Python would be used
        raise Refused("malformed", f"not a form: its charset is {quoted(charset)}; legal: {quoted('utf-8')}")
    boundary = parameters.get(b"boundary")
    if boundary and body.strip() and not body.rstrip().endswith(b"--" + boundary + b"--"):
        raise Refused("malformed", "not a form: it ends before its last boundary")
    texts: dict[str, list[tuple[str, bytes]]] = {name: [] for name in PARTS}
    faults = []
    as_bytes = {**scope, "headers": [(b"content-type", content_type + b"; charset=" + BYTES.encode())]}
    try:
        async with Request(as_bytes, receive).form(
            max_files=MAX_RULES + 1, max_fields=MAX_RULES + 1, max_part_size=len(body) + 1
        ) as form:
            for key, part in form.multi_items():
                name = _name(key)
                content = (
                    (_name(part.filename or ""), await part.read())
                    if isinstance(part, UploadFile)
                    else ("", part.encode(BYTES))
                )
                if name in texts:
                    texts[name].append(content)
                else:
                    faults.append(
                        RequestFault(
                            f"/{name}", f"unknown part {quoted(name)}; legal: {listed(PARTS)}{nearest(name, PARTS)}"
                        )
                    )
    except MultiPartException as error:
        raise Refused("malformed", f"not a form: {error.message}") from error
    if len(texts["deployment"]) != 1:
        faults.append(
            RequestFault("/deployment", "a form has one part `deployment`; add `-F deployment=@deployment.json`")
        )
    rules = [_utf8("rules", content, faults) for content in texts["rules"]]
    remove = [_utf8("remove", content, faults) for content in texts["remove"]]
    cases = [_utf8("cases", content, faults) for content in texts["cases"]]
    changes = [_utf8("changes", content, faults) for content in texts["changes"]]
    for_all = read_changes(changes[-1] if changes else None, faults)
    if faults:
        raise RequestInvalid(faults)
    name, deployment = texts["deployment"][0]
    return DryRunRequest(
        decode(deployment, b"application/yaml" if name.endswith(YAML_ENDINGS) else b""), rules, remove, for_all, cases
    )


def _name(text: str) -> str:
    """A name as UTF-8."""
    return text.encode(BYTES).decode(errors="replace")


def _utf8(part: str, content: tuple[str, bytes], faults: list[RequestFault]) -> str:
    try:
        return content[1].decode()
    except UnicodeDecodeError:
        faults.append(RequestFault(f"/{part}", f"{quoted(content[0] or part)} is not UTF-8"))
        return ""
