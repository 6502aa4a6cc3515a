"""Differences between the supported torch versions (2.11 to 2.15), and the private names that are used."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import sympy
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ValueRangesSLoc
from torch.fx.graph import magic_methods
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils._traceback import CapturedTraceback

from fx_converter.failures import explained
from fx_converter.nodes import Boxed, Target
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS

Function = TypeVar("Function", bound=Target)
_guards: Any = torch._C._dynamo.guards  # Any: torch's stubs omit its functions
raw_stream: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda index: 0
)  # CPU builds lack it
"""Returns the address of the current stream of a CUDA device."""
FORWARD_NAMES = ("self", "_convention", "_leaves")
"""Names that the text of `forward` reserves: the module, and the model's calling convention."""
LAYOUT_CHECK: Callable[..., None] = _guards.assert_size_stride


def has_effect(target: Function) -> Function:
    """Marks a function as having side effects and returns it, so that torch's passes keep its calls. The mark
    belongs to the process: it applies to every graph, including copies, and files that are read later."""
    if not is_impure(target):
        fx.node.has_side_effect(target)
    return target


def is_composite(target: torch._ops.OpOverload) -> bool:
    """Returns whether an operator is decomposed into others.

    It may then return a view that its schema omits.
    """
    key = "CompositeImplicitAutograd"
    name = target.name()  # type: ignore[no-untyped-call]  # torch's
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def is_impure(target: Target) -> bool:
    """Returns whether torch regards a call as having side effects; drawing from random state is one."""
    graph = fx.Graph()
    return graph.call_function(target).is_impure()


def parse_schema(text: str) -> torch.FunctionSchema:
    """Parses the text of a schema."""
    return torch._C.parse_schema(text)


def is_watched() -> bool:
    """Returns whether a dispatch mode, such as a tracer, observes operator calls.

    It cannot observe storages.
    """
    return torch._C._len_torch_dispatch_stack() > 0


def raw_call(target: Target) -> Target:
    """Returns the fastest equivalent callable: torch's plain function, or an operator's entry into the
    dispatcher."""
    if not isinstance(target, torch._ops.OpOverload):
        return target
    plain = PLAIN_FUNCTIONS.get(target.name())  # type: ignore[no-untyped-call]  # torch leaves it so
    entry: Target = getattr(torch, plain) if plain is not None else target._op  # functions are found by name
    return entry


def new_graph() -> fx.Graph:
    """Returns an empty graph whose nodes never take a name that the text of `forward` reserves."""
    graph = fx.Graph()
    for name in FORWARD_NAMES:
        graph._graph_namespace.create_name(name, None)
    return graph


def free_name(candidate: str) -> str:
    """Returns the candidate for a node's name, changed if `forward` reserves it. Graphs that torch copies
    nodes into do not reserve those names."""
    return (
        f"of_{candidate.strip('_')}"
        if re.sub(r"(_\d+)+$", "", candidate.strip()) in FORWARD_NAMES
        else candidate
    )


def name_of(target: str | Target, graph: fx.Graph) -> str:
    """Returns the name that a graph derives from a target."""
    return free_name(graph._target_to_str(target))


def rename(node: fx.Node, name: str) -> None:
    """Renames a node. The graph makes the name unique and legal."""
    node._rename(free_name(name))


def without_autograd(run: Boxed, args: list[Any]) -> tuple[Any, ...]:  # Any: see Boxed
    """Calls `run(args)` without autograd and autocast."""
    grad = torch.is_grad_enabled()
    try:  # Ctrl-C may be raised right after the call that switches
        if grad:
            torch._C._set_grad_enabled(False)
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return run(args)
        return run(args)
    finally:
        if grad:
            torch._C._set_grad_enabled(True)


def unrecorded(function: Function) -> Function:
    """Wraps a function so that autograd records nothing of its calls."""

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        grad = torch.is_grad_enabled()
        try:  # Ctrl-C may be raised right after the call that switches
            if grad:
                torch._C._set_grad_enabled(False)
            return function(*args, **kwargs)
        except Exception as error:
            explanation = explained(error, args)
            if explanation is error:
                raise
            raise explanation from error
        finally:
            if grad:
                torch._C._set_grad_enabled(True)

    return cast(Function, call)  # the same signature


def operands_of(function: Target | str) -> int | None:
    """Returns the number of operands if torch writes the function as a Python operator; None for others."""
    if isinstance(function, str) or getattr(function, "__module__", "") != "_operator":
        return None
    text: str | None = magic_methods.get(function.__name__)
    return None if text is None else text.count("{}")


# --- fake values


def new_fake_mode() -> FakeTensorMode:
    """Returns a mode with a new environment of shapes."""
    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def has_elements(tensor: object) -> bool:
    """Returns whether a tensor has elements in memory; tensors that tracers pass have none."""
    return not is_fake(tensor)


def fake_like(mode: FakeTensorMode, meta: Tensor, device: torch.device) -> FakeTensor:
    """Returns a fake tensor on `device` with the layout of a tensor on the meta device."""
    return FakeTensor(mode, meta, device)


def bound_symbol(env: ShapeEnv, symbol: sympy.Symbol, lower: int | None, upper: int | None) -> None:
    """Enters a symbol with inclusive bounds into an environment."""
    end = int_oo if symbol.is_integer else sympy.oo
    low = sympy.Integer(lower) if lower is not None else -end
    high = sympy.Integer(upper) if upper is not None else end
    env.var_to_range.setdefault(symbol, ValueRanges(low, high))
    place = env._get_sloc("the program's declaration")  # torch reads it when it narrows a range
    env.var_to_range_sloc.setdefault(symbol, ValueRangesSLoc(place, place))
    stack = CapturedTraceback.extract(skip=1)  # type: ignore[no-untyped-call]  # torch leaves it so
    env.var_to_stack.setdefault(symbol, stack)  # and this, when it refuses a guard


class _FreeSize(SymNode):
    """A number that is accepted as a size without a guard. Torch guards that other numbers are not negative,
    and narrows the ranges of their symbols. A program's sizes are checked at run time."""

    def ge(self, other: SymNode) -> SymNode:
        """See `SymNode`."""
        if other.constant == 0:
            return self.wrap_bool(True)
        # torch sets it on the class
        return super().ge(other)  # type: ignore[misc, no-any-return, unused-ignore]

    def expect_size(self, file: str, line: int) -> bool:
        """See `SymNode`."""
        return True


def free_size(size: int | torch.SymInt) -> int | torch.SymInt:
    """Returns the number as a size of a fake tensor, without assumptions. A size that is always negative,
    which no run reaches, is 0."""
    if not isinstance(size, torch.SymInt):
        return max(size, 0)
    node: SymNode = size.node
    if node.expr.is_Integer:
        return max(int(node.expr), 0)
    free = _FreeSize(node._expr, node.shape_env, int, node._hint)
    return torch.SymInt(free)  # type: ignore[no-untyped-call]  # torch's


def back_symbol(env: ShapeEnv, symbol: sympy.Symbol, hint: int) -> None:
    """Sets a symbol's example value, so that guards on it can be evaluated."""
    from torch._dynamo.source import ConstantSource  # importing Dynamo takes a second, and few graphs need it

    values: dict[sympy.Symbol, sympy.Integer] | None = getattr(env, "backed_var_to_val", None)
    if values is None:  # its name until torch 2.11
        values = env.var_to_val  # type: ignore[attr-defined, unused-ignore]
    values.setdefault(symbol, sympy.Integer(hint))
    env.var_to_sources.setdefault(symbol, [ConstantSource(str(symbol))])
