"""torch.export as capture calls it: dynamic sizes may be 0 and 1, and failures say which op, where, and the way out."""

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
from inductor_frontend.torch_patches._compat import REPORTS_SIDE_EFFECTS
from wrapper_ir.errors import WirError

# Any in this file: models and their arguments are the user's own, and torch's configuration is untyped.
_PACKAGES = [os.path.dirname(os.path.abspath(str(f))) for f in (torch.__file__, sympy.__file__, __file__)]
_LIBRARY = sysconfig.get_path("stdlib")
_SITE = os.path.join(
    _LIBRARY, "site-packages"
)  # where the standard library's folder holds other packages as well

_COMPILE = "compile it with torch.compile(model, backend='wrapper_ir'), which leaves such calls to eager mode"
_INSTEAD = {
    "aten.equal.default": "write (a == b).all(), a tensor, instead",
    "aten.allclose.default": "write torch.isclose(a, b).all(), a tensor, instead",
    "aten.is_nonzero.default": "use torch.cond or torch.where instead of a Python branch",
}


def any_size() -> AbstractContextManager[None]:
    """While the context is active, torch assumes nothing of dynamic sizes but that they are not negative.

    By default it takes each for at least 2, without a guard: what it then derives can be wrong for sizes 0 and 1.
    """
    found: Any = symbolic_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]  # torch's
    context: AbstractContextManager[None] = found
    return context


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    """Exports a module; where that fails with dynamic sizes of any number, once more with torch's own assumption
    that they are at least 2. What torch cannot trace above autograd it may below it, such as `torch.func.grad`. Raises
    CaptureError FE101."""
    given: dict[str, Any] = {"args": args, "kwargs": dict(kwargs), "dynamic_shapes": dynamic_shapes}
    attempt = partial(torch.export.export, module, **given, strict=False)
    # The mode comes last: with it, torch loses track of some symbolic numbers.
    program, failure = _first(attempt, dynamic_shapes)
    if any(_asks(cause) for cause in _chain(failure)):
        program, failure = _first(_with_predicates(attempt), dynamic_shapes)
    if program is None and not any(isinstance(cause, WirError) for cause in _chain(failure)):
        program, _ = _first(
            partial(_export, module, **given, strict=False, pre_dispatch=False), dynamic_shapes
        )
    if program is not None:
        return program
    assert failure is not None
    own = next((cause for cause in _chain(failure) if isinstance(cause, WirError)), None)
    if own is not None:
        raise own
    if (held := _script_object(module, args, kwargs)) is not None:
        raise CaptureError(
            "FE102", f"{held}, which has no typed form", hint=f"keep it outside; or {_COMPILE}"
        ) from failure
    what, hint = _reason(failure)
    text = f"torch.export cannot trace {_name(module)}: {what}{_place(failure)}"
    raise CaptureError("FE101", text, hint=hint) from failure


def export_by_dynamo(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram | None:
    """The graph that torch.compile would trace, exported: Dynamo knows calls of NumPy, and numbers made of data. None where it
    fails, and for a model that changes Python objects, which Dynamo would do after a call and an exported program loses.
    What a model does to containers among its arguments is not reported: with such, None as well."""
    if not REPORTS_SIDE_EFFECTS or not _all_leaves((*args, *kwargs.values())):
        return None
    given: dict[str, Any] = {"args": args, "kwargs": dict(kwargs), "dynamic_shapes": dynamic_shapes}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*certain side effects happened", category=UserWarning)
        return _first(partial(torch.export.export, module, **given, strict=True), dynamic_shapes)[0]


def _all_leaves(values: tuple[Any, ...]) -> bool:
    """Whether there is nothing in these values that a model could change but tensors."""
    return all(_all_leaves(x) if type(x) is tuple else _pytree.tree_is_leaf(x) for x in values)


def _with_predicates(attempt: Callable[[], ExportedProgram]) -> Callable[[], ExportedProgram]:
    def attempt_with_them() -> ExportedProgram:
        with TracedPredicates():
            return attempt()

    return attempt_with_them


def _first(
    attempt: Callable[[], ExportedProgram], dynamic_shapes: Any
) -> tuple[ExportedProgram | None, Exception | None]:
    """The program of the first assumption about sizes that gives one, or why the last one failed."""
    failure: Exception | None = None
    for assumption in (any_size, nullcontext) if dynamic_shapes is not None else (nullcontext,):
        try:
            with assumption(), _own_transforms():
                program = attempt()
            _check_constants(program)
            return program, None
        except WirError:
            raise
        except Exception as error:  # torch reports its reasons in many classes
            failure = error
    return None, failure


@contextmanager
def _own_transforms() -> Iterator[None]:
    """Leaves the transforms of torch.func that an export failed in the midst of: every later trace would be in them."""
    depth = get_dynamic_layer_stack_depth()
    try:
        yield
    finally:
        if get_dynamic_layer_stack_depth() > depth:
            pop_dynamic_layer_stack_and_undo_to_depth(depth)


def _check_constants(program: ExportedProgram) -> None:
    """Raises TypeError where torch took a tensor that was traced for a constant of the model. Buffers are fake where the model
    is captured for a device that is not there."""
    buffers = set(program.graph_signature.non_persistent_buffers)
    for name, held in program.constants.items():
        if name in buffers:
            continue
        if isinstance(held, FakeTensor) or (
            isinstance(held, torch.Tensor) and is_functorch_wrapped_tensor(held)
        ):
            raise TypeError(f"torch.export loses how {name}, a {type(held).__name__}, is computed")


def _name(module: torch.nn.Module) -> str:
    """The class of a module, or the name of the function that is its `forward`."""
    function = vars(module).get("forward")
    return str(getattr(function, "__qualname__", type(module).__name__))  # not every callable has one


def _script_object(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Says where a model or its arguments hold an object of TorchScript's, of which torch can trace few."""
    leaves = (*_pytree.tree_leaves_with_path(args), *_pytree.tree_leaves_with_path(dict(kwargs)))
    named = [(f"argument {_pytree.keystr(path)}", x) for path, x in leaves]
    for prefix, part in module.named_modules():
        named += [
            (f"attribute {'.'.join(filter(None, (prefix, name)))}", x) for name, x in vars(part).items()
        ]
    found = next(((where, x) for where, x in named if type(x) is torch.ScriptObject), None)
    return None if found is None else f"{found[0]} is a {found[1]._type().qualified_name()}"


def _asks(error: BaseException) -> bool:
    return isinstance(error, DataDependentOutputException) and is_data_predicate(error.func)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> tuple[str, str]:
    """What went wrong, and the way out."""
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
            "follow these suggestions, or use Dim.AUTO: what the sizes must fulfil is checked by each call",
        )
    return text, _hint()


def _hint(first: str | None = None) -> str:
    return f"{first or 'make the model exportable'}; or {_COMPILE}"


def _brief(text: str) -> str:
    """Torch's message without its advice on debugging torch."""
    kept: list[str] = []
    for line in text.splitlines():
        if line.startswith(("The error above occurred", "For more", "For extended", "Use tlparse")):
            continue
        if line.strip() or (kept and kept[-1].strip()):
            kept.append(line.split(" For more information, run with")[0])
    return "\n".join(kept).strip()


def _is_tracer(file: str) -> bool:
    """Whether a file is part of what traces, and not of the model."""
    own = any(file.startswith(folder + os.sep) for folder in _PACKAGES)
    return (
        own
        or file.startswith("<")
        or (file.startswith(_LIBRARY + os.sep) and not file.startswith(_SITE + os.sep))
    )


def _place(error: BaseException) -> str:
    """The innermost line of the model's own code that was being traced; '' where there is none."""
    found = ""
    for cause in _chain(error):
        for frame, line in traceback.walk_tb(cause.__traceback__):
            file = frame.f_code.co_filename
            if not _is_tracer(file):
                text = linecache.getline(file, line).strip()
                found = f"\n  at {file}:{line}" + (f"\n    {text}" if text else "")
        if found:
            break
    return found
