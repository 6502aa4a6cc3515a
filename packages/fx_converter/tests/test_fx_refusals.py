"""Refusals of conversion, saving and loading, and their messages."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.errors import ConvertError, SavedGraphError
from fx_converter.graph.metadata import FakeValues
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import (
    ArtifactError,
    ExecutionError,
    LoweringError,
    NotSupportedError,
    PluginError,
    WirError,
)

RELU = 'extern "aten::relu(Tensor self) -> Tensor"\n'
RELU_MAIN = "func @main(%x: f32[4]) {\n  %y = call aten::relu(%x) : f32[4]\n  return %y\n}\n"
_NAME = "fx_graph.json"


def artifact(text: str, header: str = "target cpu\n") -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(f"wir 0.5\n{header}\n{text}"))


def refusal(text: str, header: str = "target cpu\n", **options: Any) -> WirError:
    """The error of converting a program; Any: fields of FxOptions."""
    with pytest.raises(WirError) as caught:
        fx_converter.convert(artifact(text, header), FxOptions(**options))
    return caught.value


def test_an_option_with_an_unknown_value() -> None:
    with pytest.raises(ConvertError, match=r"FX103.*kernel_calls"):
        FxOptions(kernel_calls="fast")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("error", [GuardOnDataDependentSymNode, RuntimeError, NotImplementedError])
@pytest.mark.parametrize("kernel_calls", ["direct", "hop"])
def test_an_error_of_torchs_has_code_and_place(
    kernel_calls: str, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "func @main() {\n  %y = alloc f32[4] zero(call)\n  return %y\n}\n"

    def fail(*args: object) -> None:
        raise (
            error(torch.SymBool, "Eq(u0, 0)\nadvice")
            if error is GuardOnDataDependentSymNode
            else error("gone")
        )

    monkeypatch.setattr(FakeValues, "tensor", fail)
    found = refusal(text, kernel_calls=kernel_calls)
    assert found.code == "FX108"
    assert isinstance(found.__cause__, error)
    assert re.search(rf"{error.__name__}: \S+(.|\n)*%y = view %y\.s : f32", found.message)
    assert "advice" not in found.message
    assert "emitter python" in found.hint


def test_an_unknown_function() -> None:
    error = refusal("func @main(%x: f32[4]) {\n  %y = call_subgraph @gone(%x) : f32[4]\n  return %y\n}\n")
    assert isinstance(error, LoweringError)
    assert error.code == "WIR240"
    assert "@gone" in error.message


def test_a_recursive_function() -> None:
    again = "func @again(%x: f32[4]) {\n  %y = call_subgraph @again(%x) : f32[4]\n  return %y\n}\n"
    error = refusal(
        f"func @main(%x: f32[4]) {{\n  %y = call_subgraph @again(%x) : f32[4]\n  return %y\n}}\n\n{again}"
    )
    assert error.code == "WIR240"
    assert "calls itself" in error.message


def test_a_constant_without_data() -> None:
    error = refusal("const %w : f32[4]\n\nfunc @main() {\n  return %w\n}\n")
    assert error.code == "FX102"


def test_an_operator_that_nobody_registered() -> None:
    error = refusal(RELU.replace("relu", "gone") + RELU_MAIN.replace("relu", "gone"))
    assert isinstance(error, NotSupportedError)
    assert error.code == "WIR914"


def test_a_kernel_without_a_runtime() -> None:
    kernel = 'kernel foreign @k runtime "no-such-runtime" (readwrite f32* x) {{{\n\n}}}\n'
    error = refusal(kernel + "func @main(%x: f32[4]) {\n  launch @k(%x)\n  return\n}\n")
    assert isinstance(error, PluginError)
    assert error.code == "WIR901"


def test_a_stream_of_the_host() -> None:
    error = refusal("func @main(%x: f32[4], %y: f32[4]) {\n  copy %x, %y stream(1)\n  return\n}\n")
    assert error.code == "WIR910"
    error = refusal("func @main() {\n  %e = record_event @cpu stream(1)\n  drop %e\n  return\n}\n")
    assert error.code == "WIR911"


def test_symmetric_memory() -> None:
    text = 'func @main() {\n  %s = alloc_storage 64 symmetric("tp", 1)\n  free %s\n  return\n}\n'
    assert refusal(text).code == "WIR913"


def test_failures_at_run_time_have_codes() -> None:
    text = 'func @main(%x: f32[4], %n: int) {\n  define s0 = item(%n)\n  assert s0 <= 3 "too many"\n'
    text += '  assert_layout %x [4] [1] "input"\n  assert_finite %x "first"\n  return\n}\n'
    run = fx_converter.compile(artifact(text, "target cpu\n\nsymbol s0 : int backed [0, 9]\n"))
    run(torch.ones(4), 2)
    for args, code in (
        ((torch.ones(4), 4), "WIR920"),
        ((torch.ones(5), 2), "WIR921"),
        ((torch.ones(8)[::2], 2), "WIR921"),
        ((torch.full((4,), float("nan")), 2), "WIR922"),
    ):
        with pytest.raises(ExecutionError) as caught:
            run(*args)
        assert caught.value.code == code


def test_a_graph_interpreter_cannot_change_the_callers_tensors() -> None:
    module = fx_converter.convert(
        artifact("func @main(%x: f32[4], %y: f32[4]) {\n  copy %x, %y\n  return\n}\n")
    )
    with pytest.raises(ConvertError, match="FX105"):
        fx.Interpreter(module).run(torch.zeros(4), torch.ones(4))
    pure = fx_converter.convert(artifact(RELU + RELU_MAIN))
    (got,) = fx.Interpreter(pure).run(-torch.ones(4))
    assert torch.equal(got, torch.zeros(4))


# --- saved graphs


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(RELU + RELU_MAIN)), path)
    return path


def rewritten(path: Path, change: Any) -> Path:  # Any: a function over the JSON
    """The file with another graph."""
    art = wrapper_ir.load(path)
    said = json.loads(art.extensions[_NAME])
    change(said)
    wrapper_ir.save(dataclasses.replace(art, extensions={_NAME: json.dumps(said)}), path)
    return path


def test_a_file_without_a_graph(tmp_path: Path) -> None:
    wrapper_ir.save(artifact(RELU + RELU_MAIN), tmp_path / "bare.wir")
    with pytest.raises(SavedGraphError, match=r"FX202.*contains no graph"):
        fx_converter.load(tmp_path / "bare.wir")


def test_a_damaged_file(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 1
    saved.write_bytes(bytes(data))
    with pytest.raises(ArtifactError):
        fx_converter.load(saved)


def _call(said: Any) -> Any:
    return next(n for n in said["graphs"][0]["nodes"] if n["op"] == "call_function")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda said: said.update(version=9), "FX203"),
        (lambda said: said.update(torch="1.0"), "FX203"),
        (lambda said: said.pop("main"), "FX202"),
        (lambda said: said.update(main=5), "FX202"),
        (lambda said: said.update(kernel_calls="other"), "FX103"),
        (lambda said: _call(said).update(op="call_method"), "FX202"),
        (lambda said: _call(said).update(target={"function": "torch.load"}), "FX202"),
        (lambda said: _call(said).update(target={"operator": "aten::gone.default"}), "FX204"),
        (lambda said: _call(said).update(target={"higher_order": "gone"}), "FX204"),
        (lambda said: _call(said).update(target={"kernel": "00" * 32, "form": "direct"}), "FX202"),
        (lambda said: _call(said).update(args=[{"node": "gone"}]), "FX202"),
        (lambda said: _call(said).update(args=[{"pickle": ""}]), "FX202"),
        (lambda said: _call(said).update(name="not a name"), "FX202"),
        (lambda said: said["graphs"][0].update(nodes=3), "FX202"),
    ],
)
def test_a_damaged_graph(saved: Path, change: Any, code: str) -> None:
    with pytest.raises(WirError) as caught:
        fx_converter.load(rewritten(saved, change))
    assert caught.value.code == code


def test_another_torch_can_be_allowed(saved: Path) -> None:
    path = rewritten(saved, lambda said: said.update(torch="2.11"))
    module = fx_converter.load(path, check_torch=False)
    assert torch.equal(module(-torch.ones(4))[0], torch.zeros(4))


def test_what_a_file_cannot_name(tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(RELU + RELU_MAIN))
    (call,) = (n for n in module.graph.nodes if n.target is torch.ops.aten.relu.default)
    call.target = torch.relu
    with pytest.raises(SavedGraphError, match=r"FX201.*relu"):
        fx_converter.save(module, tmp_path / "graph.wir")
    call.op, call.target = "call_method", "relu"
    with pytest.raises(SavedGraphError, match=r"FX201.*method"):
        fx_converter.save(module, tmp_path / "graph.wir")


def test_a_module_that_forgot_where_it_comes_from(tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(RELU + RELU_MAIN))
    other = fx.GraphModule(module, module.graph)
    other.meta.clear()
    with pytest.raises(SavedGraphError, match="FX201"):
        fx_converter.save(other, tmp_path / "graph.wir")
    fx_converter.save(other, tmp_path / "graph.wir", origin=module)
    assert torch.equal(fx_converter.load(tmp_path / "graph.wir")(-torch.ones(4))[0], torch.zeros(4))
