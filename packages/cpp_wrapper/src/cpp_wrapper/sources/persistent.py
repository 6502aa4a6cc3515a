"""Writes the allocation of memory that persists between calls (`FunctionPlan.persistent`).

`make_persistent` allocates one set of memory with its tensors, which one call at a time uses. The container
owns idle sets.
"""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope, ProgramScope, dtype_text
from wrapper_ir import ir


def write_persistent(module: ProgramScope) -> tuple[list[str], int]:
    """Returns the lines of `make_persistent` and the number of handles; adds names to `module.persistent`."""
    memory = module.plan.main.persistent
    if not memory.windows:
        return [], 0
    scope = FunctionScope(module, module.plan.main)
    blocks = [module.names(f"memory_{number}") for number in range(len(memory.blocks))]
    windows = [module.names(window.name) for window in memory.windows]
    module.persistent_blocks = blocks
    module.persistent = {value: windows[number] for value, number in memory.values.items()}
    lines: list[str] = []
    where = scope.place(module.plan.program.target.device)
    for name, block in zip(blocks, memory.blocks, strict=True):
        lines.append(
            f"allocate(k[{name}], {{{max(block.nbytes, 1)}}}, {{1}}, {dtype_text(ir.DType.U8)}{where});"
        )
        lines += [f"zero(k[{name}]);"] if block.zero else []
    for name, window in zip(windows, memory.windows, strict=True):
        type = window.type
        place = f"{dtype_text(type.dtype)}, {scope.layout(type)}, {window.offset}"
        lines.append(f"byte_window(k[{name}], k[{blocks[window.block]}], {place});")
    if not memory.is_held:
        lines += [f"resize(k[{name}], 0);" for name in blocks]
    names = [*blocks, *windows]
    return [
        f"enum : int {{ {', '.join(names)} }};",
        f"void make_persistent(Tensor* k, {'const Run& run' if where else 'const Run&'}) {{",
        *(f"  {line}" for line in lines),
        "}",
        "",
    ], len(names)
