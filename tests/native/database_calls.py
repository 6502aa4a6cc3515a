"""Calls of native operators from samples of torch's operator database, beside torch's own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.native.operator_library import NativeError, Operators

_TOLERANCES = {
    torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.complex64: 1e-5,
}  # fmt: skip
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool)


@dataclass
class Findings:
    """The number of equal calls by operator, and descriptions of wrong and refused ones."""

    right: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


# Any: arguments and results of any operator
class CompareCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Calls the native operator on copies of the arguments whenever torch calls one, and compares."""

    def __init__(self, operators: Operators, findings: Findings, case: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.operators, self.findings, self.case = operators, findings, case

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        schema, given = func._schema, dict(kwargs or {})
        name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
        tensors = [t for t in pytree.tree_leaves((args, given)) if isinstance(t, Tensor)]
        is_plain = not any(t.layout is not torch.strided or t.is_conj() or t.is_neg() for t in tensors)
        if name not in self.operators.schemas or not is_plain:
            return func(*args, **given)
        copied_args, copied = pytree.tree_map(copied_layout, (args, given))
        want = func(*args, **given)
        results = want if isinstance(want, tuple) else (want,)
        taken = [len(r) for r in results if isinstance(r, list)]
        try:
            got = self.operators.call(name, *copied_args, **copied, taken=taken)
        except NativeError as error:
            self.findings.refused.append(f"{self.case}: {name}: {error}")
            return want
        if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
            got = [t for t in pytree.tree_leaves((copied_args, copied)) if isinstance(t, Tensor)]
            self._compare(name, got, tensors)
        else:
            self._compare(name, got, want)
        return want

    def _compare(self, name: str, got: Any, want: Any) -> None:
        try:
            expected = [t for t in pytree.tree_leaves(want) if isinstance(t, Tensor)]
            for a, b in zip(pytree.tree_leaves(got), expected, strict=True):
                assert_same_tensor(a, b)
            self.findings.right[name] = self.findings.right.get(name, 0) + 1
        except (AssertionError, ValueError) as error:
            self.findings.wrong.append(f"{self.case}: {name}: {' '.join(str(error).split())[:300]}")


def copied_layout(value: Any) -> Any:
    """Copies a tensor with its storage, so that strides, offset and overlaps are the same."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return value
    storage = value.untyped_storage().clone()  # type: ignore[no-untyped-call]  # torch's
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(storage, value.storage_offset(), value.size(), value.stride())


def assert_same_tensor(got: Tensor, want: Tensor) -> None:
    """Compares elements, and strides of dimensions with several elements."""
    assert got.dtype == want.dtype, f"{got.dtype}, expected {want.dtype}"
    is_lazy = want.is_conj() or want.is_neg()
    want = want.resolve_conj().resolve_neg()
    tolerance = _TOLERANCES.get(want.dtype, 1e-7)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if want.numel() > 1 and not is_lazy:
        strides = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (got, want)]
        assert strides[0] == strides[1], f"strides {strides[0]}, expected {strides[1]}"


def compare_samples(
    operators: Operators, names: Sequence[str], dtypes: Sequence[torch.dtype] = DTYPES, count: int = 4
) -> Findings:
    """Runs the first samples of operators of the database."""
    findings = Findings()
    for name, function, sample in _samples(names, dtypes, count):
        with torch.no_grad(), CompareCalls(operators, findings, name), suppress(RuntimeError):
            function(sample.input, *sample.args, **sample.kwargs)
    return findings


def _samples(
    names: Sequence[str], dtypes: Sequence[torch.dtype], count: int
) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    database: list[Any] = op_db
    wanted = set(names)
    for op in database:
        if op.name not in wanted:
            continue
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                torch.manual_seed(1)
                random.seed(1)
                for i, sample in enumerate(
                    islice(op.sample_inputs("cpu", dtype, requires_grad=False), count)
                ):
                    yield f"{op.name} {dtype} #{i}", op.op, sample
