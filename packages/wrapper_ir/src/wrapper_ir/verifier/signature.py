"""Checks a signature against its program."""

from __future__ import annotations

import json
import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.random import random_devices
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import Diagnostic, VerificationError
from wrapper_ir.expr import Expr, Int
from wrapper_ir.verifier.signature_rules import SIGNATURE_RULES
from wrapper_ir.verifier.signature_types import misfits

T = TypeVar("T")

Finding = tuple[str, str]
"""A code and a message."""


def check_signature(artifact: Artifact, analyses: Analyses | None = None) -> tuple[Diagnostic, ...]:
    """All findings about the signature of an artifact whose program is valid. Later stages run only if the
    earlier ones found nothing."""
    memo = Analyses.of(artifact.program, analyses)
    return _first_findings(
        artifact, (_typed, _alone, _numbers, _groups, partial(_with_program, analyses=memo))
    )


def require_signature(artifact: Artifact, analyses: Analyses | None = None) -> None:
    """Raises VerificationError unless the signature fits the program. Callers that build a callable from both
    verify the program separately."""
    diagnostics = _first_findings(artifact, (_typed, _alone, _numbers, _groups))
    memo = Analyses.of(artifact.program, analyses)
    if not diagnostics:
        # the summary of an invalid program may raise, or tell nothing about the signature
        with suppress(Exception):
            diagnostics = tuple(_diagnostic(*f) for f in _with_program(artifact, memo))
    if diagnostics:
        raise VerificationError(diagnostics)


Stage = Callable[[Artifact], Iterator[Finding]]


def _first_findings(artifact: Artifact, stages: Sequence[Stage]) -> tuple[Diagnostic, ...]:
    for stage in stages:
        try:
            findings = tuple(stage(artifact))
        except Exception as error:  # a signature may contain any object, so an exception is a finding
            findings = (("WIR107", f"{type(error).__name__}: {error}"),)
        if findings:
            return tuple(_diagnostic(*f) for f in findings)
    return ()


def _diagnostic(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, check=SIGNATURE_RULES[code].check, message=message)


# --- checks without the program


def _typed(artifact: Artifact) -> Iterator[Finding]:
    yield from (("WIR117", problem) for problem in misfits(artifact.signature))


def _alone(artifact: Artifact) -> Iterator[Finding]:
    signature = artifact.signature
    kinds = [c.kind for c in signature.inputs.children]
    if signature.inputs.kind is not ir.TreeKind.TUPLE or kinds != [ir.TreeKind.TUPLE, ir.TreeKind.DICT]:
        yield "WIR101", "the inputs must be ((...), {...})"
        return
    yield from _structure(signature.inputs, "inputs")
    yield from _structure(signature.outputs, "outputs")
    for spec in _wrappers(signature):
        yield from _wrapper(spec)
    yield from _parameters(signature)
    literals = [s.value for s in signature.statics] + [p.default for p in signature.parameters]
    literals += [b.value for b in signature.bindings_of(ir.ConstantOutput)]
    yield from (("WIR116", f"{value!r} is not a literal") for value in literals if not _is_literal(value))


def _structure(tree: ir.TreeSpec, place: str) -> Iterator[Finding]:
    match tree.kind:
        case ir.TreeKind.LEAF | ir.TreeKind.NONE:
            fits = not (tree.children or tree.keys or tree.type_name)
        case ir.TreeKind.TUPLE | ir.TreeKind.LIST:
            fits = not (tree.keys or tree.type_name)
        case ir.TreeKind.DICT:
            fits = _are_keys(tree) and not tree.type_name
        case ir.TreeKind.NAMEDTUPLE | ir.TreeKind.DATACLASS:
            is_keyed = len(tree.keys) == len(tree.children) == len(set(tree.keys))
            fits = is_keyed and all(k.isidentifier() for k in tree.keys) and _is_class_name(tree.type_name)
        case ir.TreeKind.CUSTOM:
            fits = _is_class_name(tree.type_name) and (not tree.keys or _are_keys(tree))
    if not fits:
        yield (
            "WIR107",
            f"{place}: a {tree.kind.value} of {len(tree.children)} with keys {list(tree.keys)} "
            f"and class {tree.type_name!r}",
        )
    for number, child in enumerate(tree.children):
        yield from _structure(child, f"{place}[{number}]")


def _are_keys(tree: ir.TreeSpec) -> bool:
    try:
        keys = [json.loads(key) for key in tree.keys]
        return len(keys) == len(tree.children) == len(set(keys))
    except (ValueError, TypeError, RecursionError):
        return False


def _is_class_name(text: str) -> bool:
    module, colon, name = text.partition(":")
    return bool(colon) and all(p.isidentifier() for p in (*module.split("."), *name.split(".")))


def _wrappers(signature: ir.Signature) -> Iterator[ir.SubclassSpec]:
    yield from (u.subclass for u in signature.unwraps)
    yield from (b.subclass for b in signature.bindings_of(ir.WrappedOutput))


def _wrapper(spec: ir.SubclassSpec) -> Iterator[Finding]:
    attributes = spec.attributes
    valid = all(a.isidentifier() for a in attributes) and len(set(attributes)) == len(attributes)
    if not _is_class_name(spec.type_name) or not valid or len(spec.sizes) != len(spec.strides):
        yield (
            "WIR111",
            f"{spec.type_name!r} with {list(spec.attributes)}, sizes {spec.sizes} and strides {spec.strides}",
        )
    elif any(n is not None and n < 0 for n in (*spec.sizes, *spec.strides)):
        yield "WIR111", f"{spec.type_name!r} has a negative size or stride"


def _parameters(signature: ir.Signature) -> Iterator[Finding]:
    names = [p.name for p in signature.parameters]
    if len(set(names)) != len(names):
        yield "WIR108", f"two parameters have one name: {names}"
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            yield "WIR108", f"{name!r} cannot be the name of a parameter"
    if len(signature.names) > signature.num_leaves:
        yield "WIR108", f"{len(signature.names)} names for {signature.num_leaves} leaves"
    order = list(ir.ParameterKind)
    kinds = [order.index(p.kind) for p in signature.parameters]
    if kinds != sorted(kinds):
        yield "WIR109", "parameters stand in the order positional, any, keyword"
    positional, keywords = signature.inputs.children
    by_position = [p for p in signature.parameters if p.kind is not ir.ParameterKind.KEYWORD]
    first = {p.name for p in by_position[: len(positional.children)]}
    keys = {json.loads(key) for key in keywords.keys}
    if signature.parameters and first & keys:
        yield "WIR109", f"{sorted(first & keys)} are given by position and by keyword"
    hidden = {p.name for p in by_position if p.kind is ir.ParameterKind.POSITIONAL} & keys
    if not all(isinstance(key, str) for key in keys):
        yield "WIR109", "a keyword is not a string"
    if hidden:
        yield "WIR109", f"{sorted(hidden)} cannot be given by keyword"
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in first | keys:
            yield "WIR109", f"{parameter.name!r} is required, and was not given at capture"


def _is_literal(value: object) -> bool:
    match value:
        case tuple():
            return all(map(_is_literal, value))
        case Expr():
            return value.constant is not None
        case str() | ir.Complex() | ir.DType() | ir.Device() | ir.Layout() | ir.MemoryFormat() | None:
            return True
        case _:
            return False


# --- numbers of leaves and results


def _numbers(artifact: Artifact) -> Iterator[Finding]:
    signature, main = artifact.signature, artifact.program.main
    states = [r for r in signature.random if r.source is ir.RandomSource.PHILOX]
    if len(signature.params) + 2 * len(states) != len(main.params):
        yield "WIR102", f"{len(signature.params)} bound, @{main.name} takes {len(main.params)}"
    if len(signature.bindings) != signature.outputs.num_leaves:
        yield "WIR106", f"{len(signature.bindings)} bindings for {signature.outputs.num_leaves} leaves"
    leaves, results = signature.num_leaves, len(main.returns.values) - len(states)
    for leaf in _named_leaves(signature):
        if not 0 <= leaf < leaves:
            yield "WIR103", f"leaf {leaf} of {leaves}"
    for result in _named_results(signature):
        if not 0 <= result < results:
            yield "WIR105", f"result {result} of {results}"
    for binding in signature.bindings_of(ir.WrappedOutput):
        if len(binding.parts) != binding.subclass.num_parts:
            spec = binding.subclass
            yield "WIR111", f"{spec.type_name} has {spec.num_parts} parts, not {len(binding.parts)}"
    yield from _bound_once(signature)


def _named_leaves(signature: ir.Signature) -> Iterator[int]:
    yield from signature.params
    yield from signature.written
    yield from (s.leaf for s in signature.statics)
    yield from (w.leaf for w in signature.write_backs)
    yield from (u.leaf for u in signature.unwraps)
    yield from (leaf for s in signature.same for leaf in s.leaves)
    yield from (p.leaf for s in signature.shared for p in s.places)
    yield from (b.leaf for b in signature.bindings_of(ir.InputOutput, ir.InputView))


def _named_results(signature: ir.Signature) -> Iterator[int]:
    yield from (w.result for w in signature.write_backs)
    yield from (b.index for b in signature.bindings_of(ir.ResultOutput, ir.InputView))
    yield from (number for b in signature.bindings_of(ir.ResultView) for number in (b.index, b.base))


def _bound_once(signature: ir.Signature) -> Iterator[Finding]:
    bound = [*signature.params, *(s.leaf for s in signature.statics)]
    for leaf in _repeated(bound):
        yield "WIR104", f"input {signature.name(leaf)} is bound {bound.count(leaf)} times"
    wrappers = [u.leaf for u in signature.unwraps]
    for leaf in {leaf for leaf in wrappers if wrappers.count(leaf) > 1 or leaf in bound}:
        yield "WIR111", f"input {signature.name(leaf)} is unwrapped twice, or is bound as a whole, too"
    first = signature.inputs.num_leaves
    for unwrap in signature.unwraps:  # parts are numbered after their wrapper
        if unwrap.leaf >= first:
            yield "WIR111", f"input {signature.name(unwrap.leaf)} is unwrapped before what it is a part of"
        first += unwrap.subclass.num_parts
    fixed = {s.leaf for s in signature.statics}
    for back in signature.write_backs:
        if back.leaf in fixed:
            yield "WIR114", f"input {signature.name(back.leaf)} is a fixed value, and is written back to"
    yield from _named_once(signature)


def _named_once(signature: ir.Signature) -> Iterator[Finding]:
    for leaf in _repeated(signature.written):
        yield "WIR118", f"input {signature.name(leaf)} is called written twice"
    for leaf, kind in _repeated((back.leaf, back.kind) for back in signature.write_backs):
        yield "WIR118", f"input {signature.name(leaf)} is written back to twice ({kind.value})"
    for param in _repeated(shared.param for shared in signature.shared):
        yield "WIR118", f"parameter {param} is a shared storage twice"


def _repeated(items: Iterable[T]) -> list[T]:
    return [item for item, count in Counter(items).items() if count > 1]


# --- memory


def _with_program(artifact: Artifact, analyses: Analyses) -> Iterator[Finding]:
    yield from _memory(artifact, analyses.summary(artifact.program.main.name))
    yield from _random(artifact, analyses)


def _param_leaves(signature: ir.Signature) -> list[set[int]]:
    """For each parameter, the leaves that share its memory."""
    leaves = [
        {leaf, *(i for s in signature.same if leaf in s.leaves for i in s.leaves)}
        for leaf in signature.params
    ]
    for shared in signature.shared:
        if 0 <= shared.param < len(leaves):
            leaves[shared.param] |= {p.leaf for p in shared.places}
    return leaves


def _memory(artifact: Artifact, summary: ir.FunctionSummary) -> Iterator[Finding]:
    signature = artifact.signature
    leaves = _param_leaves(signature)
    for binding in signature.bindings_of(ir.InputView, ir.ResultView):
        match binding:
            case ir.InputView(index=index, leaf=leaf) if not _is_in_input(summary, index, leaf, leaves):
                yield "WIR110", _outside(signature, index, leaf)
            case ir.ResultView(index=index, base=base) if not _share_memory(summary, index, base):
                yield "WIR110", f"results {index} and {base} do not surely share memory"
            case _:
                pass
    for back in signature.write_backs:
        if summary.results[back.result] is None:
            yield "WIR114", f"result {back.result} is not a tensor to write back"
        moves = back.kind is ir.WriteBackKind.METADATA
        if moves and not _is_in_input(summary, back.result, back.leaf, leaves):
            yield "WIR114", _outside(signature, back.result, back.leaf)
    yield from _written(artifact, summary, leaves)


def _outside(signature: ir.Signature, result: int, leaf: int) -> str:
    return f"result {result} does not surely lie in the memory of input {signature.name(leaf)}"


def _is_in_input(summary: ir.FunctionSummary, result: int, leaf: int, leaves: Sequence[set[int]]) -> bool:
    origin = summary.results[result]
    return origin is not None and origin.certain and bool(origin.params) and leaf in leaves[origin.params[0]]


def _share_memory(summary: ir.FunctionSummary, one: int, other: int) -> bool:
    a, b = summary.results[one], summary.results[other]
    if a is None or b is None or one == other or not (a.certain and b.certain):
        return False
    return (a.params, a.constants, a.own) == (b.params, b.constants, b.own)


def _written(
    artifact: Artifact, summary: ir.FunctionSummary, leaves: Sequence[set[int]]
) -> Iterator[Finding]:
    signature, params = artifact.signature, artifact.program.main.params
    wrappers = {u.leaf for u in signature.unwraps}
    changed = {p for p in summary.written_params if params[p].ownership is ir.Ownership.BORROWED}
    declared = set(signature.written)
    for p in sorted(changed):
        if p < len(leaves) and not leaves[p] <= declared:
            missing = sorted(leaves[p] - declared)
            yield "WIR113", f"%{params[p].value.name} is written: inputs {missing} are not called so"
    actual = set().union(*(leaves[p] for p in changed if p < len(leaves)))
    for leaf in sorted(declared - actual - wrappers):
        yield "WIR113", f"input {signature.name(leaf)} is called written, and main writes none of it"


def _groups(artifact: Artifact) -> Iterator[Finding]:
    signature = artifact.signature
    grouped = [leaf for s in signature.same for leaf in s.leaves]
    grouped += [p.leaf for s in signature.shared for p in s.places]
    no_memory = {s.leaf for s in signature.statics} | {u.leaf for u in signature.unwraps}
    for leaf in no_memory.intersection(grouped):
        yield "WIR112", f"input {signature.name(leaf)} is a fixed value or a wrapper, and shares no memory"
    for leaf in _repeated(grouped):
        yield "WIR112", f"input {signature.name(leaf)} shares memory in two ways"
    for same in signature.same:
        rest = same.leaves[1:]
        if not rest or same.leaves[0] not in signature.params or any(i in signature.params for i in rest):
            yield "WIR112", f"of {same.leaves}, the same tensor, the first must be bound, and no other"
    for shared in signature.shared:
        fits = len(shared.places) > 1 and 0 <= shared.param < len(signature.params)
        if not fits or signature.params[shared.param] != shared.places[0].leaf:
            yield "WIR112", f"parameter {shared.param} must be bound to the first of several places"
            continue
        type = artifact.program.main.params[shared.param].value.type
        if not isinstance(type, ir.TensorType) or [*type.sizes, *type.strides] != [Int(shared.count), Int(1)]:
            yield "WIR112", f"parameter {shared.param} must hold {shared.count} elements in one dimension"
        numbers = [n for p in shared.places for n in (*p.sizes, *p.strides, p.offset)]
        if min(numbers) < 0 or any(len(p.sizes) != len(p.strides) for p in shared.places):
            yield "WIR112", f"a place of parameter {shared.param} is malformed"


def _random(artifact: Artifact, analyses: Analyses) -> Iterator[Finding]:
    actual = set(analyses.get(random_devices))
    declared = [r.device for r in artifact.signature.random]
    if len(set(declared)) != len(declared) or set(declared) != actual:
        names = ", ".join(map(str, sorted(actual, key=str))) or "nowhere"
        signed = [str(d) for d in declared]
        yield "WIR115", f"random numbers are drawn on {names}, the signature says {signed}"
