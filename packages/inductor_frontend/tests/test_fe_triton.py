"""Triton kernels in captured programs: for a GPU that this machine does not have, and for CPU tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.process_state import State, unchanged
from torch import nn
from torch._dynamo import device_interface
from torch._inductor import config as inductor_config
from torch._inductor.constant_folding import ConstantFolder
from torch._subclasses import fake_tensor

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.devices import DEVICES, stand_in
from inductor_frontend.kernels import cpp_definition
from tests.common import zoo
from tests.common.torch_versions import golden_file, since
from wrapper_ir import ir
from wrapper_ir.expr import print_expr
from wrapper_ir.json import from_json, to_json
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.text import parse_program, print_program

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

Model = Callable[..., Any]  # Any: what models return
GOLDEN = Path(__file__).parent / "golden"
X = torch.randn(4, 16)


def example() -> str:
    """Returns a program of a matmul and a normalization."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.LayerNorm(8)).eval()
    return print_program(capture(model, (torch.randn(4, 16),), target="cuda:sm_90").program)


def kernels(program: ir.Program) -> dict[str, ir.TritonKernel]:
    """Returns the kernels by Inductor's names without their numbers, which describe their operations."""
    by_name = {}
    for kernel in program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        by_name[kernel.name.removeprefix("triton_").rsplit("_", 1)[0]] = kernel
    return by_name


def offline(model: Model, *args: torch.Tensor, target: str = "cuda:sm_90", **config: object) -> ir.Program:
    with inductor_config.patch({name.replace("__", "."): value for name, value in config.items()}):
        return capture(model, args, target=target).program


def the_kernel(program: ir.Program) -> ir.TritonKernel:
    (kernel,) = program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    return kernel


@pytest.mark.parametrize("trained", [True, False])
def test_matmuls_decompose_as_on_the_device(trained: bool) -> None:
    """Inductor flattens a batch to one matrix if the other operand requires gradients, as weights do."""

    class Matmul(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 8), requires_grad=trained)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    x = torch.randn(3, 4, 16).transpose(0, 1)
    here, there = (capture(Matmul(), (x,), target=target).program for target in (None, "cuda:sm_90"))
    matmul = "aten::mm.out" if trained else "aten::bmm.out"
    for program in (here, there):
        targets = {op.target for op in program.main.ops_of(ir.CallExtern)}
        assert matmul in targets


def test_vector_instructions_of_this_machine_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor detects them by compiling and running programs, which takes half a minute the first time."""

    def ask() -> None:
        raise AssertionError("asked for the CPU's vector instructions")

    monkeypatch.setattr(cpp_definition, "_isa", ask)
    offline(torch.nn.functional.gelu, X)
    with pytest.raises(AssertionError, match="vector instructions"):
        capture(nn.GELU(), (X,))


def storages(program: ir.Program) -> list[ir.AllocStorage]:
    return list(program.main.ops_of(ir.AllocStorage))


def grid(kernel: ir.TritonKernel) -> list[str]:
    return [print_expr(e) for e in kernel.grid]


class TestForms:
    """Programs are verified (by every capture), and survive text and JSON."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["mlp", "gpt2", "lstm"])
    def test_models(self, name: str) -> None:
        case = getattr(zoo, name)()
        program = capture(case.model, case.args, case.kwargs, target="cuda:sm_90").program
        assert program.target.arch == "sm_90"
        assert all(isinstance(k, ir.TritonKernel) for k in program.kernels)
        text = print_program(program)
        assert print_program(parse_program(text)) == text
        assert from_json(to_json(program)) == program

    @pytest.mark.skipif(not since("2.13"), reason="the text of kernels is that of the newest torch")
    def test_golden(self, update_golden: bool) -> None:
        text = print_program(
            offline(lambda x, y: (x * y + 1).relu().sum(-1), torch.randn(64, 300), torch.randn(300))
        )
        path = golden_file(GOLDEN / "triton_reduction.wir.txt")
        if update_golden:
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")


class TestOffline:
    def test_constants_stay_here_and_say_there(self) -> None:
        model = nn.Linear(16, 8).eval()
        artifact = capture(model, (X,), target="cuda:sm_90")
        assert {c.value.name for c in artifact.program.constants} == {"weight", "bias"}
        types = [c.value.type for c in artifact.program.constants]
        assert all(isinstance(t, ir.TensorType) and t.device == ir.Device("cuda", 0) for t in types)
        weight = bytes(artifact.constants["weight"].buffer)
        assert weight == model.weight.detach().numpy().tobytes()

    def test_inputs_are_aligned_as_kernels_expect(self) -> None:
        program = offline(lambda x: x * 2, X)
        assert "ensure_aligned %x, 16" in print_program(program)
        assert {p.divisible for p in the_kernel(program).params} == {16}

    def test_dynamic_sizes(self) -> None:
        shapes = ({0: torch.export.Dim("batch")},)
        program = capture(lambda x: x * 2, (X,), target="cuda:sm_90", dynamic_shapes=shapes).program
        (launch,) = program.main.ops_of(ir.Launch)
        assert not isinstance(launch.args[-1], int)
        assert grid(the_kernel(program)) == ["ceildiv(xnumel, XBLOCK)"]

    def test_a_model_that_asks_where_it_is(self) -> None:
        def model(x: torch.Tensor) -> torch.Tensor:
            y = torch.arange(16, device=x.device) + torch.zeros(16).to("cuda")
            return x[0] * y if x.is_cuda else x[0] - y

        text = print_program(offline(model, X))
        assert "tmp0 * " in text or " * tmp" in text
        assert "cpu" not in text.partition("provenance")[0]

    def test_architectures_differ_as_their_tables_do(self) -> None:
        """The number of programs of a cooperative reduction is limited by the number of multiprocessors."""
        for arch, gpu in DEVICES.items():
            program = offline(
                lambda x: x.sum(-1),
                torch.randn(4, 100_000),
                target=f"cuda:{arch}",
                triton__force_cooperative_reductions=True,
            )
            assert program.target.arch == arch
            kernel = the_kernel(program)
            assert kernel.multiprocessors == gpu.multi_processor_count
            together = 4 * int(str(dict(kernel.configs[0].meta)["RSPLIT"]))
            assert gpu.multi_processor_count // 4 < together <= gpu.multi_processor_count

    def test_a_gpu_that_is_not_in_the_table(self) -> None:
        gpu = replace(DEVICES["sm_90"], name="another", minor=2)
        options = CaptureOptions(gpu=gpu)
        program = capture(lambda x: x * 2, (X,), target="cuda:sm_92", options=options).program
        assert program.target.arch == "sm_92"
        with pytest.raises(CaptureError, match=r"FE103.*sm_90.*sm_92"):
            capture(lambda x: x * 2, (X,), target="cuda:sm_90", options=options)

    def test_copies_to_the_host(self) -> None:
        program = offline(lambda x: ((x + 1).cpu() * 2, x.to("cpu", torch.float64)), X)
        copies = list(program.main.ops_of(ir.Copy))
        types = [v.type for c in copies for v in (c.src, c.dst)]
        operands = [(str(t.device), t.dtype) for t in types]
        assert operands == [
            (place, dtype) for dtype in (ir.DType.F32, ir.DType.F64) for place in ("cuda:0", "cpu")
        ]
        assert {k.kind for k in program.kernels} == {"triton", "cpp"}

    @pytest.mark.slow
    def test_another_process_captures_the_same(self) -> None:
        there = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "packages.inductor_frontend.tests.test_fe_triton"],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout == example()
        assert "kernel triton" in there.stdout


class TestKinds:
    def test_in_place(self) -> None:
        kernel = the_kernel(offline(nn.Sequential(nn.Linear(16, 32), nn.ReLU()), X))
        first = kernel.params[0]
        assert (first.name, first.access) == ("in_out_ptr0", ir.Access.READWRITE)
        assert kernel.restore == ("in_out_ptr0",)

    def test_reduction(self) -> None:
        kernel = the_kernel(offline(lambda x: x.softmax(-1), torch.randn(64, 5000)))
        assert kernel.heuristic == "reduction"
        assert kernel.derive == (ir.Derivation.SCALED_REDUCTION,)
        assert dict(kernel.size_hints) == {"x": 64, "r0_": 8192}
        assert all({n for n, _ in c.meta} == {"XBLOCK", "R0_BLOCK"} for c in kernel.configs)
        assert len(kernel.configs) > 1

    def test_persistent_reduction(self) -> None:
        kernel = the_kernel(offline(nn.LayerNorm(768), torch.randn(8, 768)))
        assert kernel.heuristic == "persistent_reduction"
        assert kernel.derive == ()
        assert "R0_BLOCK" not in kernel.order

    def test_a_number_that_is_one_is_a_constant(self) -> None:
        kernel = the_kernel(offline(lambda x: x.sum(), torch.randn(100)))
        assert kernel.constants == (("xnumel", 1),)
        assert "xnumel" in kernel.order
        assert "xnumel" not in {p.name for p in kernel.params}

    def test_two_dimensions(self) -> None:
        kernel = the_kernel(offline(lambda a, b: a + b.t(), torch.randn(300, 200), torch.randn(200, 300)))
        assert grid(kernel) == ["ceildiv(xnumel, XBLOCK)", "ceildiv(ynumel, YBLOCK)"]

    def test_split_scan(self) -> None:
        program = offline(lambda x: x.cumsum(0), torch.randn(1_000_000))
        kernel = the_kernel(program)
        assert kernel.heuristic == "split_scan"
        assert grid(kernel) == ["ceildiv(r0_numel, R0_BLOCK)", "xnumel"]
        (scratch,) = (s for s in storages(program) if s.purpose is ir.AllocPurpose.WORKSPACE)
        assert scratch.zero is ir.ZeroMode.CALL

    def test_cooperative_reduction(self) -> None:
        program = offline(
            lambda x: x.sum(-1), torch.randn(4, 100_000), triton__force_cooperative_reductions=True
        )
        kernel = the_kernel(program)
        assert kernel.cooperative
        assert kernel.multiprocessors == 132
        assert grid(kernel) == ["RSPLIT", "ceildiv(xnumel, XBLOCK)"]
        scratch = [s for s in storages(program) if s.purpose is ir.AllocPurpose.WORKSPACE]
        assert {s.zero for s in scratch} == {ir.ZeroMode.ONCE, ir.ZeroMode.NONE}
        assert {p.name: p.access for p in kernel.params}["ws_ptr"] is ir.Access.WRITE

    def test_foreach(self) -> None:
        args = [torch.randn(n) for n in (10, 2000, 10, 2000)]
        kernel = the_kernel(offline(lambda a, b, c, d: torch._foreach_add([a, b], [c, d]), *args))
        assert kernel.heuristic == "foreach"
        assert grid(kernel) == ["3"]  # blocks of 1024

    def test_combo(self) -> None:
        program = offline(lambda a, b: (a + 1, b * 2), X[0], torch.randn(30, 20), combo_kernels=True)
        assert grid(the_kernel(program)) == ["ceildiv(16, XBLOCK) + ceildiv(600, XBLOCK)"]

    def test_a_part_of_an_output(self) -> None:
        """A scatter preserves the rest of its destination."""
        index = torch.randint(0, 4, (3, 16))
        program = offline(lambda x, i, s: x.scatter_add(0, i, s), X, index, torch.randn(3, 16))
        accesses = [
            p.access for p in kernels(program)["poi_fused_scatter_add"].params if p.name == "out_ptr0"
        ]
        assert accesses == [ir.Access.READWRITE]

    def test_source_is_plain(self) -> None:
        source = the_kernel(offline(nn.LayerNorm(768), torch.randn(8, 768))).source
        assert source.startswith("import triton\nimport triton.language as tl\n")
        for word in ("heuristics", "set_driver", "DeviceProperties", "async_compile"):
            assert word not in source

    def test_options_of_the_compiler(self) -> None:
        """Options that differ from Triton's own defaults are stored."""

        def options(**config: bool) -> dict[str, object]:
            return dict(the_kernel(offline(lambda x: x * 2 + 1, X, target="cuda:sm_90", **config)).options)

        assert options() == {}
        assert options(emulate_precision_casts=True) == {"enable_fp_fusion": False}
        assert options(triton__enable_pdl=True) == {"launch_pdl": True}

    def test_identity(self) -> None:
        """The same computation in another program is the same kernel; a different constant is a different
        kernel."""
        a = the_kernel(offline(lambda x: x * 2, X))
        b = the_kernel(offline(lambda y: y * 2, X.clone()))
        c = the_kernel(offline(lambda x: x * 3, X))
        assert content_hash(a) == content_hash(b) != content_hash(c)

    def test_identity_of_a_layer(self) -> None:
        """A layer's kernels are equal in all models and positions: one compiled and tuned kernel serves
        all."""
        layer = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())
        alone = offline(layer, X)
        behind = offline(nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.Softmax(-1), layer), X)
        assert len(behind.kernels) > len(alone.kernels)
        assert {content_hash(k) for k in alone.kernels} < {content_hash(k) for k in behind.kernels}
        assert {k.name for k in alone.kernels} != {k.name for k in behind.kernels}


def devices() -> State:
    """Returns the state that the stand-in replaces temporarily."""
    names = ("is_available", "device_count", "get_device_properties", "_lazy_init", "get_rng_state")
    return {
        "interfaces": dict(device_interface.device_interfaces),
        "cuda": [getattr(torch.cuda, name) for name in names],
        "fake": (vars(fake_tensor.FakeTensorMode)["avoid_device_init"], fake_tensor.init_gpu_context),
        "folding": ConstantFolder.run_node,
        "has": (torch.cuda.is_available(), torch.utils._triton.has_triton()),
    }


class TestIsolation:
    def test_a_capture(self) -> None:
        model = nn.Sequential(nn.Linear(16, 8), nn.LSTM(8, 4)).eval()
        identities = {name: id(p) for name, p in model.named_parameters()}
        offline(model, X)
        with unchanged(), unchanged(devices):
            offline(model, X)
        assert {name: id(p) for name, p in model.named_parameters()} == identities
        torch.testing.assert_close(model(X)[0], model(X.clone())[0])

    def test_a_capture_that_fails(self) -> None:
        class Fails(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(16))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                assert self.weight.is_cuda
                raise KeyError("on purpose")

        model = Fails()
        with unchanged(devices), pytest.raises(CaptureError, match="on purpose"):
            offline(model, X)
        assert model.weight.device.type == "cpu"
        assert not isinstance(model.weight, fake_tensor.FakeTensor)

    def test_cpu_captures_afterwards_are_as_before(self) -> None:
        model = nn.Linear(16, 8).eval()
        before = capture(model, (X,)).program
        offline(model, X)
        assert capture(model, (X,)).program == before

    def test_an_interrupt(self) -> None:
        @contextmanager
        def interrupted() -> Iterator[None]:
            with pytest.raises(KeyboardInterrupt):
                yield

        with unchanged(devices), interrupted(), stand_in(DEVICES["sm_80"]):
            assert torch.cuda.get_device_capability() == (8, 0)
            raise KeyboardInterrupt


if __name__ == "__main__":
    print(example(), end="")
