"""An emitter that imports only `wrapper_ir` computes the runtime's launches from an artifact."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, Launched, fake_image, number
from packages.triton_runtime.tests.triton_texts import HEAD

from triton_runtime import KernelError, Launchable, TritonOptions, TritonRuntime
from triton_runtime.cuda import CudaDriver
from triton_runtime.settings import Settings
from wrapper_ir import ir, load, parse_program, save
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.json.kernel_hash import find_binary
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.ahead import compile_ahead
from wrapper_ir_runtime.cache import CacheSettings
from wrapper_ir_runtime.kernels import load_kernels

WALK = Path(__file__).with_name("walk_binaries.py")

PROGRAM = f"""
wir 0.5
target cuda:0 arch "sm_90"

kernel triton @add entry "add" (read f32* x divisible(16), write f32* out divisible(16), i32 n, f32 scale, i64 unused)
  order(unused, x, scale, one, out, n, BLOCK)
  constants(one = 1)
  configs({{BLOCK = 128}} warps(4) stages(1), {{BLOCK = 64}} warps(2) stages(1))
  grid(ceildiv(n, BLOCK), rows, max(1, unused - 2)) over(rows)
  {{{{{{
{HEAD}
@triton.jit
def add(unused, x, scale, one, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) * scale + one + unused, mask=inside)
}}}}}}

kernel triton @blocks entry "blocks" (read f16[] x block(B, 64), write f16[] out block(B, 64), i32 n)
  order(x, out, n, B)
  configs({{B = 32}} warps(4) stages(1) options(num_ctas = 1))
  grid(ceildiv(n, B), 2)
  {{{{{{
{HEAD}
@triton.jit
def blocks(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B
    j = tl.program_id(1) * 64
    out.store([i, j], x.load([i, j]) * 2)
}}}}}}

kernel triton @rows entry "rows" (read f32* x, write f32* out, i32 n)
  order(x, out, n, B)
  configs({{B = 64}} warps(8) stages(1))
  grid(n)
  {{{{{{
{HEAD}
@triton.jit
def rows(x, out, n, B: tl.constexpr):
    descriptor = tl.make_tensor_descriptor(x, [n, B], [B, 1], [1, B])
    i = tl.program_id(0)
    total = tl.sum(descriptor.load([i, 0]), 1)
    tl.store(out + i + tl.arange(0, 1), total)
}}}}}}

kernel triton @pairs entry "pairs" (read f32* x, write f32* out, i32 n)
  order(x, out, n, B)
  configs({{B = 1024}} warps(4) stages(1) options(num_ctas = 2))
  grid(n)
  cooperative
  {{{{{{
{HEAD}
@triton.jit
def pairs(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at) + n)
}}}}}}

func @main() {{
  return
}}
"""


@dataclass(slots=True, kw_only=True)
class Disguised(CudaDriver):
    """Replaces images for the fake driver, which reads no cubin, and records the source of each kernel."""

    loaded: dict[str, ir.KernelBinary] = field(default_factory=dict)

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """See `CudaDriver.load`."""
        assert launchable.binary is not None
        self.loaded[launchable.kernel.name] = launchable.binary
        disguised = replace(
            launchable.binary, image=fake_image(launchable.binary, launchable.binary.facts.symbol)
        )
        return CudaDriver.load(self, replace(launchable, binary=disguised), ir.CPU)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Settings]:
    """A file with the kernels for two architectures, and the settings of their compilation."""
    root = tmp_path_factory.mktemp("walk")
    settings = Settings(cache=CacheSettings(folder=root / "cache", fallback=root / "fallback"), jobs=1)
    runtime = TritonRuntime(settings=settings)
    artifact = bare_artifact(parse_program(PROGRAM))
    bare = replace(artifact.program, kernels=artifact.program.kernels[:1])
    both = compile_ahead(replace(artifact, program=bare), archs=("sm_80", "sm_90"), find=lambda kind: runtime)
    rest = compile_ahead(
        replace(artifact, program=replace(bare, kernels=artifact.program.kernels[1:])),
        find=lambda kind: runtime,
    )
    save(replace(artifact, binaries=both.binaries + rest.binaries), root / "m.wir")
    return root / "m.wir", settings


def walked(path: Path, kernel: str, target: str, args: list[Any]) -> dict[str, Any]:  # Any: JSON
    arguments_json = [
        [x.data_ptr(), [*x.shape], [*x.stride()]] if isinstance(x, torch.Tensor) else x for x in args
    ]
    command = [sys.executable, str(WALK), str(path), kernel, target, json.dumps(arguments_json)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def launched(carried: tuple[Path, Settings], fake: FakeCuda, name: str, args: list[Any]) -> Launched:
    """The runtime's calls of the driver for the same file; nothing is compiled."""
    path, settings = carried
    original = fake.driver()
    driver = Disguised(options=original.options, settings=original.settings)
    runtime = TritonRuntime(
        settings=replace(settings, cache=replace(settings.cache, folder=path.parent / "empty")),
        options=TritonOptions(driver=driver),
    )
    artifact = load(path)
    kernels = load_kernels(
        [artifact.program.kernel(name)], artifact.program.target, lambda kind: runtime, artifact.binaries
    )
    assert (runtime.stats.compiled, runtime.stats.carried) == (0, 1)
    assert driver.loaded[name] in artifact.binaries
    kernels[name](*args)
    (launch,) = fake.launches()
    return launch


COOPERATIVE, CLUSTER = 2, 4


def check(walk: dict[str, Any], launch: Launched, fake: FakeCuda) -> None:
    """The computed launch equals the driver's."""
    assert walk["imported"] == [], "the core alone"
    assert walk["kind"] == "cubin"
    function = fake.function(launch)
    assert walk["symbol"] == function.symbol.decode()
    assert (tuple(walk["grid"]), tuple(walk["block"]), walk["shared"]) == (
        launch.grid,
        launch.block,
        launch.shared,
    )
    assert tuple(walk["cluster"]) == launch.attributes.get(CLUSTER, (1, 1, 1))
    assert walk["cooperative"] == (COOPERATIVE in launch.attributes)
    assert [nbytes for _, nbytes, _ in walk["params"]] == [*function.sizes[: function.count]]
    maps = iter(launch.maps)
    for (kind, _, value), parameter in zip(walk["params"], launch.params, strict=True):
        match kind:
            case "scratch" | "profile":
                assert (parameter != 0) == (value[0] > 0)
            case "tensor_map":
                address, sizes, strides, box, element, swizzle = value
                words = next(maps)
                assert words[0] == address
                assert words[1] & ~(1 << 21) == swizzle << 32 | element << 8 | len(sizes)
                assert (words[2], words[3], words[7]) == (sizes[1], sizes[0], 2 * strides[0])
                assert words[12] == box[0] << 12 | box[1]
            case "number" if isinstance(value, float):
                assert parameter == number("f", value)
            case _:
                assert parameter == value, kind


def test_grid_arguments_and_facts(carried: tuple[Path, Settings], fake: FakeCuda) -> None:
    """Constants are folded, arguments are in the function's order, and numbers of the grid are not
    parameters.
    """
    x, out = torch.empty(1000), torch.empty(1000)
    args: list[Any] = [x, out, 1000, 0.5, 7, 3]
    walk = walked(carried[0], "add", "cuda:sm_90", args)
    assert walk["grid"] == [8, 3, 5]
    assert [kind for kind, _, _ in walk["params"]] == [
        *("number", "pointer", "number", "pointer", "number"),
        *("scratch", "profile"),
    ]
    check(walk, launched(carried, fake, "add", args), fake)


def test_descriptors_are_expanded(carried: tuple[Path, Settings], fake: FakeCuda) -> None:
    x = torch.empty(100, 400, dtype=torch.float16)[:, 40:168]
    out = torch.empty(100, 128, dtype=torch.float16)
    walk = walked(carried[0], "blocks", "cuda:sm_90", [x, out, 100])
    assert [kind for kind, _, _ in walk["params"][:5]] == ["tensor_map", "size", "size", "stride", "stride"]
    check(walk, launched(carried, fake, "blocks", [x, out, 100]), fake)


def test_clusters_and_cooperation(carried: tuple[Path, Settings], fake: FakeCuda) -> None:
    x, out = torch.empty(10, 1024), torch.empty(10, 1024)
    walk = walked(carried[0], "pairs", "cuda:sm_90", [x, out, 10])
    assert (walk["cluster"], walk["cooperative"], walk["grid"]) == ([2, 1, 1], True, [20, 1, 1])
    check(walk, launched(carried, fake, "pairs", [x, out, 10]), fake)


def test_scratch_memory(carried: tuple[Path, Settings], fake: FakeCuda) -> None:
    x, out = torch.empty(10, 64), torch.empty(10)
    walk = walked(carried[0], "rows", "cuda:sm_90", [x, out, 10])
    assert walk["params"][-2][2][0] > 0
    check(walk, launched(carried, fake, "rows", [x, out, 10]), fake)


def test_targets_are_side_by_side(carried: tuple[Path, Settings]) -> None:
    """Looked up by kernel, config and target."""
    artifact = load(carried[0])
    kernel = artifact.program.kernel("add")
    assert isinstance(kernel, ir.TritonKernel)
    first, second = kernel.configs
    entries = {
        (arch, config): find_binary(artifact.binaries, kernel, config, f"cuda:{arch}")
        for arch in ("sm_80", "sm_90", "sm_100")
        for config in (first, second)
    }
    assert [key for key, binary in entries.items() if binary is not None] == [
        ("sm_80", first),
        ("sm_90", first),
    ]
    old, new = entries["sm_80", first], entries["sm_90", first]
    assert old is not None
    assert new is not None
    assert old.image != new.image
    assert (old.params, old.config) == (new.params, new.config)


def test_the_table_is_readable(carried: tuple[Path, Settings], tmp_path: Path) -> None:
    """A version and all facts of a launch, beside the file of the image and its hash."""
    with zipfile.ZipFile(carried[0]) as file:
        table = json.loads(file.read("binaries.json"))
        row = table["binaries"][1]
        image = file.read(row["file"])
    assert table["version"] == 2
    assert (row["target"], row["kind"], row["file"]) == (
        "cuda:sm_90",
        "cubin",
        f"binaries/{row['key']}.cubin",
    )
    assert hashlib.sha256(image).hexdigest() == row["image"]
    assert row["config"]["meta"] == [["BLOCK", 128]]
    assert row["facts"]["num_warps"] == 4
    assert row["params"][1] == {"kind": "pointer", "dtype": "f32", "position": 0, "divisible": 16}


def test_parameters_that_are_not_passed_are_refused(carried: tuple[Path, Settings], fake: FakeCuda) -> None:
    """An artifact cannot make the launcher read beyond a launch's arguments."""
    artifact = load(carried[0])
    original = fake.driver()
    for change in (
        {"position": 99},
        {"position": -7},
        {"kind": ir.DriverParamKind.SIZE},
        {"kind": ir.DriverParamKind.TENSOR_MAP},
    ):
        odd = tuple(
            replace(b, params=(replace(b.params[0], **change), *b.params[1:])) for b in artifact.binaries
        )
        driver = Disguised(options=original.options, settings=original.settings)
        runtime = TritonRuntime(settings=carried[1], options=TritonOptions(driver=driver))
        with pytest.raises(KernelError, match="TR109"):
            runtime.with_binaries(odd).load(artifact.program.kernel("add"), artifact.program.target)
