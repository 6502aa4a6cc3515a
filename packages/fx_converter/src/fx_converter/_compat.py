"""Differences between the supported torch versions (2.11 to 2.15), and the private names that we rely on."""

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
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS

# Any in this file: callables of torch's, which its stubs do not describe.
Target = TypeVar("Target", bound=Callable[..., Any])
_guards: Any = torch._C._dynamo.guards
raw_stream: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda index: 0
)  # CPU builds lack it
"""The current stream of a CUDA device, as a number."""
DEVICE_GUARDS: dict[str, Callable[[int], Any]] = {"cuda": torch.cuda._DeviceGuard}
"""Torch's own guards for generated code, which look nothing up."""
FORWARD_NAMES = ("self", "_convention", "_leaves")
"""What `forward` calls the module, and what stands in it of the model's calling convention."""
LAYOUT_CHECK: Callable[..., None] = _guards.assert_size_stride


def has_effect(target: Target) -> Target:
    """The same; torch's own passes know from now on that a call of it does more than to return something, and keep it. The
    mark is the process's: it holds for every graph, also in files that are read later, and for copies."""
    if not is_impure(target):
        fx.node.has_side_effect(target)
    return target


def is_composite(target: torch._ops.OpOverload) -> bool:
    """Whether an operator is written in others, and may then return a view that its schema does not name."""
    key = "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key)  # type: ignore[no-untyped-call]  # torch leaves it so


def is_impure(target: Callable[..., Any]) -> bool:
    """Whether torch knows that a call does more than to return something: whatever is drawn from random state, too."""
    graph = fx.Graph()
    return graph.call_function(target).is_impure()


def parse_schema(text: str) -> torch.FunctionSchema:
    """A schema by its text."""
    return torch._C.parse_schema(text)


def is_watched() -> bool:
    """Whether something sees each operator that is called now, as tracers do: it cannot see storages."""
    return torch._C._len_torch_dispatch_stack() > 0


def raw_call(target: Callable[..., Any]) -> Callable[..., Any]:
    """The fastest way to call the same: torch's plain function, or an operator's own entry into the dispatcher."""
    if not isinstance(target, torch._ops.OpOverload):
        return target
    plain = PLAIN_FUNCTIONS.get(target.name())  # type: ignore[no-untyped-call]  # torch leaves it so
    return getattr(torch, plain) if plain is not None else target._op  # functions are found by name


def new_graph() -> fx.Graph:
    """An empty graph, none of whose nodes will have a name that the text of `forward` needs for itself."""
    graph = fx.Graph()
    for name in FORWARD_NAMES:
        graph._graph_namespace.create_name(name, None)
    return graph


def free_name(wish: str) -> str:
    """A wish for the name of a node, such that the text of `forward` has its own names for itself: also where torch copies
    nodes into a graph that keeps none of them free."""
    return f"of_{wish.strip('_')}" if re.sub(r"(_\d+)+$", "", wish.strip()) in FORWARD_NAMES else wish


def name_of(target: str | Callable[..., Any], graph: fx.Graph) -> str:
    """The name that a graph gives a node of its own accord."""
    return free_name(graph._target_to_str(target))


def rename(node: fx.Node, name: str) -> None:
    """Gives a node another name, made unique and allowed."""
    node._rename(free_name(name))


def without_autograd(run: Callable[[list[Any]], tuple[Any, ...]], args: list[Any]) -> tuple[Any, ...]:
    """`run(args)` with nothing recorded for autograd, and without autocast."""
    grad = torch.is_grad_enabled()
    try:  # Ctrl-C may be raised as soon as the call returns that switches
        if grad:
            torch._C._set_grad_enabled(False)
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return run(args)
        return run(args)
    finally:
        if grad:
            torch._C._set_grad_enabled(True)


def unrecorded(function: Target) -> Target:
    """The function, with nothing recorded for autograd in a call."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        grad = torch.is_grad_enabled()
        try:  # Ctrl-C may be raised as soon as the call returns that switches
            if grad:
                torch._C._set_grad_enabled(False)
            return function(*args, **kwargs)
        except Exception as error:
            found = explained(error, args)
            if found is error:
                raise
            raise found from error
        finally:
            if grad:
                torch._C._set_grad_enabled(True)

    return cast(Target, call)  # the same signature


def operands_of(function: Any) -> int | None:  # Any: what nodes call
    """How many operands an operator of Python's has, which torch writes between its operands; None for a function."""
    if getattr(function, "__module__", "") != "_operator":
        return None
    text: str | None = magic_methods.get(function.__name__)
    return None if text is None else text.count("{}")


# --- fake values


def new_fake_mode() -> FakeTensorMode:
    """A mode with an environment of shapes of its own."""
    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def has_elements(tensor: object) -> bool:
    """Whether a tensor has elements in memory: those that a graph is traced with have none."""
    return not is_fake(tensor)


def fake_like(mode: FakeTensorMode, meta: Tensor, device: torch.device) -> FakeTensor:
    """A tensor on the meta device as a fake one on `device`."""
    return FakeTensor(mode, meta, device)


def bound_symbol(env: ShapeEnv, symbol: sympy.Symbol, lower: int | None, upper: int | None) -> None:
    """Enters a symbol with its inclusive bounds."""
    end = int_oo if symbol.is_integer else sympy.oo
    low = sympy.Integer(lower) if lower is not None else -end
    high = sympy.Integer(upper) if upper is not None else end
    env.var_to_range.setdefault(symbol, ValueRanges(low, high))
    place = env._get_sloc("the program's declaration")  # torch asks for it where it narrows a range
    env.var_to_range_sloc.setdefault(symbol, ValueRangesSLoc(place, place))
    stack = CapturedTraceback.extract(skip=1)  # type: ignore[no-untyped-call]  # torch leaves it so
    env.var_to_stack.setdefault(symbol, stack)  # and for this, where it refuses a guard


class _FreeSize(SymNode):
    """A number that is taken for a size as it is: what a tensor has for a size is not negative. Of other numbers torch
    guards that, and narrows the ranges of symbols by it; a program's sizes are checked by the run that has them."""

    def ge(self, other: SymNode) -> SymNode:
        """See `SymNode`."""
        if other.constant == 0:
            return self.wrap_bool(True)
        return super().ge(other)  # type: ignore[misc, no-any-return, unused-ignore]  # torch sets it on the class

    def expect_size(self, file: str, line: int) -> bool:
        """See `SymNode`."""
        return True


def free_size(size: Any) -> Any:
    """The number as a size of a fake tensor, about which nothing is assumed. One that is always negative, which no run
    gets to have, is 0."""
    if not isinstance(size, torch.SymInt):
        return max(size, 0)
    node: SymNode = size.node
    if node.expr.is_Integer:
        return max(int(node.expr), 0)
    return torch.SymInt(_FreeSize(node._expr, node.shape_env, int, node._hint))  # type: ignore[no-untyped-call]  # torch leaves it so


def back_symbol(env: ShapeEnv, symbol: sympy.Symbol, hint: int) -> None:
    """Gives a symbol an example value, which makes it one that guards may be evaluated for."""
    from torch._dynamo.source import ConstantSource  # Dynamo takes a second to import, and few graphs need it

    known: dict[sympy.Symbol, sympy.Integer] | None = getattr(env, "backed_var_to_val", None)
    if known is None:  # the name until torch 2.11
        known = env.var_to_val  # type: ignore[attr-defined, unused-ignore]
    known.setdefault(symbol, sympy.Integer(hint))
    env.var_to_sources.setdefault(symbol, [ConstantSource(str(symbol))])
