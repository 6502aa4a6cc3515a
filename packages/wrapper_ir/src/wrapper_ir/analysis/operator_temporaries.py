"""Bytes that an operator allocates and gives back inside one call, where they follow from the types of its operands.

The figures are those of torch with oneDNN on x86 CPUs with AVX-512, on one thread, as its allocator reports them. A machine with
narrower vectors pads less. Operators without an entry count as needing nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Bool, Expr

_ITEM = 4
_BLOCK, _NARROW = 16, 8
"""Channels of a block in oneDNN's layouts of convolutions, and of a narrow one."""
_SCRATCH = 8216
"""Scratch of a convolution of channels-last images that is not grouped, on one thread."""
_FEW_ELEMENTS = 20480
"""Images of a batch of one with no more elements are convolved without oneDNN, unless the kernel is large."""


def temporary_bytes(op: ir.Op, sizes: Sizes) -> int:
    """Bytes above its operands and results that an op holds while it runs; 0 where nothing is known.

    Raises ExpressionError where a size has no value under the hints.
    """
    rule = OPERATOR_TEMPORARIES.get(op.target) if isinstance(op, ir.CallExtern) else None
    return rule(op, sizes) if rule is not None and isinstance(op, ir.CallExtern) else 0


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Sizes and strides of a batch of images, as numbers."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return _ITEM * math.prod(self.sizes)

    @property
    def pixels(self) -> int:
        return math.prod(self.sizes[2:])

    def is_channels_last(self) -> bool:
        """Whether it is dense, the channels next to each other; dimensions of one element have any stride."""
        expected = 1
        for dim in (1, *range(len(self.sizes) - 1, 1, -1), 0):
            if self.sizes[dim] != 1 and self.strides[dim] != expected:
                return False
            expected *= self.sizes[dim]
        return True


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution of images of f32, of one or two dimensions."""

    image: _Tensor
    weight: _Tensor
    made: _Tensor
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def bytes(self) -> int:
        """The most that it holds above its operands and its result."""
        last = len(self.made.sizes) == 4 and self.made.is_channels_last()
        copies = 0
        if last:
            copies = sum(t.bytes for t in (self.image, self.weight) if not t.is_channels_last())
        if not self._is_blocked():
            return copies + self._columns()
        if last:
            return copies + self._weights(self.weight.sizes[1]) + (_SCRATCH if self.groups == 1 else 0)
        return self._reordered()

    def _is_blocked(self) -> bool:
        """Whether torch gives it to oneDNN, on one thread."""
        kernel, batch = self.weight.sizes[2:], self.image.sizes[0]
        spread = any(n != 1 for n in (*self.stride, *self.dilation, *kernel)) or batch >= 16
        small = math.prod(self.image.sizes) <= _FEW_ELEMENTS
        large_kernel = len(kernel) == 2 and min(kernel) > 3
        return spread and (self.groups > 1 or large_kernel or batch > 1 or not small)

    def _columns(self) -> int:
        """Bytes of the pixels that each result needs, one copy for each."""
        kernel = self.weight.pixels
        as_they_are = kernel == 1 and all(n == 1 for n in self.stride)
        return 0 if as_they_are else _ITEM * self.image.sizes[1] * kernel * self.made.pixels

    def _weights(self, inputs: int) -> int:
        """Bytes of the weights in blocks, each group with so many inputs."""
        outputs = self.weight.sizes[0]
        if self.groups == 1:
            return _ITEM * _blocks(outputs) * inputs * self.weight.pixels
        if inputs == 1 and outputs == self.groups:
            return _ITEM * _blocks(outputs) * self.weight.pixels
        each = outputs // self.groups
        block = _NARROW if each % _BLOCK else _BLOCK
        return _ITEM * self.groups * _blocks(each, block) * _blocks(inputs, block) * self.weight.pixels

    def _reordered(self) -> int:
        """Images, weights and result in blocks; then the result twice. Images of up to three channels stay as they are."""
        few = self.image.sizes[1] <= 3
        image = 0 if few else _ITEM * self.image.sizes[0] * _blocks(self.image.sizes[1]) * self.image.pixels
        inputs = self.weight.sizes[1] if few or self.groups > 1 else _blocks(self.weight.sizes[1])
        made = _ITEM * self.made.sizes[0] * _blocks(self.made.sizes[1]) * self.made.pixels
        return max(image + self._weights(inputs) + made - self.made.bytes, made)


def _blocks(channels: int, block: int = _BLOCK) -> int:
    return -(-channels // block) * block


_NAMES = (
    "input",
    "weight",
    "bias",
    "stride",
    "padding",
    "dilation",
    "transposed",
    "output_padding",
    "groups",
)


def _convolution(op: ir.CallExtern, sizes: Sizes) -> int:
    given = dict(zip(_NAMES, op.args, strict=False)) | dict(op.kwargs)
    image, weight, made = (_tensor(v, sizes) for v in (given.get("input"), given.get("weight"), op.result))
    stride, dilation = (_numbers(given.get(name), sizes) for name in ("stride", "dilation"))
    groups = _numbers((given.get("groups"),), sizes)
    if image is None or weight is None or made is None or given.get("transposed") != Bool(False):
        return 0
    if stride is None or dilation is None or groups is None or len(made.sizes) not in (3, 4):
        return 0
    if 0 in (*image.sizes, *weight.sizes, *made.sizes):
        return 0
    return _Convolution(image, weight, made, stride, dilation, groups[0]).bytes()


def _tensor(value: object, sizes: Sizes) -> _Tensor | None:
    """A tensor of f32 on the CPU."""
    type = value.type if isinstance(value, ir.Value) else None
    if not isinstance(type, ir.TensorType) or type.dtype is not ir.DType.F32 or type.device != ir.CPU:
        return None
    return _Tensor(tuple(map(sizes.number, type.sizes)), tuple(map(sizes.number, type.strides)))


def _numbers(argument: object, sizes: Sizes) -> tuple[int, ...] | None:
    if not isinstance(argument, Sequence):
        return None
    if not all(isinstance(e, Expr) for e in argument):
        return None
    return tuple(sizes.number(e) for e in argument)


OPERATOR_TEMPORARIES: Mapping[str, Callable[[ir.CallExtern, Sizes], int]] = {
    "aten::convolution": _convolution
}
"""The rule of each operator whose temporaries are known."""
