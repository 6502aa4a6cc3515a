"""Compares the parameters of Triton's compiler with the launcher's, and reuses compiled kernels."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda
from packages.triton_runtime.tests.triton_texts import add_kernel, kernel_of

from triton_runtime import CompileError, TritonRuntime
from triton_runtime.compile.params import driver_params
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir_runtime.cache import CacheSettings

TARGET = ir.Target(device=ir.Device("cuda"), arch="sm_90")
SCALARS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "bool")

SOURCE = """
@triton.jit
def store_all(out, {names}):
    tl.store(out, {sum})
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    root = tmp_path_factory.mktemp("binaries")
    return Settings(cache=CacheSettings(folder=root / "cache", fallback=root / "fallback"), jobs=2)


def parameter_bits(assembly: str) -> list[int]:
    """The widths of a kernel's parameters: `.param .u8 name`, `.param .align 2 .b8 name[2]`."""
    head = assembly.split(".entry", 1)[1].split("{", 1)[0]
    params = re.findall(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^,\[\n]*(?:\[(\d+)\])?", head)
    return [int(bits) * int(count or 1) for bits, count in params]


def test_compiled_kernels_take_what_is_passed_and_are_found_by_the_next_runtime(settings: Settings) -> None:
    """The parameters in the compiler's assembly equal ours in number and width, including two pointers to
    scratch memory.
    """
    names = [f"a_{dtype}" for dtype in SCALARS]
    numbers = kernel_of(
        "write f64* out, " + ", ".join(f"{dtype} a_{dtype}" for dtype in SCALARS),
        f"\n  order(out, {', '.join(names)})\n  configs({{}} warps(2) stages(1))\n  grid(1)\n",
        SOURCE.format(names=", ".join(names), sum=" + ".join(f"{name}.to(tl.float64)" for name in names)),
        entry="store_all",
        name="numbers",
    )
    kernels = [numbers, add_kernel()]
    runtime = TritonRuntime(settings=settings)
    binaries = runtime.compile(kernels, TARGET)
    for kernel in kernels:
        binary = binaries[kernel.name]
        launchable = runtime.launchable(kernel)
        params = driver_params(kernel.name, launchable.binding, binary)
        assert [param.kind.value for param in params[-2:]] == ["scratch", "profile"]
        assert parameter_bits(binary.assembly) == [8 * param.nbytes for param in params], kernel.name
        assert binary.facts.symbol == kernel.entry
    again = TritonRuntime(settings=settings)
    assert again.compile(kernels, TARGET) == binaries
    assert (runtime.stats.reused, runtime.stats.compiled) == (0, 2)
    assert (again.stats.reused, again.stats.compiled) == (2, 0)


def test_a_shared_store_spares_compiling(settings: Settings, tmp_path: Path) -> None:
    """Entries of another machine's store, behind a URL, are read and stored locally."""
    kernel = add_kernel("shared")
    binaries = TritonRuntime(settings=settings).compile([kernel], TARGET)
    cache = replace(settings.cache, folder=tmp_path / "cache", shared=(f"file://{settings.cache.folder}",))
    here = replace(settings, cache=cache)
    runtime = TritonRuntime(settings=here)
    assert runtime.compile([kernel], TARGET) == binaries
    assert (runtime.stats.reused, runtime.stats.compiled) == (1, 0)
    alone = TritonRuntime(settings=replace(here, cache=replace(cache, shared=())))
    assert alone.compile([kernel], TARGET) == binaries
    assert (alone.stats.reused, alone.stats.compiled) == (1, 0)


def test_poisoned_entries_are_compiled_again(settings: Settings) -> None:
    kernel = add_kernel("poisoned")
    good = TritonRuntime(settings=settings).compile([kernel], TARGET)
    assert settings.cache.folder is not None
    for path in settings.cache.folder.glob("1/triton/*/*/data"):
        path.write_bytes(path.read_bytes()[:-7] + b"poison!")
    runtime = TritonRuntime(settings=settings)
    with pytest.warns(RuntimeWarning, match=r"WIR254.*damaged"):
        assert runtime.compile([kernel], TARGET) == good
    assert (runtime.stats.reused, runtime.stats.compiled) == (0, 1)


def test_a_compiler_error_leaves_nothing_and_the_next_kernel_works(settings: Settings) -> None:
    broken = kernel_of(
        "write f32* out",
        "\n  order(out)\n  configs({} warps(4) stages(1))\n  grid(1)\n",
        "\n@triton.jit\ndef broken(out):\n    tl.store(out, tl.no_such_function(1))\n",
        entry="broken",
    )
    runtime = TritonRuntime(settings=settings)
    with pytest.raises(CompileError, match="TR201"):
        runtime.compile([broken], TARGET)
    assert set(runtime.compile([add_kernel()], TARGET)) == {"add"}


def test_a_runtime_loads_onto_the_driver_it_is_given(
    settings: Settings, fake: FakeCuda, tmp_path: Path
) -> None:
    """From definition to launch; only the image is the fake driver's, since no cubin runs here."""
    import torch

    from triton_runtime import Launchable, TritonOptions
    from triton_runtime.cuda import CudaDriver
    from wrapper_ir.plugins.protocols import LoadedKernel

    class Renaming(CudaDriver):
        def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
            assert launchable.binary is not None
            assert launchable.binary.image.startswith(b"\x7fELF")
            image = b"symbol=add sizes=8,8,8,4,8,8"
            return CudaDriver.load(
                self, replace(launchable, binary=replace(launchable.binary, image=image)), ir.CPU
            )

    original = fake.driver()
    driver = Renaming(options=original.options, settings=original.settings)
    kernel = TritonRuntime(settings=settings, options=TritonOptions(driver=driver)).load(add_kernel(), TARGET)
    x = torch.empty(1000)
    kernel(x, x, x, 1000)
    (launch,) = fake.launches()
    assert (launch.grid, launch.block) == ((8, 1, 1), (128, 1, 1))
    assert launch.params[3] == 1000
