"""Temporaries of LSTMs that oneDNN runs: weights in blocks, states of all steps, scratch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.temporaries.call import OperatorCall, round_up

_ITEM = 4
_GATES = 4
_BLOCK, _LINE = 32, 16
"""Outputs of a block of weights, and elements of a line of states."""
_PAGE = 4096
_SCRATCH = _PAGE + 856
"""The most that oneDNN books for itself beside states."""
_LSTM = 2


def _lstm(call: OperatorCall) -> int | None:
    """Of AVX-512; the blocks of weights are narrower with AVX2, and all else the same."""
    given, weight = call.tensor("input"), call.tensor("weight1")
    plain = given is not None and weight is not None and given.dtype is weight.dtype is ir.DType.F32
    if given is None or not plain or len(given.sizes) != 3 or call.number("mode", 0) != _LSTM:
        return None
    if call.is_set("batch_first") or call.is_set("train") or call.number("num_layers", 1) != 1:
        return None
    steps, batch, inputs = given.sizes
    hidden = call.number("hidden_size", 0)
    if 0 in (steps, batch, inputs, hidden):
        return None
    states = 2 * (steps + 1) * batch
    pages = (
        states * _line(max(inputs, hidden)),
        states * hidden,
        batch * _line(_GATES * hidden),
        batch * _line(hidden),
    )
    weights = _ITEM * _GATES * (round_up(hidden, _BLOCK) * (inputs + hidden) + hidden)
    made = (steps, 1, 1)
    inside = weights + sum(round_up(_ITEM * n, _PAGE) for n in pages) + _SCRATCH
    return inside + call.left([_ITEM * batch * hidden * n for n in made])


def _line(elements: int) -> int:
    """Elements from one row of states to the next: multiples of 256 would share lines of the cache."""
    lines = round_up(elements, _LINE)
    return lines if lines % 256 else lines + _LINE


_NAMES = (
    "input",
    "weight0",
    "weight1",
    "weight2",
    "weight3",
    "hx_",
    "cx_",
    "reverse",
    "batch_sizes",
    "mode",
    "hidden_size",
    "num_layers",
    "has_biases",
    "bidirectional",
    "batch_first",
    "train",
)
RECURRENT: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::mkldnn_rnn_layer": (_NAMES, _lstm)
}
"""The names of its arguments, and the rule."""
