"""Coded errors of emitted programs, which show the failing line and the source op."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeVar

from wrapper_ir.errors import (
    ArgumentError,
    DivisionError,
    ExecutionError,
    NotSupportedError,
    TensorCheckError,
    WirError,
)
from wrapper_ir_runtime.traces import file_of, traces_of

T = TypeVar("T")
_LOOK_BACK = 200


def fail_assertion(message: str, condition: str) -> NoReturn:
    """Raises ExecutionError WIR920: an `AssertExpr` is false."""
    raise ExecutionError("WIR920", f"{message or 'assertion failed'}: {condition}")


def fail_layout(message: str) -> NoReturn:
    """Raises TensorCheckError WIR921: a tensor has another layout than asserted."""
    raise TensorCheckError("WIR921", message)


def fail_finite(name: str, message: str) -> NoReturn:
    """Raises TensorCheckError WIR922: a tensor contains a NaN or an infinity."""
    raise TensorCheckError(
        "WIR922", f"{name} holds a NaN or an infinity" + (f" ({message})" if message else "")
    )


def select_branch(index: object, branches: Sequence[T]) -> T:
    """Returns the branch that a switch calls.

    A bool selects the first branch if true, otherwise the second. An int selects by position. Raises
    ExecutionError WIR932 for an index without a branch.
    """
    if isinstance(index, bool):
        return branches[0 if index else 1]
    if not isinstance(index, int) or not 0 <= index < len(branches):
        fail_branch(index, len(branches))
    return branches[index]


def fail_branch(index: object, count: int) -> NoReturn:
    """Raises ExecutionError WIR932: the index of a switch has no branch."""
    raise ExecutionError("WIR932", f"a switch over {count} branches is given index {index}")


def fail_group(name: str, why: str) -> NoReturn:
    """Raises NotSupportedError WIR915: this process belongs to no process group of this name."""
    raise NotSupportedError(
        "WIR915",
        f"this process belongs to no process group {name!r}: {why}",
        hint="create the group before the first call, under the same name on every process",
    )


def fail_agreement(group: str, rank: int, why: str) -> NoReturn:
    """Raises ExecutionError WIR933: the processes of a group do not run the same program."""
    raise ExecutionError(
        "WIR933",
        f"the processes of group {group!r} do not run one program over their symmetric memory "
        f"(this is rank {rank}): {why}",
        hint="compile the same model with the same options, sizes and passes on every process; "
        "results of tuning must be shared",
    )


def fail_rank(group: str, why: str, hint: str) -> NoReturn:
    """Raises ExecutionError WIR936: an artifact belongs to other processes of a group."""
    raise ExecutionError("WIR936", f"this artifact was made for group {group!r} {why}", hint=hint)


def fail_comparison(group: str, rank: int, why: str) -> NoReturn:
    """Raises ExecutionError WIR937: the processes of a group did not compare their artifacts."""
    raise ExecutionError(
        "WIR937",
        f"the processes of group {group!r} did not compare their artifacts (this is rank {rank}): {why}",
        hint="compare artifacts in every process of the group, within the time-out of the group's store",
    )


def expect_static(name: str, got: object, want: object) -> None:
    """Raises ExecutionError WIR926 unless an input has the value that was captured."""
    if type(got) is not type(want) or (got != want and not (got != got and want != want)):  # nan is nan here
        raise ExecutionError(
            "WIR926",
            f"input {name} was captured as {want!r} and cannot be {got!r}",
            hint="capture again with this value, or make it an input tensor",
        )


def expect_class(name: str, got: object, want: type) -> None:
    """Raises ExecutionError WIR926 unless an input has the class that was captured."""
    if type(got) is not want:
        raise ExecutionError(
            "WIR926",
            f"input {name} was captured as a {want.__qualname__} and cannot be a {type(got).__qualname__}",
        )


def expect_keys(name: str, got: Mapping[object, object], want: tuple[object, ...]) -> None:
    """Raises ArgumentError WIR926 unless a dict has the keys that were captured."""
    if not isinstance(got, Mapping):
        raise ArgumentError("WIR926", f"argument {name}: expected dict, got {type(got).__name__}")
    if set(got) != set(want):
        raise ArgumentError("WIR926", f"input {name} was captured with keys {list(want)} and has {list(got)}")


def explain(error: Exception, file: str) -> Exception:
    """Returns the error that leaves a program: with the failing line of `file`, and the source op from the
    comment above it.

    A WirError shows these in its message. Errors of torch, of operators and of kernels keep their class, so
    that callers can catch them as in eager mode; they get a note. Torch's assertions about layouts become
    TensorCheckError WIR921. Expressions of the program without a value become ExpressionError WIR402
    (DivisionError for a division by zero), and ints beyond 64 bits WIR408.
    """
    line = _line_in(error, file)
    place = _place(file, line) if line else ""
    if isinstance(error, WirError):
        if isinstance(error, ExecutionError) and place not in error.message:
            error.locate(place)
        return error
    from wrapper_ir_runtime.argument_failures import boxed_failure

    called_wrongly = boxed_failure(error, file)
    if called_wrongly is not None:
        called_wrongly.__cause__ = error
        return called_wrongly
    failure = _of_program(error, file)
    if failure is not None:
        failure = type(failure)(failure.code, failure.message + place)
        failure.__cause__ = error
        return failure
    add_place(error, place)
    return error


def add_place(error: Exception, place: str) -> None:
    """Adds a note (WIR927) about where a foreign error happened. Nested calls add it once."""
    if not any(note.startswith("[WIR927]") for note in getattr(error, "__notes__", ())):
        error.add_note(f"[WIR927] the error is of what the program calls{place}")


def _without_advice(text: str) -> str:
    """Returns the first lines of a layout check's message. The rest is advice for authors of operators."""
    lines = text.splitlines()
    advice = next((i for i, line in enumerate(lines) if line.startswith("This error most often")), len(lines))
    return "; ".join(lines[:advice])


def _of_program(error: Exception, file: str) -> WirError | None:
    """Returns the coded form of an error that a line of `file` raised itself, outside operators and
    kernels."""
    traces = traces_of(error)
    if traces and file_of(traces[-1]) == file:  # in C, and not in an operator's Python
        if isinstance(error, AssertionError):
            return TensorCheckError("WIR921", _without_advice(str(error)))
        if isinstance(error, ZeroDivisionError):
            return DivisionError("WIR402", str(error))
    from wrapper_ir_runtime.arithmetic_failures import arithmetic_failure  # needed only after a failure

    return arithmetic_failure(error, file)


def _line_in(error: Exception, file: str) -> int:
    """Returns the innermost line of `file` in the traceback, or 0."""
    # Functions of the program have the parameter `args`. Helpers of the module do not.
    own = [
        t for t in traces_of(error) if file_of(t) == file and t.tb_frame.f_code.co_varnames[:1] == ("args",)
    ]
    return own[-1].tb_lineno if own else 0


def _place(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    above = (linecache.getline(file, n).strip() for n in range(line - 1, max(0, line - _LOOK_BACK), -1))
    comment = next((c for c in above if c.startswith(("#", "def "))), "")
    source = f"\n  from {comment.lstrip('# ')}" if comment.startswith("#") else ""
    return f"\n  at {file}:{line}\n    {text}{source}"
