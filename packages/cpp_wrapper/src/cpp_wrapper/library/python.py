"""The calling convention of a library's program: the native fast path and the fallback in Python.

The library (`python.cpp`) binds calls that pass exact tuples and lists as the capture did. All other calls go
through `Convention`, which converts the arguments or reports the error.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import torch

from cpp_wrapper._compat import modes_function, tensor_offset, wrap_function
from cpp_wrapper.errors import CopyError, OutputError
from cpp_wrapper.library.failures import error_of
from cpp_wrapper.library.groups import group_check
from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import Input, NumberInput, TensorInput
from wrapper_ir.errors import ArgumentError, ExecutionError
from wrapper_ir.plugins.protocols import Containers
from wrapper_ir_runtime import (
    Convention,
    InputGuard,
    TorchCaller,
    apart_leaves,
    gradient_leaves,
    keep_from_dynamo,
    literal,
)
from wrapper_ir_runtime.trees import container_maker, flatten, tree_keys

_T = TypeVar("_T")
# Any in this file: the caller's arguments, and tuples that the library reads
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_KINDS = {ir.TreeKind.LEAF: 0, ir.TreeKind.TUPLE: 1, ir.TreeKind.LIST: 2, ir.TreeKind.DICT: 3}
_OTHER = 4
_VALUES = {"int": "i", "float": "f", "bool": "b", "none": "n"}


class LoadedProgram:
    """A program of the library at `path`. `metadata` lists its inputs, results, constants and signature."""

    def __init__(
        self, library: ctypes.CDLL, facts: Mapping[str, Any], signature: ir.Signature, path: Path
    ) -> None:
        """Raises CacheError CPP304 and IsaError CPP201."""
        self.metadata, self.path = facts, path
        self._successor: LoadedProgram | None = None
        self._library = library
        self._signature, self._caller = signature, TorchCaller(torch)
        self._convention = Convention(signature, self._caller)
        self._inputs = read_inputs(facts)
        self._tensors = [n for n, i in enumerate(self._inputs) if isinstance(i, TensorInput)]
        self._guard = InputGuard(torch, *self._inputs)
        info = _binding_info(self, signature, self._guard, self._inputs, facts["results"])
        bind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("wir_python", library))
        bound: object = bind(info)
        if isinstance(bound, str):  # an error
            raise error_of(bound)
        self._call, self._run, self._container = cast(
            "tuple[Callable[..., Any], Callable[..., tuple[Any, ...]], int]", bound
        )
        check = group_check(library, facts)
        if check is not None:
            self._call, self._run = _after(check, self._call), _after(check, self._run)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program. Raises ExecutionError and LaunchError."""
        return self._call(*args, **kwargs)

    def boxed(self, args: list[Any]) -> tuple[Any, ...]:
        """Runs `main` on flat arguments, empties their list, and returns the results."""
        flat = tuple(args)
        args.clear()
        return self._run_flat(flat)

    def run_as(self, other: LoadedProgram) -> None:
        """Runs later calls in the library of `other`, which was built from the same program.

        Current calls end in the old one. Updated values of constants are not transferred.
        """
        self._successor = other  # the library calls methods of `other`
        self._library, self.path, self._container = other._library, other.path, other._container
        self._call, self._run = other._call, other._run

    def run_into(self, outputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> None:
        """Calls the program and writes its results into the caller's tensors, one for each tensor output,
        in order.

        They have the outputs' dtypes, sizes and device, any strides, and overlap neither each other nor
        arguments. Otherwise raises OutputError CPP610 and writes nothing. Raises the errors of calls.
        """
        leaves = self._convention.leaves(args, kwargs)
        flat = tuple(self._convention.arguments(leaves))
        result = self._convention.finish(leaves, self._run_flat(flat))
        outputs_flat = flatten(self._signature.outputs, result, self._caller.containers)
        results = [one for one in outputs_flat if isinstance(one, torch.Tensor)]
        for number, target in enumerate(outputs):
            if type(target) not in _PLAIN:
                message = f"output {number}: expected a plain tensor, got {type(target).__name__}"
                raise OutputError("CPP610", message)
        rows = (outputs, results, [one for one in flat if isinstance(one, torch.Tensor)])
        offset = tensor_offset()
        counted: list[object] = []
        for row in rows:
            counted += [
                (ctypes.c_void_p * len(row))(*(id(one) + offset for one in row)),
                ctypes.c_size_t(len(row)),
            ]
        if self._library.wir_write_outputs(*counted) != 0:
            raise error_of(self._text())

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raises CopyError CPP611: the library owns constants and code."""
        raise CopyError(
            "CPP611",
            f"the program of {self.path} cannot be copied or pickled",
            "cpp_wrapper.load opens the file again, also in another process; "
            "constants then have the values of the build",
        )

    # --- constants

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of constants; tied ones have several."""
        return tuple(self.metadata["constants"])

    def update_constants(
        self,
        values: Mapping[str, torch.Tensor],
        *,
        is_full: bool = False,
        is_inactive: bool = False,
        is_borrowed: bool = False,
    ) -> None:
        """Sets constants, by any of their names, for later calls; current calls continue with the old
        values.

        `is_full`: all constants must be given. `is_inactive`: changes the set that `swap_constants`
        activates.
        `is_borrowed`: uses a tensor's memory, which must not change, if the constant's storage has no other
        constant; otherwise it is copied. Raises ConstantError CPP530 for unknown names, and tensors of
        another dtype, shape or device.
        """
        names = (ctypes.c_char_p * len(values))(*(name.encode() for name in values))
        offset = tensor_offset()
        handles = (ctypes.c_void_p * len(values))(*(id(value) + offset for value in values.values()))
        flags = (ctypes.c_bool(flag) for flag in (is_inactive, is_full, is_borrowed))
        self._ask("wir_update", names, handles, ctypes.c_size_t(len(values)), *flags)

    def swap_constants(self) -> None:
        """Exchanges active and inactive constants between calls.

        Raises ConstantError CPP531 if there are no inactive ones.
        """
        self._ask("AOTInductorModelContainerSwapConstantBuffer")

    def free_inactive_constants(self) -> None:
        """Frees the inactive constants once the calls that use them have ended."""
        self._ask("AOTInductorModelContainerFreeInactiveConstantBuffer")

    def _ask(self, function: str, *args: object) -> None:
        if self._library[function](ctypes.c_void_p(self._container), *args) != 0:
            raise error_of(self._text())

    def _text(self) -> str:
        message = ctypes.c_char_p()
        self._library.AOTInductorGetLastError(ctypes.byref(message))
        return (message.value or b"").decode(errors="replace")

    # --- calls that the library does not bind

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self._convention.leaves(args, kwargs)
        results = self._run_flat(tuple(self._convention.arguments(leaves)))
        return self._convention.finish(leaves, results)

    def _run_flat(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(args) != len(self._inputs):
            names = [one.name for one in self._inputs]
            raise ArgumentError("WIR926", f"expected {len(names)} arguments {names}, got {len(args)}")
        plain = len(self._tensors) == len(args)
        if not plain or torch._C._len_torch_dispatch_stack() or not self._guard.match(*args):
            self._guard.check(*args)
        if torch._C._is_any_autocast_enabled():  # the program fixes the dtypes of its operators
            with torch._C._DisableAutocast():
                return self._run(*args)
        return self._run(*args)


keep_from_dynamo(torch, LoadedProgram.__call__, LoadedProgram.boxed, LoadedProgram.run_into)


def _after(check: Callable[[], None], call: Callable[..., _T]) -> Callable[..., _T]:
    """Returns a call that runs a check first."""

    def checked(*args: Any, **kwargs: Any) -> _T:
        check()
        return call(*args, **kwargs)

    return checked


def read_inputs(facts: Mapping[str, Any]) -> tuple[Input, ...]:
    """Returns the inputs in a library's metadata."""
    return tuple(_input(dict(fields)) for fields in facts["inputs"])


def _input(fields: dict[str, Any]) -> Input:
    if fields.pop("class") == "NumberInput":
        return NumberInput(**fields)
    lists = {name: tuple(fields[name]) for name in ("sizes", "strides", "apart")}
    return TensorInput(**{**fields, **lists})


# --- data for the library


def _binding_info(
    program: LoadedProgram,
    signature: ir.Signature,
    guard: InputGuard,
    inputs: Sequence[Input],
    results: Sequence[str],
) -> tuple[Any, ...]:
    """Returns the tuple that `wir_python` reads, in its order."""
    caller = TorchCaller(torch)
    is_plain, outputs = _is_plain(signature), _outputs(signature, caller.containers)
    no_arguments = ir.TreeSpec(kind=ir.TreeKind.TUPLE)
    positional, keywords = signature.inputs.children if is_plain else (no_arguments, no_arguments)
    trees = (*positional.children, *keywords.children)
    statics = tuple((s.leaf, literal(s.value, caller.native)) for s in signature.statics)
    tensors = {leaf for leaf, want in zip(signature.params, inputs) if isinstance(want, TensorInput)}
    _, _, index = program.metadata["device"].partition(":")
    return (
        *(
            int(index or -1),
            tensor_offset(),
            wrap_function(),
            modes_function(),
            _without_owner(program._slow),
        ),
        *(None if outputs else program._convention.finish, guard, "match", error_of),
        *(torch._C._is_any_autocast_enabled, "requires_grad", int, float, bool, tuple, list, None),
        *(
            is_plain,
            signature.num_leaves,
            len(positional.children),
            tuple(map(_tree, trees)) if is_plain else (),
        ),
        tuple(str(key) for key in tree_keys(keywords)) if is_plain else (),
        statics,
        signature.params,
        tuple(leaf for leaf in gradient_leaves(signature) if leaf in tensors),
        tuple(ord(_VALUES[i.kind]) if isinstance(i, NumberInput) else ord("t") for i in inputs),
        tuple(ord(_VALUES.get(kind, "t")) for kind in results),
        outputs or (0, (), (), None),
        tuple(_binding(b, caller.native) for b in signature.bindings) if outputs else (),
    )


def _without_owner(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method with a weak reference to its object.

    The garbage collector does not see references of the library, so a strong one would never be freed. A call
    goes through the object, which therefore lives until the call returns.
    """
    bound = weakref.WeakMethod(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        strong = bound()
        assert strong is not None
        return strong(*args, **kwargs)

    return call


def _is_plain(signature: ir.Signature) -> bool:
    """Returns whether the library itself can bind arguments."""
    changes = (
        *signature.same,
        *signature.shared,
        *signature.written,
        *signature.write_backs,
        *signature.unwraps,
    )
    children = signature.inputs.children
    is_call = len(children) == 2 and (children[0].kind, children[1].kind) == (
        ir.TreeKind.TUPLE,
        ir.TreeKind.DICT,
    )
    return is_call and not changes and not any(apart_leaves(signature)) and _is_known(signature.inputs)


def _outputs(signature: ir.Signature, containers: Containers) -> tuple[Any, ...] | None:
    """Returns the tree of outputs if the library itself can build them.

    Returns None if it cannot, or if a class is missing: calls then report that, and boxed calls work.
    """
    outputs, simple = (ir.ResultOutput, ir.InputOutput), (int, float, bool, str, type(None))
    is_plain = all(
        isinstance(b, outputs)
        or (isinstance(b, ir.ConstantOutput) and isinstance(_plain_value(b.value), simple))
        for b in signature.bindings
    )
    try:
        return _tree(signature.outputs, containers) if is_plain else None
    except ExecutionError:
        return None


def _plain_value(value: ir.Arg) -> object:
    try:
        return literal(value)
    except ExecutionError:
        return value


def _is_known(tree: ir.TreeSpec) -> bool:
    return tree.kind in _KINDS and all(map(_is_known, tree.children))


def _tree(tree: ir.TreeSpec, containers: Containers | None = None) -> tuple[Any, ...]:
    """Returns kind, children, keys, and the constructor of a container whose kind is not in `_KINDS`."""
    keys = tuple(tree_keys(tree)) if tree.kind is ir.TreeKind.DICT else ()
    make = None if tree.kind in _KINDS else container_maker(tree, containers)
    return (
        _KINDS.get(tree.kind, _OTHER),
        tuple(_tree(child, containers) for child in tree.children),
        keys,
        make,
    )


def _binding(binding: object, native: Callable[[ir.Arg], Any]) -> tuple[Any, ...]:
    match binding:
        case ir.ResultOutput(index=index):
            return ord("r"), index, None
        case ir.InputOutput(leaf=leaf):
            return ord("i"), leaf, None
        case ir.ConstantOutput(value=value):
            return ord("o"), 0, literal(value, native)
        case _:
            raise AssertionError(binding)  # `_outputs` excludes them
