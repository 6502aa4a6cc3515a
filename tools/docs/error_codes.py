"""The page of error codes: the verifier's rules, and every other code with the messages that come with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tools.docs.classes import docstring, table
from wrapper_ir.verifier.rules import RULES
from wrapper_ir.verifier.signature_rules import SIGNATURE_RULES

_ROOT = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"(WIR|PY|FE|CPP|TR|FX)\d{3}")
_HEAD = """# Error codes

Written by `make docs` from the sources; not edited by hand.

Every error is an exception with `code`, `message` and `hint`. A code never changes its meaning. Errors of torch,
operators and kernels keep their class and have code WIR927 in a note; `wrapper_ir.errors.code_of(error)` tells either
code. The verifier collects `Diagnostic` values first: `wrapper_ir.check(program)` returns them all,
`wrapper_ir.verify(program)` raises. Both take artifacts, too, whose signature they hold against the program. """


@dataclass(frozen=True, slots=True, order=True)
class RaiseSite:
    """One call in the sources with a code as a literal argument; `message` has `…` in place of values."""

    code: str
    message: str


def error_codes() -> str:
    """The page's text; deterministic."""
    lines = [*_HEAD.splitlines(), "", *classes(), "## The verifier's rules", ""]
    lines += table(
        ("code", "check", "broken when"), ((f"`{r.code}`", r.check, r.meaning) for r in RULES.values())
    )
    lines += ["", "## The verifier's rules for signatures", ""]
    lines += table(("code", "broken when"), ((f"`{r.code}`", r.meaning) for r in SIGNATURE_RULES.values()))
    lines += [""]
    for package in sorted((_ROOT / "packages").iterdir()):
        sites = sorted({s for s in raise_sites(package / "src") if s.code not in RULES})
        own = own_table(package.name) if (package / "src" / package.name / "errors.py").is_file() else []
        if own or sites:
            lines += [f"## {package.name}", ""]
            lines += [*own, ""] if own else [*messages(sites), ""]
    return "\n".join(lines).rstrip() + "\n"


def classes() -> list[str]:
    """The exception classes of wrapper_ir, from which those of other packages derive."""
    module = import_module("wrapper_ir.errors")
    errors = [
        c
        for name, c in sorted(vars(module).items())
        if isinstance(c, type) and issubclass(c, Exception) and c.__module__ == module.__name__
    ]
    rows = ((f"`{c.__name__}`", docstring(c).replace("\n", " ")) for c in errors)
    return [*table(("class", "raised when"), rows), ""]


def own_table(package: str) -> list[str]:
    """The table that a package keeps in the docstring of its `errors` module, if it keeps one."""
    doc = docstring(import_module(f"{package}.errors"))
    return [line for line in doc.splitlines() if line.startswith("|")]


def messages(sites: list[RaiseSite]) -> list[str]:
    """Formats one row per code, with all its messages."""
    by_code: dict[str, list[str]] = {}
    for site in sites:
        texts = by_code.setdefault(site.code, [])
        if site.message:
            texts.append(site.message)
    rows = ((f"`{code}`", " / ".join(texts)) for code, texts in by_code.items())
    return table(("code", "message"), rows)


def raise_sites(source: Path) -> Iterator[RaiseSite]:
    """Every call under `source` that has a code among its first arguments."""
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _site(node)


def _site(call: ast.Call) -> Iterator[RaiseSite]:
    for i, arg in enumerate(call.args):
        match arg:
            case ast.Constant(value=str(code)) if _CODE.fullmatch(code):
                following = call.args[i + 1 :]
                yield RaiseSite(code, _message(following[0]) if following else "")


def _message(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_message(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _message(left) + _message(right)
        case _:
            return "…"
