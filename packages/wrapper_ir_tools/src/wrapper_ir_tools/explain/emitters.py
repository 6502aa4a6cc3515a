"""Collects the text that installed emitters write for a program, line by line, or the reason if they
cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.plugins.emitted import EmittedText, LineEmitter
from wrapper_ir.plugins.protocols import Emitter, OperatorEmitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir_tools.explain.model import Explanation
from wrapper_ir_tools.explain.program import ExplainOptions, explain_program


def emitted_texts(
    artifact: Artifact, emitters: Iterable[str | Emitter[object]], guarded: ir.Guarded = ir.NOT_GUARDED
) -> tuple[Mapping[str, tuple[EmittedText, ...]], tuple[str, ...]]:
    """Emits the program with each emitter; returns texts by name, and reasons for emitters that cannot.

    A name selects an installed emitter with its default options; `guarded` has facts that its code need not
    check. Nothing is compiled or run.
    """
    texts: dict[str, tuple[EmittedText, ...]] = {}
    lacks: list[str] = []
    # emitters may not be hashable
    by_name = {one if isinstance(one, str) else one.name: one for one in emitters}
    for name, choice in by_name.items():
        try:
            one = emitter(name) if isinstance(choice, str) else choice
            # emission calls no operator
            if isinstance(one, OperatorEmitter):
                one = one.with_operators(ALL_OPERATORS)
            if isinstance(one, LineEmitter):
                texts[name] = one.emitted_texts(artifact, guarded)
            else:
                lacks.append(f"lines of emitter {name}: it does not say which op a line is written for")
        except (
            Exception
            # a plug-in may raise any class; the rest is still explained
        ) as error:
            lacks.append(f"lines of emitter {name}: {error}")
    return texts, tuple(lacks)


def explain_artifact(
    artifact: Artifact,
    emitters: Iterable[str | Emitter[object]] = ("python",),
    options: ExplainOptions | None = None,
    guarded: ir.Guarded = ir.NOT_GUARDED,
) -> Explanation:
    """Explains a valid program, with the text that these emitters write for it (see `emitted_texts`).

    An emitter that is not installed is listed in `lacks`.
    """
    options = options or ExplainOptions()
    texts, lacks = emitted_texts(artifact, emitters, guarded)
    return explain_program(
        artifact, replace(options, texts={**options.texts, **texts}, lacks=(*options.lacks, *lacks))
    )
