"""The calling convention of a native library's program with torch tensors, which share memory by DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import torch
from torch.utils.dlpack import from_dlpack

from cpp_wrapper.errors import OutputError
from cpp_wrapper.library.failures import error_of
from cpp_wrapper.library.python import LoadedProgram, read_inputs
from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import NumberInput
from wrapper_ir.errors import ArgumentError
from wrapper_ir_native.dlpack import Borrowed, borrow_capsule, borrow_number, capsule_of, number_place
from wrapper_ir_native.file import Image
from wrapper_ir_native.loading import open_model
from wrapper_ir_native.program import Constants, Model
from wrapper_ir_runtime import Convention, InputGuard, TorchCaller, keep_from_dynamo
from wrapper_ir_runtime.binding import literal

_to_dlpack = torch._C._to_dlpack  # `torch.utils.dlpack.to_dlpack`, which type checkers do not find
_NUMBERS = {int: "int", float: "float", bool: "bool"}
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _TorchModel(Model):
    """An open model whose errors are those of other engines."""

    def failure(self) -> Exception:
        return error_of(self.error_text())

    def unload(self) -> None:
        """Keeps the code, which frees results: torch's tensors do not refer to the model."""


class NativeProgram(LoadedProgram):
    """A program of a native library."""

    def __init__(
        self,
        image: Image,
        signature: ir.Signature,
        *,
        check_constants: bool,
        device: int | None = None,
        in_place: bool = False,
    ) -> None:
        """`device` is the index of a program's CUDA device; None: the program has none. `in_place` loads the
        code by the file's path.

        Raises CacheError CPP304 and CPP306, and IsaError CPP201.
        """
        self.metadata, self.path = image.facts, image.path
        self._device = device
        self._model = open_model(
            image,
            check_constants=check_constants,
            model_class=_TorchModel,
            device=device or 0,
            in_place=in_place,
        )
        self._signature, self._caller = signature, TorchCaller(torch)
        self._convention = Convention(signature, self._caller)
        self._inputs = read_inputs(image.facts)
        self._has_numbers = any(isinstance(one, NumberInput) for one in self._inputs)
        self._guard = InputGuard(torch, *self._inputs)
        self._kinds: Sequence[str] = self.metadata["results"]
        self._shared = frozenset[int](self.metadata["shared_results"])
        static = {one.leaf for one in signature.statics}
        self._leaves = [leaf for leaf in range(signature.inputs.num_leaves) if leaf not in static]
        self._constants = Constants(self._model)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Calls the program. Raises ExecutionError and LaunchError."""
        return self._slow(*args, **kwargs)

    def run_as(self, other: LoadedProgram) -> None:
        """See `LoadedProgram.run_as`."""
        assert isinstance(other, NativeProgram)  # its library was built from the same program
        self._model, self._constants, self.path = other._model, other._constants, other.path

    def run_into(self, outputs: Sequence[torch.Tensor], *args: object, **kwargs: object) -> None:
        """Calls the program and writes its results into the caller's tensors, one for each tensor output,
        in order.

        They have the outputs' dtypes and sizes, any strides, and overlap neither each other nor arguments.
        Otherwise raises OutputError CPP610 and writes nothing. Results are computed in tensors that have the
        program's strides, and copied into others. If the program fails, the contents are not defined. Raises
        the errors of calls.
        """
        leaves = self._convention.leaves(args, kwargs)
        flat = self._convention.arguments(leaves)
        self._guard.check(*flat)
        inputs = flat if self._signature.shared else [leaves[leaf] for leaf in self._leaves]
        for number, target in enumerate(outputs):
            if type(target) not in _PLAIN:
                message = f"output {number}: expected a plain tensor, got {type(target).__name__}"
                raise OutputError("CPP610", message)
        rest = iter(outputs)
        bindings = self._signature.bindings
        if self._signature.shared:
            bindings = tuple(ir.ResultOutput(index=n) for n in range(len(self._kinds)))
        targets = [self._target(binding, rest) for binding in bindings]
        if (extra := sum(1 for _ in rest)) > 0:
            count = len(outputs) - extra
            raise OutputError("CPP610", f"expected tensors for {count} outputs, got {len(outputs)}")
        self._use_stream()
        self._model.run_into([_borrowed(value) for value in inputs], targets)

    def _target(self, binding: ir.OutputBinding, rest: Iterator[torch.Tensor]) -> Borrowed | None:
        match binding:
            case ir.ConstantOutput(value=value):
                kind = _NUMBERS.get(type(literal(value)))
                return number_place(kind) if kind else None
            case ir.ResultOutput(index=index) | ir.InputView(index=index) | ir.ResultView(index=index):
                if self._kinds[index] == "none":
                    return None
                if self._kinds[index] != "tensor":
                    return number_place(self._kinds[index])
            case _:
                pass
        target = next(rest, None)
        if target is None:
            raise OutputError("CPP610", "expected a tensor for each tensor output, got fewer")
        return borrow_capsule(_to_dlpack(target))

    def _run_flat(self, args: tuple[object, ...]) -> tuple[object, ...]:
        if len(args) != len(self._inputs):
            names = [one.name for one in self._inputs]
            raise ArgumentError("WIR926", f"expected {len(names)} arguments {names}, got {len(args)}")
        if self._has_numbers or torch._C._len_torch_dispatch_stack() or not self._guard.match(*args):
            self._guard.check(*args)
        params = [_borrowed(value) for value in args]
        self._use_stream()
        addresses = self._model.run_program(params, len(self._kinds))
        results = list(map(_result, addresses, self._kinds))
        for number in self._shared:
            results[number] = _kept(results[number], args)
        return tuple(results)

    def _use_stream(self) -> None:
        """Runs the next call on torch's current stream."""
        if self._device is not None:
            self._model.use_stream(torch._C._cuda_getCurrentRawStream(self._device))

    # --- constants

    def update_constants(
        self,
        values: Mapping[str, torch.Tensor],
        *,
        is_full: bool = False,
        is_inactive: bool = False,
        is_borrowed: bool = False,
    ) -> None:
        """See `LoadedProgram.update_constants`."""
        tensors = {name: _borrowed(value) for name, value in values.items()}
        self._use_stream()
        self._constants.update(tensors, is_full=is_full, is_inactive=is_inactive, is_borrowed=is_borrowed)

    def swap_constants(self) -> None:
        """See `LoadedProgram.swap_constants`."""
        self._constants.swap()

    def free_inactive_constants(self) -> None:
        """See `LoadedProgram.free_inactive_constants`."""
        self._constants.free_inactive()


keep_from_dynamo(torch, NativeProgram.__call__, NativeProgram.boxed, NativeProgram.run_into)


def _borrowed(value: object) -> Borrowed:
    """Returns an argument that the guard accepted, or one that the program does not read."""
    kind = _NUMBERS.get(type(value))
    return (
        borrow_capsule(_to_dlpack(cast(torch.Tensor, value)))
        if kind is None
        else borrow_number(value, "", kind)
    )


def _result(address: int | None, kind: str) -> object:
    if address is None:
        return None
    tensor = from_dlpack(capsule_of(address))
    return tensor if kind == "tensor" else tensor.item()


def _kept(result: object, args: Sequence[object]) -> object:
    """Returns a result that may be in the memory of an argument, over that argument's storage then."""
    for value in args:
        if isinstance(result, torch.Tensor) and isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            offset = result.data_ptr() - storage.data_ptr()
            if 0 <= offset < storage.nbytes():
                empty = torch.empty(0, dtype=result.dtype, device=result.device)
                start = offset // result.element_size()
                return empty.set_(storage, start, result.size(), result.stride())
    return result
