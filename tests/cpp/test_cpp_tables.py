"""Tables of the emitter against their required entries, and refusals of this edition."""

from __future__ import annotations

import re

import pytest
import torch

import cpp_wrapper
from cpp_wrapper import CppOptions, EmitError
from cpp_wrapper._compat import torch_include_dirs, torch_version
from cpp_wrapper.sources.shims import c_signature, c_types, shim_table
from cpp_wrapper.sources.texts import TEXTS
from tests.cpp.cpp_case import artifact_of_text
from wrapper_ir import ir

AOTI = torch_include_dirs()[0] / "torch" / "csrc"


def _declared(*headers: str) -> dict[str, str]:
    """The functions of torch's headers: their parameters in one line, without comments and names of
    namespaces.
    """
    found = {}
    for name in headers:
        text = re.sub(r"//[^\n]*", "", (AOTI / name).read_text())
        for match in re.finditer(r"AOTI_TORCH_EXPORT\s+([\w:*]+)\s+(\w+)\(([^)]*)\);", text):
            found[match[2]] = _plain(match[3])
    return found


def _plain(parameters: str) -> str:
    return " ".join(parameters.split()).replace("( ", "(")


DEVICES = pytest.mark.parametrize("device", ["cpu", "cuda"])


@DEVICES
def test_the_table_of_shims_agrees_with_the_installed_headers(device: str) -> None:
    declared = _declared(
        f"inductor/aoti_torch/generated/c_shim_{device}.h",
        "inductor/aoti_torch/generated/c_shim_aten.h",
        "inductor/aoti_torch/c/shim_cpu.h",
    )
    known = {n: row for n, row in shim_table(device).items() if row[0] <= torch_version()}
    assert len(known) > 140
    for operator, (_, function, parameters) in known.items():
        assert c_types(declared.get(function, "")) == c_types(parameters), operator


@DEVICES
def test_signatures_in_c_follow_from_the_schemas_of_the_installed_torch(device: str) -> None:
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            schemas[f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name] = str(
                schema
            )
    for operator, (since, _, parameters) in shim_table(device).items():
        if since <= torch_version() and operator in schemas:
            assert c_types(c_signature(ir.parse_schema(schemas[operator]))) == c_types(parameters), operator


def test_the_runtime_declares_the_shim_as_the_installed_headers_do() -> None:
    declared = _declared("inductor/aoti_torch/c/shim.h", "stable/c/shim.h")
    text = "".join(TEXTS[name] for name in ("shim.h", "runtime.h", "steps.h", "gpu.cpp", "capture.h"))
    own = re.findall(r"^\w+ (?:aoti_)?(torch_\w+)\(([^)]*)\);", text, re.MULTILINE)
    assert len(own) > 60
    handles = {"StableListOpaque**": "StableListHandle*", "StableListOpaque*": "StableListHandle",
               "wir::CudaGuardOpaque**": "CUDAGuardHandle*", "wir::CudaGuardOpaque*": "CUDAGuardHandle",
               "wir::CudaStreamGuardOpaque**": "CUDAStreamGuardHandle*",
               "wir::CudaStreamGuardOpaque*": "CUDAStreamGuardHandle", "StringOpaque**": "StringHandle*", "uint64_t* stack": "StableIValue* stack",
               "uint64_t* element": "StableIValue* element", "uint64_t element": "StableIValue element"}  # fmt: skip
    for name, parameters in own:
        plain = _plain(parameters)
        for mine, theirs in handles.items():
            plain = plain.replace(mine, theirs)
        assert plain in (declared.get(f"aoti_{name}"), declared.get(name)), name


def test_an_older_torch_is_called_by_what_it_has() -> None:
    text = """
extern "aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"

func @main(%x: f32[4]) {
  %y = call aten::rand_like(%x) : f32[4]
  return %y
}
"""
    ways = {(2, 13): "ok(aoti_torch_cpu_rand_like(", (2, 11): 'call("aten::rand_like"'}
    for oldest, way in ways.items():
        options = CppOptions(oldest_torch=oldest)
        assert way in str(cpp_wrapper.emit(artifact_of_text(text), options=options))


REFUSED = {
    "device": ("  %e = record_event @cuda:0\n  drop %e\n  return %x", "CPP503", "the program's device is cpu"),
    "foreign": ("  launch @mine(%x)\n  return %x", "CPP504", "kernel @mine is of kind foreign"),
    "scalar": ("  %y = call aten::addcdiv(%i, %i, %i, value=2) : f32[4]\n  return %y", "CPP502", "Scalar"),
    "negative": ("  %y = call aten::pow.Tensor_Scalar(%i, -1) : i64[4]\n  return %y", "CPP502", "Scalar"),
    "mixed": ("  %y = call aten::mul.Tensor(1, 2) : i64[]\n  return %y", "CPP502", "no tensor means the same"),
    "python": ("  %y = call mine::op(%x) : f32[4]\n  return %y", "CPP502", "exists in Python only"),
    "native": ("  call wrapper_ir::packed_addmm.out(none, %x, %x, 4, out=%x)\n  return %x", "CPP502", "native runtime"),
    "returns": ("  %y = call mine::two(%x) : results\n  return %x", "CPP502", "it returns str"),
    "reversed": ("  %y = call mine::pair(%x) : results\n  return %x", "CPP502", "reads returned (Tensor, int) in reverse"),
    "pinned": ("  %y.s = alloc_storage 16 pinned\n  free %y.s\n  return %x", "CPP503", "plain memory"),
    "number": ("  define s0 = size(%x, 0) \n  return min(s0, 9223372036854775808)", "CPP620", "64 bits"),
    "data": ("  copy %x, %w\n  return %x", "CPP503", "constant %w has no data"),
}  # fmt: skip
HEAD = """
const %w : f32[4]
extern "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"
extern "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
extern "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"
extern "mine::op(Tensor self) -> Tensor" tags(python_only)
extern "wrapper_ir::packed_addmm.out(Tensor? bias, Tensor mat1, Tensor packed, SymInt columns, *, Tensor(a!) out) -> Tensor(a!)"
extern "mine::two(Tensor self) -> (Tensor, str)"
extern "mine::pair(Tensor self) -> (Tensor, int)"
kernel foreign @mine runtime "mine" (read f32* x) {{{
nothing
}}}
"""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_written_is_refused_by_name(name: str) -> None:
    body, code, words = REFUSED[name]
    constants = {} if name == "data" else {"w": torch.zeros(4)}
    text = f"{HEAD}\nfunc @main(%x: f32[4], %i: i64[4]) {{\n{body}\n}}\n"
    with pytest.raises(EmitError) as caught:
        cpp_wrapper.emit(artifact_of_text(text, constants))
    assert caught.value.code == code
    assert words in str(caught.value)
