"""A loaded model: calls with numpy arrays, and its constants."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from wrapper_ir_native import dlpack
from wrapper_ir_native.api import BORROWED, CPU, CUDA, FULL, INACTIVE, Api, DLManagedTensorVersioned, DLTensor
from wrapper_ir_native.code import close_code
from wrapper_ir_native.device import DeviceTensor
from wrapper_ir_native.dlpack import Array, Borrowed, RawTensor
from wrapper_ir_native.errors import ArgumentError, CopyError, OutputError, UnsupportedError, error_of
from wrapper_ir_native.structure import Arguments, Item, Json, builder, count_leaves, expect_static, literal


class Model:
    """An open model of a library: the functions that every caller needs, with their errors."""

    def __init__(self, library: ctypes.CDLL, api: Api, address: int) -> None:
        self._library, self._api, self._address = library, api, address

    def __del__(self) -> None:
        self._api.close(self._address)
        self.unload()

    def unload(self) -> None:
        """Unloads the code: results refer to the model, so none is left."""
        close_code(self._library)

    def check(self, status: int) -> None:
        """Raises the error of a function that failed on this thread."""
        if status != 0:
            raise self.failure()

    def failure(self) -> Exception:
        """Returns this thread's last error."""
        return error_of(self.error_text())

    def error_text(self) -> str:
        """Returns the text of this thread's last error."""
        return bytes(self._api.last_error()).decode(errors="replace")

    def run(self, inputs: Sequence[Borrowed], num_results: int) -> list[int | None]:
        """Runs the model on its inputs. Returns the addresses of results, which the caller owns."""
        results = (ctypes.c_void_p * num_results)()
        addresses = (ctypes.c_void_p * len(inputs))(*[one.address for one in inputs])
        self.check(self._api.run(self._address, addresses, len(inputs), results, num_results))
        return list(results)

    def run_program(self, params: Sequence[Borrowed], num_results: int) -> list[int | None]:
        """As `run`, on the parameters and results of the program."""
        results = (ctypes.c_void_p * num_results)()
        addresses = (ctypes.c_void_p * len(params))(*[one.address for one in params])
        self.check(self._api.run_program(self._address, addresses, len(params), results, num_results))
        return list(results)

    def run_into(self, inputs: Sequence[Borrowed], results: Sequence[Borrowed | None]) -> None:
        """Runs the model on its inputs, and writes its results."""
        addresses = (ctypes.c_void_p * len(inputs))(*[one.address for one in inputs])
        targets = (ctypes.c_void_p * len(results))(*[one.address if one else None for one in results])
        self.check(self._api.run_into(self._address, addresses, len(inputs), targets, len(results)))

    def update(self, values: Mapping[str, Borrowed], flags: int) -> None:
        """Sets constants."""
        names = (ctypes.c_char_p * len(values))(*[name.encode() for name in values])
        addresses = (ctypes.c_void_p * len(values))(*[one.address for one in values.values()])
        self.check(self._api.update_constants(self._address, names, addresses, len(values), flags))

    # --- devices

    def use_stream(self, stream: int) -> None:
        """Sets the stream of this thread's later calls."""
        self.check(self._api.use_stream(stream))

    def synchronize(self, stream: int) -> None:
        """Waits for the work of a stream."""
        self.use_stream(stream)
        self.check(self._api.synchronize(self._address))

    def copy_to(self, device: int, source: Borrowed) -> int:
        """Returns the address of a copy of a tensor on a device (a type of DLPack), which the caller owns."""
        copy = ctypes.c_void_p()
        self.check(self._api.copy_to(self._address, device, source.address, ctypes.byref(copy)))
        assert copy.value is not None  # after a success
        return copy.value

    # --- constants

    def swap(self) -> None:
        """Exchanges active and inactive constants."""
        self.check(self._api.swap_constants(self._address))

    def free_inactive(self) -> None:
        """Frees the inactive constants."""
        self.check(self._api.free_inactive_constants(self._address))

    def extract(self, name: str, flags: int) -> int:
        """Returns the address of a copy of a constant, which the caller owns."""
        value = ctypes.c_void_p()
        self.check(self._api.extract_constant(self._address, name.encode(), flags, ctypes.byref(value)))
        assert value.value is not None  # after a success
        return value.value


class Constants:
    """Changes of a model's constants, and the caller's arrays that active and inactive ones use."""

    def __init__(self, model: Model) -> None:
        self._model, self._lock = model, threading.Lock()
        self._active: dict[str, object] = {}
        self._inactive: dict[str, object] | None = None

    def update(
        self, values: Mapping[str, Borrowed], *, is_full: bool, is_inactive: bool, is_borrowed: bool
    ) -> None:
        """Sets constants; keeps the arrays of an update, and drops those that it replaced."""
        flags = FULL * is_full | INACTIVE * is_inactive | BORROWED * is_borrowed
        with self._lock:
            self._model.update(values, flags)
            base = self._inactive if is_inactive and self._inactive is not None else self._active
            arrays = {name: value for name, value in base.items() if name not in values}
            if is_borrowed:
                arrays.update((name, one.keeper) for name, one in values.items())
            if is_inactive:
                self._inactive = arrays
            else:
                self._active = arrays

    def swap(self) -> None:
        """Exchanges active and inactive constants."""
        with self._lock:
            self._model.swap()
            self._active, self._inactive = self._inactive or {}, self._active

    def free_inactive(self) -> None:
        """Frees the inactive constants."""
        with self._lock:
            self._model.free_inactive()
            self._inactive = None


class _Input(NamedTuple):
    """A parameter of the program: its leaf among the arguments, name, and kind of number, '' for a tensor."""

    leaf: int
    name: str
    number: str
    is_written: bool
    is_on_device: bool


class NativeProgram:
    """A model of the library at `path`. `metadata` lists its inputs, results, constants and signature.

    A program for a CUDA device takes tensors of other libraries by DLPack, and returns `DeviceTensor`. Arrays
    of the host are copied to the device; if all tensor arguments are such arrays, results are arrays, too.
    """

    stream: int = 0
    """The CUDA stream of calls, as an address; 0: the default stream."""

    def __init__(self, model: Model, facts: Mapping[str, Json], path: Path) -> None:
        """Raises UnsupportedError WIR916 for a signature that needs torch."""
        self.metadata, self.path = facts, path
        self._model = model
        signature = facts["signature"]
        for field, what in (
            ("unwraps", "tensor subclasses"),
            ("shared", "arguments that overlap in memory which the model writes"),
        ):
            if signature.get(field):
                raise UnsupportedError(
                    "WIR916", f"{path} has {what}, which need torch", "load it with cpp_wrapper.load"
                )
        self._arguments = Arguments(signature)
        self._statics = [(s["leaf"], literal(s["value"])) for s in signature.get("statics", ())]
        self._names: Sequence[str] = signature.get("names", ())
        self._same = [one["leaves"] for one in signature.get("same", ())]
        mutated = {*signature.get("written", ()), *(b["leaf"] for b in signature.get("write_backs", ()))}
        self._inputs = [
            _Input(leaf, one["name"], one.get("kind", ""), leaf in mutated, one.get("device", "cpu") != "cpu")
            for leaf, one in zip(signature["params"], facts["inputs"])
        ]
        fixed = {leaf for leaf, _ in self._statics}
        self._leaves = [n for n in range(count_leaves(signature["inputs"])) if n not in fixed]
        self._by_leaf = {one.leaf: one for one in self._inputs}
        self._kinds: Sequence[str] = facts["results"]
        self._shared = frozenset[int](facts["shared_results"])
        self._bindings = signature["bindings"]
        self._build = builder(signature["outputs"])
        self._has_device = facts["device"] != "cpu"
        self._constants = Constants(model)

    def __repr__(self) -> str:
        return f"<model of {self.path}>"

    def __call__(self, *args: Item, **kwargs: Item) -> Item:
        """Calls the model. Any number of threads may do so unless the model writes its constants.

        Raises ArgumentError and TensorCheckError for wrong arguments, and ExecutionError.
        """
        leaves = self._arguments.leaves(args, kwargs)
        self._check_leaves(leaves)
        if self._has_device:
            self._model.use_stream(self.stream)
        params = [self._borrow(leaves[one.leaf], one) for one in self._inputs]
        addresses = self._model.run_program(params, len(self._kinds))
        owners = [
            (self._model, params) if n in self._shared else self._model for n in range(len(self._kinds))
        ]
        results = list(map(self._result, addresses, self._kinds, owners))
        if self._has_device and self._is_on_host(leaves):
            results = [one.numpy() if isinstance(one, DeviceTensor) else one for one in results]
        return self._build(iter(self._outputs(leaves, results)))

    def _is_on_host(self, leaves: Sequence[Item]) -> bool:
        """Returns whether all tensor arguments are arrays of the host, and there is one."""
        tensors = [leaves[one.leaf] for one in self._inputs if not one.number]
        return bool(tensors) and all(map(dlpack.is_on_host, tensors))

    def _result(self, address: int | None, kind: str, owner: object) -> Item:
        """Returns a result of the program as the caller gets it."""
        if address is None:
            return None
        if kind != "tensor":
            return dlpack.scalar_of(address)
        if self._has_device and DLManagedTensorVersioned.from_address(address).dl_tensor.device_type != CPU:
            return DeviceTensor(address, self._model, self.stream, owner)
        return dlpack.array_of(address, owner).array

    def _check_leaves(self, leaves: Sequence[Item]) -> None:
        for leaf, want in self._statics:
            expect_static(self._names[leaf], leaves[leaf], want)
        for group in self._same:
            arrays = [DLTensor.from_address(dlpack.borrow(leaves[n], "").address) for n in group]
            if len({(one.data, one.byte_offset) for one in arrays}) != 1:
                names = ", ".join(self._names[n] for n in group)
                raise ArgumentError("WIR926", f"arguments {names} must be one array, as at capture")

    def _borrow(self, value: Item, one: _Input) -> Borrowed:
        if one.number:
            return dlpack.borrow_number(value, one.name, one.number)
        if not self._has_device:
            return dlpack.borrow(value, one.name, is_written=one.is_written)
        if not one.is_on_device or not dlpack.is_on_host(value):
            # DLPack's number of the default stream is 1
            return dlpack.borrow(value, one.name, is_written=one.is_written, stream=self.stream or 1)
        if one.is_written:
            raise ArgumentError(
                "WIR926", f"argument {one.name}: the model writes it on its device: pass a tensor there"
            )
        return self._moved(value, one.name)

    def _moved(self, value: Item, name: str) -> Borrowed:
        """Returns a copy of an array on the device."""
        return dlpack.own(self._model.copy_to(CUDA, dlpack.borrow(value, name)), self._model)

    def _outputs(self, leaves: Sequence[Item], results: Sequence[Item]) -> list[Item]:
        outputs: list[Item] = []
        for binding in self._bindings:
            match binding:
                case {"class": "input_output", "leaf": leaf}:
                    outputs.append(leaves[leaf])
                case {"class": "constant_output"}:
                    outputs.append(literal(binding["value"]))
                case _:  # a result, or a view of an input or of another result: memory is shared anyway
                    outputs.append(results[binding["index"]])
        return outputs

    def run_into(self, outputs: Sequence[Item], *args: Item, **kwargs: Item) -> None:
        """Calls the model and writes its results into the caller's arrays, one for each tensor output, in
        order.

        They have the outputs' element types and sizes, any strides, and overlap neither each other nor
        arguments. Otherwise raises OutputError CPP610 and writes nothing. Results are computed in arrays that
        are aligned to 64 bytes and contiguous, and copied into others. If the model itself fails, the
        contents are not defined. Raises the errors of calls.
        """
        leaves = self._arguments.leaves(args, kwargs)
        self._check_leaves(leaves)
        if self._has_device:
            self._model.use_stream(self.stream)
        inputs = [self._borrow_leaf(leaves, leaf) for leaf in self._leaves]
        rest = iter(outputs)
        targets = [self._target(binding, rest) for binding in self._bindings]
        if (extra := sum(1 for _ in rest)) > 0:
            count = len(outputs) - extra
            raise OutputError("CPP610", f"expected tensors for {count} outputs, got {len(outputs)}")
        self._model.run_into(inputs, targets)

    def _borrow_leaf(self, leaves: Sequence[Item], leaf: int) -> Borrowed:
        one = self._by_leaf.get(leaf)
        if one is not None:
            return self._borrow(leaves[leaf], one)
        value = leaves[leaf]  # the program does not read it
        kind = {int: "int", float: "float", bool: "bool"}.get(type(value))
        name = self._names[leaf]
        return dlpack.borrow_number(value, name, kind) if kind else dlpack.borrow(value, name)

    def _target(self, binding: Mapping[str, Json], rest: Iterator[Item]) -> Borrowed | None:
        """Returns the place of an output: the caller's next array for a tensor."""
        match binding:
            case {"class": "constant_output", "value": value}:
                kind = {int: "int", float: "float", bool: "bool"}.get(type(literal(value)))
                return dlpack.number_place(kind) if kind else None
            case {"class": "input_output"}:
                pass
            case {"index": index} if self._kinds[index] == "none":
                return None
            case {"index": index} if self._kinds[index] != "tensor":
                return dlpack.number_place(self._kinds[index])
        target = next(rest, None)
        if target is None:
            raise OutputError("CPP610", "expected an array for each tensor output, got fewer")
        try:
            stream = (self.stream or 1) if self._has_device else None
            return dlpack.borrow(target, "of an output", is_written=True, stream=stream)
        except ArgumentError as error:
            raise OutputError("CPP610", error.message) from error

    # --- constants

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of constants; tied ones have several."""
        return tuple(self.metadata["constants"])

    def update_constants(
        self,
        values: Mapping[str, Json],
        *,
        is_full: bool = False,
        is_inactive: bool = False,
        is_borrowed: bool = False,
    ) -> None:
        """Sets constants, by any of their names, for later calls; current calls continue with the old values.

        `is_full`: all constants must be given. `is_inactive`: changes the set that `swap_constants`
        activates. `is_borrowed`: uses an array's memory, which must not change, if the constant's storage has
        no other constant; otherwise it is copied. Raises ConstantError CPP530 for unknown names, and arrays
        of another element type or shape.
        """
        tensors = {name: dlpack.borrow(value, f"for constant {name}") for name, value in values.items()}
        self._constants.update(tensors, is_full=is_full, is_inactive=is_inactive, is_borrowed=is_borrowed)

    def swap_constants(self) -> None:
        """Exchanges active and inactive constants between calls.

        Raises ConstantError CPP531 if there are no inactive ones.
        """
        self._constants.swap()

    def free_inactive_constants(self) -> None:
        """Frees the inactive constants once the calls that use them have ended."""
        self._constants.free_inactive()

    def extract_constant(self, name: str, *, is_inactive: bool = False) -> Array | RawTensor:
        """Returns a copy of a constant. Raises ConstantError CPP530 for an unknown name."""
        address = self._model.extract(name, INACTIVE * is_inactive)
        if self._has_device and DLManagedTensorVersioned.from_address(address).dl_tensor.device_type != CPU:
            return DeviceTensor(address, self._model, self.stream).numpy()
        return dlpack.array_of(address, self._model).array

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raises CopyError CPP611: the library owns constants and code."""
        raise CopyError(
            "CPP611",
            f"the model of {self.path} cannot be copied or pickled",
            "wrapper_ir_native.load opens the file again, also in another process; "
            "constants then have the values of the build",
        )
