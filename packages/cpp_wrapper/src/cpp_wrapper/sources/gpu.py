"""Writes kernels of the program's device: a table of their code, which is stored beside the constants,
and launchers.

`KernelBinary` describes the driver's arguments of a launch; this file writes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.constants import Blob, next_offset
from cpp_wrapper.sources.graphs import replayable_table
from cpp_wrapper.sources.numbers import number_text
from cpp_wrapper.sources.scope import ProgramScope
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Expr, Int, Sym
from wrapper_ir.json.kernel_hash import find_binary
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import Plan
from wrapper_ir_runtime.ahead import compile_ahead

_SCRATCH = (ir.DriverParamKind.SCRATCH, ir.DriverParamKind.PROFILE)
_MAP_BITS, _MAX_RANK = 64, 5
"""Limits of `launch` and of the device's copy engine."""
_FLOATS = {ir.DType.F64: "real", ir.DType.F32: "single", ir.DType.F16: "half", ir.DType.BF16: "brain"}
_HINT = "emit the program with py_wrapper or fx_converter"


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """A kernel with code for each architecture. `name` is its C++ launcher, `number` its row in the table."""

    kernel: ir.TritonKernel
    binaries: tuple[ir.KernelBinary, ...]
    name: str
    number: int


# --- the code


def with_code(artifact: Artifact, archs: Sequence[str]) -> Artifact:
    """Returns the artifact with code of its Triton kernels for each of `archs`.

    If `archs` is empty, they are those of the artifact's code, or the target's. Raises the errors of
    compilers.
    """
    program = artifact.program
    kernels = tuple(k for k in program.kernels if isinstance(k, ir.TritonKernel))
    if program.target.device == ir.CPU or not kernels:
        return artifact
    existing = sorted({b.target.partition(":")[2] for b in artifact.binaries})
    targets = list(archs or existing or [program.target.arch])
    missing = [
        kernel
        for kernel in kernels
        if any(
            _binary(artifact.binaries, kernel, f"{program.target.device.type}:{a}") is None for a in targets
        )
    ]
    if not missing:
        return artifact
    part = dataclasses.replace(
        artifact, program=dataclasses.replace(program, kernels=tuple(missing)), binaries=()
    )
    binaries = compile_ahead(part, archs=targets).binaries
    return dataclasses.replace(artifact, binaries=(*artifact.binaries, *binaries))


def _binary(
    binaries: Sequence[ir.KernelBinary], kernel: ir.TritonKernel, target: str
) -> ir.KernelBinary | None:
    """Returns the code for the first config, where tuning puts its choice."""
    return find_binary(binaries, kernel, kernel.configs[0], target)


def gpu_kernels(plan: Plan, module: ProgramScope, archs: Sequence[str]) -> dict[str, GpuKernel]:
    """Returns the Triton kernels that a program for a CUDA device launches, by name.

    Raises EmitError CPP504, CPP594.
    """
    kernels: dict[str, GpuKernel] = {}
    if module.gpu is None:
        return kernels
    if module.gpu.type != "cuda":
        raise EmitError(
            "CPP503", f"the program is for {module.gpu}: this edition writes programs for CUDA devices", _HINT
        )
    device, binaries = module.gpu.type, plan.artifact.binaries
    targets = [f"{device}:{arch}" for arch in archs] or sorted({b.target for b in binaries})
    launched = dict.fromkeys(one for kernel in plan.kernels for one in _candidates(kernel, plan))
    for kernel in launched:
        if not isinstance(kernel, ir.TritonKernel):
            continue
        own = [b for target in targets if (b := _binary(binaries, kernel, target)) is not None]
        if len(own) != len(targets) or not own:
            raise EmitError(
                "CPP594",
                f"kernel @{kernel.name} has no code for {', '.join(targets) or 'any device'}",
                "compile the artifact ahead",
            )
        _check(kernel, own)
        kernels[kernel.name] = GpuKernel(kernel, tuple(own), module.names(kernel.name), len(kernels))
    return kernels


def chosen_variants(kernel: ir.MultiKernel) -> tuple[ir.Variant, ...]:
    """Returns the variants that a launch may run: all if sizes choose, otherwise the first, as for
    configs.
    """
    return kernel.variants if kernel.choice is ir.Choice.SIZE_HINTS else kernel.variants[:1]


def _candidates(kernel: ir.KernelDef, plan: Plan) -> list[ir.KernelDef]:
    if not isinstance(kernel, ir.MultiKernel):
        return [kernel]
    return [plan.program.kernel(variant.kernel) for variant in chosen_variants(kernel)]


def _check(kernel: ir.TritonKernel, binaries: Sequence[ir.KernelBinary]) -> None:
    """Raises EmitError CPP504 for code that this edition cannot launch."""
    first = binaries[0].params
    arguments = first[: -len(_SCRATCH)]
    maps = [n for n, p in enumerate(arguments) if p.map is not None]
    if tuple(p.kind for p in first[-len(_SCRATCH) :]) != _SCRATCH or any(p.position < 0 for p in arguments):
        raise EmitError("CPP504", f"kernel @{kernel.name} takes memory of its own otherwise", _HINT)
    ranks = [len(p.map.box) for p in arguments if p.map is not None]
    if max(maps, default=0) >= _MAP_BITS or max(ranks, default=0) > _MAX_RANK:
        raise EmitError("CPP504", f"kernel @{kernel.name} takes too many descriptors of tensors", _HINT)
    for binary in binaries:
        if (
            binary.params != first
            or binary.kind is not ir.ImageKind.CUBIN
            or binary.facts.cluster[1:] != (1, 1)
        ):
            raise EmitError(
                "CPP504", f"kernel @{kernel.name} is launched otherwise on {binary.target}", _HINT
            )


def place_images(kernels: Mapping[str, GpuKernel], blobs: dict[str, Blob]) -> None:
    """Appends the code of kernels to the blobs, without duplicates."""
    for kernel in kernels.values():
        for binary in kernel.binaries:
            name = image_name(binary)
            if name not in blobs:
                data = memoryview(binary.image)
                blobs[name] = Blob(name, len(blobs), next_offset(blobs), data.nbytes, data, False, "Image")


def image_name(binary: ir.KernelBinary) -> str:
    """Returns the name of a kernel's code among blobs, which no constant can have."""
    return f"\0{binary.kernel} {binary.target}"


# --- the table


def write_kernels(
    kernels: Mapping[str, GpuKernel], blobs: Mapping[str, Blob], module: ProgramScope
) -> list[str]:
    """Returns the tables of kernels and of their code, and the launchers."""
    if not kernels:
        return []
    rows: list[str] = []
    tables: list[str] = []
    functions: list[str] = []
    for one in kernels.values():
        tables.append(f"  {{{cpp_string(one.kernel.name)}, kCompiled + {len(rows)}, {len(one.binaries)}}},")
        rows += [f"  {_row(binary, blobs[image_name(binary)])}," for binary in one.binaries]
        functions += _launcher(one, module)
    return [
        *("const Compiled kCompiled[] = {", *rows, "};"),
        *("const GpuKernel kKernels[] = {", *tables, "};"),
        *functions,
        "",
    ]


def gpu_program(kernels: Mapping[str, GpuKernel], module: ProgramScope) -> list[str]:
    """Returns the definitions of `GpuProgram`; none for a program of the CPU."""
    if module.gpu is None:
        return []
    table = "kKernels" if kernels else "nullptr"
    facts = f"{table}, {len(kernels)}, {len(module.streams)}, open_cuda"
    count, rows = len(module.graphed.numbers), replayable_table(module.graphed, module.plan)
    if count:
        facts += f", kReplayables, {count}, {module.cuda_graphs}, make_graphs"
    return [*rows, f"const GpuProgram kGpu = {{{facts}}};"]


def _row(binary: ir.KernelBinary, blob: Blob) -> str:
    facts = binary.facts
    arch = int("".join(c for c in binary.target.partition("sm_")[2] if c.isdecimal()))
    flags = ", ".join("true" if flag else "false" for flag in (facts.cooperative, facts.dependent_launch))
    memory = ", ".join(f"{{{s.nbytes}, {s.align}}}" for s in (facts.scratch, facts.profile))
    sizes = f"{facts.threads}, {facts.cluster[0]}, {facts.shared_bytes}"
    return f"{{{arch}, {blob.number}, {cpp_string(facts.symbol)}, {sizes}, {flags}, {memory}}}"


# --- functions


def _launcher(one: GpuKernel, module: ProgramScope) -> list[str]:
    """Returns a function with the kernel's parameters, then the numbers of its grid."""
    kernel = one.kernel
    names = {p.name: module.names(p.name) for p in kernel.params}
    grid_names = {name: module.names(name) for name in kernel.grid_params}
    head = ["const Run& run", *(f"{kernel_type(p)} {names[p.name]}" for p in kernel.params)]
    head += [f"Int {name}" for name in grid_names.values()]
    arguments = one.binaries[0].params[: -len(_SCRATCH)]
    described, values, map_names = _describe(arguments, kernel, list(names.values()), module)
    slots = [
        f"pointer(&{map_names[p.position]})"
        if p.map is not None
        else _slot(p, kernel.params[p.position], values[p.position])
        for p in arguments
    ]
    maps = sum(1 << n for n, p in enumerate(arguments) if p.map is not None)
    size_and_maps = f"{len(slots)}{f', {maps:#x}' if maps else ''}"
    sizes = [_size(e, names | grid_names) for e in ir.bound_grid(kernel, kernel.configs[0])]
    array = f"const Slot slots[] = {{{', '.join(slots)}}};" if slots else "const Slot* slots = nullptr;"
    return [
        f"void {one.name}({', '.join(head)}) {{",
        *described,
        f"  {array}",
        f"  launch(run, {one.number}, {', '.join(sizes)}, slots, {size_and_maps});",
        "}",
    ]


def kernel_type(param: ir.KernelParam) -> str:
    """Returns the C++ type of a parameter in a kernel's launcher."""
    if param.kind is not ir.ParamKind.SCALAR:
        return "Tensor" if param.kind is ir.ParamKind.DESCRIPTOR else "void*"
    if param.dtype is ir.DType.BOOL:
        return "bool"
    return "double" if param.dtype.is_floating else "Int"


def _describe(
    arguments: Sequence[ir.DriverParam], kernel: ir.TritonKernel, names: Sequence[str], module: ProgramScope
) -> tuple[list[str], list[str], dict[int, str]]:
    """Returns lines that read tensors with descriptors, text of each argument, and names of tensor maps
    by position.
    """
    lines: list[str] = []
    values, map_names = list(names), {}
    maps = {p.position: p.map for p in arguments if p.map is not None}
    for position, param in enumerate(kernel.params):
        if param.kind is not ir.ParamKind.DESCRIPTOR:
            continue
        layout, rank = module.names(f"{param.name}_layout"), len(param.block)
        lines.append(
            f"  const Described {layout} = described({names[position]}, {rank}, {cpp_string(param.name)});"
        )
        values[position] = layout
        if (map := maps.get(position)) is not None:
            box = ", ".join(str(n) for n in reversed(map.box))
            facts = f"{map.element_type}, {map.element_size}, {map.swizzle}, {str(map.padded).lower()}"
            map_names[position] = own = module.names(f"{param.name}_map")
            lines.append(f"  TensorMap {own} = tensor_map({layout}, {{{rank}, {{{box}}}, {facts}}});")
    return lines, values, map_names


def _slot(param: ir.DriverParam, own: ir.KernelParam, name: str) -> str:
    if own.kind is ir.ParamKind.DESCRIPTOR:
        return _descriptor_slot(param, own, name)
    if param.kind is ir.DriverParamKind.POINTER:
        if param.divisible == 1:
            return f"pointer({name})"
        return f"aligned({name}, {cpp_string(own.name)})"
    if param.dtype in _FLOATS:
        return f"{_FLOATS[param.dtype]}({name})"
    if param.dtype is ir.DType.BOOL:
        return f"Slot{{.i = {name}}}"
    what = "divisible" if param.divisible > 1 else "whole"
    return f"{what}<{_c_type(param.dtype)}>({name}, {cpp_string(own.name)})"


def _descriptor_slot(param: ir.DriverParam, own: ir.KernelParam, layout: str) -> str:
    match param.kind:
        case ir.DriverParamKind.POINTER:
            return f"pointer({layout}.address)"
        case ir.DriverParamKind.SIZE | ir.DriverParamKind.STRIDE:
            numbers = "sizes" if param.kind is ir.DriverParamKind.SIZE else "strides"
            return f"whole<{_c_type(param.dtype)}>({layout}.{numbers}[{param.dim}], {cpp_string(own.name)})"
        case _:
            return "Slot{.i = 0}"


def _c_type(dtype: ir.DType) -> str:
    return f"{'u' if dtype.value.startswith('u') else ''}int{8 * dtype.itemsize}_t"


def _size(size: Expr, names: Mapping[str, str]) -> str:
    """Returns text of a size of the grid, over the parameters."""
    if isinstance(size, Int):
        return str(size.value)

    def leaf(e: Expr) -> str:
        if isinstance(e, Sym) and e.name in names:
            return names[e.name]
        raise EmitError("CPP505", f"the grid mentions {e}, which a launch does not give")

    return number_text(size, leaf, {})
