"""Reductions and scans with any combining function, in some steps per block instead of one per element."""

from __future__ import annotations

import numpy as np

from triton_runtime.interp.objects import Array, Combine, ElementType, Tensor, Tensors


def reduce(
    input: Tensor | Tensors, axis: int | None, combine_fn: Combine, keep_dims: bool = False, **_: object
) -> Tensor | Tensors:
    """`tl.reduce`: combines neighbours pair by pair, which preserves their order."""
    tensors = input if isinstance(input, tuple) else (input,)
    arrays = [t.handle.data for t in tensors]
    types = [t.dtype for t in tensors]
    dims = arrays[0].ndim
    if axis is None:
        arrays = [a.reshape(-1) for a in arrays]
    along = 0 if axis is None else int(axis) % dims
    arrays = [np.moveaxis(a, along, 0) for a in arrays]
    if _is_sum(combine_fn, arrays):
        arrays = [a.sum(axis=0, keepdims=True, dtype=a.dtype) for a in arrays]
    while arrays[0].shape[0] > 1:
        rest = [a[-1:] for a in arrays] if arrays[0].shape[0] % 2 else None
        count = arrays[0].shape[0] // 2 * 2
        arrays = _combined(combine_fn, [a[0:count:2] for a in arrays], [a[1:count:2] for a in arrays], types)
        if rest is not None:
            arrays = [np.concatenate([a, r]) for a, r in zip(arrays, rest, strict=True)]
    if keep_dims:
        arrays = [np.moveaxis(a, 0, along) if axis is not None else a.reshape((1,) * dims) for a in arrays]
    else:
        arrays = [a[0] for a in arrays]
    results = tuple(_tensor(a, type_) for a, type_ in zip(arrays, types, strict=True))
    return results if isinstance(input, tuple) else results[0]


def scan(
    input: Tensor | Tensors, axis: int, combine_fn: Combine, reverse: bool = False, **_: object
) -> Tensor | Tensors:
    """`tl.associative_scan`: combines each element with the one 1, 2, 4, ... positions before it."""
    tensors = input if isinstance(input, tuple) else (input,)
    types = [t.dtype for t in tensors]
    along = int(axis) % tensors[0].handle.data.ndim
    arrays = [np.moveaxis(t.handle.data, along, 0) for t in tensors]
    if reverse:
        arrays = [a[::-1] for a in arrays]
    count, step = arrays[0].shape[0], 1
    while step < count:
        # the first elements are combined with the last ones; their old values are restored
        before = [np.roll(a, step, axis=0) for a in arrays]
        combined = _combined(combine_fn, before, arrays, types)
        arrays = [np.concatenate([a[:step], c[step:]]) for a, c in zip(arrays, combined, strict=True)]
        step *= 2
    if reverse:
        arrays = [a[::-1] for a in arrays]
    results = tuple(_tensor(np.moveaxis(a, 0, along), t) for a, t in zip(arrays, types, strict=True))
    return results if isinstance(input, tuple) else results[0]


def _is_sum(combine_fn: Combine, arrays: list[Array]) -> bool:
    """True if numpy's sum is equivalent.

    The interpreter stores types such as bfloat16 as bits in unsigned integers, which numpy cannot sum.
    """
    import triton.language as tl

    return combine_fn == tl.standard._sum_combine and all(a.dtype.kind in "fi" for a in arrays)


def _combined(
    combine_fn: Combine, first: list[Array], right: list[Array], types: list[ElementType]
) -> list[Array]:
    args = [_tensor(a, t) for a, t in zip([*first, *right], [*types, *types], strict=True)]
    output = combine_fn(*args)
    results = output if isinstance(output, tuple) else (output,)
    return [_data(r, a) for r, a in zip(results, first, strict=True)]


def _data(result: Tensor, like: Array) -> Array:
    """A result in the shape and type of its input; combining functions may return plain numbers."""
    data = result.handle.data if hasattr(result, "handle") else np.asarray(result)
    return np.broadcast_to(data.astype(like.dtype), like.shape)


def _tensor(data: Array, dtype: ElementType) -> Tensor:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    # numpy makes an array of one element of a scalar, which is not a block in Triton
    type_ = tl.block_type(dtype, list(data.shape)) if data.ndim else dtype
    tensor: Tensor = tl.tensor(TensorHandle(np.ascontiguousarray(data), dtype), type_)
    return tensor
