"""Explains a program: its ops with their source lines, its kernels, and what emitters write for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.sources import source_texts
from wrapper_ir.plugins.emitted import EmittedText, LineOrigin
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.text import print_op
from wrapper_ir_tools.explain import model
from wrapper_ir_tools.explain.choices import choices_of
from wrapper_ir_tools.explain.in_place import in_place_of_function
from wrapper_ir_tools.explain.sources import SourceOf, sources_of_function
from wrapper_ir_tools.explain.splits import graph_splits

_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Input of an explanation beside the artifact.

    `name` is the program's. `texts` has emitted texts by emitter. `saved` has the source lines of the tensors
    that a forward graph saved, by parameter. `lacks` lists in words what the caller could not find out.
    """

    name: str = "program"
    texts: Mapping[str, Sequence[EmittedText]] = field(default_factory=dict)
    saved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()


@paused_collection()
def explain_program(
    artifact: Artifact, options: ExplainOptions | None = None, analyses: Analyses | None = None
) -> model.Explanation:
    """Explains a valid program. Imports neither torch nor an emitter: their results are passed in
    `options`."""
    options = options or ExplainOptions()
    program = artifact.program
    explained = tuple(_ops(program, options.saved))
    kernels = tuple(_kernels(program, explained))
    files = tuple(
        explained_file(emitter, text, explained, kernels)
        for emitter, texts in options.texts.items()
        for text in texts
    )
    analyses = Analyses.of(program, analyses)
    return model.Explanation(
        name=options.name,
        ops=explained,
        kernels=kernels,
        files=files,
        choices=tuple(choices_of(artifact, explained, kernels)),
        in_place=tuple(_in_place(program, analyses)),
        splits=tuple(graph_splits(analyses, explained)),
        source_texts=source_texts(artifact),
        lacks=options.lacks,
    )


def _in_place(program: ir.Program, analyses: Analyses) -> Iterator[model.InPlace]:
    first = 0
    for function in program.functions:
        yield from in_place_of_function(function, analyses, first)
        first += len(function.body)


def _ops(program: ir.Program, saved: Mapping[str, tuple[str, ...]]) -> Iterator[model.ExplainedOp]:
    sources = program_sources(program, saved)
    kernels = {k.name for k in program.kernels}
    index = 0
    for number, function in enumerate(program.functions):
        for position in range(len(function.body)):
            yield _op(index, (function, position), sources[number][position], program, kernels)
            index += 1


def program_sources(program: ir.Program, saved: Mapping[str, tuple[str, ...]]) -> list[list[SourceOf]]:
    """The sources of all ops, function by function; callees are resolved before their callers."""
    inside: dict[str, tuple[str, ...]] = {}
    by_function: dict[int, list[SourceOf]] = {}
    numbers = {f.name: i for i, f in reversed(list(enumerate(program.functions)))}

    def visit(number: int, on_the_way: frozenset[int]) -> None:
        function = program.functions[number]
        for name in dict.fromkeys(n for op in function.body for n in ir.callees(op)):
            callee = numbers.get(name)
            if callee is not None and callee not in by_function and callee not in on_the_way:
                visit(callee, on_the_way | {callee})
        own = sources_of_function(function, inside, saved if number == 0 else _NOTHING)
        by_function[number] = own
        inside[function.name] = tuple(
            dict.fromkeys(s for one in own if one.lead is model.Lead.OWN for s in one.sources)
        )

    for number in range(len(program.functions)):
        if number not in by_function:
            visit(number, frozenset((number,)))
    return [by_function[n] for n in range(len(program.functions))]


def _op(
    index: int, at: tuple[ir.Function, int], source: SourceOf, program: ir.Program, kernels: set[str]
) -> model.ExplainedOp:
    function, position = at
    op = function.body[position]
    callee = ir.callee_name(op)
    kernel = callee if callee in kernels else ""
    return model.ExplainedOp(
        index=index,
        function=function.name,
        position=position,
        kind=type(op).__name__,
        text=print_op(op, program),
        results=tuple(v.name for v in ir.results(op)),
        kernel=kernel,
        extern="" if kernel else callee,
        nodes=op.prov.nodes,
        operators=op.prov.ops,
        modules=op.prov.modules,
        sources=source.sources,
        lead=source.lead,
        reason=source.reason,
    )


def _kernels(program: ir.Program, explained: Sequence[model.ExplainedOp]) -> Iterator[model.ExplainedKernel]:
    launches: dict[str, list[model.ExplainedOp]] = {}
    for op in explained:
        if op.kernel and op.kind == "Launch":
            launches.setdefault(op.kernel, []).append(op)
    # launching a multi-kernel launches its variants
    for kernel in program.kernels:
        if isinstance(kernel, ir.MultiKernel):
            for variant in kernel.variants:
                launches.setdefault(variant.kernel, []).extend(launches.get(kernel.name, ()))
    for kernel in program.kernels:
        ops_of_kernel = launches.get(kernel.name, [])
        source = ir.source_of(kernel)
        yield model.ExplainedKernel(
            name=kernel.name,
            kind=kernel.kind,
            ops=tuple(op.index for op in ops_of_kernel),
            sources=_joined(op.sources for op in ops_of_kernel),
            nodes=_joined(op.nodes for op in ops_of_kernel),
            source=source,
            language=kernel.kind if source else "",
        )


def _joined(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for group in texts for text in group))


def explained_file(
    emitter: str,
    text: EmittedText,
    explained: Sequence[model.ExplainedOp],
    kernels: Sequence[model.ExplainedKernel],
) -> model.ExplainedFile:
    """Links the lines of an emitted file to ops and kernels."""
    by_place = {(op.function, op.position): op for op in explained}
    by_name = {k.name: k for k in kernels}
    lines = text.text.removesuffix("\n").split("\n")
    origins = (*text.origins, *(None,) * (len(lines) - len(text.origins)))
    return model.ExplainedFile(
        emitter=emitter,
        name=text.name,
        lines=tuple(
            _line(number, line, origin, by_place, by_name)
            for number, (line, origin) in enumerate(zip(lines, origins), 1)
        ),
    )


def _line(
    number: int,
    text: str,
    origin: LineOrigin | None,
    by_place: Mapping[tuple[str, int], model.ExplainedOp],
    by_name: Mapping[str, model.ExplainedKernel],
) -> model.ExplainedLine:
    if origin is None:
        return model.ExplainedLine(number=number, text=text, is_code=False)
    op = by_place.get((origin.function, origin.position))
    if op is not None:
        reason = "; ".join(filter(None, (origin.note, op.reason)))
        return model.ExplainedLine(
            number=number, text=text, op=op.index, kernel=op.kernel, sources=op.sources, reason=reason
        )
    kernel = by_name.get(origin.kernel)
    return model.ExplainedLine(
        number=number,
        text=text,
        kernel=origin.kernel,
        sources=() if kernel is None else kernel.sources,
        reason=origin.note,
    )
