"""The model's calling convention around a graph of flat values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx.graph import CodeGen

from fx_converter.errors import ConvertError
from fx_converter.failures import explained_calls
from fx_converter.nodes import Argument
from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime import Convention
from wrapper_ir_torch import caller


class ModelCodeGen(CodeGen):
    """Writes `forward(*args, **kwargs)`, which converts the model's arguments to the graph's inputs, and the
    graph's outputs to the model's.

    Raises the errors of `Convention`.
    """

    def __init__(self, signature: ir.Signature) -> None:
        super().__init__()
        self.signature = signature
        self._convention = Convention(signature, caller())

    def __deepcopy__(self, memo: object) -> ModelCodeGen:
        return type(self)(self.signature)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """See `CodeGen`."""
        names = [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        lines = [
            "@_explained",
            f"def {self._func_name}(self, *args, **kwargs){maybe_return_annotation}:",
            "    _leaves = _convention.leaves(args, kwargs)",
        ]
        arguments = "_convention.arguments(_leaves)"
        if names:
            lines.append(f"    {', '.join(names)}, = {arguments}")
        else:
            lines.append(f"    {arguments}")
        return "\n".join(lines)

    def generate_output(
        self, output_args: Argument, *, descs: object = None, repr_fn: Callable[[object], str] | None = None
    ) -> str:
        """See `CodeGen`."""
        return self.returned((repr_fn or repr)(output_args))

    def returned(self, outputs: str) -> str:
        """Returns the line that returns the model's outputs, given the text of the graph's outputs."""
        return f"return _convention.finish(_leaves, {outputs})"

    # Any: torch's signature; the model's arguments and results
    def process_inputs(self, *args: Any) -> Any:
        """See `CodeGen`; for graph interpreters, which pass positional arguments only. Interpreters that
        supply the inputs themselves, such as constant folding, pass none."""
        try:
            return self._convention.arguments(self._convention.leaves(args, {}))
        except ExecutionError:
            if args:
                raise
            return ()

    def process_outputs(self, outputs: Any) -> Any:  # Any: the results of the graph
        """See `CodeGen`. Raises ConvertError FX105 if the model's outputs or effects need its inputs, which
        graph interpreters do not pass. Markers for unknown values are returned unchanged."""
        if any(type(value) is object for value in outputs):
            return outputs
        signature = self.signature
        if signature.written or signature.write_backs or any(_needs_input(b) for b in signature.bindings):
            raise ConvertError(
                "FX105",
                "the model returns or changes its arguments, which a graph interpreter cannot do",
                hint="call the module, or interpret it with enable_io_processing=False on flat inputs",
            )
        return self._convention.finish((), outputs)

    def additional_globals(self) -> list[tuple[str, object]]:
        """See `CodeGen`."""
        return [("_convention", self._convention), ("_explained", explained_calls)]


def _needs_input(binding: ir.OutputBinding) -> bool:
    if isinstance(binding, ir.WrappedOutput):
        return any(_needs_input(part) for part in binding.parts)
    return isinstance(binding, ir.InputOutput | ir.InputView)
