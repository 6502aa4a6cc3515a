"""Tensor descriptors: Triton's metadata, and the encoding of their tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, clauses, load
from packages.triton_runtime.tests.triton_texts import kernel_of

from triton_runtime import LaunchError, TritonRuntime
from triton_runtime.compile.compiler import DescriptorFacts, tensor_map
from triton_runtime.compile.params import driver_params
from triton_runtime.cuda.slots import make_slots
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir_runtime.cache import CacheSettings

PARAMS = "read f16[] a block(64, 32), i32 n, read f32[] b block(16)"
MAPS = tuple(
    tensor_map(facts)
    for facts in (
        DescriptorFacts(swizzle=3, elem_size=2, elem_type=6, block_size=[64, 32], fp4_padded=False),
        DescriptorFacts(swizzle=0, elem_size=4, elem_type=9, block_size=[16], fp4_padded=True),
    )
)
BIT = 1 << 21


def test_maps_are_encoded_from_the_tensors(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(fake.driver(), PARAMS, clauses(["a", "n", "b"]), maps=MAPS)
    whole, b = torch.empty(100, 400, dtype=torch.float16), torch.empty(24)
    a = whole[:, 40:240]
    kernel(a, 7, b)
    (launch,) = fake.launches()
    first, second = launch.maps
    assert first[0] == a.data_ptr()
    assert first[1] == 3 << 32 | 6 << 8 | 2, "the bit that old drivers set for small tensors is cleared"
    assert (first[2:4], first[7]) == ((200, 100), 800), "sizes from the innermost on, strides in bytes"
    assert first[12] == 64 << 12 | 32
    assert second[0] == b.data_ptr()
    assert second[1] == 8 << 8 | 1, "element types go by the host's numbers"
    assert (second[2], second[12]) == (48, 16), "packed elements count twice"
    assert launch.params[1:5] == (100, 200, 400, 1)
    assert launch.params[5] == 7
    assert launch.params[7:] == (24, 1, 0, 0)
    large = torch.empty(400, 400, dtype=torch.float16)
    kernel(large, 7, b)
    assert fake.launches()[0].maps[0][1] & BIT, "tensors of 128 KiB and more keep it"
    monkeypatch.setenv("FAKE_CUDA_NEW", "1")
    kernel(a, 7, b)
    assert fake.launches()[0].maps[0][1] & BIT, "newer drivers are right"
    kernel(a[:0], 7, b)
    assert fake.launches()[0].maps[0] == (0,) * 16, "nothing to read"


def test_without_maps_sizes_and_strides_are_passed(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), PARAMS, clauses(["a", "n", "b"]))
    a, b = torch.empty(100, 400, dtype=torch.float16)[:, 1:201], torch.empty(24)
    kernel(a, 7, b)
    (launch,) = fake.launches()
    assert launch.params[:9] == (a.data_ptr(), 100, 200, 400, 1, 100, 200, 400, 1)
    assert launch.params[9:] == (7, b.data_ptr(), 24, 1, 24, 1, 0, 0)


def test_tensors_that_do_not_fit_are_refused(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), PARAMS, clauses(["a", "n", "b"]), maps=MAPS)
    a, b = torch.empty(64, 64, dtype=torch.float16), torch.empty(24)
    for args, message in (
        (
            (a.t(), 1, b),
            r"TR302.*'a'.*2 dimensions, the last of stride 1, got sizes \(64, 64\) and strides \(1, 64\)",
        ),
        ((a[0], 1, b), r"TR302.*'a'.*2 dimensions"),
        ((a.float(), 1, b), r"TR302.*'a'.*a f16 tensor on cpu, got a float32"),
        ((None, 1, b), r"TR302.*'a'"),
    ):
        with pytest.raises(LaunchError, match=message):
            kernel(*args)
        kernel(a, 1, b)
        assert len(fake.launches()) == 1
    fake.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(
        LaunchError, match=r"TR308.*could not describe a tensor(.|\n)*hint: the address and strides"
    ):
        kernel(a, 1, b)


SOURCE = """
@triton.jit
def f(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B
    j = tl.program_id(1) * 64
    out.store([i, j], x.load([i, j]) * 2)
"""


@pytest.mark.parametrize("arch", ["sm_90", "sm_80"])
def test_compiled_kernels_take_the_parameters_that_are_passed(tmp_path: Path, arch: str) -> None:
    """With and without tensor maps, the compiler's parameters equal ours."""
    settings = Settings(
        cache=CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback"), jobs=1
    )
    kernel = kernel_of(
        "read f32[] x block(B, 64), write f32[] out block(B, 64), i32 n",
        "\n  order(x, out, n, B)\n  configs({B = 32} warps(4) stages(1))\n  grid(ceildiv(n, B), 2)\n",
        SOURCE,
        entry="f",
    )
    runtime = TritonRuntime(settings=settings)
    binary = runtime.compile([kernel], ir.Target(device=ir.Device("cuda"), arch=arch))[kernel.name]
    params = driver_params(kernel.name, runtime.launchable(kernel).binding, binary)
    slots = make_slots(params, 3, lambda dtype: 0)
    assert [bool(slot.descriptor and slot.descriptor.map) for slot in slots] == [arch == "sm_90"] * 2 + [
        False
    ]
    head = binary.assembly.split(".entry", 1)[1].split("{", 1)[0]
    assert len(params) == head.count(".param")
