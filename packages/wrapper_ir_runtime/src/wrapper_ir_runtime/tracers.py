"""Tracers, which cannot see what a program does: it writes through addresses, and its results would become constants.

Those that run a program are refused. Dynamo, which can leave it out of its graphs, does that.

torch is handed in, so that this package needs none. Any in this file: that module, and arguments of every kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from wrapper_ir.errors import ExecutionError

_HINT = (
    "capture the whole function, or call the program outside of what is traced; a graph of "
    'fx_converter.convert(artifact, FxOptions(kernel_calls="hop")) can be traced'
)
_COMPILED = "a program of Wrapper IR is compiled already: compile without fullgraph=True, or the model that it was captured from"
_MODES = {
    "PROXY": "a trace by make_fx or torch.export",
    "FUNCTIONAL": "a trace by AOTAutograd or torch.export",
    "FAKE": "FakeTensorMode",
}


def refuse_tracers(torch: Any, given: Iterable[Any] = ()) -> None:
    """Raises ExecutionError WIR939 where a tracer of torch's follows the calling thread, or a transform has wrapped an argument.
    Modes that only look on, such as those that count operators, are none."""
    found = next(_found(torch, given), None)
    if found is not None:
        raise ExecutionError(
            "WIR939", f"a program that is compiled already was called in {found}", hint=_HINT
        )


def keep_from_dynamo(torch: Any, *functions: Any) -> None:
    """Dynamo calls these Python functions between two graphs from now on, and looks at nothing that they call; with
    `fullgraph=True` it says why it cannot. Costs nothing in a call, unlike `torch.compiler.disable`."""
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    for function in functions:
        assert isinstance(function, FunctionType)
        frames.set_code_exec_strategy(function.__code__, skip)
        function._torchdynamo_disable = True  # type: ignore[attr-defined]  # functions take attributes
        function._torchdynamo_disable_msg = _COMPILED  # type: ignore[attr-defined]


def is_plain_thread(torch: Any) -> bool:
    """Whether no mode and no transform changes what operators do in the calling thread."""
    return not torch._C._len_torch_dispatch_stack() and torch._C._functorch.peek_interpreter_stack() is None


def _found(torch: Any, given: Iterable[Any]) -> Iterator[str]:
    """What traces, in words."""
    keys = torch._C._TorchDispatchModeKey
    early = torch._ops._get_dispatch_mode_pre_dispatch  # modes that see composite operators as well
    for name, what in _MODES.items():
        key = getattr(keys, name)  # members of an enumeration
        if torch._C._get_dispatch_mode(key) is not None or (name != "FAKE" and early(key) is not None):
            yield what
    if torch._C._get_tracing_state() is not None:
        yield "a trace by torch.jit.trace"
    for x in given:
        if isinstance(x, torch.fx.Proxy):
            yield "a trace by torch.fx"
        elif isinstance(x, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(x):
            yield "a transform of torch.func (vmap, grad, jvp, functionalize)"
        elif isinstance(x, torch.Tensor) and torch._is_functional_tensor(x):
            yield "a trace that removes writes (functionalization)"
