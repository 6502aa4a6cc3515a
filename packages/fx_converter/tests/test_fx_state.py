"""Weights of graph modules: read, replaced, written, copied, and saved."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from packages.fx_converter.tests.linear_module import BIAS, WEIGHT, X, artifact, made, same, want
from torch import Tensor, fx, nn

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.errors import GraphPicklingError, SavedGraphError
from fx_converter.kernels import KernelCalls
from fx_converter.options import Convention
from fx_converter.origin import origin_of
from wrapper_ir import ir
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir.artifact import file as storage

FORMS: tuple[KernelCalls, ...] = ("direct", "hop")
both_forms = pytest.mark.parametrize("form", FORMS)


def replaced(module: fx.GraphModule) -> None:
    module.weight = nn.Parameter(WEIGHT + 1)


def other_buffer(module: fx.GraphModule) -> None:
    module.weight = WEIGHT + 1


def other_data(module: fx.GraphModule) -> None:
    module.weight.data = WEIGHT + 1


def other_storage(module: fx.GraphModule) -> None:
    assert isinstance(module.weight, Tensor)
    module.weight.set_((WEIGHT + 1).untyped_storage(), 0, (2, 3), (3, 1))


def written(module: fx.GraphModule) -> None:
    assert isinstance(module.weight, Tensor)
    module.weight.add_(1)


def assigned(module: fx.GraphModule) -> None:
    module.load_state_dict({"weight": WEIGHT + 1, "bias": BIAS}, assign=True)


def loaded(module: fx.GraphModule) -> None:
    module.load_state_dict({"weight": WEIGHT + 1, "bias": BIAS})


def a_plain_attribute(module: fx.GraphModule) -> None:
    del module.weight
    object.__setattr__(module, "weight", WEIGHT + 1)


Change = Callable[[fx.GraphModule], None]
CHANGES = [replaced, other_buffer, other_data, other_storage, written, loaded, assigned]


@both_forms
@pytest.mark.parametrize("change", [*CHANGES, a_plain_attribute])
def test_a_changed_weight_is_seen(change: Change, form: KernelCalls) -> None:
    module = made(form)
    same(module, want())
    change(module)
    for _ in range(2):
        same(module, want(WEIGHT + 1))


def test_a_weight_for_one_call() -> None:
    module = made()
    for added in (1, 2, 0):
        with torch.no_grad():
            (result,) = torch.func.functional_call(module, {"weight": WEIGHT + added}, (X,))
        torch.testing.assert_close(result, want(WEIGHT + added))
    same(module, want())


def test_a_missing_weight_is_named() -> None:
    module = made()
    del module.bias
    with pytest.raises(AttributeError, match="bias"):
        module(X)


@pytest.mark.parametrize("convention", ["flat", "model"])
def test_a_copy_is_a_module_of_its_own(convention: Convention, tmp_path: Path) -> None:
    module = made(convention=convention)
    twin = copy.deepcopy(module)
    assert twin.code == module.code
    assert isinstance(module.weight, Tensor)
    module.weight.zero_()
    same(twin, want())
    same(module, want(torch.zeros(2, 3)))
    held = {value.name: tensor for value, tensor in origin_of(twin).constants.items()}
    assert held == {"weight": twin.weight, "bias": twin.bias}, "a file of it would have each weight twice"
    fx_converter.save(twin, tmp_path / "graph.wir")
    same(fx_converter.load(tmp_path / "graph.wir"), want())


@both_forms
def test_pickle_says_how_a_graph_is_saved(form: KernelCalls) -> None:
    with pytest.raises(GraphPicklingError, match=r"FX201.*\n.*fx_converter\.save"):
        pickle.dumps(made(form))


@both_forms
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_has_the_weights_of_the_module(change: Change, form: KernelCalls, tmp_path: Path) -> None:
    """Also of a loaded module, whose memory is mapped: writes do not change the file."""
    first, second = tmp_path / "first.wir", tmp_path / "second.wir"
    fx_converter.save(made(form), first)
    content = first.read_bytes()
    module = fx_converter.load(first)
    change(module)
    fx_converter.save(module, second)
    same(fx_converter.load(second), want(WEIGHT + 1))
    assert first.read_bytes() == content
    same(fx_converter.load(first), want())


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_of_another_type_are_in_the_file(kind: torch.dtype, tmp_path: Path) -> None:
    module = made("hop")
    assert isinstance(module.weight, Tensor)
    module.weight.data = module.weight.to(kind)
    fx_converter.save(module, tmp_path / "graph.wir")
    again = fx_converter.load(tmp_path / "graph.wir")
    found = again.get_buffer("weight")
    assert found.dtype == kind
    torch.testing.assert_close(found, WEIGHT.to(kind))


def test_modules_of_an_artifact_share_memory_and_copies_do_not() -> None:
    """As for modules of an exported program, in-place writes are visible in all of them."""
    held = artifact()
    first, second = (fx_converter.convert(held, FxOptions(convention="flat")) for _ in range(2))
    twin = copy.deepcopy(first)
    loaded(first)
    same(first, want(WEIGHT + 1))
    same(second, want(WEIGHT + 1))
    same(twin, want())


def test_a_weight_seen_as_another_type() -> None:
    """It keeps its memory."""
    module = made()
    same(module, want())
    assert isinstance(module.weight, Tensor)
    module.weight.data = module.weight.data.view(torch.int32)
    with pytest.raises(RuntimeError, match="same dtype"):
        module(X)


@pytest.mark.parametrize("strides", ["{4, 1}", "{1, 2}", "{0, 1}"])
def test_constants_are_in_files_as_they_lie(strides: str, tmp_path: Path) -> None:
    """Gaps are preserved, and overlapping bytes are stored once."""
    data = TensorData(ir.DType.F32, memoryview(torch.arange(7.0).numpy().tobytes()))
    text = f'const %w : f32[2, 3]{strides} sha256 "{data.sha256()}"\n\nfunc @main() {{\n  return %w\n}}\n'
    program = wrapper_ir.parse_program(f"wir 0.5\ntarget cpu\n\n{text}")
    module = fx_converter.convert(bare_artifact(program, {"w": data}))
    fx_converter.save(module, tmp_path / "graph.wir")
    (found,), (expected,) = fx_converter.load(tmp_path / "graph.wir")(), module()
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)


def test_a_constant_without_memory_is_refused(tmp_path: Path) -> None:
    module = made("hop")
    weight = WEIGHT + 1
    object.__setattr__(
        origin_of(module), "constants", {**origin_of(module).constants, _weight(module): weight}
    )
    weight.untyped_storage().resize_(0)
    with pytest.raises(SavedGraphError, match=r"FX201.*smaller"):
        fx_converter.save(module, tmp_path / "graph.wir")
    assert not list(tmp_path.iterdir())


def _weight(module: fx.GraphModule) -> ir.Value:
    return next(value for value in origin_of(module).constants if value.name == "weight")


def test_a_mapped_constant_can_be_written(tmp_path: Path) -> None:
    """No program does that, but the owner of a tensor over the memory can."""
    path = tmp_path / "model.wir"
    storage.save(artifact(), path)
    content = path.read_bytes()
    module = fx_converter.convert(storage.load(path), FxOptions(convention="flat"))
    written(module)
    same(module, want(WEIGHT + 1))
    assert path.read_bytes() == content
