"""Run-time checks, of inputs among others; failures are the coded errors of every emitter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

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
from wrapper_ir_torch import agreement, find_group, has_dispatch_modes, program_groups


@has_effect
def assert_layout(
    x: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    alignment: int = 0,
    message: str = "",
) -> None:
    """Raises ExecutionError WIR921 unless `x` has these sizes and strides (in elements; those of size-1 dims are free),
    and an address that is a multiple of `alignment` bytes where that is not 0."""
    if isinstance(x, FakeTensor):
        return
    sizes, strides = tuple(sizes), tuple(strides)
    problem = ""
    if x.shape != sizes:  # asked here, since torch's check passes whatever is empty
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
    x: Any, name: str, dtype: torch.dtype, device: str, what: Sequence[str] = ("memory",)
) -> None:
    """Raises ExecutionError WIR927 unless what an operator returned is a tensor in strided memory within its storage, of this
    dtype and on this device. `what` of that is not proved, which those who write the call as text may look at alone."""
    if not isinstance(x, FakeTensor):
        of_result(name, x, dtype, device)


@has_effect
def check_apart(x: Tensor, name: str, operands: Sequence[Tensor]) -> None:
    """Raises ExecutionError WIR927 if an operator's result shares the storage of an operand."""
    if not isinstance(x, FakeTensor):
        of_apart(name, x, *operands)


@has_effect
def check_written(x: Any, name: str, dtype: torch.dtype, device: str, storage: int = 0) -> None:
    """Raises ExecutionError WIR927 unless a tensor that an operator wrote is still in strided memory within its storage, of this
    dtype and on this device, and the storage has this many bytes."""
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
    """Raises ExecutionError WIR920 unless the condition, which reads `text`, holds."""
    if isinstance(
        condition, torch.SymBool
    ):  # while the graph is traced again, it becomes a check of the new graph
        torch._check(condition, lambda: f"{message}: {text}")  # type: ignore[no-untyped-call]  # torch leaves it so
    elif not condition:
        fail_assertion(message, text)


@has_effect
def assert_finite(x: Tensor, name: str, message: str) -> None:
    """Raises TensorCheckError WIR922 where a floating-point tensor holds a NaN or an infinity."""
    if isinstance(x, FakeTensor) or not (x.is_floating_point() or x.is_complex()):
        return
    if not torch.isfinite(x).all():
        fail_finite(name, message)


@lru_cache(maxsize=256)
def _program_groups(names: tuple[str, ...], device: str, ranks: tuple[Any, ...]) -> ProgramGroups:
    return program_groups(names, device, ranks)


@has_effect
def check_groups(names: Sequence[str], device: str = "cpu", ranks: Sequence[Any] = ()) -> None:
    """Raises NotSupportedError WIR915 unless this process belongs to the process groups of these names, ExecutionError WIR936 where the
    artifact is another rank's."""
    _program_groups(tuple(names), device, _tuples(ranks))()


def _tuples(nested: Any) -> Any:
    """Nested sequences as tuples, which can be looked up: graphs hold lists."""
    return tuple(map(_tuples, nested)) if isinstance(nested, list | tuple) else nested


@lru_cache(maxsize=256)
def _agreement(groups: tuple[str, ...], manifest: tuple[str, ...], owners: tuple[int, ...]) -> Agreement:
    """One for each set of groups, by their addresses: those of another `init_process_group` are asked again."""
    return agreement(groups, manifest)


@has_effect
def check_agreement(groups: Sequence[str], manifest: Sequence[str]) -> None:
    """Raises ExecutionError WIR933 unless the processes of these groups run the same program."""
    if not has_dispatch_modes():
        _agreement(tuple(groups), tuple(manifest), tuple(id(find_group(name)) for name in groups))()


# Any in this file: arguments of every kind
Expectation = tuple[Any, ...]
"""An input's description as arguments of nodes can hold it."""
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, FakeTensor)
"""What stands for inputs while torch looks at a graph."""


def expectation(want: Input) -> Expectation:
    """A description as plain tuples, for a node."""
    if isinstance(want, NumberInput):
        return (want.name, want.kind)
    more = (want.or_cpu, want.apart) if want.or_cpu or want.apart else ()
    return (want.name, want.text, want.dtype, want.device, want.sizes, want.strides, *more)


def described(expected: Expectation) -> Input:
    """The description that a node holds."""
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
    """Passes what stands for inputs while torch traces a graph again."""

    def check(self, *given: Any) -> None:
        """See `InputGuard`."""
        if not (is_watched() or any(isinstance(x, _SYMBOLIC) for x in given)):
            super().check(*given)


def input_guard(expected: Sequence[Expectation], *, is_traceable: bool = True) -> InputGuard:
    """The check for these descriptions. Of a graph that launches kernels as they are, tracers see nothing."""
    return (_Guard if is_traceable else InputGuard)(torch, *map(described, expected))


@lru_cache(maxsize=256)
def _known_guard(expected: tuple[Expectation, ...]) -> InputGuard:
    return input_guard(expected)


@has_effect
def check_inputs(given: Sequence[Any], expected: Sequence[Expectation]) -> None:
    """Raises ExecutionError WIR926 for an argument of another class, dtype or device, and WIR921 for one of another layout.
    Torch knows that the call has an effect."""
    _known_guard(tuple(expected)).check(*given)


Storage = tuple[str, int | None, int]
"""An input's name, the bytes that it needs where numbers say it, and those of an element, for a node."""


class _StorageGuard(StorageGuard):
    """Passes what stands for inputs while torch traces a graph again."""

    def check(self, *tensors: Any) -> None:
        """See `StorageGuard`."""
        if not is_watched():
            super().check(*tensors)


def storage_guard(wanted: Sequence[Storage], kernels: Iterable[object] = ()) -> StorageGuard:
    """The check for these inputs; see `StorageGuard`."""
    inputs = (StorageInput(name=name, nbytes=nbytes, itemsize=itemsize) for name, nbytes, itemsize in wanted)
    return _StorageGuard(kernels, *inputs)


@lru_cache(maxsize=256)
def _known_storage_guard(wanted: tuple[Storage, ...]) -> StorageGuard:
    return storage_guard(wanted)


@has_effect
def check_storages(given: Sequence[Any], wanted: Sequence[Storage]) -> None:
    """Raises ArgumentError WIR926 for an argument whose storage does not hold its elements. Torch knows that the call has an
    effect."""
    if not (is_watched() or any(isinstance(x, FakeTensor) for x in given)):
        guard = _known_storage_guard(_tuples(wanted))
        if not guard.holds(*given):
            guard.check(*given)
