"""The headers of native libraries compile alone, in any order with dlpack.h."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from wrapper_ir_native import api, cmake_prefix_path, include_path

USE = """
int main(void) {
  int64_t shape[] = {2, 3};
  DLTensor tensor = wir_tensor(NULL, wir_float32(), 2, shape);
  wir_options options = {sizeof(wir_options), 0, 0, NULL, 0, 0, NULL, 0};
  return tensor.ndim == 2 && options.size > 0 && wir_int64().bits == 64 && wir_bool().code == kDLBool ? 0 : 1;
}
"""
DLPACK = Path(torch.__file__).parent / "include" / "ATen"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include_path()}", f"-I{DLPACK}")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")


def run(folder: Path, text: str, command: tuple[str, ...]) -> str:
    """Compiles and runs a program. Returns its output."""
    (folder / "main.c").write_text(text)
    program = folder / "main"
    subprocess.run([*command, *STRICT, str(folder / "main.c"), "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "command", [("gcc", "-std=c99"), ("gcc", "-std=c11"), ("g++", "-std=c++17", "-x", "c++")]
)
@pytest.mark.parametrize("order", ["model", "model dlpack", "dlpack model"])
def test_the_c_header_compiles(tmp_path: Path, command: tuple[str, ...], order: str) -> None:
    names = {"model": "wrapper_ir/model.h", "dlpack": "dlpack.h"}
    lines = [f"#include <{names[name]}>\n" for name in order.split()]
    assert run(tmp_path, "#include <stddef.h>\n" + "".join(lines) + USE, command) == ""


def test_ctypes_has_the_layout_of_the_header(tmp_path: Path) -> None:
    fields = {
        "DLTensor": (api.DLTensor, ("ndim", "shape", "byte_offset")),
        "DLManagedTensorVersioned": (api.DLManagedTensorVersioned, ("deleter", "dl_tensor")),
        "wir_options": (api.Options, ("threads", "path", "begin", "weights")),
        "wir_api": (api.Api, tuple(name for name, *_ in api.Api._fields_)),
    }
    lines, sizes = [], []
    for name, (cls, offsets) in fields.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        sizes.append(ctypes.sizeof(cls))
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field in offsets]
        sizes += [getattr(cls, field).offset for field in offsets]
    text = (
        "#include <stdio.h>\n#include <wrapper_ir/model.h>\nint main(void) {"
        + "\n".join(lines)
        + "return 0; }"
    )
    assert [int(line) for line in run(tmp_path, text, ("gcc", "-std=c99")).split()] == sizes


def test_cmake_has_a_package() -> None:
    config = cmake_prefix_path() / "wrapper-ir-native-config.cmake"
    assert "wrapper_ir::native" in config.read_text()
    assert (include_path() / "wrapper_ir" / "model.h").is_file()
