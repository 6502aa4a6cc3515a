"""Parameters of `forward`: order, kinds and defaults of the model's own function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import wrapper_ir_runtime as runtime
from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.literals import literal_text
from py_wrapper.errors import EmitError
from wrapper_ir import ir
from wrapper_ir.support.quoting import Namer, is_python_name
from wrapper_ir_runtime.trees import tree_keys

_USED = frozenset(
    {"boxed", "complex", "float", "getattr", "torch", Helper.ANY_GRADIENT.value, *runtime.__all__}
)
"""Names that `forward` uses besides its variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A parameter of `forward`: the variable, its structure (None: the argument was left to its default), its
    default as text ('' for none), and `place`, its position among the captured arguments."""

    name: str
    spec: ir.TreeSpec | None
    kind: ir.ParameterKind
    default: str = ""
    place: int = -1


def arguments_of(signature: ir.Signature, names: Namer) -> tuple[Argument, ...]:
    """Returns all parameters in the order of `forward`; raises EmitError PY102 if the signature does not
    match."""
    inputs = signature.inputs
    if [c.kind for c in inputs.children] != [ir.TreeKind.TUPLE, ir.TreeKind.DICT]:
        raise EmitError("PY102", "the signature's inputs are not (arguments, keywords)")
    for name in (*(p.name for p in signature.parameters), *map(str, tree_keys(inputs.children[1]))):
        if name not in _USED:  # first, so that no variable takes the name of a parameter
            names.claim(name)
    if signature.parameters:
        return tuple(_declared(signature, names))
    return (*_positional(signature, names), *_keywords(signature))


def in_order(arguments: Sequence[Argument]) -> Iterator[tuple[str, ir.TreeSpec]]:
    """Yields the captured arguments in the order of the leaves."""
    for argument in sorted(arguments, key=lambda a: a.place):
        if argument.spec is not None:
            yield argument.name, argument.spec


def head_of(arguments: Sequence[Argument]) -> tuple[list[str], list[Argument]]:
    """Returns the parameter list of `def forward(...)`, and the required parameters that need a default in
    Python because one before them has a default."""
    heads: list[str] = []
    unchecked: list[Argument] = []
    defaulted = False
    for number, argument in enumerate(arguments):
        before = arguments[number - 1].kind if number else None
        if before is ir.ParameterKind.POSITIONAL and argument.kind is not ir.ParameterKind.POSITIONAL:
            heads.append("/")
        if argument.kind is ir.ParameterKind.KEYWORD and before is not ir.ParameterKind.KEYWORD:
            heads.append("*")
            defaulted = False
        default = argument.default
        if not default and defaulted and argument.kind is not ir.ParameterKind.KEYWORD:
            default = "REQUIRED"
            unchecked.append(argument)
        defaulted = defaulted or bool(default)
        heads.append(f"{argument.name}={default}" if default else argument.name)
    if arguments and arguments[-1].kind is ir.ParameterKind.POSITIONAL:
        heads.append("/")
    return heads, unchecked


# --- without the model's own parameters


def _leaf_counts(specs: Sequence[ir.TreeSpec], first: int) -> list[int]:
    counts = [first]
    for spec in specs:
        counts.append(counts[-1] + spec.num_leaves)
    return counts


def _static_default(signature: ir.Signature, spec: ir.TreeSpec, leaf: int) -> str:
    statics = {s.leaf: s.value for s in signature.statics}
    return literal_text(statics[leaf]) if spec.kind is ir.TreeKind.LEAF and leaf in statics else ""


def _positional(signature: ir.Signature, names: Namer) -> list[Argument]:
    """Returns parameters named like their leaves. Trailing static ones default to their captured value."""
    specs = signature.inputs.children[0].children
    leaves = _leaf_counts(specs, 0)
    defaults = [_static_default(signature, spec, leaf) for spec, leaf in zip(specs, leaves)]
    required = max((n + 1 for n, default in enumerate(defaults) if not default), default=0)
    return [
        Argument(
            name=names(
                _leaf_name(signature, leaf, number) if spec.kind is ir.TreeKind.LEAF else f"arg{number}"
            ),
            spec=spec,
            kind=ir.ParameterKind.ANY,
            default=default if number >= required else "",
            place=number,
        )
        for number, (spec, leaf, default) in enumerate(zip(specs, leaves, defaults))
    ]


def _leaf_name(signature: ir.Signature, leaf: int, number: int) -> str:
    return signature.names[leaf] if leaf < len(signature.names) else f"arg{number}"


def _keywords(signature: ir.Signature) -> list[Argument]:
    args, kwargs = signature.inputs.children
    leaves = _leaf_counts(kwargs.children, args.num_leaves)
    return [
        Argument(
            name=_exact(str(key)),
            spec=spec,
            kind=ir.ParameterKind.KEYWORD,
            default=_static_default(signature, spec, leaf),
            place=len(args.children) + number,
        )
        for number, (key, spec, leaf) in enumerate(zip(tree_keys(kwargs), kwargs.children, leaves))
    ]


def _exact(key: str) -> str:
    if not is_python_name(key) or key in _USED:
        raise EmitError("PY102", f"{key!r} cannot be the name of a keyword argument")
    return key


# --- with the model's own parameters


def _declared(signature: ir.Signature, names: Namer) -> Iterator[Argument]:
    args, kwargs = signature.inputs.children
    keys = {str(key): number for number, key in enumerate(tree_keys(kwargs))}
    count = len(args.children)
    later: list[Argument] = []
    number = 0
    for parameter in signature.parameters:
        place, spec = -1, None
        if parameter.kind is not ir.ParameterKind.KEYWORD and number < count:
            place, spec = number, args.children[number]
            number += 1
        elif parameter.name in keys:
            keyword = keys.pop(parameter.name)
            place, spec = count + keyword, kwargs.children[keyword]
        argument = _argument(parameter, names, place, spec)
        if argument.kind is ir.ParameterKind.KEYWORD:
            later.append(argument)
        else:
            yield argument
    for extra in range(number, count):  # of `*args`
        yield Argument(
            name=names(f"arg{extra}"),
            spec=args.children[extra],
            kind=ir.ParameterKind.POSITIONAL,
            place=extra,
        )
    yield from later
    for key, keyword in keys.items():  # of `**kwargs`
        spec = kwargs.children[keyword]
        yield Argument(name=_exact(key), spec=spec, kind=ir.ParameterKind.KEYWORD, place=count + keyword)


def _argument(parameter: ir.Parameter, names: Namer, place: int, spec: ir.TreeSpec | None) -> Argument:
    """Returns a parameter.

    It keeps its name, which callers may use, unless `forward` itself uses that name.
    """
    name = parameter.name
    if not is_python_name(name) or (name in _USED and parameter.kind is ir.ParameterKind.KEYWORD):
        raise EmitError("PY102", f"{name!r} cannot be the name of a parameter")
    return Argument(
        name=names(name) if name in _USED else name,
        spec=spec,
        kind=parameter.kind,
        default="" if parameter.required else literal_text(parameter.default),
        place=place,
    )
