"""Maps arguments and results of the model to the flat ones of `main`, for any callable with a boxed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError, ExecutionError, NotSupportedError
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime import sharing
from wrapper_ir_runtime.argument_failures import named_failure
from wrapper_ir_runtime.failures import expect_static
from wrapper_ir_runtime.inputs import Caller
from wrapper_ir_runtime.model_calls import model_call
from wrapper_ir_runtime.parameters import arrange
from wrapper_ir_runtime.subclasses import Subclass
from wrapper_ir_runtime.trees import flatten, tree_builder

Native = Callable[[ir.Arg], object]
_Part = Callable[[Sequence[object], Sequence[object]], object]
"""Builds one output from input leaves and results."""


def literal(value: ir.Arg, native: Native | None = None) -> object:
    """Returns the Python object of a literal argument. `native` returns the tensor library's own objects."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Int | Float | Bool):
        return value.value
    if isinstance(value, tuple):
        return [literal(item, native) for item in value]
    if native is None:
        raise ExecutionError("WIR926", f"{value} is not a plain literal")
    return native(value)


def refuse_unsupported(signature: ir.Signature) -> None:
    """Raises NotSupportedError WIR916 for states of random numbers that no target supports."""
    for state in signature.random:
        if state.source is not ir.RandomSource.GENERATOR:
            raise NotSupportedError(
                "WIR916",
                f"random numbers from a {state.source.value} state on {state.device}",
                hint="capture with the library's own generators",
            )


class Convention:
    """A signature prepared for calls: classes and outputs are looked up once.

    Raises ExecutionError WIR926 for classes that cannot be imported or are not tensor subclasses, and
    NotSupportedError WIR916.
    """

    def __init__(self, signature: ir.Signature, caller: Caller) -> None:
        refuse_unsupported(signature)
        self.signature = signature
        self.caller = caller
        self._unwraps = [(u.leaf, self._subclass(u.subclass)) for u in signature.unwraps]
        self._outputs = [self._output(b) for b in signature.bindings]
        self._firsts = [
            number if isinstance(b, ir.ConstantOutput) else signature.bindings.index(b)
            for number, b in enumerate(signature.bindings)
        ]

    def _subclass(self, spec: ir.SubclassSpec) -> Subclass:
        return Subclass(spec, self.caller.native)

    def name(self, leaf: int) -> str:
        """Returns the display name of an input leaf."""
        return self.signature.name(leaf)

    # --- before the call

    def leaves(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """Returns all input leaves of a call; raises ExecutionError WIR926 for another structure or static
        input."""
        signature, caller = self.signature, self.caller
        arguments = arrange(signature, args, kwargs, lambda value: literal(value, caller.native))
        try:
            leaves = flatten(signature.inputs, arguments, caller.containers)
        except ArgumentError as error:
            raise named_failure(error, signature, arguments) from None
        for static in signature.statics:
            want = literal(static.value, caller.native)
            expect_static(self.name(static.leaf), leaves[static.leaf], want)
        for leaf, subclass in self._unwraps:
            leaves += subclass.unwrap(leaves[leaf])
        return leaves

    def arguments(self, leaves: Sequence[object]) -> list[object]:
        """Returns the flat arguments of `main`.

        Raises ExecutionError WIR930 if autograd would record the call, and WIR931 if tensors do not share
        memory as they did at capture.
        """
        signature, caller = self.signature, self.caller
        sharing.expect_no_gradient(caller, self._named(leaves, sharing.gradient_leaves(signature)))
        for same in signature.same:
            sharing.expect_same(caller, self._named(leaves, same.leaves))
        for leaf, others in sharing.apart_leaves(signature):
            sharing.expect_apart(caller, (self.name(leaf), leaves[leaf]), self._named(leaves, others))
        arguments = [leaves[leaf] for leaf in signature.params]
        for shared in signature.shared:
            tensors = self._named(leaves, [p.leaf for p in shared.places])
            arguments[shared.param] = sharing.shared_window(caller, shared, tensors)
        return arguments

    def _named(self, leaves: Sequence[object], indices: Sequence[int]) -> sharing.Named:
        return [(self.name(i), leaves[i]) for i in indices]

    # --- after it

    def finish(self, leaves: Sequence[object], results: Sequence[object]) -> object:
        """Applies mutations to the caller's tensors, and builds the model's outputs from the results of
        `main`."""
        caller = self.caller
        for leaf in self.signature.written:
            caller.mark_written(leaves[leaf])
        for back in self.signature.write_backs:
            change = {
                ir.WriteBackKind.COPY: caller.copy,
                ir.WriteBackKind.METADATA: caller.reshape,
                ir.WriteBackKind.REPLACE: caller.replace,
            }[back.kind]
            change(leaves[back.leaf], results[back.result])
        outputs: list[object] = []
        for first, make in zip(self._firsts, self._outputs, strict=True):
            outputs.append(outputs[first] if first < len(outputs) else make(leaves, results))
        return self._build(outputs)

    @cached_property
    def _build(self) -> Callable[[Sequence[object]], object]:
        return tree_builder(self.signature.outputs, self.caller.containers)

    def _output(self, binding: ir.OutputBinding) -> _Part:
        caller = self.caller
        match binding:
            case ir.ResultOutput(index=index):
                return lambda leaves, results: results[index]
            case ir.InputOutput(leaf=leaf):
                return lambda leaves, results: leaves[leaf]
            case ir.ConstantOutput(value=value):
                return lambda leaves, results: literal(value, caller.native)
            case ir.InputView(index=index, leaf=leaf):
                return lambda leaves, results: caller.view_of(leaves[leaf], results[index])
            case ir.ResultView(index=index, base=base):
                return lambda leaves, results: caller.view_of(results[base], results[index])
            case ir.WrappedOutput(subclass=spec, parts=parts):
                subclass, makers = self._subclass(spec), [self._output(p) for p in parts]
                return lambda leaves, results: subclass.wrap([make(leaves, results) for make in makers])


def signature_call(
    # Any: as in `CompiledProgram`
    signature: ir.Signature,
    boxed: Callable[[list[Any]], tuple[Any, ...]],
    caller: Caller,
) -> CompiledProgram:
    """Returns a callable with the model's signature over `boxed`, which is its attribute.

    Emitters generate the same steps as code where speed matters. Raises the errors of `Convention`, now and
    in calls.
    """
    convention = Convention(signature, caller)

    def call(_: object, /, *args: object, **kwargs: object) -> object:
        leaves = convention.leaves(args, kwargs)
        results = boxed(convention.arguments(leaves))
        return convention.finish(leaves, results)

    return model_call(call, boxed)
