"""Libraries over the native runtime: what they link, export and refuse, and operators of a user."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions, EmitError, OperatorSource
from cpp_wrapper.sources.texts import cuda_texts, native_texts
from inductor_frontend import capture
from tests.cpp.cpp_case import artifact_of_text
from tests.native.native_case import build_native
from wrapper_ir.artifact import Artifact
from wrapper_ir.ir import parse_schema

LIBRARIES = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libgomp.so.1",
}


def needed(path: Path) -> set[str]:
    """The libraries that a library names."""
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return {line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line}


def symbols(path: Path, *options: str) -> list[str]:
    """The names of dynamic symbols, without their versions."""
    command = ["nm", "-D", *options, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split()[-1].partition("@")[0] for line in text.splitlines()]


@pytest.fixture(scope="module")
def pointwise() -> Artifact:
    """A layer norm and a ReLU: kernels alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(64), nn.ReLU()).eval()
    with torch.no_grad():
        return capture(model, (torch.randn(8, 64),))


@pytest.mark.parametrize("threads", ["openmp", "none"])
def test_a_library_names_no_library_of_torch(pointwise: Artifact, threads: str, tmp_path: Path) -> None:
    program = build_native(pointwise, tmp_path, threads=threads, opt_level=1)
    x = torch.randn(8, 64)
    [result] = program([x])
    torch.testing.assert_close(result, torch.relu(nn.functional.layer_norm(x, (64,))))
    path = tmp_path / "model.so"
    assert needed(path) <= LIBRARIES - ({"libgomp.so.1"} if threads == "none" else set())
    assert all(name.startswith("wir_") for name in symbols(path, "--defined-only"))
    assert not [
        name for name in symbols(path, "--undefined-only") if "torch" in name or "Py" in name or "wir" in name
    ]


def test_a_static_runtime_needs_libc_and_libm(pointwise: Artifact, tmp_path: Path) -> None:
    build_native(pointwise, tmp_path, threads="none", static_runtime=True, opt_level=1)
    assert needed(tmp_path / "model.so") <= {"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6"}


CALLER = """
import sys
import numpy as np
import wrapper_ir_native

f = wrapper_ir_native.load(sys.argv[1])
np.save(sys.argv[2], f(np.load(sys.argv[3])))
"""


@pytest.mark.slow
def test_operators_are_chosen_by_the_processor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 40), nn.ReLU(), nn.Linear(40, 33)).eval()
    x = torch.randn(19, 48)
    with torch.no_grad():
        artifact = capture(model, (x,), cpu_isas=("avx512", "avx2", "generic"))
        want = model(x)
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(runtime="native", opt_level=1))
    source, target = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(source, x.numpy())
    results = []
    for level in ("default", "avx2", ""):  # the last one: all that the processor has
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": level}
        command = [sys.executable, "-c", CALLER, str(path), str(target), str(source)]
        subprocess.run(command, env=environment, check=True)
        results.append(torch.from_numpy(np.load(target)))
        torch.testing.assert_close(results[-1], want)
    assert all(name.startswith("wir_") for name in symbols(path, "--defined-only"))


@pytest.mark.slow
def test_a_program_without_kernels_has_operators_for_all_processors(tmp_path: Path) -> None:
    model = nn.Linear(48, 40, bias=False).eval()
    x = torch.randn(19, 48)
    with torch.no_grad():
        artifact = capture(model, (x,))
    sources = cpp_wrapper.emit(artifact, options=CppOptions(runtime="native", cpu_isas=("avx2", "generic")))
    assert not sources.units
    assert "static const auto chosen = choose(" in str(sources)
    [result] = build_native(artifact, tmp_path, opt_level=1)([x])
    torch.testing.assert_close(result, model(x).detach())


FAILS = """
#include "operator.h"

WIR_OPERATOR(twice)(Tensor self, Tensor*) { wir::fail_dtype("mine::twice", self->dtype); }
"""


@pytest.mark.slow
def test_a_seed_sets_the_numbers_of_all_instruction_sets(tmp_path: Path) -> None:
    class Sampled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.multinomial(x, 8)

    x = torch.rand(8)
    with torch._inductor.config.patch(fallback_random=True):
        artifact = capture(Sampled(), (x,))
    options = CppOptions(runtime="native", cpu_isas=("avx2", "generic"), opt_level=0)
    f = wrapper_ir_native.load(cpp_wrapper.build(artifact, tmp_path / "m.so", options))
    for number in (1, 2):
        torch.manual_seed(number)
        f._model._library.wir_random_seed(ctypes.c_uint64(number))
        for _ in range(2):
            assert f(x.numpy()).tolist() == torch.multinomial(x, 8).tolist()


@pytest.mark.slow
def test_an_operator_of_several_instruction_sets_fails_with_an_error(tmp_path: Path) -> None:
    source = OperatorSource(text=FAILS, schemas=("mine::twice(Tensor self) -> Tensor",))
    program = build_native(artifact_of_text(CALL), tmp_path, operators=(source,), opt_level=1)
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"mine::twice failed: the native operator has no code for .* f32"
        ):
            program([torch.randn(4)])


MISSING = """
extern "mine::other(Tensor self) -> Tensor"
extern "mine::twice(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %a = call mine::twice(%x) : f32[4]
  %b = call mine::twice(%a) : f32[4]
  %c = call mine::other(%b) : f32[4]
  return %c
}
"""
TWICE = """
#include "operator.h"

WIR_OPERATOR(twice)(Tensor self, Tensor* ret0) {
  wir::Owned made = wir::contiguous(self);
  wir::Owned result(wir::new_tensor(self->rank, self->sizes(), nullptr, self->dtype));
  for (int64_t i = 0; i < self->count; ++i) {
    wir::data_of<float>(result.get())[i] = 2 * wir::data_of<float>(made.get())[i];
  }
  *ret0 = result.release();
  return 0;
}
"""
CALL = """
extern "mine::twice(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %y = call mine::twice(%x) : f32[4]
  return %y
}
"""


def test_a_user_adds_an_operator(tmp_path: Path) -> None:
    source = OperatorSource(text=TWICE, schemas=("mine::twice(Tensor self) -> Tensor",))
    program = build_native(artifact_of_text(CALL), tmp_path, operators=(source,), opt_level=1)
    x = torch.randn(4)
    [result] = program([x])
    torch.testing.assert_close(result, 2 * x)


LISTS = """
extern "aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"
extern "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"
extern "mine::sum_and_parts(Tensor self) -> (Tensor, Tensor[])"

func @main(%x: f32[5, 2]) {
  %parts = call aten::split_copy.Tensor(%x, 2) : results
  %last = unpack %parts[2] : f32[1, 2]
  %unused = call aten::unbind.int(%x, 0) : results
  %both = call mine::sum_and_parts(%x) : results
  %sum = unpack %both[0] : f32[]
  %second = unpack %both[1][1] : f32[1, 2]
  drop %parts
  drop %unused
  drop %both
  return %last, %sum, %second
}
"""
SUM_AND_PARTS = """
#include "layouts.h"

using namespace wir;

WIR_OPERATOR(sum_and_parts)(Tensor self, Tensor* ret0, Tensor* ret1, int64_t ret1_len_) {
  Owned sum = zeros({}, kF32);
  for (int64_t i = 0; i < self->count; ++i) *data_of<float>(sum.get()) += data_of<float>(self)[i];
  for (int64_t i = 0; i < ret1_len_; ++i) ret1[i] = view_of(self, {1, 2}, {2, 1}, 2 * i).release();
  *ret0 = sum.release();
  return 0;
}
"""


def test_operators_return_lists(tmp_path: Path) -> None:
    source = OperatorSource(
        text=SUM_AND_PARTS, schemas=("mine::sum_and_parts(Tensor self) -> (Tensor, Tensor[])",)
    )
    program = build_native(artifact_of_text(LISTS), tmp_path, operators=(source,), opt_level=1)
    x = torch.randn(5, 2)
    last, total, second = program([x], 3)
    torch.testing.assert_close(last, x[4:])
    torch.testing.assert_close(total, x.sum())
    torch.testing.assert_close(second, x[1:2])


LAID_OUT = """
extern "mine::twice(Tensor self) -> Tensor"

func @main(%x: f32[3, 4]) {
  %y = call mine::twice(%x) : f32[3, 4]{STRIDES}
  return %y
}
"""


def test_a_result_is_copied_to_the_declared_layout(tmp_path: Path) -> None:
    """Operators need not choose torch's strides."""
    source = OperatorSource(text=TWICE, schemas=("mine::twice(Tensor self) -> Tensor",))
    artifact = artifact_of_text(LAID_OUT.replace("STRIDES", "1, 3"))
    program = build_native(artifact, tmp_path, operators=(source,), opt_level=1)
    x = torch.randn(3, 4)
    for _ in range(2):
        [result] = program([x])
        torch.testing.assert_close(result, 2 * x)
        assert result is not None
        assert result.stride() == (1, 3)


def test_a_layout_whose_elements_share_memory_is_refused(tmp_path: Path) -> None:
    source = OperatorSource(text=TWICE, schemas=("mine::twice(Tensor self) -> Tensor",))
    artifact = artifact_of_text(LAID_OUT.replace("STRIDES", "0, 1"))
    program = build_native(artifact, tmp_path, operators=(source,), opt_level=1)
    with pytest.raises(RuntimeError, match=r"WIR921.*strides \[0, 1\]"):
        program([torch.randn(3, 4)])


OFFSET = """
symbol start : int backed

func @main(%x: f32[4]) {
  define start = offset(%x)
  assert start == NUMBER "the storage offset of input x is not what the model was captured for"
  %y = view %x + 8 : f32[2]
  return %y
}
"""


def test_an_input_with_a_storage_offset_is_refused() -> None:
    """Tensors of DLPack have no storage."""
    options = CppOptions(runtime="native")
    with pytest.raises(EmitError, match=r"CPP503.*the storage offset of input x .* begin their storages"):
        cpp_wrapper.emit(artifact_of_text(OFFSET.replace("NUMBER", "5")), options=options)
    cpp_wrapper.emit(artifact_of_text(OFFSET.replace("NUMBER", "0")), options=options)


def test_an_operator_with_another_schema_is_refused() -> None:
    source = OperatorSource(text=TWICE, schemas=("mine::twice(Tensor self, int n) -> Tensor",))
    with pytest.raises(EmitError, match=r"(?s)CPP502.*mine::twice.*declare both alike"):
        cpp_wrapper.emit(artifact_of_text(CALL), options=CppOptions(runtime="native", operators=(source,)))


@pytest.mark.parametrize("texts", [native_texts(), cuda_texts()], ids=["host", "device"])
def test_an_operator_stands_in_one_table_of_a_device(texts: Mapping[str, str]) -> None:
    """Its function is in the file of that table: a second row would lead to another file."""
    found: dict[str, list[str]] = {}
    for file, text in texts.items():
        for line in text.splitlines() if file.endswith(".txt") else ():
            if line and not line.startswith("#"):
                found.setdefault(parse_schema(line).name, []).append(file)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
    for name, (file,) in found.items():
        function = name.partition("::")[2].replace(".", "_")
        assert re.search(rf"(?<![a-z]){function}\b", texts[file.replace(".txt", ".cpp")]), f"{file}: {name}"


def test_missing_operators_are_refused_together() -> None:
    with pytest.raises(
        EmitError, match=r"lacks 2 of the program's operators: mine::other, mine::twice \(2 calls\)"
    ):
        cpp_wrapper.emit(artifact_of_text(MISSING), options=CppOptions(runtime="native"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (CppOptions(runtime="Native"), "runtime='Native': expected 'torch' or 'native'"),
        (CppOptions(runtime="native", threads="tbb"), "threads='tbb': expected 'openmp' or 'none'"),
        (CppOptions(threads="none"), "threads is an option of native libraries"),
    ],
)
def test_invalid_options_are_refused(options: CppOptions, message: str) -> None:
    with pytest.raises(EmitError, match=f"CPP506.*{re.escape(message)}"):
        cpp_wrapper.emit(artifact_of_text(CALL), options=options)
