"""The command `wir explain`."""

from __future__ import annotations

from pathlib import Path

import click

from wrapper_ir_tools.cli.files import artifact_of, read_any
from wrapper_ir_tools.cli.options import as_json, public_key
from wrapper_ir_tools.cli.output import echo


@click.command()
@click.argument("file")
@click.option(
    "--of",
    "queries",
    multiple=True,
    metavar="WHAT",
    help=(
        "Only this: `linear.py:134` (a line of the model's source, or of emitted code), `op:12`, `@kernel`, "
        "`%value`, or the name of an FX node, an operator or a module; repeatable."
    ),
)
@click.option(
    "--emitter",
    "emitters",
    multiple=True,
    default=("python",),
    metavar="NAME",
    help="An installed emitter, whose lines are shown; repeatable. `none` for no lines.",
)
@click.option(
    "--share", is_flag=True, help="Only how many emitted lines lead to a source line, and why others do not."
)
@public_key
@as_json
def explain(
    file: str,
    queries: tuple[str, ...],
    emitters: tuple[str, ...],
    share: bool,
    public_key: str | None,
    as_json: bool,
) -> None:
    """Explain a program: from each source line to FX nodes, ops, kernels and emitted lines, and back.

    Also printed: why a kernel or an operator was chosen, why a result has its own memory, and why a graph is
    split. What cannot be explained, such as the lines of an emitter that is not installed, is listed at the
    end.
    """
    from wrapper_ir import verify as check
    from wrapper_ir_tools.explain import (
        ExplainOptions,
        explain_artifact,
        explanation_json,
        explanation_text,
        find_ops,
        line_share,
        share_text,
    )

    artifact = artifact_of(read_any(file, public_key))
    check(artifact)
    names = [name for name in emitters if name != "none"]
    explanation = explain_artifact(artifact, names, ExplainOptions(name=Path(file).stem))
    if share:
        echo(share_text(line_share([explanation])), nl=False)
    elif as_json:
        echo(explanation_json(explanation), nl=False)
    else:
        ops = [op for query in queries for op in find_ops(explanation, query)]
        echo(explanation_text(explanation, ops if queries else None), nl=False)


COMMANDS: tuple[click.Command, ...] = (explain,)
