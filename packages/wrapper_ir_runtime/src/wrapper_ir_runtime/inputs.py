"""Input checks: one that reports what is wrong, and a fast one of torch that runs first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

from wrapper_ir.analysis.input_facts import Input, NumberInput, StorageInput, TensorFacts, TensorInput, extent
from wrapper_ir.errors import ArgumentError, ExecutionError, TensorCheckError
from wrapper_ir.plugins.protocols import CallerTensors
from wrapper_ir_runtime.caller import TorchCaller
from wrapper_ir_runtime.native_checks import CALLS_BEFORE_NATIVE, find_native_check
from wrapper_ir_runtime.torch_types import TorchModule, TorchTensor
from wrapper_ir_runtime.tracers import is_plain_thread, refuse_tracers

Caller: TypeAlias = CallerTensors[Any]
"""Any: leaves of a call are of every kind. Each is checked to be a tensor before it is used as one."""
_INT64 = 1 << 63
_MAX_RELEARNED = 16


def check_inputs(caller: Caller, expected: Sequence[Input], arguments: Sequence[object]) -> None:
    """Checks arguments against their descriptions.

    Raises ExecutionError WIR926 for another class, dtype or device, WIR921 for another layout, and WIR931 for
    a tensor in a storage that is resized while in use.
    """
    for want, got in zip(expected, arguments, strict=True):
        if isinstance(want, NumberInput):
            _check_number(want, got)
        elif not caller.is_tensor(got):
            _fail(want.name, f"a tensor {want.text}", type(got).__name__)
        else:
            _check_tensor(want, caller.facts(got))
    for want, got in zip(expected, arguments, strict=True):
        if isinstance(want, TensorInput) and want.apart:
            _check_apart(caller, want, got, [(expected[n].name, arguments[n]) for n in want.apart])


def expect_tensors(caller: Caller, leaves: Sequence[tuple[str, object]]) -> None:
    """Raises ExecutionError WIR926 for the first leaf that is not a tensor."""
    for name, leaf in leaves:
        if not caller.is_tensor(leaf):
            _fail(name, "a tensor", type(leaf).__name__)


def _check_number(want: NumberInput, got: object) -> None:
    class_name = type(got).__qualname__ if type(got).__module__ == "builtins" else _full_name(type(got))
    if class_name != want.kind:
        article = "an" if want.kind == "int" else "a"
        _fail(want.name, f"{article} {want.kind}", class_name, f"pass {want.kind}(...) of it")
    if isinstance(got, int) and not -_INT64 <= got < _INT64:
        _fail(want.name, "an int of 64 bits", str(got) if abs(got) < 1 << 256 else "a larger one")


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _check_tensor(want: TensorInput, got: TensorFacts) -> None:
    expected = f"{want.text} on {want.device}{' or cpu' if want.or_cpu else ''}"
    if got.special:
        _fail(want.name, expected, f"{got.special} {_tensor_text(got)}".rstrip(), got.hint)
    if got.dtype != want.dtype or not (
        _is_on(got.device, want.device) or (want.or_cpu and got.device == "cpu")
    ):
        _fail(want.name, expected, _tensor_text(got))
    if not _has_layout(want, got):
        _fail(want.name, expected, _tensor_text(got), code="WIR921")


def _check_apart(
    caller: Caller, want: TensorInput, got: object, others: Sequence[tuple[str, object]]
) -> None:
    for name, other in others:
        if caller.storage(other) == caller.storage(got):
            raise ExecutionError(
                "WIR931",
                f"argument {want.name}: its storage is resized, and argument {name} lies in it",
                hint=f"pass {name}.clone()",
            )


def _is_on(device: str, want: str) -> bool:
    """Returns whether a device matches. A wanted device without an index matches every index."""
    return device == want or (":" not in want and device.partition(":")[0] == want)


def _has_layout(want: TensorInput, got: TensorFacts) -> bool:
    if len(got.sizes) != len(want.sizes):
        return False
    if any(w is not None and w != n for w, n in zip(want.sizes, got.sizes)):
        return False
    if 0 in got.sizes:
        return True
    return all(n == 1 or w is None or w == s for n, w, s in zip(got.sizes, want.fixed_strides, got.strides))


def _tensor_text(facts: TensorFacts) -> str:
    """Returns the type as programs write it, with the device."""
    dense, running = [], 1
    for size in reversed(facts.sizes):
        dense.append(running)
        running *= max(size, 1)
    sizes = ", ".join(map(str, facts.sizes))
    is_plain = not facts.strides or facts.strides == tuple(reversed(dense))
    strides = "" if is_plain else f"{{{', '.join(map(str, facts.strides))}}}"
    return f"{facts.dtype}[{sizes}]{strides} on {facts.device}"


def _fail(name: str, expected: str, actual: str, hint: str = "", code: str = "WIR926") -> NoReturn:
    kind = TensorCheckError if code == "WIR921" else ArgumentError
    raise kind(code, f"argument {name}: expected {expected}, got {actual}", hint=hint)


class TensorGuards(Protocol):
    """Compiled check of tensors in torch."""

    def check(self, *tensors: object) -> bool:
        """Returns whether tensors match the guarded ones."""


class InputGuard:
    """Guards the inputs of a program that runs on torch.

    `match(*tensors)` calls torch's compiled check of class, dtype, device, dispatch keys, sizes and strides.
    If it returns False, `check(*arguments)` decides.

    Torch compares classes, dispatch keys and `requires_grad` exactly, although several values are valid.
    `match` is therefore rebuilt from tensors that `check` accepted; it does not reference them. It does not
    detect all dispatch modes: callers query `torch._C._len_torch_dispatch_stack`, and call `check` if modes
    are active.
    """

    def __init__(self, torch: TorchModule, *inputs: Input) -> None:
        self._caller = TorchCaller(torch)
        self._torch = torch
        self._inputs = inputs
        self._tensors = [(n, i) for n, i in enumerate(inputs) if isinstance(i, TensorInput)]
        self._learned = 0
        self.match: Callable[..., bool] = _nothing_is_known

    def check(self, *arguments: object) -> None:
        """Raises the errors of `refuse_tracers` and `check_inputs`. Then `match` accepts such tensors."""
        refuse_tracers(self._torch, arguments)
        check_inputs(self._caller, self._inputs, arguments)
        if self._learned == _MAX_RELEARNED or any(i.apart for _, i in self._tensors):
            return  # torch's check does not compare storages
        if not is_plain_thread(self._torch):
            return  # dispatch keys of the tensors would include those of a mode or a transform
        self._learned += 1
        tensors = [arguments[n] for n, _ in self._tensors]
        plain = (self._torch.Tensor, self._torch.nn.Parameter)
        if tensors and all(type(t) in plain for t in tensors):  # classes that exist as long as torch does
            guards: Callable[..., TensorGuards] = self._torch._C._dynamo.guards.TensorGuards
            self.match = guards(
                *tensors,
                dynamic_dims_sizes=[list(i.sizes) for _, i in self._tensors],
                dynamic_dims_strides=[list(i.fixed_strides) for _, i in self._tensors],
            ).check


class StorageGuard:
    """Guards the storages of tensors that a program reads or writes.

    `holds(*tensors)` returns whether each storage contains all elements of its tensor. `check(*tensors)`
    raises ArgumentError WIR926 otherwise.

    Native code needs some nanoseconds a tensor, Python hundreds. A loaded kernel may provide it, as attribute
    `holds` of itself or of its function's `__self__`. Otherwise, it is loaded in the background once a
    program is called often, and Python is used until then.
    """

    def __init__(self, kernels: Iterable[object], *expected: StorageInput) -> None:
        self._wanted = expected
        self._needs = tuple((one.nbytes, one.itemsize) for one in expected)
        self._left = CALLS_BEFORE_NATIVE
        native = next(filter(None, map(_native_check, kernels)), None)
        self.holds: Callable[..., bool] = native or self._holds

    def _holds(self, *tensors: TorchTensor) -> bool:
        self._left -= 1
        if self._left == 0:
            find_native_check(self._replace)
        for tensor, (nbytes, itemsize) in zip(tensors, self._needs):
            available: int = tensor.untyped_storage().nbytes()
            required = extent(tensor.size(), tensor.stride()) * itemsize if nbytes is None else nbytes
            if required and available - required < tensor.storage_offset() * itemsize:
                return False
        return True

    def _replace(self, native: Callable[..., bool]) -> None:
        self.holds = native

    def check(self, *tensors: TorchTensor) -> None:
        """Raises ArgumentError WIR926 for the first storage that does not contain its tensor."""
        for tensor, want in zip(tensors, self._wanted):
            required = _spanned(tensor, want)
            available = tensor.untyped_storage().nbytes()
            start = tensor.storage_offset() * want.itemsize
            if required > available - start and required:
                _fail_storage(want.name, start + required, available)


def _native_check(kernel: object) -> Callable[..., bool] | None:
    check: Callable[..., bool] | None = getattr(kernel, "holds", None)  # of the kernel's own module
    return check or getattr(getattr(kernel, "__self__", None), "holds", None)


def _spanned(tensor: TorchTensor, want: StorageInput) -> int:
    return extent(tensor.size(), tensor.stride()) * want.itemsize


def _fail_storage(name: str, required: int, available: int) -> NoReturn:
    _fail(
        name, f"a storage of at least {required} bytes", f"one of {available}", "restore it before the call"
    )


def check_storages(caller: Caller, expected: Sequence[StorageInput], arguments: Sequence[object]) -> None:
    """Raises ArgumentError WIR926 for the first argument whose storage does not contain its elements."""
    for want, got in zip(expected, arguments, strict=True):
        facts = caller.facts(got)
        if facts.room is not None:
            required = extent(facts.sizes, facts.strides) * want.itemsize
            if required and required > facts.room:
                _fail_storage(want.name, facts.start + required, facts.start + facts.room)


def _nothing_is_known(*tensors: object) -> bool:
    return not tensors
