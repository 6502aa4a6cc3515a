"""Programs of convolutions on a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

EXTERN = (
    'extern "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,'
    ' SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"\n'
)
_TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class Case:
    """A convolution: sizes of input and weight, and arguments of torch.

    `last` names operands that are channels-last: `x`, `w`.
    """

    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    transposed: bool = False
    output_padding: int = 0
    groups: int = 1
    bias: bool = False
    last: str = ""

    @property
    def arguments(self) -> tuple[list[int], list[int], list[int], bool, list[int], int]:
        """The arguments after the bias."""
        count = len(self.input) - 2
        lists = [[n] * count for n in (self.stride, self.padding, self.dilation)]
        return lists[0], lists[1], lists[2], self.transposed, [self.output_padding] * count, self.groups

    def tensors(
        self, generator: torch.Generator, dtype: torch.dtype, device: str
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns random operands, the weight scaled so that results are about 1."""
        x = torch.randn(self.input, generator=generator)
        w = torch.randn(self.weight, generator=generator) / prod(self.weight[1:]) ** 0.5
        if "x" in self.last:
            x = x.contiguous(memory_format=_LAST[x.dim()])
        if "w" in self.last:
            w = w.contiguous(memory_format=_LAST[w.dim()])
        channels = self.weight[1] * self.groups if self.transposed else self.weight[0]
        b = torch.randn(channels, generator=generator) if self.bias else None
        return x.to(device, dtype), w.to(device, dtype), None if b is None else b.to(device, dtype)


CASES = (
    Case((2, 3, 9), (4, 3, 3), stride=2, padding=1, bias=True),
    Case((2, 4, 7, 6), (6, 2, 3, 2), groups=2, dilation=2, padding=2, bias=True),
    Case((2, 4, 7, 6), (6, 4, 3, 3), padding=1, last="x", bias=True),
    Case((2, 4, 7, 6), (6, 4, 3, 3), stride=2, last="w"),
    Case((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), stride=2, padding=1, bias=True),
    Case((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), padding=1, last="xw"),
    Case((2, 4, 5, 5), (4, 1, 3, 3), groups=4, padding=1, last="xw"),
    Case((2, 4, 5), (4, 3, 3), stride=2, padding=1, output_padding=1, transposed=True, bias=True),
    Case((2, 4, 3, 5), (4, 3, 3, 2), stride=3, dilation=2, groups=2, transposed=True, output_padding=2),
    Case((2, 4, 3, 5), (4, 3, 3, 2), stride=2, transposed=True, last="xw", bias=True),
    Case((1, 2, 3, 3, 3), (2, 3, 2, 2, 2), stride=2, transposed=True),
    Case((0, 3, 5, 5), (2, 3, 2, 2), bias=True),
)
LARGE = (
    Case((4, 3, 112, 112), (32, 3, 7, 7), stride=2, padding=3),
    Case((4, 64, 28, 28), (64, 64, 3, 3), padding=1, bias=True),
    Case((4, 64, 28, 28), (64, 64, 3, 3), padding=1, last="xw", bias=True),
    Case((4, 64, 28, 28), (128, 64, 1, 1), last="xw"),
    Case((4, 64, 28, 28), (64, 1, 5, 5), padding=2, groups=64, last="xw"),
    Case((2, 32, 8, 16, 16), (32, 32, 3, 3, 3), padding=1, bias=True),
    Case((2, 32, 8, 16, 16), (32, 32, 3, 3, 3), padding=1, last="xw", bias=True),
    Case((4, 80, 500), (128, 80, 3), padding=1, bias=True),
    Case((2, 64, 14, 14), (64, 32, 2, 2), stride=2, transposed=True, last="xw"),
)


def _type(tensor: Tensor) -> str:
    strides = "" if tensor.is_contiguous() else f"{{{', '.join(map(str, tensor.stride()))}}}"
    return f"{_TYPES[tensor.dtype]}[{', '.join(map(str, tensor.shape))}]{strides}"


def program_of(
    cases: Sequence[Case], dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[str, list[Tensor], list[Tensor]]:
    """Returns a program of convolutions, its inputs, and its results in torch.

    Results are channels-last if an operand is.
    """
    generator = torch.Generator().manual_seed(0)
    lines: list[str] = []
    params: list[str] = []
    inputs: list[Tensor] = []
    results: list[Tensor] = []
    for number, case in enumerate(cases):
        x, w, b = case.tensors(generator, dtype, device)
        y = torch.ops.aten.convolution(x, w, b, *case.arguments)
        y = y.contiguous(memory_format=_LAST[y.dim()] if case.last else torch.contiguous_format)
        names = [f"%x{number}", f"%w{number}"]
        given = [x, w]
        if b is not None:
            names.append(f"%b{number}")
            given.append(b)
        params += [f"{name}: {_type(one)}" for name, one in zip(names, given, strict=True)]
        inputs += given
        arguments = [*names, *([] if b is not None else ["none"]), *(str(a).lower() for a in case.arguments)]
        lines.append(f"  %y{number} = call aten::convolution({', '.join(arguments)}) : {_type(y)}")
        results.append(y)
    outputs = ", ".join(f"%y{number}" for number in range(len(cases)))
    body = "\n".join(lines)
    head = f"func @main({', '.join(params)}) {{"
    return f"{EXTERN}\n{head}\n{body}\n  return {outputs}\n}}\n", inputs, results
