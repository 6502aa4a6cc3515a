"""Matmuls on a GPU whose kernels are launched again: the text of both emitters, and the fallback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import py_wrapper
from fx_converter import FxOptions, boxed, convert
from fx_converter.boxed import boxed_text
from py_wrapper import PyOptions
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_torch import repeated, repeated_operator

PROGRAM = """wir 0.5
target {device}

extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[8, 8], %y: f32[8, 8]) {{
  %a = alloc f32[8, 8]
  call aten::mm.out(%x, %y, out=%a)
  %b = alloc f32[8, 8]
  call aten::mm.out(%a, %y, out=%b)
  %c = alloc f32[8, 8]
  call aten::addmm.out(%x, %a, %b, alpha=1, beta=1, out=%c)
  free %a
  free %b
  drop %x
  drop %y
  return %c
}}
"""


def artifact(device: str) -> Artifact:
    return bare_artifact(parse_program(PROGRAM.format(device=device)))


def calls(text: str) -> list[str]:
    words = ("mm(", "repeated_operator")
    return [line.strip() for line in text.splitlines() if any(word in line for word in words)]


def test_python() -> None:
    assert calls(str(py_wrapper.emit(artifact("cuda:0")))) == [
        "from wrapper_ir_torch import repeated_operator",
        'mm = repeated_operator("aten::mm.out", "cuda:0", 2)',
        'addmm = repeated_operator("aten::addmm.out", "cuda:0", 1)',
        "mm(x, y, out=a)",
        "mm(a, y, out=b)",
        "addmm(x, a, b, out=c)",
    ]
    plain = ["torch.mm(x, y, out=a)", "torch.mm(a, y, out=b)", "torch.addmm(x, a, b, out=c)"]
    assert calls(str(py_wrapper.emit(artifact("cuda:0"), PyOptions(repeated_operators=False)))) == plain
    assert calls(str(py_wrapper.emit(artifact("cpu")))) == plain


def test_fx(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def repeated(name: str, device: str, count: int) -> Callable[..., Any]:  # Any: as torch's functions
        asked.append((name, device, count))
        return lambda *args, **kwargs: None

    monkeypatch.setattr(boxed, "repeated_operator", repeated)
    for device, repeats, expected in (
        ("cuda:0", True, [("aten::mm.out", "cuda:0", 2), ("aten::addmm.out", "cuda:0", 1)]),
        ("cuda:0", False, []),
        ("cpu", True, []),
    ):
        asked.clear()
        module = convert(artifact(device), FxOptions(convention="flat"))
        source = boxed_text(module, repeats=repeats)
        assert asked == expected
        assert (torch.mm in source.scope.values()) == (not expected)
        assert torch.ops.aten.mm.out in [node.target for node in module.graph.nodes], (
            "a graph is for any reader"
        )


ATTENTION = """wir 0.5
target {device}

extern "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)"

func @main(%q: f32[1, 2, 8, 8]) {{
  %made = call aten::_scaled_dot_product_efficient_attention(%q, %q, %q, none, false, {dropout}) : results
  %a = unpack %made [0] : f32[1, 2, 8, 8]
  drop %made
  drop %q
  return %a
}}
"""


@pytest.mark.parametrize(("dropout", "is_repeated"), [("0.0", True), ("0.5", False)])
def test_attention(dropout: str, is_repeated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention allocates its results; with dropout it draws random numbers, which only torch supports."""
    name = "aten::_scaled_dot_product_efficient_attention"
    program = bare_artifact(parse_program(ATTENTION.format(device="cuda:0", dropout=dropout)))
    made = f'scaled_dot_product_efficient_attention = repeated_operator( "{name}", "cuda:0", 1, )'
    assert (made in " ".join(str(py_wrapper.emit(program)).split())) == is_repeated
    asked = []

    def repeated(*what: object) -> Callable[..., Any]:  # Any: as torch's functions
        asked.append(what)
        return lambda *args, **kwargs: None

    monkeypatch.setattr(boxed, "repeated_operator", repeated)
    boxed_text(convert(program, FxOptions(convention="flat")), repeats=True)
    assert asked == ([(name, "cuda:0", 1)] if is_repeated else [])


def test_an_operator_without_arguments() -> None:
    text = 'wir 0.5\ntarget cuda:0\n\nextern "lib::tick() -> ()"\n\nfunc @main() {\n  call lib::tick()\n  return\n}\n'
    source = str(py_wrapper.emit(bare_artifact(parse_program(text))))
    assert "tick()" in source


def test_without_a_device() -> None:
    """The operator's own function, and only for operators that are nothing but their kernels."""
    if not torch.cuda.is_available():
        assert repeated_operator("aten::mm.out", "cuda:0", 1) is torch.mm
    with pytest.raises(ValueError, match=r"aten::add\.out may do more"):
        repeated_operator("aten::add.out", "cuda:0", 1)


class _Operator:
    """An operator that observes launches, on an absent device."""

    begun = 0

    def begin(self, stream: int) -> None:
        self.begun += 1


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Any:  # Any: a class of the module's own
    for name, made in (
        ("memory_pool", lambda device: SimpleNamespace(id=(0, 1))),
        ("using_pool", lambda pool, device: nullcontext()),
        ("stream_at", lambda address, device: None),
    ):
        monkeypatch.setattr(repeated, name, made)
    found: Any = repeated._Recording(SimpleNamespace(new_stream=lambda: 7), ir.Device("cpu"))
    monkeypatch.setattr(found, "_side", lambda: 7)
    monkeypatch.setattr(found, "_is_served", lambda: True)
    return found


def test_a_device_without_memory_for_recordings(recording: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call itself has succeeded: it stays torch's, without an error."""

    def full(storages: tuple[int, ...], device: torch.device) -> list[torch.Tensor]:
        raise torch.OutOfMemoryError(f"{sum(storages)} bytes")

    monkeypatch.setattr(repeated, "_holes", full)
    operator = _Operator()
    assert recording._recorded(operator, lambda: pytest.fail("is called"), (64,)) == (None, None)
    assert operator.begun == 0


def test_memory_in_more_pieces_than_are_compared(recording: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces beyond the limit are memory of others."""
    pools = {(0, 1): [(4096 * n, 4096 * n + 512) for n in range(1, 301)], (0, 0): [(1 << 30, (1 << 30) + 8)]}
    monkeypatch.setattr(repeated, "segments_by_pool", lambda device: pools)
    recording._pool = SimpleNamespace(id=(0, 1))
    kept, others = recording._memory()
    assert kept == tuple((4096 * n, 512) for n in range(1, 257))
    assert others == ((4096, (1 << 30) + 8 - 4096),)
