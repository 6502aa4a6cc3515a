"""Reads kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wrapper_ir.expr import Expr
from wrapper_ir.kernels import (
    Access,
    Choice,
    ConstantValue,
    CppKernel,
    CppSource,
    Derivation,
    ForeignKernel,
    KernelDef,
    KernelNames,
    KernelParam,
    MultiKernel,
    OperatorConstant,
    OperatorKernel,
    ParamKind,
    Requirement,
    TritonConfig,
    TritonKernel,
    Variant,
)
from wrapper_ir.text.lexer import BLOCK
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.text.parser_types import DTYPES

__all__ = ["read_kernel"]

T = TypeVar("T")

_ACCESS = {a.value: a for a in Access if a is not Access.NONE}
_KERNEL_KINDS = {
    kind: kind
    for kind in (
        CppKernel.kind,
        TritonKernel.kind,
        MultiKernel.kind,
        OperatorKernel.kind,
        ForeignKernel.kind,
    )
}
_CHOICES = {c.value: c for c in Choice}
_DERIVATIONS = {d.value: d for d in Derivation}
_WORDS: dict[str, ConstantValue] = {"none": None, "true": True, "false": False}


def read_kernel(p: OpParser) -> KernelDef:
    """`kernel cpp @k entry "kernel" (read f32* in_ptr0, i64 ks0) {{{...}}}`, after its first word."""
    kind = p.choice(_KERNEL_KINDS, "kind of kernel")
    name = p.sigil("@", "a name such as @k")
    if kind == ForeignKernel.kind:
        p.expect("runtime")
        return ForeignKernel(name=name, runtime=p.string(), params=_params(p), payload=_source(p))
    if kind == MultiKernel.kind:
        return _read_multi(p, name)
    if kind == OperatorKernel.kind:
        schema, params = p.string(), _params(p)
        constants = p.group("constants", lambda: _operator_constant(p))
        return OperatorKernel(name=name, params=params, schema=schema, constants=constants)
    p.expect("entry")
    entry = p.string()
    if kind == CppKernel.kind:
        return _read_cpp(p, name, entry)
    return _read_triton(p, name, entry)


def _read_cpp(p: OpParser, name: str, entry: str) -> CppKernel:
    isa = p.group("isa", p.string)
    params = _params(p)
    here = p.at
    requires = _clause(p, "requires", lambda: _requirement(p))
    if requires:
        p.skip_lines()
    else:  # the source is in this line
        p.at = here
    source = _source(p)
    variants: list[CppSource] = []
    while _follows(p, "variant"):
        variants.append(CppSource(isa=p.group("isa", p.string), source=_source(p)))
    return CppKernel(
        name=name,
        entry=entry,
        isa=isa,
        params=params,
        source=source,
        variants=tuple(variants),
        requires=requires,
    )


def _follows(p: OpParser, word: str) -> bool:
    """Takes `word` where it begins the next line; else leaves the end of this line."""
    here = p.at
    if _accept(p, word):
        return True
    p.at = here
    return False


def _requirement(p: OpParser) -> Requirement:
    """`"torch/csrc/inductor/cpp_prefix.h" of "torch 2.13.0" sha256 "3f..."`."""
    name = p.string()
    origin = p.string() if p.accept("of") else ""
    return Requirement(name=name, origin=origin, sha256=p.string() if p.accept("sha256") else "")


def _params(p: OpParser) -> tuple[KernelParam, ...]:
    p.expect("(")
    return p.items(")", lambda: _param(p))


def _param(p: OpParser) -> KernelParam:
    access = _ACCESS.get(p.tokens[p.at], Access.NONE)
    if access is not Access.NONE:
        p.at += 1
    dtype = p.choice(DTYPES, "element type")
    kind = _param_kind(p)
    name = _name(p)
    alias = p.group("may_alias", lambda: _name(p))
    overlap = p.group("may_overlap", lambda: _name(p))
    divisible = p.parenthesised_integer("divisible", 1)
    block = p.group("block", lambda: p.kernel_expr(KernelNames()))
    return KernelParam(
        name=name,
        kind=kind,
        dtype=dtype,
        access=access,
        may_alias=alias,
        may_overlap=overlap,
        divisible=divisible,
        block=block,
    )


def _param_kind(p: OpParser) -> ParamKind:
    if p.accept("*"):
        return ParamKind.POINTER
    if p.accept("["):
        p.expect("]")
        return ParamKind.DESCRIPTOR
    return ParamKind.SCALAR


def _source(p: OpParser) -> str:
    token = p.tokens[p.at]
    if token.startswith(BLOCK):
        p.at += 1
        return token[len(BLOCK) :]
    return p.string("`{{{` and a source block")


# --- Triton


def _read_triton(p: OpParser, name: str, entry: str) -> TritonKernel:
    params = _params(p)
    names = KernelNames(params)

    def expr() -> Expr:
        return p.kernel_expr(names)

    order = _clause(p, "order", lambda: _name(p))
    constants = _clause(p, "constants", lambda: _named(p))
    configs = _clause(p, "configs", lambda: _config(p, expr))
    grid = _clause(p, "grid", expr)
    grid_params = p.group("over", lambda: _name(p))
    derive = _clause(p, "derive", lambda: p.choice(_DERIVATIONS, "rule"))
    options = _clause(p, "options", lambda: _named(p))
    restore, reset = (_clause(p, word, lambda: _name(p)) for word in ("restore", "reset"))
    hints = _clause(p, "hints", lambda: _hint(p))
    heuristic = p.string() if _accept(p, "heuristic") else ""
    cooperative = _accept(p, "cooperative")
    multiprocessors = _clause(p, "multiprocessors", p.integer)
    requires = _clause(p, "requires", lambda: _requirement(p))
    p.skip_lines()
    return TritonKernel(
        name=name,
        params=params,
        source=_source(p),
        entry=entry,
        order=order,
        configs=configs,
        grid=grid,
        grid_params=grid_params,
        constants=constants,
        derive=derive,
        options=options,
        restore=restore,
        reset=reset,
        size_hints=hints,
        heuristic=heuristic,
        cooperative=cooperative,
        multiprocessors=multiprocessors[0] if multiprocessors else None,
        requires=requires,
    )


def _read_multi(p: OpParser, name: str) -> MultiKernel:
    p.expect("choose")
    choice = p.choice(_CHOICES, "way to choose")
    params = _params(p)
    grid_params = p.group("over", lambda: _name(p))
    variants = _clause(p, "variants", lambda: _variant(p))
    return MultiKernel(name=name, params=params, variants=variants, choice=choice, grid_params=grid_params)


def _variant(p: OpParser) -> Variant:
    kernel = p.sigil("@", "a name such as @k")
    p.expect("(")
    args = p.items(")", p.integer)
    grid = p.group("grid", p.integer)
    return Variant(kernel=kernel, args=args, grid=grid, hints=p.group("hints", lambda: _sizes(p)))


def _sizes(p: OpParser) -> tuple[int | None, ...]:
    p.expect("(")
    return p.items(")", lambda: None if p.accept("none") else p.integer())


def _clause(p: OpParser, word: str, read: Callable[[], T]) -> tuple[T, ...]:
    p.skip_lines()
    return p.group(word, read)


def _accept(p: OpParser, word: str) -> bool:
    p.skip_lines()
    return p.accept(word)


def _config(p: OpParser, expr: Callable[[], Expr]) -> TritonConfig:
    p.expect("{")
    meta = p.items("}", lambda: _named(p))
    warps, stages = _required(p, "warps"), _required(p, "stages")
    options = p.group("options", lambda: _named(p))
    grid = p.group("grid", expr)
    return TritonConfig(meta=meta, num_warps=warps, num_stages=stages, options=options, grid=grid)


def _required(p: OpParser, word: str) -> int:
    """`word(3)`."""
    p.expect(word)
    p.expect("(")
    number = p.integer()
    p.expect(")")
    return number


def _name(p: OpParser) -> str:
    return p.name("a parameter name")


def _named(p: OpParser) -> tuple[str, ConstantValue]:
    """`XBLOCK = 128`."""
    name = _name(p)
    p.expect("=")
    return name, _constant(p)


def _operator_constant(p: OpParser) -> tuple[str, OperatorConstant]:
    """`alpha = 2`, `stride = (1, 1)`."""
    name = _name(p)
    p.expect("=")
    return name, p.items(")", p.integer) if p.accept("(") else _constant(p)


def _hint(p: OpParser) -> tuple[str, int]:
    name = p.name("a dimension")
    p.expect("=")
    return name, p.integer()


def _constant(p: OpParser) -> ConstantValue:
    token = p.tokens[p.at]
    if token in _WORDS:
        p.at += 1
        return _WORDS[token]
    if token[:1] == '"':
        return p.string()
    if p.accept("dtype"):
        p.expect("(")
        dtype = p.choice(DTYPES, "element type")
        p.expect(")")
        return dtype
    return p.number()
