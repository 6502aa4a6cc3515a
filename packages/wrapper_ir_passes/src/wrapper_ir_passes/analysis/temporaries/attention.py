"""Temporaries of attention on CPUs, on one thread: blocks of matmuls, and unused log-sum-exp results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir_passes.analysis.temporaries.call import Operand, OperatorCall

_KEYS = 512
_QUERIES = ((768, 256), (192, 64), (0, 32))
"""(least number of queries, queries of a block)."""


def _block(query: Operand, key: Operand) -> tuple[int, int]:
    """The number of queries and keys in a block."""
    most = next(most for least, most in _QUERIES if query.sizes[2] >= least)
    return min(query.sizes[2], most), min(key.sizes[2], _KEYS)


def _forward(call: OperatorCall) -> int | None:
    query, key = call.tensor("query"), call.tensor("key")
    if query is None or key is None or len(query.sizes) != 4 or 0 in (*query.sizes, *key.sizes):
        return None
    batch, heads, length, width = query.sizes
    queries, keys = _block(query, key)
    item = max(ir.DType.F32.itemsize, query.dtype.itemsize)
    reduced = query.dtype.itemsize * queries * keys if query.dtype.itemsize < item else 0
    block = item * queries * (keys + 2 + width) + reduced
    return block + call.unused((query.bytes, item * batch * heads * length))


def _backward(call: OperatorCall) -> int | None:
    names = ("grad_out", "query", "key", "value")
    grad, query, key, value = map(call.tensor, names)
    if grad is None or query is None or key is None or value is None or len(query.sizes) != 4:
        return None
    if 0 in (*query.sizes, *key.sizes) or query.dtype.itemsize < ir.DType.F32.itemsize:
        return None  # on some CPUs, oneDNN runs these matmuls
    queries, keys = _block(query, key)
    copy = 0 if grad.is_dense((3, 1, 2, 0)) else grad.bytes
    block = query.dtype.itemsize * queries * (2 * keys + 1)
    results = [query.dtype.itemsize * math.prod(t.sizes) for t in (query, key, value)]
    return copy + block + call.unused(results)


_FORWARD = ("query", "key", "value", "dropout_p", "is_causal")
_BACKWARD = ("grad_out", "query", "key", "value", "out", "logsumexp", "dropout_p", "is_causal")
_NAME = "aten::_scaled_dot_product_flash_attention_for_cpu"
ATTENTION: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    _NAME: (_FORWARD, _forward),
    f"{_NAME}_backward": (_BACKWARD, _backward),
}
"""The names of the arguments and the rule of each operator."""
