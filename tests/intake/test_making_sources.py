"""How the generator reads Python.

Values, names through imports, classes with their bases, and methods branch by branch.
"""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from policy.vllm.tablegen.branches import Branches
from policy.vllm.tablegen.classes import Klass, Outside, constant, klass_of
from policy.vllm.tablegen.formulas import UNREADABLE
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.values import Name, SourceUnreadable, named_value
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from pathlib import Path


def world_of(folder: Path, files: dict[str, str]) -> World:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    return World(SourceReader(FolderSource(folder)))


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("self.a = self.b", {"a": ["key", "b"]}),
    ("self.a: int = 1", {"a": 1}),
    ("for x in y:\n    self.a = 1", {}),
    ("self.a = f'{self.b}-{self.c}'", {"a": ["+", ["+", ["key", "b"], "-"], ["key", "c"]]}),
    ("self.a = f''", {"a": ""}),
    ("self.a = self.b.endswith('x')", {"a": ["ends", ["key", "b"], "x"]}),
    ("self.a = bool(self.b)", {"a": UNREADABLE}),
    ("self.a = unknown(self.b)", {"a": UNREADABLE}),
    ("self.a = [x for x in self.b if what(x)]", {"a": UNREADABLE}),
    ("self.a = getattr(f(x), 'y', 1)", {"a": UNREADABLE}),
    ("b = what(1)\nself.a = b", {"a": UNREADABLE}),
    ("if what(1):\n    self.a = 1\nelse:\n    self.a = 1", {"a": 1}),
    ("if what(1):\n    self.a = 1", {"a": UNREADABLE}),
    ("if self.b:\n    raise ValueError\nself.a = 1", {"a": 1}),
    ("if self.b:\n    self.a = 1\nelse:\n    raise ValueError", {"a": 1}),
    ("raise ValueError\nself.a = 1", {}),
    (
        "if self.b:\n    return 1\nif self.c:\n    return 2\nraise ValueError",
        {"return": ["if", ["key", "b"], 1, ["if", ["key", "c"], 2, False]]},
    ),
    (
        "if self.b:\n    return\nself.a = 1",
        {"a": ["if", ["key", "b"], ["key", "a"], 1], "return": ["if", ["key", "b"], True, False]},
    ),
    (
        "return self.a in {*self.b, 'c', 'd'}",
        {"return": ["in", ["key", "a"], ["+", ["key", "b"], ["items", "c", "d"]]]},
    ),
    (
        "if self.b:\n    c = self.d\nelse:\n    c = self.e\nself.a = c",
        {"a": ["if", ["key", "b"], ["key", "d"], ["key", "e"]]},
    ),
    ("self.b['c'] = 1\nself.a = self.b.get('c', 2)", {"b.c": 1, "a": ["if", ["!=", 1, None], 1, 2]}),
    ("d = {'x': self.b}\nself.a = d['x']", {"d.x": ["key", "b"], "a": ["key", "b"]}),
    ("self.update({**self.b, 'a': 1})", {"a": 1}),
    ("x.y().z()", {}),
    ("missing(self)", {}),
    ("a, b = 1, 2\nc[0] = 1", {}),
]


@pytest.mark.parametrize(("body", "expected"), BODIES)
def test_the_assignments_of_a_method_are_followed(tmp_path: Path, body: str, expected: dict[str, Any]) -> None:
    world = world_of(tmp_path, {"m.py": "def what(x): ..."})
    module = world.module("m")
    assert module is not None
    run = Branches(world, module)
    run.run(ast.parse(body).body)
    assert run.written == expected


SYNTAX: list[tuple[str, Any]] = [
    ("A = {'a': (1, -2), **dict(b=frozenset({3}))}", {"a": (1, -2), "b": (3,)}),
    ("B = [1]\nA = [*B, *(2,)] + list()", [1, 2]),
    ("B = {'x': ('m', 'K'), 'y': ('m', 'L')}\nA = {k: v for k, (m, v) in B.items() if v != 'L'}", {"x": "K"}),
    ("B = {'x': 'K', 'y': 'L'}\nA = {k: v for k, v in B.items() if k in ('y',)}", {"y": "L"}),
    ("A = OrderedDict([('a', 1), 2], c=3)", {"a": 1, "c": 3}),
    ("A = dict('ab')", {}),
    ("A = {'a': 1} | {'b': 2}", {"a": 1, "b": 2}),
    ("A = ('a',) + ('b',)", ("a", "b")),
    ("A = 'a' + 'b'", "ab"),
    ("A = get_args(Literal['a', Literal['b', 'c']])", ("a", "b", "c")),
    ("class K: ...\nA = [K]", [Name("K")]),
    ("A = [outside]", [Name("outside")]),
    ("A = set('x')", "x"),
    ("A: dict = {}", {}),
]


@pytest.mark.parametrize(("text", "expected"), SYNTAX)
def test_a_literal_is_read(tmp_path: Path, text: str, expected: object) -> None:
    assert named_value(world_of(tmp_path, {"m.py": text}), "m", "A") == expected


UNREAD = [
    "A = f(1)",
    "A = [*1]",
    "A = {**1}",
    "A = 1 + 'a'",
    "A = {k: v for k, v in 1 .items()}",
    "A = {k: v for k in {'a': 1}.items() for v in k}",
    "A = {k: v for (k, [v]) in {'a': 1}.items()}",
    "A = {k: v for k, v in {'a': 1}.items() if k}",
    "import m as A",
    "for A in (): ...\nwith x: A = 1 if y else 2",
]


@pytest.mark.parametrize("text", UNREAD)
def test_anything_but_a_literal_is_unreadable_and_never_guessed(tmp_path: Path, text: str) -> None:
    world = world_of(tmp_path, {"m.py": text})
    if text.startswith("import"):
        assert named_value(world, "m", "A") == Name("A")
        return
    with pytest.raises(SourceUnreadable):
        named_value(world, "m", "A")


def test_a_name_is_found_through_imports_star_imports_and_other_bindings(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from .inner import *\nfrom . import inner\nimport p.inner as other",
        "p/inner.py": """
            try:
                import fast
            except ImportError:
                X = 1
            else:
                Y = 2
            with suppress(): Z = 3
            if current_platform.is_cuda_alike() and not current_platform.is_tpu(): P = "cuda"
            if current_platform.device_type == "cuda" or what(): Q = 1
            if what() and False: R = 1
            class K: ...
            K.flag = True
            async def later(): ...
            """,
        "m.py": (
            "from p import X, Y, Z, P, Q, K, inner\nfrom m import round\nimport p\n"
            "class L(inner.K, p.K, unknown.Base, f()): ..."
        ),
    }
    world = world_of(tmp_path, files)
    assert [named_value(world, "m", name) for name in "XYZPQ"] == [1, 2, 3, "cuda", 1]
    assert named_value(world, "p.inner", "R") is None
    assert named_value(world, "m", "round") == Name("round")
    module = world.module("m")
    assert module is not None
    klass = klass_of(world, module, ast.Name("L"))
    assert isinstance(klass, Klass)
    assert (klass.module.name, klass.name) == ("m", "L")
    assert [part.name for part in klass.order()] == ["L", "K", "unknown.Base", "f"]
    assert klass.attribute("flag") is not None
    assert klass.attribute("none") is None
    assert klass_of(world, module, ast.Constant(1)) == Outside("1")


def test_bases_that_python_would_refuse_still_get_an_order(tmp_path: Path) -> None:
    files = {
        "m.py": "class A: ...\nclass B(A): ...\nclass C(A, B): ...\n"
        "class E(Generic[T], make(A), g(A), factory(A)): ...\n"
        "def make(base):\n    class Made(base): ...\n    return Made\ndef factory(base):\n    return base\n"
    }
    world = world_of(tmp_path, files)
    module = world.module("m")
    assert module is not None
    orders = {
        name: klass.order() for name in "CE" if isinstance(klass := klass_of(world, module, ast.Name(name)), Klass)
    }
    assert {name: [part.name for part in order] for name, order in orders.items()} == {
        "C": ["C", "A", "B"],
        "E": ["E", "Generic", "Made", "A", "g", "factory"],
    }


def test_a_name_defined_by_itself_is_unreadable(tmp_path: Path) -> None:
    world = world_of(
        tmp_path, {"m.py": "LOOP = LOOP\nclass K:\n    flag = LOOP\n    other = 1\nAlias = K\nclass L(Alias): ..."}
    )
    module = world.module("m")
    assert module is not None
    klass = klass_of(world, module, ast.Name("L"))
    assert isinstance(klass, Klass)
    assert (constant(klass, "other"), constant(klass, "none")) == (1, None)
    with pytest.raises(SourceUnreadable):
        constant(klass, "flag")


def test_a_name_only_for_type_checkers_is_not_an_attribute(tmp_path: Path) -> None:
    text = """
        import typing
        if typing.TYPE_CHECKING:
            X = 1
        else:
            X = 2
        X = [X]
        X = [X]
        X = [X]
        class K:
            if TYPE_CHECKING:
                flag = 1
            def method(self): ...
        """
    world = world_of(tmp_path, {"m.py": text})
    module = world.module("m")
    assert module is not None
    klass = klass_of(world, module, ast.Name("K"))
    assert isinstance(klass, Klass)
    assert (named_value(world, "m", "X"), klass.attribute("flag"), constant(klass, "method")) == ([[[2]]], None, True)
