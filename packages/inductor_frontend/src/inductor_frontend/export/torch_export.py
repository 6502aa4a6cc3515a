"""Calls torch.export for capture: dynamic sizes may be 0 and 1; errors name op, place and workaround."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import sympy
import torch
import torch.utils._pytree as _pytree
from torch._C._functorch import (
    get_dynamic_layer_stack_depth,
    is_functorch_wrapped_tensor,
    pop_dynamic_layer_stack_and_undo_to_depth,
)
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.export import ExportedProgram
from torch.export._trace import _export
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.data_predicates import TracedPredicates, is_data_predicate
from inductor_frontend.export.empty_sizes import guard_again, nonnegative_sizes
from inductor_frontend.torch_patches._compat import REPORTS_SIDE_EFFECTS
from wrapper_ir.errors import WirError

# Any in this file: the user's models and their arguments; torch's configuration is untyped.
_PACKAGES = [os.path.dirname(os.path.abspath(str(f))) for f in (torch.__file__, sympy.__file__, __file__)]
_LIBRARY = sysconfig.get_path("stdlib")
_SITE = os.path.join(_LIBRARY, "site-packages")  # may be inside the folder of the standard library

_COMPILE = "compile it with torch.compile(model, backend='wrapper_ir'), which leaves such calls to eager mode"
_Attempt = Callable[..., ExportedProgram]
_Outcome = tuple[ExportedProgram | None, Exception | None]
"""A program, or why there is none."""
_INSTEAD = {
    "aten.equal.default": "write (a == b).all(), a tensor, instead",
    "aten.allclose.default": "write torch.isclose(a, b).all(), a tensor, instead",
    "aten.is_nonzero.default": "use torch.cond or torch.where instead of a Python branch",
}


def any_size() -> AbstractContextManager[None]:
    """Makes torch assume only that dynamic sizes are not negative.

    By default it assumes that each is at least 2, without a guard, and derives facts that are wrong for sizes
    0 and 1.
    """
    context: AbstractContextManager[None]
    context = symbolic_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]  # torch's
    return context


@contextmanager
def _any_size_or_none() -> Iterator[None]:
    with any_size(), nonnegative_sizes():
        yield


def export(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
    empty_sizes: bool = False,
) -> ExportedProgram:
    """Exports a module. Raises CaptureError FE101.

    If that fails for arbitrary dynamic sizes, exports again with torch's assumption that sizes are at least
    2. With `empty_sizes`, an export without the assumption that sizes are positive comes first. Operators
    that torch cannot trace above autograd, such as `torch.func.grad`, are then traced below it.
    """
    options: dict[str, Any] = {"args": args, "kwargs": dict(kwargs), "dynamic_shapes": dynamic_shapes}
    attempt = partial(torch.export.export, module, **options, strict=False)
    first = _first_or_empty if empty_sizes and dynamic_shapes is not None else _first
    # The function mode is tried last: with it, torch loses track of some symbolic numbers.
    program, failure = first(attempt, dynamic_shapes)
    if any(_asks(cause) for cause in _chain(failure)):
        program, failure = first(_with_predicates(attempt), dynamic_shapes)
    if program is None and not any(isinstance(cause, WirError) for cause in _chain(failure)):
        program, _ = first(
            partial(_export, module, **options, strict=False, pre_dispatch=False), dynamic_shapes
        )
    if program is not None:
        return program
    assert failure is not None
    own = next((cause for cause in _chain(failure) if isinstance(cause, WirError)), None)
    if own is not None:
        raise own
    if (script := _script_object(module, args, kwargs)) is not None:
        raise CaptureError(
            "FE102", f"{script}, which has no typed form", hint=f"keep it outside; or {_COMPILE}"
        ) from failure
    what, hint = _reason(failure)
    text = f"torch.export cannot trace {_name(module)}: {what}{_place(failure)}"
    raise CaptureError("FE101", text, hint=hint) from failure


def export_by_dynamo(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
    empty_sizes: bool = False,
) -> ExportedProgram | None:
    """Exports the graph that Dynamo traces, which supports NumPy calls and numbers computed from data.

    Returns None if that fails, or if the model mutates Python objects: Dynamo repeats mutations after a call,
    but an exported program does not. Mutations of containers among the arguments are not reported, so None if
    there are any.
    """
    if not REPORTS_SIDE_EFFECTS or not _all_leaves((*args, *kwargs.values())):
        return None
    options: dict[str, Any] = {"args": args, "kwargs": dict(kwargs), "dynamic_shapes": dynamic_shapes}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*certain side effects happened", category=UserWarning)
        attempt = partial(torch.export.export, module, **options, strict=True)
        first = _first_or_empty if empty_sizes and dynamic_shapes is not None else _first
        return first(attempt, dynamic_shapes)[0]


def _all_leaves(values: tuple[object, ...]) -> bool:
    """Returns whether a model can mutate nothing in these values except tensors."""
    return all(_all_leaves(x) if type(x) is tuple else _pytree.tree_is_leaf(x) for x in values)


def _with_predicates(attempt: _Attempt) -> _Attempt:
    def attempt_with_them(**options: bool) -> ExportedProgram:
        with TracedPredicates():
            return attempt(**options)

    return attempt_with_them


def _first(attempt: _Attempt, dynamic_shapes: object) -> _Outcome:
    """Returns the program of the first assumption about sizes that succeeds, or the error of the last one."""
    outcome: _Outcome = None, None
    for assumption in (any_size, nullcontext) if dynamic_shapes is not None else (nullcontext,):
        outcome = _tried(attempt, assumption)
        if outcome[0] is not None:
            break
    return outcome


def _first_or_empty(attempt: _Attempt, dynamic_shapes: object) -> _Outcome:
    """Like `_first`, but tries sizes that may be 0 before.

    If a entries dimension promises more sizes than the trace supports, that export fails. An export with
    run-time checks instead of guards then replaces one that assumes positive sizes.
    """
    outcome = _tried(attempt, _any_size_or_none)
    if outcome[0] is not None:
        return outcome
    outcome = _first(attempt, dynamic_shapes)
    if outcome[0] is None:
        return outcome
    checking = _tried(partial(attempt, prefer_deferred_runtime_asserts_over_guards=True), _any_size_or_none)
    if checking[0] is None:
        return outcome
    guard_again(checking[0])
    return checking


def _tried(attempt: _Attempt, assumption: Callable[[], AbstractContextManager[None]]) -> _Outcome:
    """Returns the program of an export with this assumption about sizes, or its error. Raises WirError."""
    try:
        with assumption(), _own_transforms():
            program = attempt()
        _check_constants(program)
        return program, None
    except WirError:
        raise
    except Exception as error:  # torch reports its reasons in many classes
        return None, error


@contextmanager
def _own_transforms() -> Iterator[None]:
    """Leaves the torch.func transforms that a failed export has entered: they would affect every later
    trace."""
    depth = get_dynamic_layer_stack_depth()
    try:
        yield
    finally:
        if get_dynamic_layer_stack_depth() > depth:
            pop_dynamic_layer_stack_and_undo_to_depth(depth)


def _check_constants(program: ExportedProgram) -> None:
    """Raises TypeError if torch stored a traced tensor as a constant of the model.

    Buffers are excepted: they are fake if the model is captured for an absent device.
    """
    buffers = set(program.graph_signature.non_persistent_buffers)
    for name, value in program.constants.items():
        if name in buffers:
            continue
        if isinstance(value, FakeTensor) or (
            isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value)
        ):
            raise TypeError(f"torch.export loses how {name}, a {type(value).__name__}, is computed")


def _name(module: torch.nn.Module) -> str:
    """Returns the class of a module, or the name of the function that is its `forward`."""
    function = vars(module).get("forward")
    return str(getattr(function, "__qualname__", type(module).__name__))  # not every callable has one


def _script_object(
    module: torch.nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> str | None:
    """Describes the first TorchScript object in a model or its arguments, which torch usually cannot
    trace."""
    leaves = (*_pytree.tree_leaves_with_path(args), *_pytree.tree_leaves_with_path(dict(kwargs)))
    entries = [(f"argument {_pytree.keystr(path)}", x) for path, x in leaves]
    for prefix, part in module.named_modules():
        entries += [
            (f"attribute {'.'.join(filter(None, (prefix, name)))}", x) for name, x in vars(part).items()
        ]
    entry = next(((name, x) for name, x in entries if type(x) is torch.ScriptObject), None)
    return None if entry is None else f"{entry[0]} is a {entry[1]._type().qualified_name()}"


def _asks(error: BaseException) -> bool:
    return isinstance(error, DataDependentOutputException) and is_data_predicate(error.func)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> tuple[str, str]:
    """Returns the reason of a failure, and a hint."""
    for cause in _chain(error):
        match cause:
            case DataDependentOutputException():
                return f"the result of {cause.func} depends on data", _hint(_INSTEAD.get(str(cause.func)))
            case DynamicOutputShapeException():
                return (
                    f"the output sizes of {cause.func} depend on data in a way that cannot be traced",
                    _hint(),
                )
            case UnsupportedOperatorException():
                return f"{cause.func} cannot be traced: it has no fake implementation", _hint()
            case GuardOnDataDependentSymNode():
                return f"a decision depends on data: {cause.cond}", _hint(
                    "use torch.cond or torch.where, or state what always holds with torch._check"
                )
            case SyntaxError():
                return "an operator is called like a Python keyword (aten.random_.from)", _hint(
                    "write x.random_(high - low).add_(low) for x.random_(low, high)"
                )
            case _:
                pass
    text = _brief(str(error))
    if "Constraints violated" in text:
        return (
            text,
            "follow these suggestions, or use Dim.AUTO: each call then checks the conditions on the sizes",
        )
    return text, _hint()


def _hint(first: str | None = None) -> str:
    return f"{first or 'make the model exportable'}; or {_COMPILE}"


def _brief(text: str) -> str:
    """Returns torch's message without its advice on debugging torch."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("The error above occurred", "For more", "For extended", "Use tlparse")):
            continue
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.split(" For more information, run with")[0])
    return "\n".join(lines).strip()


def _is_tracer(file: str) -> bool:
    """Returns whether a file belongs to torch, this package or Python, and not to the model."""
    own = any(file.startswith(folder + os.sep) for folder in _PACKAGES)
    return (
        own
        or file.startswith("<")
        or (file.startswith(_LIBRARY + os.sep) and not file.startswith(_SITE + os.sep))
    )


def _place(error: BaseException) -> str:
    """Returns the innermost line of the model's code that was being traced; '' if there is none."""
    place = ""
    for cause in _chain(error):
        for frame, line in traceback.walk_tb(cause.__traceback__):
            file = frame.f_code.co_filename
            if not _is_tracer(file):
                text = linecache.getline(file, line).strip()
                place = f"\n  at {file}:{line}" + (f"\n    {text}" if text else "")
        if place:
            break
    return place
