"""Run-time checks, including those of inputs. Failures are the coded errors of every emitter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from fx_converter._compat import LAYOUT_CHECK, has_effect, is_watched
from wrapper_ir.analysis.input_facts import Input, NumberInput, StorageInput, TensorInput
from wrapper_ir_runtime import (
    Agreement,
    InputGuard,
    ProgramGroups,
    StorageGuard,
    fail_assertion,
    fail_finite,
    fail_layout,
)
from wrapper_ir_runtime import check_apart as of_apart
from wrapper_ir_runtime import check_result as of_result
from wrapper_ir_runtime import check_written as of_written
from wrapper_ir_runtime.torch_types import TorchTensor
from wrapper_ir_torch import agreement, find_group, has_dispatch_modes, program_groups


@has_effect
def assert_layout(
    x: Tensor, sizes: Sequence[int], strides: Sequence[int], alignment: int = 0, message: str = ""
) -> None:
    """Raises ExecutionError WIR921 unless `x` has these sizes and strides (in elements; strides of size-1
    dims are ignored), and an address that is a multiple of `alignment` bytes (0: not checked)."""
    if isinstance(x, FakeTensor):
        return
    sizes, strides = tuple(sizes), tuple(strides)
    problem = ""
    if x.shape != sizes:  # torch's check accepts any empty tensor
        problem = f"expected sizes {list(sizes)}, got {list(x.shape)}"
    else:
        try:
            LAYOUT_CHECK(x, sizes, strides)
        except AssertionError:
            problem = f"expected strides {list(strides)} for sizes {list(sizes)}, got {list(x.stride())}"
        if alignment and x.data_ptr() % alignment:
            problem = problem or f"the address is not a multiple of {alignment} bytes"
    if problem:
        fail_layout(f"{problem} ({message})" if message else problem)


@has_effect
def check_result(
    x: object, name: str, dtype: torch.dtype, device: str, what: Sequence[str] = ("memory",)
) -> None:
    """Raises ExecutionError WIR927 unless the result of an operator is a tensor in strided memory within its
    storage, with this dtype and on this device. `what` lists the unproved properties; straight-line text
    compares only those."""
    if not isinstance(x, FakeTensor):
        of_result(name, x, dtype, device)


@has_effect
def check_apart(x: Tensor, name: str, operands: Sequence[Tensor]) -> None:
    """Raises ExecutionError WIR927 if an operator's result shares the storage of an operand."""
    if not isinstance(x, FakeTensor):
        of_apart(name, x, *operands)


@has_effect
def check_written(x: Tensor, name: str, dtype: torch.dtype, device: str, storage: int = 0) -> None:
    """Raises ExecutionError WIR927 unless a tensor that an operator wrote is in strided memory within its
    storage, with this dtype and on this device, and the storage has this many bytes."""
    if not isinstance(x, FakeTensor):
        of_written(name, x, dtype, device, storage)


@has_effect
def assert_alignment(x: Tensor, alignment: int, message: str = "") -> None:
    """Raises ExecutionError WIR921 unless the address of `x` is a multiple of `alignment` bytes."""
    if not isinstance(x, FakeTensor) and x.data_ptr() % alignment:
        problem = f"the address is not a multiple of {alignment} bytes"
        fail_layout(f"{problem} ({message})" if message else problem)


@has_effect
def assert_expr(condition: bool | torch.SymBool, message: str, text: str) -> None:
    """Raises ExecutionError WIR920 unless the condition is true; `text` is its expression."""
    if isinstance(condition, torch.SymBool):  # in a trace, this becomes a check of the new graph
        torch._check(condition, lambda: f"{message}: {text}")  # type: ignore[no-untyped-call]  # torch's
    elif not condition:
        fail_assertion(message, text)


@has_effect
def assert_finite(x: Tensor, name: str, message: str) -> None:
    """Raises TensorCheckError WIR922 if a floating-point tensor contains a NaN or an infinity."""
    if isinstance(x, FakeTensor) or not (x.is_floating_point() or x.is_complex()):
        return
    if not torch.isfinite(x).all():
        fail_finite(name, message)


@lru_cache(maxsize=256)
def _program_groups(names: tuple[str, ...], device: str, ranks: tuple[object, ...]) -> ProgramGroups:
    return program_groups(names, device, ranks)


@has_effect
def check_groups(names: Sequence[str], device: str = "cpu", ranks: Sequence[object] = ()) -> None:
    """Raises NotSupportedError WIR915 unless this process belongs to the process groups of these names,
    ExecutionError WIR936 if the artifact is another rank's."""
    _program_groups(tuple(names), device, _tuples(ranks))()


def _tuples(nested: Any) -> Any:  # Any: nested sequences
    """Converts nested sequences to tuples, which are hashable; graphs contain lists."""
    return tuple(map(_tuples, nested)) if isinstance(nested, list | tuple) else nested


@lru_cache(maxsize=256)
def _agreement(groups: tuple[str, ...], manifest: tuple[str, ...], owners: tuple[int, ...]) -> Agreement:
    """Returns one agreement for each set of groups, by their addresses: groups of another
    `init_process_group` are compared again."""
    return agreement(groups, manifest)


@has_effect
def check_agreement(groups: Sequence[str], manifest: Sequence[str]) -> None:
    """Raises ExecutionError WIR933 unless the processes of these groups run the same program."""
    if not has_dispatch_modes():
        _agreement(tuple(groups), tuple(manifest), tuple(id(find_group(name)) for name in groups))()


Expectation: TypeAlias = tuple[Any, ...]
"""An input's description as an argument of a node. Any: the fields of `TensorInput` or `NumberInput`."""
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, FakeTensor)
"""Types of inputs while torch traces a graph."""


def expectation(want: Input) -> Expectation:
    """Converts a description to plain tuples, for a node."""
    if isinstance(want, NumberInput):
        return (want.name, want.kind)
    more = (want.or_cpu, want.apart) if want.or_cpu or want.apart else ()
    return (want.name, want.text, want.dtype, want.device, want.sizes, want.strides, *more)


def described(expected: Expectation) -> Input:
    """Converts the description of a node back."""
    if len(expected) == 2:
        return NumberInput(name=expected[0], kind=expected[1])
    name, text, dtype, device, sizes, strides, *more = expected
    return TensorInput(
        name=name,
        text=text,
        dtype=dtype,
        device=device,
        sizes=tuple(sizes),
        strides=tuple(strides),
        or_cpu=bool(more and more[0]),
        apart=tuple(more[1]) if more else (),
    )


class _Guard(InputGuard):
    """Accepts symbolic and fake inputs while torch traces a graph."""

    def check(self, *inputs: object) -> None:
        """See `InputGuard`."""
        if not (is_watched() or any(isinstance(x, _SYMBOLIC) for x in inputs)):
            super().check(*inputs)


def input_guard(expected: Sequence[Expectation], *, is_traceable: bool = True) -> InputGuard:
    """Returns the check for these descriptions. A graph with direct kernel launches is not traceable."""
    return (_Guard if is_traceable else InputGuard)(torch, *map(described, expected))


@lru_cache(maxsize=256)
def _cached_guard(expected: tuple[Expectation, ...]) -> InputGuard:
    return input_guard(expected)


@has_effect
def check_inputs(inputs: Sequence[object], expected: Sequence[Expectation]) -> None:
    """Raises ExecutionError WIR926 for an argument of another class, dtype or device, and WIR921 for one of
    another layout."""
    _cached_guard(tuple(expected)).check(*inputs)


Storage = tuple[str, int | None, int]
"""An input's name, its constant or None number of bytes, and the bytes of an element, for a node."""


class _StorageGuard(StorageGuard):
    """Accepts all inputs while torch traces a graph."""

    def check(self, *tensors: TorchTensor) -> None:
        """See `StorageGuard`."""
        if not is_watched():
            super().check(*tensors)


def storage_guard(expected: Sequence[Storage], kernels: Iterable[object] = ()) -> StorageGuard:
    """Returns the check for these inputs; see `StorageGuard`."""
    inputs = (
        StorageInput(name=name, nbytes=nbytes, itemsize=itemsize) for name, nbytes, itemsize in expected
    )
    return _StorageGuard(kernels, *inputs)


@lru_cache(maxsize=256)
def _cached_storage_guard(expected: tuple[Storage, ...]) -> StorageGuard:
    return storage_guard(expected)


@has_effect
def check_storages(tensors: Sequence[Tensor], expected: Sequence[Storage]) -> None:
    """Raises ArgumentError WIR926 for an argument whose storage does not contain its elements."""
    if not (is_watched() or any(isinstance(x, FakeTensor) for x in tensors)):
        guard = _cached_storage_guard(_tuples(expected))
        if not guard.holds(*tensors):
            guard.check(*tensors)
