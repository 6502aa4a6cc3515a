"""Builds the files of a library."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpp_wrapper._compat import torch_version
from cpp_wrapper.errors import EmitError
from cpp_wrapper.kernels.options import CppOptions, check_options
from cpp_wrapper.sources.constants import (
    Blob,
    blob_table,
    constant_table,
    constants_identity,
    packing_lines,
    place_constants,
    write_load,
)
from cpp_wrapper.sources.convention import write_convention
from cpp_wrapper.sources.description import Weights, is_of_caller, write_description
from cpp_wrapper.sources.exact import NATIVE_EXACT
from cpp_wrapper.sources.function import declaration, write_function
from cpp_wrapper.sources.gpu import (
    GpuKernel,
    gpu_kernels,
    gpu_program,
    place_images,
    with_code,
    write_kernels,
)
from cpp_wrapper.sources.kernels import (
    KernelUnit,
    Levels,
    instruction_rows,
    kernel_function,
    kernel_units,
    levels_of,
)
from cpp_wrapper.sources.library_files import library_files
from cpp_wrapper.sources.lines import line_origins
from cpp_wrapper.sources.native import NativeTables, operators_with, require_offsets, require_operators
from cpp_wrapper.sources.operator_levels import (
    FamilyUnit,
    OperatorLevel,
    operator_levels,
    without_unused_types,
    write_choices,
)
from cpp_wrapper.sources.persistent import write_persistent
from cpp_wrapper.sources.scope import FunctionScope, ProgramScope
from cpp_wrapper.sources.version import METADATA_VERSION, NATIVE
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.packing import model_names, names_of
from wrapper_ir.expr import CPP_HELPERS, Expr
from wrapper_ir.json import signature_to_json
from wrapper_ir.plugins.emitted import LineOrigin, OpOrigins
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import LoweringOptions, Plan, lower
from wrapper_ir_lowering.steps import CheckGroups, CheckInputs
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools
from wrapper_ir_runtime import refuse_unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a library by file name, the bytes of its constants, and metadata for loaders as JSON.

    `program.cpp` contains the program, `kernels_N.cpp` kernels. The other files are the same in all
    libraries.
    """

    files: Mapping[str, str]
    units: tuple[KernelUnit, ...]
    families: tuple[FamilyUnit, ...] = ()
    """Files of operators of the native runtime."""
    runtime: str = "torch"
    """As in `CppOptions`."""
    constants: tuple[Blob, ...]
    weights: Weights | None = None
    """The file of the constants beside the library; None if they are inside."""
    metadata: str
    origins: tuple[LineOrigin | None, ...] = ()
    """The origin of each line of `program.cpp`."""

    def __str__(self) -> str:
        return self.files["program.cpp"]


def emit_sources(
    artifact: Artifact, analyses: Analyses | None, options: CppOptions, name: str = "model"
) -> Sources:
    """Emits the files for an artifact; `name` is the library's. Raises the errors of `cpp_wrapper.emit`."""
    check_options(options)
    refuse_unsupported(artifact.signature)
    _check_signature(artifact.signature)
    is_native = options.runtime == NATIVE
    keeps_memory = options.persistent_buffers or is_native
    lowering = LoweringOptions(persistent_buffers=keeps_memory, keep_windows=True)
    coded = with_code(artifact, options.archs)
    memo = Analyses.of(coded.program, analyses)
    if keeps_memory:
        memo = memo.after(with_persistent_pools(coded.program, memo))
        coded = dataclasses.replace(coded, program=memo.program)
    plan = lower(coded, lowering, memo)
    _check_parameters(plan)
    native = operators_with(options.operators) if is_native else None
    if native is not None:
        _check_native(plan, native)
    levels = levels_of(plan.kernels)
    units, texts = kernel_units(levels.values())
    blobs = place_constants(plan)
    module = ProgramScope(
        plan,
        options.oldest_torch or torch_version(),
        options.python_operators or any(step.sharing for step in _group_checks(plan)),
        options.cuda_graphs,
        OpOrigins(coded.program, plan.program),
        native,
    )
    launched = gpu_kernels(plan, module, options.archs)
    place_images(launched, blobs)
    own_levels = operator_levels(units, options.cpu_isas) if is_native else ()
    if not options.operators:  # a user's operator may convert to other types
        own_levels = without_unused_types(own_levels, plan.program)
    lines = _program(module, levels, launched, blobs, own_levels)
    weights = _weights(options, name, tuple(blobs.values()))
    families, files = library_files(module, units, own_levels, options.operators)
    if is_native:
        files["description.cpp"] = "\n".join(write_description(plan, name, weights)) + "\n"
    files["helpers.h"] = '#pragma once\n#include "symbols.h"\n' + CPP_HELPERS
    files["program.cpp"] = "\n".join(lines) + "\n"
    return Sources(
        files=files | texts,
        units=units,
        families=families,
        runtime=options.runtime,
        constants=tuple(blobs.values()),
        weights=weights,
        metadata=_metadata(module, instruction_rows(levels), weights),
        origins=tuple(line_origins(lines)),
    )


WEIGHTS_SUFFIX = ".weights"
"""The end of the name of a file of constants."""


def _check_native(plan: Plan, tables: NativeTables) -> None:
    """Raises EmitError for what the native runtime lacks: CPP502 for operators, CPP503 for devices and
    inputs.
    """
    target = plan.program.target.device
    if target.type not in ("cpu", "cuda"):
        raise EmitError("CPP503", f"the native runtime has no {target}", "build for torch (runtime='torch')")
    require_operators(plan, tables, NATIVE_EXACT)
    require_offsets(plan)


def _check_signature(signature: ir.Signature) -> None:
    """Raises EmitError CPP503 unless a library can receive and return the signature's tensors."""
    why = ""
    if signature.unwraps or any(isinstance(b, ir.WrappedOutput) for b in signature.bindings):
        why = "tensor subclasses"
    elif any(back.kind is not ir.WriteBackKind.COPY for back in signature.write_backs):
        why = "inputs that get another shape or storage"
    elif any(back.leaf not in signature.params for back in signature.write_backs):
        why = "writes to inputs that the program does not read"
    if why:
        hint = "emit the program with py_wrapper or fx_converter"
        raise EmitError("CPP503", f"AOTInductor's interface cannot express {why}", hint)


# --- the program


def _program(
    module: ProgramScope,
    levels: Mapping[str, Levels],
    launched: Mapping[str, GpuKernel],
    blobs: Mapping[str, Blob],
    own_levels: Sequence[OperatorLevel],
) -> list[str]:
    load, handles = write_load(module, dict(blobs))
    make, persistent = write_persistent(module)
    module.kernels = {name: module.names(name) for name in levels}
    kernels = [
        line for name, one in levels.items() for line in kernel_function(module.kernels[name], one, module)
    ]
    module.launchers = {name: one.name for name, one in launched.items()}
    kernels += write_kernels(launched, blobs, module)
    heads, functions = _functions(module)
    symbols = dict.fromkeys(member.symbol for one in levels.values() for member in one)
    return [
        *('#include "steps.h"', '#include "helpers.h"', '#include "symbols.h"'),
        *([f'#include "{"graphs" if module.graphed.numbers else "gpu"}.h"'] if module.gpu else []),
        "",
        "using namespace wir;",
        "",
        *write_choices([one for one in module.called.values() if not one.is_of_device], own_levels),
        *([*module.shims.values(), ""] if module.native is not None else []),
        'extern "C" {',
        *(module.shims.values() if module.native is None else ()),
        *(f"void {symbol}(const Slot* slots);" for symbol in symbols),
        "}",
        "",
        "namespace program {  // hides names of C's headers\nnamespace {",
        *load,
        "",
        *make,
        *kernels,
        *([""] if kernels else []),
        *heads,
        *functions,
        "",
        *_tables(module, dict(blobs)),
        *_instructions(instruction_rows(levels)),
        *gpu_program(launched, module),
        "}  // namespace\n}  // namespace program",
        "",
        *_description(module, handles, len(blobs), persistent),
    ]


def _functions(module: ProgramScope) -> tuple[list[str], list[str]]:
    """Returns declarations of all functions except `main`, and the lines of all, `main` last."""
    heads: list[str] = []
    lines: list[str] = []
    for function in (*module.plan.functions[1:], module.plan.main):
        scope = FunctionScope(module, function)
        lines += [*([""] if lines else []), *write_function(scope)]
        if not function.is_main:
            heads.append(f"{declaration(scope)};")
    return [*heads, *([""] if heads else [])], lines


def _tables(module: ProgramScope, blobs: dict[str, Blob]) -> list[str]:
    return [
        "const Blob kBlobs[] = {",
        *(f"  {row}" for row in blob_table(blobs)),
        "  {0, 0, false},",
        "};",
        *packing_lines(module.plan, dict(blobs)),
        "const Constant kConstants[] = {",
        *(f"  {row}" for row in constant_table(module, blobs)),
        '  {"", "", f32, 0, 0, 0},',
        "};",
        *write_convention(module.plan),
    ]


def _instructions(rows: list[str]) -> list[str]:
    return [
        "const char* const kInstructions[] = {",
        *(f"  {cpp_string(row)}," for row in rows),
        "  nullptr,",
        "};",
    ]


def _description(module: ProgramScope, handles: int, blobs: int, persistent: int) -> list[str]:
    plan = module.plan
    function = plan.main.function
    names = sum(len(names_of(constant)) for constant in plan.program.constants)
    counts = f"{len(function.params)}, {len(function.returns.values)}, {blobs}, {names}, {handles}"
    make_persistent = "program::make_persistent" if persistent else "nullptr"
    return [
        "extern const wir::Program wir_program{",
        f"    {counts},",
        "    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,",
        f"    program::kInstructions, {persistent}, {make_persistent},",
        *(["    &program::kGpu,"] if module.gpu else []),
        "};",
    ]


def _weights(options: CppOptions, name: str, constants: Sequence[Blob]) -> Weights | None:
    """Returns the file of constants that the options ask for. Raises EmitError CPP503."""
    if options.weights == "inside":
        return None
    file = f"{name}{WEIGHTS_SUFFIX}" if options.weights == "beside" else options.weights
    if not file.endswith(WEIGHTS_SUFFIX) or "/" in file:
        raise EmitError(
            "CPP503",
            f"the constants cannot be in {options.weights!r}",
            f"write 'inside', 'beside', or a file name that ends in {WEIGHTS_SUFFIX}",
        )
    if options.runtime != NATIVE:
        raise EmitError("CPP503", "constants beside a library need the native runtime", "runtime='native'")
    return Weights(file=file, identity=constants_identity(constants)) if constants else None


def _metadata(module: ProgramScope, instructions: list[str], weights: Weights | None) -> str:
    """Returns metadata that loaders read without running the library, as JSON."""
    plan = module.plan
    function = plan.main.function
    checked = [pair for step in plan.main.steps if isinstance(step, CheckInputs) for pair in step.inputs]
    if [value for value, _ in checked] != [p.value for p in function.params]:
        raise EmitError("CPP505", "the plan does not check every parameter in order")
    inputs = [{"class": type(want).__name__, **dataclasses.asdict(want)} for _, want in checked]
    groups = _group_checks(plan)
    facts = {
        "version": METADATA_VERSION,
        "device": str(plan.program.target.device),
        "runtime": NATIVE if module.native is not None else "torch",
        "weights": weights and dataclasses.asdict(weights),
        "shared_results": [n for n, value in enumerate(function.returns.values) if is_of_caller(plan, value)],
        "signature": json.loads(signature_to_json(plan.artifact.signature)),
        "inputs": inputs,
        "instructions": [row.removesuffix("|").split("|") for row in instructions],
        "groups": [name for step in groups for name in step.groups],
        "ranks": [dataclasses.astuple(one) for step in groups for one in step.ranks],
        "sharing": [name for step in groups for name in step.sharing],
        "manifest": [line for step in groups for line in step.manifest],
        "results": [_result_kind(value) for value in function.returns.values],
        "bridges": module.bridges,
        "operators": [_operator(extern) for extern in module.operators.values()],
        "boxed": module.boxed,
        "replayed": list(module.graphed.numbers),
        "not_replayed": dict(module.graphed.refusals),
        "constants": model_names(plan.program),
    }
    return json.dumps(facts, sort_keys=True)


def _group_checks(plan: Plan) -> list[CheckGroups]:
    """Returns checks of process groups. Programs that share memory run only in Python, which allocates it."""
    return [step for step in plan.main.steps if isinstance(step, CheckGroups)]


def _operator(extern: ir.ExternDef) -> dict[str, object]:
    tags = [tag.value for tag in extern.tags]
    return {"schema": extern.schema, "tags": tags, "symmetric": extern.symmetric}


def _result_kind(value: object) -> str:
    match value:
        case None:
            return "none"
        case Expr(kind=kind) | ir.Value(type=ir.ScalarType(kind=kind)):
            return str(kind.value)
        case _:
            return "tensor"


def _check_parameters(plan: Plan) -> None:
    """Raises EmitError CPP503 unless each parameter of `main` is a number, or a tensor on a supported
    device.
    """
    devices = (ir.CPU, plan.program.target.device)
    for param in plan.main.function.params:
        value = param.value
        if not ir.is_scalar(value) and not (ir.is_tensor(value) and value.type.device in devices):
            where = " or ".join(dict.fromkeys(map(str, devices)))
            raise EmitError(
                "CPP503", f"parameter %{param.value.name} is neither a number nor a tensor on {where}"
            )
