"""Builds the view of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.sources import source_texts
from wrapper_ir.errors import WirError
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.support.quoting import value_name
from wrapper_ir.text import PrintedLine, print_lines, print_program
from wrapper_ir.text.printer import type_printer
from wrapper_ir.text.syntax import syntax_of
from wrapper_ir_tools.explain import Lead, program_sources
from wrapper_ir_tools.explain.sources import SourceOf
from wrapper_ir_tools.report import FunctionMemory, memory_report
from wrapper_ir_tools.view import model
from wrapper_ir_tools.view.flow import data_flow, value_uses
from wrapper_ir_tools.view.modules import module_groups, module_path
from wrapper_ir_tools.view.sources import SourceOptions, read_sources

_MOST_NAMES = 10
"""Maximum number of symbols in a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Options of a view: a title, values of symbols, source folders, and the times and values of a run."""

    title: str = "program"
    hints: Mapping[str, int] = field(default_factory=dict)
    sources: SourceOptions = field(default_factory=SourceOptions)
    times: tuple[model.OpTime, ...] = ()
    values: tuple[model.SavedValue, ...] = ()


@paused_collection()
def view_program(content: ir.Program | Artifact, options: ViewOptions | None = None) -> model.ProgramView:
    """Builds the view of a valid program. Its notes list what could not be determined."""
    options = options or ViewOptions()
    program = content.program if isinstance(content, Artifact) else content
    notes: list[str] = []
    provenance: dict[ir.Provenance, int] = {}
    memory = _memory(program, options.hints, notes)
    analyses, types = Analyses(program), type_printer(program)
    led = program_sources(program, {})
    functions = tuple(
        _Lines(f, analyses, provenance, origin).view(memory.get(f.name))
        for f, origin in zip(program.functions, led, strict=True)
    )
    places = (place for prov in provenance for place in prov.locations)
    bare = dataclasses.replace(program, kernels=(), functions=(), externs=(), constants=())
    return model.ProgramView(
        title=options.title,
        facts=tuple(_facts(content, program)),
        declarations=print_program(bare).strip(),
        functions=functions,
        kernels=tuple(_kernel(k, program) for k in program.kernels),
        operators=tuple((e.name, syntax_of(type(e)).write(e, types)) for e in program.externs),
        constants=tuple(
            (value_name(c.value.name), syntax_of(type(c)).write(c, types)) for c in program.constants
        ),
        provenance=tuple(map(_known_fields, provenance)),
        sources=read_sources(
            places, options.sources, source_texts(content) if isinstance(content, Artifact) else {}
        ),
        times=options.times,
        values=options.values,
        notes=tuple(notes),
    )


def _facts(content: ir.Program | Artifact, program: ir.Program) -> Iterator[tuple[str, str]]:
    yield "ops", f"{sum(len(f.body) for f in program.functions):,}"
    yield "functions", f"{len(program.functions):,}"
    yield "kernels", f"{len(program.kernels):,}"
    yield "launches", f"{sum(1 for _ in program.ops_of(ir.Launch)):,}"
    yield "operator calls", f"{sum(1 for _ in program.ops_of(ir.CallExtern)):,}"
    yield "constants", f"{len(program.constants):,}"
    if isinstance(content, Artifact):
        if content.binaries:
            yield "compiled kernels", f"{len(content.binaries):,}"
        yield from sorted(content.metadata.items())


def _known_fields(prov: ir.Provenance) -> dict[str, object]:
    # `asdict` would copy the fields
    fields = {f.name: getattr(prov, f.name) for f in dataclasses.fields(prov)}
    return {name: value for name, value in fields.items() if value}


def _memory(program: ir.Program, hints: Mapping[str, int], notes: list[str]) -> dict[str, model.MemoryView]:
    try:
        report = memory_report(program, hints)
    except WirError as error:
        notes.append(f"memory is not shown: {error}")
        return {}
    if report.assumed:
        first, more = report.assumed[:_MOST_NAMES], len(report.assumed) - _MOST_NAMES
        symbols = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        notes.append(
            f"memory is shown for the smallest values of symbols without hint ({symbols}): --hint gives "
            "others"
        )
    return {f.name: _function_memory(f) for f in report.functions}


def _function_memory(memory: FunctionMemory) -> model.MemoryView:
    storages = tuple(
        model.StorageView(
            name=s.name, kind=s.kind, bytes=s.bytes, begin=s.begin, end=s.end, address=s.address, pool=s.pool
        )
        for s in memory.storages
    )
    return model.MemoryView(held=memory.held, peak_op=memory.peak_op, storages=storages)


def _kernel(kernel: ir.KernelDef, program: ir.Program) -> model.KernelView:
    types = type_printer(program)
    bare = ir.with_source(kernel, "")
    text = syntax_of(type(bare)).write(bare, types)
    params = tuple(syntax_of(type(p)).write(p, types) for p in kernel.params)
    return model.KernelView(
        name=kernel.name,
        kind=ir.runtime_kind(kernel),
        declaration=text.removesuffix("{{{\n\n}}}").removesuffix("{{{\n}}}").rstrip(),
        params=params,
        source=ir.source_of(kernel),
    )


class _Lines:
    """Builds the rows of one function.

    `provenance` is extended with that of its ops, numbered by first use; `led` has the source lines of each
    op.
    """

    def __init__(
        self,
        function: ir.Function,
        analyses: Analyses,
        provenance: dict[ir.Provenance, int],
        led: Sequence[SourceOf],
    ) -> None:
        self.function, self.analyses, self.provenance, self.led = function, analyses, provenance, led
        self.aliasing = analyses.aliasing(function)
        self.types = type_printer(analyses.program)
        self.lines = print_lines(function, analyses.program)

    def view(self, memory: model.MemoryView | None) -> model.FunctionView:
        """Builds the view of the function."""
        rows, header = [], next(i for i, line in enumerate(self.lines) if line.stop or line.text == "}")
        params = self._params(header)
        for number, line in enumerate(self.lines):
            row_params = tuple(v for v, row in params.items() if row == number)
            rows.append(self._row(line, row_params))
        row_of = {op: number for number, line in enumerate(self.lines) for op in range(line.first, line.stop)}
        paths = [self._path(line) for line in self.lines]
        return model.FunctionView(
            name=self.function.name,
            rows=tuple(rows),
            edges=data_flow(self.function, self.analyses, row_of, params),
            groups=module_groups(paths[header:-1], header),
            memory=memory,
        )

    def _params(self, header: int) -> dict[ir.Value, int]:
        """Maps each parameter to its line: the single line of a short header, otherwise one line each."""
        values = [p.value for p in self.function.params]
        return {v: 0 if header == 1 else number for number, v in enumerate(values, start=1)}

    def _path(self, line: PrintedLine) -> tuple[str, ...] | None:
        modules = [m for op in self.function.body[line.first : line.stop] for m in op.prov.modules]
        return module_path(modules) if modules else None

    def _row(self, line: PrintedLine, params: tuple[ir.Value, ...]) -> model.Row:
        ops = self.function.body[line.first : line.stop]
        if not ops:
            values = tuple(model.ValueUse(value_name(v.name), model.Role.DEFINES) for v in params)
            return model.Row(text=line.text, values=values)
        op = ops[0]
        has_provenance, led = op.prov != ir.Provenance(), self.led[line.first]
        plain = model.Row(
            text=line.text,
            first=line.first,
            stop=line.stop,
            op=type(op).__name__,
            prov=self.provenance.setdefault(op.prov, len(self.provenance)) if has_provenance else -1,
            serves=() if led.lead is Lead.OWN else led.sources,
            reason="" if led.lead is Lead.OWN else led.reason,
            values=value_uses(enumerate(ops, start=line.first), self.aliasing),
            calls=ir.callees(op),
        )
        return self._run(plain, op)

    def _run(self, row: model.Row, op: ir.Op) -> model.Row:
        """Adds the kernel or operator that the op runs."""
        types = self.types
        match op:
            case ir.Launch():
                return dataclasses.replace(
                    row,
                    kernel=op.kernel,
                    args=tuple(map(types.arg, op.args)),
                    grid=tuple(types.exprs((e,)) for e in op.grid),
                    extents=tuple(types.exprs((e,)) for e in op.extents),
                )
            case ir.CallExtern():
                args = (*map(types.arg, op.args), *(f"{n}={types.arg(a)}" for n, a in op.kwargs))
                return dataclasses.replace(row, kernel=op.target, args=args)
            case _:
                return row
