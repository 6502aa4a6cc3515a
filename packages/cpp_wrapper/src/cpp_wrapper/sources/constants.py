"""Locations of constants in a library, and the code that creates their tensors when it is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.scope import FunctionScope, ProgramScope, dtype_text
from wrapper_ir import ir
from wrapper_ir.artifact.packing import names_of, original_type
from wrapper_ir.expr import Int, evaluate
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import Plan

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of one constant, or of several with shared storage.

    `data` begins `offset` bytes after the first constant. `number` is the row in the library's table.
    `is_owned`: each loaded library has a copy, since the program or a caller may write it. `kind` is one of
    the runtime's `Blob::Kind`.
    """

    name: str
    number: int
    offset: int
    nbytes: int
    data: memoryview
    is_owned: bool
    kind: str = "Host"


def constant_pieces(constants: Sequence[Blob]) -> Iterator[memoryview]:
    """Yields the constants' bytes in order, with the gaps that align them."""
    end = 0
    for blob in constants:
        yield memoryview(bytes(blob.offset - end))
        yield blob.data
        end = blob.offset + blob.nbytes


def constants_identity(constants: Sequence[Blob]) -> str:
    """Returns the SHA-256 (hex) of the constants' bytes."""
    digest = hashlib.sha256()
    for piece in constant_pieces(constants):
        digest.update(piece)
    return digest.hexdigest()


def place_constants(plan: Plan) -> dict[str, Blob]:
    """Returns the aligned bytes of all constants, without duplicates, by the names of their data.

    Raises EmitError CPP503 for constants that are opaque, packed on a device, on another device than the
    program, or without data.
    """
    target = plan.program.target.device
    sizes, visible = {shared.name: shared.nbytes for shared in plan.bytes}, _visible(plan)
    owned = {c.data_name for c in plan.program.constants if c.mutable or c.value in visible}
    blobs: dict[str, Blob] = {}
    alignment = max(plan.constant_alignment, _ALIGNMENT)
    for constant in plan.program.constants:
        type, name = constant.value.type, constant.data_name
        if not isinstance(type, ir.TensorType) or type.device not in (ir.CPU, target):
            raise _refused(constant, f"is not a plain tensor of the CPU or of {target}")
        if constant.packing is not None and type.device != ir.CPU:
            raise _refused(constant, "is packed, and not on the CPU")
        if name in blobs:
            continue
        nbytes = sizes.get(name, int(evaluate(ir.extent_bytes(type), {})))
        data = plan.artifact.constants.get(name)
        content = memoryview(b"") if data is None else data.buffer.cast("B")
        if content.nbytes < nbytes:
            raise _refused(constant, "has no data")
        kind = "Host" if type.device == ir.CPU else "Device"
        offset = next_offset(blobs, alignment)
        blobs[name] = Blob(name, len(blobs), offset, nbytes, content[:nbytes], name in owned, kind)
    return blobs


def next_offset(blobs: dict[str, Blob], alignment: int = _ALIGNMENT) -> int:
    """Returns the offset of the next blob."""
    last = next(reversed(blobs.values()), None)
    return 0 if last is None else -(-(last.offset + last.nbytes) // alignment) * alignment


def _refused(constant: ir.Constant, why: str) -> EmitError:
    return EmitError("CPP503", f"constant %{constant.value.name} {why}, so a library cannot contain it")


def _visible(plan: Plan) -> Set[ir.Value]:
    """Returns constants that a caller may receive: their memory must outlive the library."""
    function = plan.main.function
    roots = plan.analyses.aliasing(function).roots
    returned = {r for v in function.returns.values if isinstance(v, ir.Value) for r in roots.get(v, (v,))}
    starts = {start for start, _ in plan.analyses.shared_constants.values()} & returned
    shared = {v for v, (start, _) in plan.analyses.shared_constants.items() if start in starts}
    return {v for v in returned | shared if v in plan.analyses.constant_values}


def write_load(module: ProgramScope, blobs: dict[str, Blob]) -> tuple[list[str], int]:
    """Returns the lines that create the tensors of constants and of their windows, and the number of
    handles.
    """
    plan = module.plan
    scope = FunctionScope(module, plan.main)
    places: list[str] = []
    lines: list[str] = []
    bytes_of: dict[str, str] = {}

    def place(wish: str) -> str:
        places.append(module.names(wish))
        return places[-1]

    for shared in plan.bytes:
        name = bytes_of[shared.name] = place(f"{shared.name}_bytes")
        where = f"b[{blobs[shared.name].number}]"
        lines.append(f"constant(c[{name}], {where}, u8(), {{{shared.nbytes}}}, {{1}});")
    for constant in plan.program.constants:
        assert ir.is_tensor(constant.value)  # `place_constants` refuses others
        type = constant.value.type
        name = module.constants[constant.value] = place(constant.value.name)
        layout, dtype = scope.layout(type), dtype_text(type.dtype)
        if Int(0) in type.sizes:
            where = f", b[{blobs[constant.data_name].number}].gpu" if type.device != ir.CPU else ""
            lines.append(f"allocate(c[{name}], {layout}, {dtype}{where});")
        elif constant.storage:
            source = f"c[{bytes_of[constant.storage]}]"
            lines.append(f"byte_window(c[{name}], {source}, {dtype}, {layout}, {constant.offset});")
        else:
            where = f"b[{blobs[constant.data_name].number}]"
            lines.append(f"constant(c[{name}], {where}, {dtype}, {layout});")
    for window in plan.windows:
        of = window.source
        base = module.windows[of] if isinstance(of, int) else module.constants[of]
        name = place(window.result.name)
        module.windows.append(name)
        layout = scope.layout(window.result.type)
        if window.in_bytes:
            dtype = dtype_text(window.result.type.dtype)
            lines.append(f"byte_window(c[{name}], c[{base}], {dtype}, {layout}, {window.offset});")
        else:
            lines.append(f"window(c[{name}], c[{base}], {layout}, {window.offset});")
    head = [f"enum : int {{ {', '.join(places)} }};"] if places else []
    return [
        *head,
        "void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {",
        *(f"  {x}" for x in lines),
        "}",
    ], len(places)


def blob_table(blobs: dict[str, Blob]) -> list[str]:
    """Returns the rows of blobs, in order."""
    return [
        f"{{{b.offset}, {b.nbytes}, {'true' if b.is_owned else 'false'}"
        f"{'' if b.kind == 'Host' else f', Blob::k{b.kind}'}}},"
        for b in blobs.values()
    ]


def constant_table(module: ProgramScope, blobs: dict[str, Blob]) -> list[str]:
    """Returns a row for each name of a constant. A packed one has the names and size of its original."""
    rows, layouts = [], _layout_numbers(module.plan, blobs)
    for number, constant in enumerate(module.plan.program.constants):
        type, packing = original_type(constant), constant.packing
        assert isinstance(type, ir.TensorType)
        nbytes = int(evaluate(ir.extent_bytes(type), {}))
        dtype = dtype_text(type.dtype).removesuffix("()")
        where = f"{dtype}, {nbytes}, {blobs[constant.data_name].number}, {module.constants[constant.value]}"
        where += f", &kPacking{layouts[number]}" if packing is not None else ""
        short = constant.value.name if packing is None else packing.original
        for count, full in enumerate(names_of(constant)):
            name = f"{short}.{count}" if count else short
            rows.append(f"{{{cpp_string(name)}, {cpp_string(full)}, {where}}},")
    return rows


def packing_lines(plan: Plan, blobs: dict[str, Blob]) -> list[str]:
    """Returns the layouts of packed constants, by the number of the first constant of a layout."""
    lines, layouts = [], _layout_numbers(plan, blobs)
    for number, constant in enumerate(plan.program.constants):
        packing = constant.packing
        if packing is None or layouts[number] != number:
            continue
        panels, blob = packing.panels, blobs[constant.data_name]
        row_sizes, row_strides = zip(*panels.rows)
        columns = (panels.groups, panels.group_stride, panels.columns, panels.column_stride)
        rows = f"{len(panels.rows)}, {_braced(row_sizes)}, {_braced(row_strides)}, {panels.interleave}"
        original = f"{len(packing.sizes)}, kSizes{number}, kStrides{number}, {blob.nbytes}"
        lines += [
            f"const int64_t kSizes{number}[] = {_braced(packing.sizes)};",
            f"const int64_t kStrides{number}[] = {_braced(packing.memory_strides)};",
            f"const Packing kPacking{number}{{{original}, {', '.join(map(str, columns))}, {rows}}};",
        ]
    return lines


def _layout_numbers(plan: Plan, blobs: dict[str, Blob]) -> dict[int, int]:
    """Returns the number of the first constant of the same layout, by the numbers of packed constants."""
    first: dict[object, int] = {}
    return {
        number: first.setdefault((replace(packing, original=""), blobs[constant.data_name].nbytes), number)
        for number, constant in enumerate(plan.program.constants)
        if (packing := constant.packing) is not None
    }


def _braced(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"
