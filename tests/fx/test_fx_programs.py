"""Small programs that together contain every op, as graphs: values, lint, names, metadata, save and load,
memory.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

import fx_converter
from fx_converter import FxOptions
from fx_converter import targets as targets_of
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from tests.fx.fx_cases import BY_NAME, every_case, options, stored, wanted


def graph_of(name: str, form: KernelCalls = "direct") -> fx.GraphModule:
    return fx_converter.convert(artifact_of(BY_NAME[name]), options(form))


@both_forms
@every_case
class TestCase:
    def test_module(self, case: Case, form: KernelCalls) -> None:
        module = fx_converter.convert(artifact_of(case), options(form))
        module.graph.lint()
        inputs = case.inputs()
        assert_same(module(*inputs), wanted(case))
        if case.after is not None:
            after = case.after(*[x.clone() for x in case.inputs()][: case.after.__code__.co_argcount])
            assert_same(tuple(inputs[: len(after)]), tuple(after))

    def test_boxed(self, case: Case, form: KernelCalls) -> None:
        run = fx_converter.compile(artifact_of(case), options(form))
        args = case.inputs()
        assert_same(run.boxed(args), wanted(case))
        assert args == []

    def test_metadata(self, case: Case, form: KernelCalls) -> None:
        """Every node has a value; those of tensors are fake, with the layout that the program declares."""
        module = fx_converter.convert(artifact_of(case), options(form))
        for graph in (m for m in module.modules() if isinstance(m, fx.GraphModule)):
            for node in graph.graph.nodes:
                assert "val" in node.meta, node
                assert not isinstance(node.meta["val"], Tensor) or isinstance(node.meta["val"], FakeTensor)

    @pytest.mark.slow
    def test_saved(self, case: Case, form: KernelCalls, tmp_path: Path) -> None:
        module = fx_converter.convert(stored(artifact_of(case)), options(form))
        fx_converter.save(module, tmp_path / "graph.wir")
        again = fx_converter.load(tmp_path / "graph.wir", options(form))
        assert str(again.graph) == str(module.graph)
        vals = [[str(n.meta["val"]) for n in m.graph.nodes if n.op != "output"] for m in (module, again)]
        assert vals[0] == vals[1]
        assert_same(again(*case.inputs()), wanted(case))


# --- what graphs look like


def test_nodes_are_named_as_values() -> None:
    names = [node.name for node in graph_of("mlp").graph.nodes]
    assert {"x", "w", "s0", "buf0", "buf1", "buf2"} <= set(names)


def test_odd_names_are_in_the_metadata() -> None:
    nodes = graph_of("odd_names").graph.nodes
    values = [n.meta["value"] for n in nodes if n.op == "placeholder"]
    assert values == ["class", "torch", "a.b", "a_b", "2x"]


def test_provenance_is_where_torch_looks_for_it() -> None:
    by_name = {n.name: n for n in graph_of("mlp").graph.nodes}
    assert 'File "model.py", line 10' in by_name["buf0"].meta["stack_trace"]
    assert by_name["buf0"].meta["source_ops"] == ("aten.mm.default",)
    assert by_name["buf2"].meta["source_modules"] == ("layers.1",)
    assert by_name["buf2"].meta["from_nodes"] == ("add",)
    kernels = [n for n in by_name.values() if "kernel" in n.meta]
    assert [n.meta["kernel"] for n in kernels] == ["double", "increment"]
    assert all(len(n.meta["kernel_hash"]) == 64 for n in kernels)


def test_sizes_carry_the_programs_symbols() -> None:
    by_name = {n.name: n for n in graph_of("mlp").graph.nodes}
    assert str(by_name["s0"].meta["val"]) == "s0"
    assert str(by_name["x"].meta["val"].shape) == "torch.Size([s0, 8])"
    assert str(by_name["buf0"].meta["val"].shape) == "torch.Size([s0, 4])"
    unbacked = {n.name: n for n in graph_of("symbols").graph.nodes}
    assert str(unbacked["n"].meta["val"].stride()) == "(1, u0)"


def test_hop_graphs_call_operators_and_arithmetic_only() -> None:
    module = graph_of("mlp", "hop")
    called = [n.target for n in module.graph.nodes if n.op == "call_function"]
    kernels = [
        t for t in called if isinstance(t, torch._ops.OpOverload) and t.namespace == "wrapper_ir_kernels"
    ]
    assert len(kernels) == 2
    assert "Tensor(a1!)? p1_target" in str(kernels[0]._schema)
    assert torch.ops.aten.empty_strided.default in called


def test_a_kernel_is_registered_once() -> None:
    first, second = (
        [n.target for n in graph_of("mlp", "hop").graph.nodes if "kernel" in n.meta] for _ in range(2)
    )
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_equal_expressions_are_computed_once() -> None:
    nodes = graph_of("pool_of_one_dtype", "direct").graph.nodes
    matmuls = [n for n in nodes if n.op == "call_function" and getattr(n.target, "__name__", "") == "mul"]
    assert len({(n.target, n.args) for n in matmuls}) == len(matmuls)


def test_assertions_can_be_left_out() -> None:
    case = BY_NAME["mlp"]
    lean = options("direct", assertions=False, check_results=False)
    with_checks, without = (
        [str(n.target) for n in fx_converter.convert(artifact_of(case), o).graph.nodes]
        for o in (options("direct"), lean)
    )
    assert any("assert" in t for t in with_checks)
    assert not any("assert" in t for t in without)


def test_an_explicit_fake_mode_is_used() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    module = fx_converter.convert(artifact_of(BY_NAME["mlp"]), options("direct", fake_mode=mode))
    fakes = [n.meta["val"] for n in module.graph.nodes if isinstance(n.meta["val"], FakeTensor)]
    assert fakes
    assert all(f.fake_mode is mode for f in fakes)


def test_submodules_of_control_flow() -> None:
    module = graph_of("cond")
    targets = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
    assert targets.count("cond") == 1
    assert [n.target for n in module.graph.nodes if "cond_effect" in str(n.target)] == [
        targets_of.cond_effect
    ]
    assert targets.count("invoke_subgraph") == 1
    assert isinstance(module.double_it, fx.GraphModule)
    assert [n.name for n in module.double_it.graph.nodes if n.op == "placeholder"] == ["x", "n", "s0"]


@pytest.mark.parametrize("name", ["mlp", "pool_of_one_dtype", "results", "nested_arguments", "cond"])
def test_hop_graphs_are_traced_again(name: str) -> None:
    case = BY_NAME[name]
    module = fx_converter.convert(artifact_of(case), options("hop", convention="flat"))
    again = make_fx(module)(*case.inputs())
    assert_same(again(*case.inputs()), wanted(case))
    assert len(list(again.graph.nodes)) > 3


def test_a_graph_is_traced_again_with_symbolic_sizes() -> None:
    case = BY_NAME["mlp"]
    module = fx_converter.convert(artifact_of(case), options("hop", convention="flat"))
    again = make_fx(module, tracing_mode="symbolic")(*case.inputs())
    x, w = torch.randn(9, 8), torch.randn(8, 4)
    got = again(x, w)
    assert_same(got[:2], (x @ w * 2 + 1, 18))


# --- memory


def test_nothing_holds_what_is_freed() -> None:
    """A graph that frees the first buffer before the last op: then nothing refers to it."""
    case = BY_NAME["mlp"]
    seen: list[weakref.ref[Tensor]] = []
    alive: list[bool] = []
    module = fx_converter.convert(artifact_of(case), options("direct"))

    def watch(kernel: Any) -> Any:  # Any: a loaded kernel
        def run(*args: Any) -> None:
            kernel(*args)
            alive.append(any(r() is not None for r in seen))
            seen.append(weakref.ref(args[0]))

        return run

    for node in module.graph.nodes:
        if "kernel" in node.meta:
            node.target = watch(node.target)
    run = fx_converter.boxed_call(module)
    run(case.inputs())
    assert alive == [False, False]


# --- other processes

CHILD = """
import sys, torch, fx_converter
module = fx_converter.load(sys.argv[1])
inputs, want = torch.load(sys.argv[2], weights_only=True)
torch.testing.assert_close(module(*inputs), want)
assert not {"inductor_frontend", "py_wrapper"} & set(sys.modules)
print("equal", len(list(module.graph.nodes)))
"""


@pytest.mark.slow
@both_forms
def test_another_process_runs_a_saved_graph(form: KernelCalls, tmp_path: Path) -> None:
    """A captured model with C++ kernels, saved by this process."""
    import inductor_frontend

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).eval()
    x = torch.randn(3, 8)
    with torch.no_grad():
        artifact = inductor_frontend.capture(model, (x,))
        want = model(x)
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    fx_converter.save(module, tmp_path / "graph.wir")
    torch.save(([x], want), tmp_path / "data.pt")
    child = [sys.executable, "-c", CHILD, str(tmp_path / "graph.wir"), str(tmp_path / "data.pt")]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal")


def test_a_changed_graph_travels(tmp_path: Path) -> None:
    """A node and a tensor that no artifact knows."""
    case = BY_NAME["results"]
    module = graph_of("results")
    (relu,) = (n for n in module.graph.nodes if n.target is torch.ops.aten.relu.default)
    module.register_buffer("shift", torch.full((3,), 2.0))
    with module.graph.inserting_after(relu):
        shift = module.graph.get_attr("shift")
    with module.graph.inserting_after(shift):
        moved = module.graph.call_function(torch.ops.aten.add.Tensor, (relu, shift))
    relu.replace_all_uses_with(moved, delete_user_cb=lambda user: user.op == "output")
    module.recompile()
    fx_converter.save(module, tmp_path / "changed.wir")
    again = fx_converter.load(tmp_path / "changed.wir", options("direct"))
    values, indices = wanted(case)
    assert_same(again(*case.inputs()), (values + 2, indices))


def test_state_travels(tmp_path: Path) -> None:
    """The file has the value of a mutable constant at the time of saving."""
    case = BY_NAME["mutation"]
    module = fx_converter.convert(stored(artifact_of(case)), options("direct"))
    module(*case.inputs())
    fx_converter.save(module, tmp_path / "state.wir")
    again = fx_converter.load(tmp_path / "state.wir", options("direct"))
    assert_same(again(*case.inputs())[1], torch.full((4,), 2.0))
