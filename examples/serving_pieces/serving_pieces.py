"""A model cut into pieces at its attention: one process compiles the pieces into files, another loads them.

Run `python serving_pieces.py compile FOLDER`, then `python serving_pieces.py serve FOLDER`. The second
process needs neither the folder's original path nor a warm cache. Serving systems work like this: attention
is their own operator, whose memory they manage, and the rest is compiled once for all batch sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.split_module import split_module

import inductor_frontend
from inductor_frontend.cache import stats
from wrapper_ir_runtime.cache import open_cache, read_settings

# Any in this file: inputs and results of any graph.
_WIDTH, _HEADS, _BLOCKS = 32, 4, 2


@torch.library.custom_op("serving_pieces::attention", mutates_args=())
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The system's own attention over rows of `_WIDTH` numbers, one per token."""
    shape = (q.shape[0], _HEADS, _WIDTH // _HEADS)
    q_, k_, v_ = (x.reshape(shape).transpose(0, 1) for x in (q, k, v))
    mixed = nn.functional.scaled_dot_product_attention(q_, k_, v_, is_causal=True)
    return mixed.transpose(0, 1).reshape(q.shape).contiguous()


@attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.empty_like(q)


_OWN = (torch.ops.serving_pieces.attention, torch.ops.serving_pieces.attention.default)


class Block(nn.Module):
    """Attention and two layers, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(_WIDTH),
            nn.Linear(_WIDTH, 3 * _WIDTH),
            nn.Linear(_WIDTH, _WIDTH),
        )
        self.layers = nn.Sequential(nn.Linear(_WIDTH, 2 * _WIDTH), nn.GELU(), nn.Linear(2 * _WIDTH, _WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Maps rows of `_WIDTH` numbers, one per token, to such rows."""
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        mixed = x + self.out(torch.ops.serving_pieces.attention(q, k, v))
        result: Tensor = mixed + self.layers(mixed)
        return result


class Model(nn.Module):
    """Blocks, with the same weights in every process."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.Sequential(*(Block() for _ in range(_BLOCKS)))

    def forward(self, x: Tensor) -> Tensor:
        """Maps rows of `_WIDTH` numbers, one per token, to such rows."""
        result: Tensor = self.blocks(x)
        return result


class Pieces:
    """A backend of torch.compile that cuts the graph at the system's operators.

    It compiles each piece into `folder`, or loads it from there.
    """

    def __init__(self, folder: Path, *, load: bool) -> None:
        self.folder = folder
        self.load = load

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Returns the graph with compiled pieces around the system's own operators."""
        part, parts = 0, {}
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "output", "get_attr"):
                is_own = node.target in _OWN
                parts[node] = part + is_own
                part += 2 * is_own
        whole = split_module(gm, gm, lambda node: parts[node], keep_original_order=True)
        for name, piece in list(whole.named_children()):
            if int(name.rpartition("_")[2]) % 2 == 0:
                setattr(whole, name, _Call(self._piece(name, piece)))
        return whole

    def _piece(self, name: str, piece: nn.Module) -> inductor_frontend.CompiledPiece:
        path = self.folder / f"{name}.wir"
        if self.load:
            return inductor_frontend.load_piece(path)
        assert isinstance(piece, fx.GraphModule)  # split_module creates them
        inputs = [node.meta["example_value"] for node in piece.graph.find_nodes(op="placeholder")]
        compiled = inductor_frontend.standalone_compile(piece, inputs)
        compiled.save(path)
        return compiled


class _Call(nn.Module):
    """A compiled piece in place of a module of the graph."""

    def __init__(self, piece: inductor_frontend.CompiledPiece) -> None:
        super().__init__()
        self.piece = piece

    def forward(self, *args: Any) -> Any:
        return self.piece(*args)


def main(argv: Sequence[str]) -> None:
    """Compiles or serves, and compares the results of several batches with eager mode."""
    task, folder = argv[0], Path(argv[1])
    kernels, model = folder / "kernels.zip", Model().eval()
    if task == "serve":
        inductor_frontend.load_cache_artifacts(kernels.read_bytes())
    else:
        folder.mkdir(exist_ok=True)
    compiled = torch.compile(model, backend=Pieces(folder, load=task == "serve"), fullgraph=True)
    written = _written()
    with torch.no_grad():
        for tokens in (7, 16, 3):
            x = torch.randn(tokens, _WIDTH)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x), model(x))
    if task != "serve":
        kernels.write_bytes(inductor_frontend.save_cache_artifacts())
    pieces = len(list(folder.glob("*.wir")))
    print(f"{pieces} pieces, {stats().lowered} lowered, {_written() - written} entries of the cache written")


def _written() -> int:
    """Returns the number of kernels and modules that this process has written into the cache."""
    cache = open_cache(read_settings())
    return sum(cache.counters(name).read().stored for name in ("cpp", "launchers", "python"))


if __name__ == "__main__":
    main(sys.argv[1:])
