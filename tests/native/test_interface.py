"""The interface of native libraries: C and C++ programs, the loaders of numpy and torch, wrong arguments, damaged
files, threads, and memory.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from tests.native.interface_case import FAST, K, X, capture_scaled, expected, output
from wrapper_ir.artifact import Artifact
from wrapper_ir_native import CacheError, ConstantError, NativeError, NativeProgram, OutputError


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return capture_scaled()


@pytest.fixture(scope="module")
def library(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_wrapper.build(artifact, tmp_path_factory.mktemp("native") / "m.so", FAST)


@pytest.fixture
def model(library: Path) -> NativeProgram:
    return wrapper_ir_native.load(library)


# --- the file


def test_a_library_exports_functions_of_ours(library: Path) -> None:
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    assert "wir_get_api" in names
    assert all(name.startswith("wir_") for name in names)


def test_a_library_needs_no_torch(library: Path) -> None:
    needed = {
        line.split()[0].split("/")[-1].partition(".")[0] for line in output("ldd", library).splitlines()
    }
    assert needed <= {"linux-vdso", "ld-linux-x86-64", "libc", "libm", "libstdc++", "libgcc_s", "libgomp"}


def test_numpy_is_enough(library: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('torch', 'wrapper_ir', 'cpp_wrapper'): sys.modules[name] = None\n"
        "import numpy as np, wrapper_ir_native\n"
        f"model = wrapper_ir_native.load({str(library)!r})\n"
        "x = np.ones((3, 4), np.float32)\n"
        "print(model(x, d={'k': np.ones(4, np.float32)})['y'].sum())\n"
    )
    assert output(sys.executable, "-c", program).split() == ["13.5"]


# --- calls


def test_the_models_own_arguments_and_results(model: NativeProgram) -> None:
    result = model(X, d={"k": K})
    assert np.array_equal(result["y"], expected(X))
    assert result["same"] is X
    size, nothing, three, calls = result["rest"]
    assert (size, nothing, three, calls.tolist()) == (5, None, 3, [1])
    assert np.array_equal(model(x=X[:2], scale=2.0, d={"k": K})["y"], expected(X[:2]))


def test_tensors_of_other_libraries(model: NativeProgram) -> None:
    x, k = torch.from_numpy(X), torch.from_numpy(K)
    assert np.array_equal(model(x, d={"k": k})["y"], expected(X))
    read_only = X.copy()
    read_only.flags.writeable = False
    assert np.array_equal(model(read_only, d={"k": K})["y"], expected(X))


def test_the_loader_of_torch(library: Path) -> None:
    program = cpp_wrapper.load(library)
    x, k = torch.from_numpy(X), torch.from_numpy(K)
    result = program(x, d={"k": k})
    assert np.array_equal(result["y"].numpy(), expected(X))
    assert result["same"] is x
    assert result["rest"][:3] == (5, None, 3)
    y, size, calls = program.boxed([x, k])
    assert np.array_equal(y.numpy(), expected(X))
    assert (size, calls.item()) == (5, 2)
    targets = [torch.zeros(5, 4), torch.zeros(5, 4), torch.zeros(1)]
    program.run_into(targets, x, d={"k": k})
    assert np.array_equal(targets[0].numpy(), expected(X))
    with pytest.raises(cpp_wrapper.OutputError, match="CPP610"):
        program.run_into(targets[:2], x, d={"k": k})
    with pytest.raises(cpp_wrapper.CopyError, match="CPP611"):
        pickle.dumps(program)
    program.update_constants({"weight": torch.ones(4)})
    assert torch.equal(program(x, d={"k": k})["y"], torch.relu(x) * k)


WRONG: dict[str, Callable[[NativeProgram], object]] = {
    "argument d is missing": lambda f: f(X),
    "size 0 of input x is out of range": lambda f: f(X[:1], d={"k": K}),
    "expected f32\\[n, 4\\] on cpu, got f64": lambda f: f(X.astype(np.float64), d={"k": K}),
    "expected f32\\[n, 4\\] on cpu, got f32\\[5, 3\\]": lambda f: f(X[:, :3], d={"k": K}),
    "expected f32\\[n, 4\\] on cpu, got f32\\[20\\]": lambda f: f(X.ravel(), d={"k": K}),
    "expected f32\\[n, 4\\] on cpu, got f32\\[4, 5\\]": lambda f: f(X.T, d={"k": K}),
    "negative strides": lambda f: f(X[:, ::-1], d={"k": K}),
    "expected an array, got a list": lambda f: f([1.0], d={"k": K}),
    "expected an array, got None": lambda f: f(None, d={"k": K}),
    "no element type of a model": lambda f: f(X.astype(">f4"), d={"k": K}),
    "expected keys": lambda f: f(X, d={"j": K}),
    "expected dict, got ndarray": lambda f: f(X, d=K),
    "was captured as 2.0": lambda f: f(X, 3.0, d={"k": K}),
    "expected at most 2": lambda f: f(X, 2.0, X, d={"k": K}),
    "given twice": lambda f: f(X, x=X, d={"k": K}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(model: NativeProgram, message: str) -> None:
    with pytest.raises(NativeError, match=message) as caught:
        WRONG[message](model)
    assert caught.value.code in {"WIR920", "WIR921", "WIR926"}
    assert np.array_equal(model(X, d={"k": K})["y"], expected(X))


def aligned(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A contiguous array at a multiple of 64 bytes."""
    count = int(np.prod(shape))
    memory = np.empty(4 * count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + 4 * count].view(np.float32).reshape(shape)


def test_results_in_the_callers_arrays(model: NativeProgram) -> None:
    for y in (aligned(5, 4), np.zeros((4, 5), np.float32).T, np.zeros((5, 8), np.float32)[:, ::2]):
        same, calls = aligned(5, 4), np.zeros(1, np.float32)
        model.run_into([y, same, calls], X, d={"k": K})
        assert np.array_equal(y, expected(X))
        assert np.array_equal(same, X)
        assert calls[0] > 0


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (lambda y, c: [y, c], "got fewer"),
        (lambda y, c: [y, y.copy(), c, c], "expected tensors for 3 outputs, got 4"),
        (lambda y, c: [y, y, c], "output 1 overlaps output 0"),
        (lambda y, c: [X, y, c], "output 0 overlaps input 0"),
        (lambda y, c: [y[:4], y.copy(), c], "output 0: expected f32\\[n, 4\\] on cpu, got f32\\[4, 4\\]"),
        (lambda y, c: [y, y.copy(), c.astype(np.float64)], "output 5: expected f32\\[1\\] on cpu, got f64"),
        (lambda y, c: [np.broadcast_to(c, (5, 4)), y, c], "read-only"),
    ],
)
def test_arrays_that_do_not_fit(
    model: NativeProgram, targets: Callable[..., list[object]], message: str
) -> None:
    y = np.full((5, 4), 7, np.float32)
    with pytest.raises(OutputError, match=message):
        model.run_into(targets(y, np.zeros(1, np.float32)), X, d={"k": K})
    assert (y == 7).all()


# --- constants


def test_constants(model: NativeProgram) -> None:
    assert model.constants == ("calls", "weight")
    ones = np.ones(4, np.float32)
    model.update_constants({"weight": ones}, is_inactive=True, is_borrowed=True)
    assert np.array_equal(model(X, d={"k": K})["y"], expected(X))
    model.swap_constants()
    del ones
    gc.collect()
    assert np.array_equal(model(X, d={"k": K})["y"], np.maximum(X, 0) * K)
    assert np.asarray(model.extract_constant("weight")).tolist() == [1, 1, 1, 1]
    assert np.asarray(model.extract_constant("weight", is_inactive=True)).tolist() == [1, -2, 3, 0.5]
    model.free_inactive_constants()
    with pytest.raises(ConstantError, match="CPP531"):
        model.swap_constants()
    with pytest.raises(ConstantError, match=r"CPP530.*no constants other"):
        model.update_constants({"other": K})
    with pytest.raises(ConstantError, match=r"CPP530.*weight: expected f32\[4\]"):
        model.update_constants({"weight": X})
    with pytest.raises(ConstantError, match=r"CPP530.*lacks calls"):
        model.update_constants({"weight": K}, is_full=True)


def test_constants_beside_the_library(artifact: Artifact, tmp_path: Path) -> None:
    for name in ("first", "second"):
        options = CppOptions(runtime="native", opt_level=0, weights="m.weights")
        cpp_wrapper.build(artifact, tmp_path / f"{name}.so", options)
        assert np.array_equal(
            wrapper_ir_native.load(tmp_path / f"{name}.so")(X, d={"k": K})["y"], expected(X)
        )
    path, weights = tmp_path / "first.so", tmp_path / "m.weights"
    whole = weights.read_bytes()
    weights.rename(tmp_path / "other")
    with pytest.raises(CacheError, match=r"CPP306.*m\.weights.*cannot be read"):
        wrapper_ir_native.load(path)
    moved = wrapper_ir_native.load(path, weights=tmp_path / "other")
    assert np.array_equal(moved(X, d={"k": K})["y"], expected(X))
    del moved
    for damage, message in (
        (b"nothing", "CPP306.*is not a file of constants"),
        (whole[:20] + b"x" + whole[21:], "CPP306.*of another library"),
        (whole[:-1], "CPP304"),
        (whole[:4096] + bytes([whole[4096] ^ 1]) + whole[4097:], "CPP304.*damaged"),
    ):
        weights.write_bytes(damage)
        with pytest.raises(CacheError, match=message):
            wrapper_ir_native.load(path)


# --- files


@pytest.mark.parametrize(
    "damage", ["empty", "short", "code", "metadata", "constants", "elf", "text", "folder"]
)
def test_damaged_and_foreign_files(library: Path, tmp_path: Path, damage: str) -> None:
    whole, path = library.read_bytes(), tmp_path / "m.so"
    image = wrapper_ir_native.file.read_image(library)
    at = {"code": 100, "constants": image.code_nbytes, "metadata": len(whole) - 200}.get(damage, 0)
    flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    content = {"empty": b"", "short": whole[:-1], "elf": whole[: image.code_nbytes], "text": b"x" * 5000}
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(content.get(damage, flipped))
    with pytest.raises(CacheError, match="CPP304"):
        wrapper_ir_native.load(path)


def test_a_library_of_torch_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(opt_level=0))
    with pytest.raises(CacheError, match=r"CPP304.*needs torch"):
        wrapper_ir_native.load(path)


# --- threads and memory


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_threads_share_a_library(library: Path) -> None:
    model, wrong = wrapper_ir_native.load(library, threads=1), []

    def call(count: int) -> None:
        x = X[:count].copy()
        for _ in range(200):
            if not np.array_equal(model(x, d={"k": K})["y"], expected(x)):
                wrong.append(count)
            with pytest.raises(NativeError, match=f"got f32\\[{count}, 3\\]"):
                model(x[:, :3], d={"k": K})

    threads = [threading.Thread(target=call, args=(count,)) for count in (2, 3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loading_and_unloading_keeps_memory_flat(library: Path) -> None:
    def load_once() -> None:
        model = wrapper_ir_native.load(library)
        model(X, d={"k": K})
        with pytest.raises(NativeError):
            model(X[:1], d={"k": K})

    for _ in range(20):
        load_once()
    gc.collect()
    before = resident()
    for _ in range(100):
        load_once()
    gc.collect()
    assert resident() - before < 1 << 20


def test_dtypes_in_dlpack_are_those_of_torch(artifact: Artifact) -> None:
    from wrapper_ir import ir
    from wrapper_ir_native.element_types import ELEMENT_TYPES

    assert set(ELEMENT_TYPES) == {dtype.value for dtype in ir.DType}
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name, kind in ELEMENT_TYPES.items():
        dtype = getattr(torch, ir.DType(name).torch_name)
        capsule = torch._C._to_dlpack(torch.empty(1, dtype=dtype))
        tensor = wrapper_ir_native.api.DLTensor.from_address(get_pointer(capsule, b"dltensor"))
        assert (tensor.code, tensor.bits, tensor.lanes) == (kind.code, kind.bits, kind.lanes), name
