"""Temporaries of LSTMs in oneDNN: weights in blocked layouts, states of all steps, scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir_passes.analysis.temporaries.call import OperatorCall, round_up

_ITEM = 4
_GATES = 4
_BLOCK, _LINE = 32, 16
"""Outputs of a block of weights, and elements of a cache line of states."""
_PAGE = 4096
_SCRATCH = _PAGE + 856
"""The most scratch memory that oneDNN allocates in addition to states."""
_LSTM = 2


def _lstm(call: OperatorCall) -> int | None:
    """The temporaries with AVX-512; with AVX2, only the blocks of weights are narrower."""
    sequence, weight = call.tensor("input"), call.tensor("weight1")
    if sequence is None or weight is None or not sequence.dtype is weight.dtype is ir.DType.F32:
        return None
    if len(sequence.sizes) != 3 or call.number("mode", 0) != _LSTM:
        return None
    if call.is_set("batch_first") or call.is_set("train") or call.number("num_layers", 1) != 1:
        return None
    steps, batch, inputs = sequence.sizes
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
    scratch = weights + sum(round_up(_ITEM * n, _PAGE) for n in pages) + _SCRATCH
    return scratch + call.unused([_ITEM * batch * hidden * n for n in (steps, 1, 1)])


def _line(elements: int) -> int:
    """The stride of rows of states in elements; a multiple of 256 would cause conflicts in the cache."""
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
"""The names of the arguments and the rule of each operator."""
