"""Parses pipelines of passes, and runs them with verification around every pass."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PassError, VerificationError
from wrapper_ir.plugins.passes import Pass, option_name
from wrapper_ir_passes.table import PASSES
from wrapper_ir_passes.translation import check_translation

_ITEM = re.compile(r"\s*([\w-]+)\s*(?:\{([^{}]*)\})?\s*(,|$)")
_OPTION = re.compile(r'(?:[^,"]|"[^"]*")+')
"""An option: a comma in quotes does not end it."""


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes of a text such as `derive-frees,insert-finite-checks{outputs=true}`.

    Raises PassError WIR801 (malformed text), WIR802 (unknown pass), WIR803 (unknown option or bad value).
    """
    passes: list[Pass] = []
    position = 0
    while text[position:].strip():
        m = _ITEM.match(text, position)
        if m is None:
            raise PassError(
                "WIR801",
                f"cannot read a pass at {text[position:]!r}",
                hint="write name or name{option=value}",
            )
        passes.append(_make(m[1], m[2] or ""))
        position = m.end()
    return tuple(passes)


def print_pipeline(passes: Iterable[Pass]) -> str:
    """The textual form, which `parse_pipeline` reads back."""
    return ",".join(p.spec for p in passes)


def describe_passes() -> str:
    """Describes each pass in two lines: its name and options with their defaults, and its effect."""
    lines = []
    for cls in PASSES.values():
        options = ",".join(_describe(f) for f in dataclasses.fields(cls))
        title = f"{cls.name}{{{options}}}" if options else cls.name
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        lines += [title, f"    {summary}"]
    return "\n".join(lines)


def run_pipeline(
    program: ir.Program,
    pipeline: str | Iterable[Pass],
    *,
    verify: bool = True,
    analyses: Analyses | None = None,
) -> ir.Program:
    """Runs passes in order.

    Unless `verify` is false, the program is verified before the first and after each pass, and each result is
    compared with its input (see `wrapper_ir_passes.translation`). Errors that the first pass `repairs` are
    accepted in the input. Raises VerificationError for an invalid input, PassError WIR804 naming the pass
    that broke a valid program, and WIR805 naming the pass that changed its behaviour.
    """
    # Imported here: the verifier is not needed to run a pass.
    from wrapper_ir.verifier import check

    passes = _passes(pipeline)
    before = Analyses.of(program, analyses)
    if verify:
        mended = passes[0].repairs if passes else frozenset[str]()
        findings = tuple(d for d in check(program, analyses=before) if d.code not in mended)
        if findings:
            raise VerificationError(findings)
    for step in passes:
        after = before.after(step.run(before.program, before))
        findings = check(after.program, analyses=after) if verify else ()
        if findings:
            error = VerificationError(findings)
            raise PassError("WIR804", f"pass {step.spec} made the program invalid: {error}") from error
        if verify and after is not before:
            old, new = step.comparable(before.program, after.program)
            check_translation(before.after(old), after.after(new), step.spec)
        before = after
    return before.program


def run_on_artifact(artifact: Artifact, pipeline: str | Iterable[Pass]) -> Artifact:
    """Like `run_pipeline`, for an artifact: signature and binaries change with the program."""
    for step in _passes(pipeline):
        artifact = step.around(artifact, run_pipeline(artifact.program, (step,)))
    return artifact


def _passes(pipeline: str | Iterable[Pass]) -> tuple[Pass, ...]:
    return parse_pipeline(pipeline) if isinstance(pipeline, str) else tuple(pipeline)


def _describe(field: dataclasses.Field[object]) -> str:
    default = field.default.value if isinstance(field.default, enum.Enum) else field.default
    return f"{option_name(field.name)}={str(default).lower()}"


def _make(name: str, options: str) -> Pass:
    cls = PASSES.get(name)
    if cls is None:
        raise PassError("WIR802", f"unknown pass {name!r}", hint=f"one of {', '.join(PASSES)}")
    fields = {option_name(f.name): f for f in dataclasses.fields(cls)}
    values: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in _OPTION.findall(options))):
        key, eq, text = (part.strip() for part in item.partition("="))
        field = fields.get(key.replace("_", "-"))
        if field is None or not eq:
            names = ", ".join(fields) or "none"
            raise PassError("WIR803", f"pass {name} has no option {item!r}", hint=f"options: {names}")
        values[field.name] = _value(name, key, text, field.default)
    return cls(**values)


def _value(name: str, key: str, text: str, default: object) -> object:
    """`text` as a value of the default's own type; without a default, a number."""
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text]
            case None | int():
                return int(text)
            case enum.Enum():
                return type(default)(text)
            case _:
                return text.removeprefix('"').removesuffix('"')
    except (KeyError, ValueError) as error:
        raise PassError("WIR803", f"pass {name}: bad value {text!r} for option {key}") from error
