"""Hostile programs as C++ libraries: their kernels are C++ with the function of those in `kernels.py`."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cpp_wrapper
from cpp_wrapper import CppOptions
from tests.soundness.guarded.allocator import build
from tests.soundness.guarded.kernels import EXTENT, touch_facts
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.support.quoting import cpp_string

_HEAD = """#include <cstdint>
#include <cstring>
#include <dlfcn.h>
namespace {{
struct Pointer {{
  void* data;
  int64_t nbytes;
  int32_t divisible;
  uint8_t reads, writes, mask;
}};
using Touch = void (*)(Pointer*, int32_t, uint8_t);
const Touch touch = reinterpret_cast<Touch>(dlsym(dlopen({library}, RTLD_NOW | RTLD_NOLOAD), "guard_touch"));
uint8_t salt_of(const double* numbers, size_t count) {{
  uint32_t crc = 0xFFFFFFFFu;
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers);
  for (size_t i = 0; i < count * sizeof(double); ++i) {{
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
  }}
  return static_cast<uint8_t>(~crc);
}}
}}
"""


def run_library(artifact: Artifact, args: list[Any]) -> Any:  # Any: tensors and numbers
    """Builds the program, loads it and calls it. Raises the exceptions of these."""
    program = artifact.program
    kernels = tuple(_touching(kernel) for kernel in program.kernels)
    artifact = dataclasses.replace(artifact, program=dataclasses.replace(program, kernels=kernels))
    with tempfile.TemporaryDirectory() as folder:
        path = cpp_wrapper.build(artifact, Path(folder) / "m.so", CppOptions(opt_level=0))
        return cpp_wrapper.load(path).boxed(args)


def _touching(kernel: ir.KernelDef) -> ir.KernelDef:
    if not isinstance(kernel, ir.CppKernel):
        return kernel
    params = kernel.params
    names = [f"a{position}" for position in range(len(params))]
    head = ", ".join(f"{_c_type(p)} {name}" for p, name in zip(params, names))
    numbers = [f"static_cast<double>({n})" for p, n in zip(params, names) if p.kind is ir.ParamKind.SCALAR]
    text = _HEAD.format(library=cpp_string(str(build())))
    text += f'extern "C" void touch_all({head}) {{\n'
    text += f"  const double numbers[] = {{{', '.join([*numbers, '0.0'])}}};\n"
    pointers = _pointers(params, names)
    text += f"  Pointer pointers[] = {{{', '.join([*pointers, '{}'])}}};\n"
    text += f"  touch(pointers, {len(pointers)}, salt_of(numbers, {len(numbers)}));\n}}\n"
    return dataclasses.replace(kernel, source=text, entry="touch_all", isa=(), requires=())


def _c_type(param: ir.KernelParam) -> str:
    if param.kind is ir.ParamKind.POINTER:
        return "void*"
    if param.dtype is ir.DType.BOOL:
        return "bool"
    if param.dtype.is_floating:
        return "double" if param.dtype is ir.DType.F64 else "float"
    unsigned = "u" if param.dtype.value.startswith("u") else ""
    return f"{unsigned}int{8 * param.dtype.itemsize}_t"


def _pointers(params: Sequence[ir.KernelParam], names: Sequence[str]) -> list[str]:
    extents = {param.name: name for param, name in zip(params, names)}
    found = []
    for param, name in zip(params, names):
        if param.kind is ir.ParamKind.POINTER:
            divisible, reads, writes, mask = touch_facts(param)
            facts = f"{divisible}, {int(reads)}, {int(writes)}, {mask}"
            found.append(f"{{{name}, {extents[EXTENT + param.name]}, {facts}}}")
    return found
