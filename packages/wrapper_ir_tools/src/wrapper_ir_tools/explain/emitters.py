"""What installed emitters write for a program, line by line; and what is lacking where one is not installed or cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wrapper_ir.artifact import Artifact
from wrapper_ir.ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.plugins.emitted import EmittedText, LineEmitter
from wrapper_ir.plugins.protocols import Emitter, OperatorEmitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir_tools.explain.model import Explanation
from wrapper_ir_tools.explain.program import ExplainOptions, explain_program


def emitted_texts(
    artifact: Artifact, emitters: Iterable[str | Emitter[object]], guarded: Guarded = NOT_GUARDED
) -> tuple[Mapping[str, tuple[EmittedText, ...]], tuple[str, ...]]:
    """What each of these emitters writes, by its name, and in words why others write nothing. A name stands for the installed
    emitter with its default options; `guarded` is what their code need not check. Nothing is compiled or run."""
    found: dict[str, tuple[EmittedText, ...]] = {}
    lacks: list[str] = []
    named = {one if isinstance(one, str) else one.name: one for one in emitters}  # options may have no hash
    for name, given in named.items():
        try:
            one = emitter(name) if isinstance(given, str) else given
            if isinstance(one, OperatorEmitter):  # writing calls nothing
                one = one.with_operators(ALL_OPERATORS)
            if isinstance(one, LineEmitter):
                found[name] = one.emitted_texts(artifact, guarded)
            else:
                lacks.append(f"lines of emitter {name}: it does not say which op a line is written for")
        except (
            Exception
        ) as error:  # of a plug-in, whose classes of errors are its own: the rest is explained all the same
            lacks.append(f"lines of emitter {name}: {error}")
    return found, tuple(lacks)


def explain_artifact(
    artifact: Artifact,
    emitters: Iterable[str | Emitter[object]] = ("python",),
    options: ExplainOptions | None = None,
    guarded: Guarded = NOT_GUARDED,
) -> Explanation:
    """The explanation of a valid program, with what these emitters write for it (see `emitted_texts`). Where one is not
    installed, the explanation says so in `lacks`."""
    options = options or ExplainOptions()
    texts, lacks = emitted_texts(artifact, emitters, guarded)
    return explain_program(
        artifact,
        replace(options, texts={**options.texts, **texts}, lacks=(*options.lacks, *lacks)),
    )
