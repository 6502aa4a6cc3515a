"""Options of the commands that run programs under control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

from wrapper_ir_tools.cli.options import allow_operator, hint, hints_of, public_key

if TYPE_CHECKING:
    from wrapper_ir.artifact import Artifact
    from wrapper_ir_tools.debugger.random_calls import Draw
    from wrapper_ir_tools.debugger.subject import InputChoice, Subject

F = TypeVar("F", bound=Callable[..., object])


class SubjectChoices(TypedDict):
    """Choices for reading and running a program.

    The options are a machine, the inputs, operators with reach that it may call, and the key that must have
    signed its file.
    """

    machine: str
    seed: int
    inputs: Path | None
    hints: tuple[tuple[str, int], ...]
    operators: tuple[str, ...]
    public_key: str | None


_OPTIONS = (
    click.option("--machine", default="torch", help="An installed machine."),
    click.option("--seed", default=0, help="Seed of the random inputs."),
    click.option(
        "--inputs",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A safetensors file of inputs by the names of parameters; others are random.",
    ),
    allow_operator,
    hint,
    public_key,
)


def subject_options(command: F) -> F:
    """Adds the options of `SubjectChoices`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def input_choice(artifact: Artifact, choices: SubjectChoices) -> InputChoice:
    """Selects the inputs."""
    from wrapper_ir_tools.debugger.subject import InputChoice

    symbols = hints_of(artifact.program, choices["hints"])
    return InputChoice(seed=choices["seed"], symbols=symbols, file=choices["inputs"])


def make_subject(
    artifact: Artifact, choices: SubjectChoices, *, poison: int | None = None, draws: list[Draw] | None = None
) -> Subject:
    """Prepares an artifact and its inputs to run."""
    from wrapper_ir.operators.policy import OperatorPolicy
    from wrapper_ir.plugins.registry import machine
    from wrapper_ir_runtime.interp import InterpOptions
    from wrapper_ir_tools.debugger.subject import Subject

    options = InterpOptions(poison=poison, operators=OperatorPolicy(allow=choices["operators"]))
    inputs = input_choice(artifact, choices)
    return Subject(artifact, machine(choices["machine"]), inputs, options, draws)
