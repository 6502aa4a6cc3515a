"""Writes the description of a native library's model: `description.cpp`, tables of `wrapper_ir/model.h`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cpp_wrapper.sources.convention import ModelInputs, model_of, spec_texts
from wrapper_ir import ir
from wrapper_ir.analysis.inputs import type_text
from wrapper_ir.expr import Bool, Expr, Float, Int
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import Plan, steps
from wrapper_ir_native.element_types import ELEMENT_TYPES
from wrapper_ir_native.headers import include_path

HEADER = "model.h"
"""The C interface's header among the sources of a library."""
_KINDS = {"int": ("INT", "i64"), "float": ("FLOAT", "f64"), "bool": ("BOOL", "bool")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A file of constants beside a library: its name, and the identity of its contents."""

    file: str
    identity: str


def model_header() -> str:
    """Returns the text of the C interface's header."""
    return (include_path() / "wrapper_ir" / HEADER).read_text(encoding="utf-8")


def write_description(plan: Plan, name: str, weights: Weights | None) -> list[str]:
    """Returns the lines of `description.cpp`. `name` is the library's, `weights` its file of constants."""
    model, tables = model_of(plan), _Tables()
    inputs = [tables.input(plan, model, number) for number in range(len(model.leaves))]
    results = [tables.result(plan, model, number) for number in range(len(model.signature.bindings))]
    constants = [row for constant in plan.program.constants for row in tables.constant(constant)]
    order = ", ".join(map(str, _allocation_order(plan, model.signature))) or "0"
    in_spec, out_spec = map(cpp_string, spec_texts(model.signature))
    counts = ", ".join(
        f"program::{table}, {count}"
        for table, count in (
            ("kInputs", len(inputs)),
            ("kResults", len(results)),
            ("kSymbols", len(plan.program.symbols)),
            ("kConstants", len(constants)),
        )
    )
    return [
        "// The model's description, and what else differs between libraries.",
        '#include "model.h"',
        "",
        "extern const wir_description wir_model_description;",
        "extern const int wir_result_order[];",
        "",
        "namespace program {  // another name for each program of a batch",
        "namespace {",
        *tables.lines,
        *_array("kInputs", inputs),
        *_array("kResults", results),
        *_array("kConstants", constants),
        "const wir_symbol kSymbols[] = {",
        *(f"  {_symbol(symbol)}," for symbol in plan.program.symbols),
        "  {},",
        "};",
        "}  // namespace",
        "}  // namespace program",
        "",
        "const wir_description wir_model_description = {",
        f"    sizeof(wir_description), {cpp_string(name)}, {counts},",
        f"    {in_spec}, {out_spec},",
        "};",
        f"const int wir_result_order[] = {{{order}}};",
        *_weights_lines(weights),
    ]


def _array(name: str, rows: Sequence[str]) -> list[str]:
    return [f"const wir_value {name}[] = {{", *(f"  {row}," for row in rows), "  {},", "};"]


def _weights_lines(weights: Weights | None) -> list[str]:
    if weights is None:
        return []
    return [
        'extern "C" {',
        "extern const char wir_weights_file[], wir_weights_id[];",
        f"const char wir_weights_file[] = {cpp_string(weights.file)};",
        f"const char wir_weights_id[] = {cpp_string(weights.identity)};",
        "}",
    ]


def _symbol(symbol: ir.SymbolDef) -> str:
    lower = "INT64_MIN" if symbol.lower is None else f"{symbol.lower}LL"
    upper = "INT64_MAX" if symbol.upper is None else f"{symbol.upper}LL"
    return f"{{{cpp_string(symbol.name)}, {lower}, {upper}}}"


class _Tables:
    """Rows of values, and the arrays of sizes and strides that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def input(self, plan: Plan, model: ModelInputs, number: int) -> str:
        """Returns the row of an input."""
        signature, leaf, name = model.signature, model.leaves[number], model.names[number]
        if leaf not in signature.params:
            return self.row(name, "an argument that the program does not read", "ANY")
        value = plan.main.function.params[signature.params.index(leaf)].value
        backs = {back.leaf for back in signature.write_backs}
        flags = "WIR_WRITTEN" if leaf in {*signature.written, *backs} else "0"
        return self.value(name, value, flags)

    def result(self, plan: Plan, model: ModelInputs, number: int) -> str:
        """Returns the row of a result."""
        name = f"output{number}"
        match model.signature.bindings[number]:
            case ir.InputOutput(leaf=leaf) if leaf in model.signature.params:
                param = plan.main.function.params[model.signature.params.index(leaf)]
                return self.value(name, param.value, "WIR_SHARES")
            case ir.InputOutput(leaf=leaf) if leaf in model.leaves:
                return self.row(name, "an argument that the program does not read", "ANY", "WIR_SHARES")
            case ir.InputView(index=index):
                return self.value(name, plan.main.function.returns.values[index], "WIR_SHARES")
            case ir.ResultOutput(index=index) | ir.ResultView(index=index):
                value = plan.main.function.returns.values[index]
                return self.value(name, value, "WIR_SHARES" if is_of_caller(plan, value) else "0")
            case ir.ConstantOutput(value=Bool(value=truth)):
                return self.number(name, "bool", str(truth).lower())
            case ir.ConstantOutput(value=Int(value=value)) if -(2**63) <= value < 2**63:
                return self.number(name, "int", str(value))
            case ir.ConstantOutput(value=Float(value=value)) if abs(value) < float("inf"):
                return self.number(name, "float", repr(value))
            case _:
                return self.row(name, "None", "NONE")

    def value(self, name: str, value: object, flags: str = "0") -> str:
        """Returns the row of a value of the program."""
        match value:
            case None:
                return self.row(name, "None", "NONE")
            case Expr(kind=kind) | ir.Value(type=ir.ScalarType(kind=kind)):
                return self.number(name, kind.value, f"{_KINDS[kind.value][1]}[]")
            case ir.Value(type=ir.TensorType() as type):
                return self.tensor(name, type, flags)
            case _:
                raise AssertionError(value)  # `_check_parameters` and lowering refuse others

    def constant(self, constant: ir.Constant) -> list[str]:
        """Returns a row for each name of a constant."""
        type = constant.value.type
        assert isinstance(type, ir.TensorType)  # `place_constants` refuses others
        return [self.tensor(name, type, "0") for name in constant.names or (constant.value.name,)]

    def tensor(self, name: str, type: ir.TensorType, flags: str) -> str:
        """Returns the row of a tensor."""
        number, rank = self._count, len(type.sizes)
        self._count += 1
        where = (f"kSizes{number}", f"kStrides{number}", f"kTexts{number}") if rank else ("nullptr",) * 3
        if rank:
            self.lines += [
                f"const int64_t {where[0]}[] = {{{_numbers(type.sizes)}}};",
                f"const int64_t {where[1]}[] = {{{_numbers(type.strides)}}};",
                f"const char* const {where[2]}[] = {{{', '.join(cpp_string(str(n)) for n in type.sizes)}}};",
            ]
        layout = f"{rank}, {', '.join(where)}"
        return self.row(name, type_text(type), "TENSOR", flags, type.dtype.value, layout)

    def number(self, name: str, kind: str, text: str) -> str:
        """Returns the row of a number."""
        of_kind, dtype = _KINDS[kind]
        return self.row(name, text, of_kind, "0", dtype)

    def row(
        self,
        name: str,
        text: str,
        kind: str,
        flags: str = "0",
        dtype: str = "",
        layout: str = "0, nullptr, nullptr, nullptr",
    ) -> str:
        """Returns a row; `dtype` is empty for a value that is not a tensor."""
        type = "{}"
        if dtype:
            element = ELEMENT_TYPES[dtype]
            type = f"{{{element.code}, {element.bits}, {element.lanes}}}"
        return f"{{{cpp_string(name)}, {cpp_string(text)}, WIR_{kind}, {flags}, {type}, {layout}}}"


def _numbers(sizes: Iterable[Expr]) -> str:
    return ", ".join(str(n.constant) if n.constant is not None else "-1" for n in sizes)


def is_of_caller(plan: Plan, value: object) -> bool:
    """Returns whether a result may be located in memory of a parameter."""
    params = {param.value for param in plan.main.function.params}
    roots = plan.analyses.aliasing(plan.main.function).roots
    return isinstance(value, ir.Value) and not params.isdisjoint(roots.get(value, (value,)))


def _allocation_order(plan: Plan, signature: ir.Signature) -> list[int]:
    """Returns the positions of all outputs: first those whose memory `main` allocates, in that order."""
    roots = plan.analyses.aliasing(plan.main.function).roots
    values = plan.main.function.returns.values
    outputs = {
        number: set(roots.get(value, (value,)))
        for number, binding in enumerate(signature.bindings)
        if isinstance(binding, ir.ResultOutput) and isinstance(value := values[binding.index], ir.Value)
    }
    order: dict[int, None] = {}
    for step in plan.main.steps:
        if isinstance(step, steps.Allocate):
            places = {step.result, step.storage}
            order |= dict.fromkeys(n for n, of_output in outputs.items() if not places.isdisjoint(of_output))
    return [*order, *(n for n in range(len(signature.bindings)) if n not in order)]
