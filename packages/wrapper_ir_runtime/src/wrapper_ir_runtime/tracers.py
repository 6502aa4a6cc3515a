"""Refuses tracers that call compiled programs.

A tracer cannot see what a program does: the program writes through addresses, and its results would become
constants. Tracers that execute a program are refused. Dynamo is told to keep it out of its graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.model_calls import python_function
from wrapper_ir_runtime.torch_types import TorchModule

_HINT = (
    "capture the whole function, or call the program outside of what is traced; a graph of "
    'fx_converter.convert(artifact, FxOptions(kernel_calls="hop")) can be traced'
)
_COMPILED = (
    "a program of Wrapper IR is compiled already: compile without fullgraph=True, "
    "or the model that it was captured from"
)
_MODES = {
    "PROXY": "a trace by make_fx or torch.export",
    "FUNCTIONAL": "a trace by AOTAutograd or torch.export",
    "FAKE": "FakeTensorMode",
}


def refuse_tracers(torch: TorchModule, arguments: Iterable[object] = ()) -> None:
    """Raises ExecutionError WIR939 if a tracer follows the calling thread, or a transform has wrapped an
    argument.

    Modes that only observe, such as those that count operators, are not tracers.
    """
    tracer = next(_active_tracers(torch, arguments), None)
    if tracer is not None:
        raise ExecutionError(
            "WIR939", f"a program that is compiled already was called in {tracer}", hint=_HINT
        )


def keep_from_dynamo(torch: TorchModule, *functions: object) -> None:
    """Makes Dynamo call these functions and methods between two graphs. It traces neither them nor what they
    call.

    With `fullgraph=True` Dynamo reports why it cannot. Unlike `torch.compiler.disable`, this adds no cost to
    a call.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    for function in map(python_function, functions):
        frames.set_code_exec_strategy(function.__code__, skip)
        function._torchdynamo_disable = True  # type: ignore[attr-defined]  # functions take attributes
        function._torchdynamo_disable_msg = _COMPILED  # type: ignore[attr-defined]


def is_plain_thread(torch: TorchModule) -> bool:
    """Returns whether no mode and no transform changes operators in the calling thread."""
    return not torch._C._len_torch_dispatch_stack() and torch._C._functorch.peek_interpreter_stack() is None


def _active_tracers(torch: TorchModule, arguments: Iterable[object]) -> Iterator[str]:
    """Yields descriptions of active tracers."""
    keys = torch._C._TorchDispatchModeKey
    # Modes that see composite operators as well are on one stack of the process; the key is of the thread.
    is_early = torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
    early = torch._ops._get_dispatch_mode_pre_dispatch
    for name, what in _MODES.items():
        key = getattr(keys, name)  # members of an enumeration
        in_stack = is_early and name != "FAKE" and early(key) is not None
        if in_stack or torch._C._get_dispatch_mode(key) is not None:
            yield what
    if torch._C._get_tracing_state() is not None:
        yield "a trace by torch.jit.trace"
    for x in arguments:
        if isinstance(x, torch.fx.Proxy):
            yield "a trace by torch.fx"
        elif isinstance(x, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(x):
            yield "a transform of torch.func (vmap, grad, jvp, functionalize)"
        elif isinstance(x, torch.Tensor) and torch._is_functional_tensor(x):
            yield "a trace that removes writes (functionalization)"
