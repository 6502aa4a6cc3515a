"""Standalone pieces: graphs compiled separately, saved, and loaded into the wrapper of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config

from inductor_frontend import (
    BackendError,
    CaptureError,
    CompiledPiece,
    ConversionError,
    load_piece,
    standalone_compile,
)
from inductor_frontend.cache import stats

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")

# Any in this file: inputs and results of any graph.


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)


def _fakes(gm: fx.GraphModule) -> list[Any]:
    return [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]


class Kept:
    """Backend that compiles each graph as a piece, saves it, and runs the piece loaded from the file."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.options = options
        self.pieces: list[CompiledPiece] = []

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        piece = standalone_compile(gm, _fakes(gm), **self.options)
        path = self.folder / f"{len(self.pieces)}.wir"
        piece.save(path)
        self.pieces.append(piece)
        return load_piece(path)


def _compiled(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, fullgraph=True)


def _dynamic(*sizes: int) -> Tensor:
    x = torch.randn(*sizes)
    torch._dynamo.mark_dynamic(x, 0)
    return x


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu() + x.shape[0]


@torch.no_grad()
def test_sizes_are_symbols(tmp_path: Path) -> None:
    backend = Kept(tmp_path)
    compiled, w = _compiled(matmul, backend), torch.randn(8, 8)
    for rows in (5, 9, 2):
        x = _dynamic(rows, 8)
        torch.testing.assert_close(compiled(x, w), matmul(x, w))
    assert len(backend.pieces) == 1
    assert stats().lowered == 1


@torch.no_grad()
def test_writes_and_views_of_inputs(tmp_path: Path) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y.add_(1)
        return x.t(), x.sin(), y

    x, y = torch.randn(3, 4), torch.zeros(2)
    transposed, sine, mutated = _compiled(function, Kept(tmp_path))(x, y)
    assert transposed.data_ptr() == x.data_ptr()
    assert transposed.stride() == (1, 4)
    assert mutated is y
    assert y.tolist() == [1, 1]
    torch.testing.assert_close(sine, x.sin())


def _graph(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    """Returns Dynamo's graph of a function."""
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    with torch.no_grad():
        _compiled(function, keep)(*inputs)
    return graphs[0]


def test_one_result_stays_one(tmp_path: Path) -> None:
    gm = _graph(matmul, torch.randn(3, 8), torch.randn(8, 8))
    output = gm.graph.output_node()
    output.args = (output.all_input_nodes[0],)  # as in a graph that split_module made
    gm.recompile()
    text, x, w = gm.code, torch.randn(3, 8), torch.randn(8, 8)
    with torch.no_grad():
        piece = standalone_compile(gm, [x, w], dynamic_shapes="from_example_inputs")
        piece.save(tmp_path / "piece.wir")
        for one in (piece, load_piece(tmp_path / "piece.wir")):
            torch.testing.assert_close(one(x, w), matmul(x, w))
    assert gm.code == text


@torch.no_grad()
def test_sizes_of_example_inputs() -> None:
    gm = _graph(matmul, _dynamic(3, 8), torch.randn(8, 8))
    x, w = torch.randn(3, 8), torch.randn(8, 8)
    assert standalone_compile(gm, _fakes(gm)).artifact.program.symbols
    piece = standalone_compile(gm, [3, x, w], dynamic_shapes="from_example_inputs")
    assert not piece.artifact.program.symbols
    torch.testing.assert_close(piece(3, x, w)[0], matmul(x, w))


@torch.no_grad()
def test_emitters_are_a_choice(tmp_path: Path) -> None:
    x, w = torch.randn(3, 8), torch.randn(8, 8)
    piece = standalone_compile(_graph(matmul, x, w), [x, w], options={"emitter": "fx"})
    piece.save(tmp_path / "piece.wir")
    for emitter in ("fx", "python"):
        again = load_piece(tmp_path / "piece.wir", {"emitter": emitter})
        torch.testing.assert_close(again(x, w), piece(x, w))


def _guard(graph: fx.Graph) -> None:
    """A pass that branches on the number of rows."""
    assert all(
        x.meta["val"].shape[0] % 4 == 0 for x in graph.find_nodes(op="placeholder") if x.name == "arg1_1"
    )


@torch.no_grad()
def test_guards_are_added_where_dynamo_traces(tmp_path: Path) -> None:
    path = tmp_path / "piece.wir"
    with inductor_config.patch(post_grad_custom_post_pass=_guard):
        compiled = _compiled(matmul, Kept(tmp_path))
        compiled(_dynamic(8, 8), torch.randn(8, 8))
    (tmp_path / "0.wir").rename(path)
    traces: list[bool] = []

    def loading(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        traces.append(True)
        return load_piece(path)

    torch._dynamo.reset()
    compiled, w = _compiled(matmul, loading), torch.randn(8, 8)
    for rows in (12, 16):
        compiled(_dynamic(rows, 8), w)
    assert len(traces) == 1
    with pytest.raises(Exception, match=r"FE363.*is not satisfied"):
        compiled(_dynamic(6, 8), w)
    assert len(traces) == 2
    load_piece(path)(6, torch.randn(6, 8), w)  # outside, guards are the caller's


class TestRefused:
    @torch.no_grad()
    def test_number_of_inputs(self) -> None:
        x, w = torch.randn(3, 8), torch.randn(8, 8)
        piece = standalone_compile(_graph(matmul, x, w), [x, w])
        with pytest.raises(BackendError, match=r"FE364.* 2 inputs .* 3"):
            piece(x, w, 3)

    def test_gradients(self) -> None:
        x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, 8)
        with pytest.raises(BackendError, match="FE361"):
            standalone_compile(_graph(matmul, x, w), [x, w], dynamic_shapes="from_example_inputs")

    @torch.no_grad()
    def test_tensors_of_its_own(self) -> None:
        gm = fx.symbolic_trace(torch.nn.Linear(2, 3))
        with pytest.raises(BackendError, match=r"FE362.*weight"):
            standalone_compile(gm, [torch.randn(4, 2)])

    @torch.no_grad()
    def test_what_cannot_be_captured(self) -> None:
        def sparse(x: Tensor) -> Tensor:
            return x.to_sparse()

        x = torch.randn(3, 4)
        with pytest.raises((CaptureError, ConversionError), match="FE"):
            standalone_compile(fx.symbolic_trace(sparse), [x], dynamic_shapes="from_example_inputs")

    def test_unknown_sizes(self) -> None:
        x = torch.randn(3, 4)
        graph, unknown = _graph(torch.sin, x), "symbolic"
        with pytest.raises(
            ValueError, match=r"from_graph.*from_tracing_context.*from_example_inputs.*'symbolic'"
        ):
            standalone_compile(graph, [x], dynamic_shapes=unknown)  # type: ignore[arg-type]  # refused

    @pytest.mark.parametrize("content", ["nothing", "another"])
    def test_files_without_a_piece(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "piece.wir"
        if content == "nothing":
            path.write_bytes(b"")
        else:
            sample = Path(__file__).parents[3] / "tests/data/sample.wir"
            path.write_bytes(sample.read_bytes())
        with pytest.raises(BackendError, match=r"FE363.*piece\.wir"):
            load_piece(path)

    @torch.no_grad()
    def test_of_another_torch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        x, w = torch.randn(3, 8), torch.randn(8, 8)
        standalone_compile(_graph(matmul, x, w), [x, w]).save(tmp_path / "piece.wir")
        monkeypatch.setattr("inductor_frontend.backend.standalone._KEY", "piece of torch 1.0")
        with pytest.raises(BackendError, match=r"FE363.*piece of torch 1\.0"):
            load_piece(tmp_path / "piece.wir")
