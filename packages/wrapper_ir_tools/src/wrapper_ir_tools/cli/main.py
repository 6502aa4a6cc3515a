"""`wir`: look at, check, compare, transform, emit and run wrapper programs.

Every command takes a `.wir` artifact; those that need no constants take text or JSON as well, `-` being standard
input. Exit status: 0 done, 1 the answer is no (invalid, different), 2 the command could not be carried out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from wrapper_ir.errors import WirError
from wrapper_ir_tools.cli import (
    cache,
    debugging,
    execute,
    explain,
    inspection,
    kernels,
    memory,
    profile,
    transform,
    view,
)
from wrapper_ir_tools.cli.output import echo

_SHELLS = ("bash", "zsh", "fish")


class _Group(click.Group):
    """Turns what a command raises into one message on standard error and exit status 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # Any: click's own
        with _one_message(None):  # of what `--help` and `--version` print
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # Any: click's own
        with _one_message(ctx):
            return super().invoke(ctx)


@contextmanager
def _one_message(ctx: click.Context | None) -> Iterator[None]:
    try:
        yield
    except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
        raise
    except OSError as error:
        _discard_output()
        place = f"{os.fspath(error.filename)!r}: " if isinstance(error.filename, str) else ""
        _fail(ctx, error, f"{place}{error.strerror or error}")
    except WirError as error:
        _fail(ctx, error, str(error))
    except Exception as error:  # of a plug-in, torch, or a kernel
        said, _, _ = str(error).partition("\nException raised from ")  # torch appends frames of C++
        _fail(ctx, error, "\n".join([f"{type(error).__name__}: {said}", *getattr(error, "__notes__", ())]))


def _fail(ctx: click.Context | None, error: Exception, message: str) -> NoReturn:
    if ctx is not None and ctx.params.get("traceback"):
        raise error
    echo(f"wir: {message}", err=True)
    sys.exit(2)


def _discard_output() -> None:
    """Keeps the interpreter from writing the rest of the output, and failing again, when it exits."""
    with suppress(OSError, ValueError):  # standard output may have no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    help=__doc__,
)
@click.version_option(package_name="wrapper-ir", prog_name="wir")
@click.option("--traceback", is_flag=True, help="Show Python's traceback where a command fails.")
def main(traceback: bool) -> None:
    """The command group; see the module's docstring."""


@main.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes `wir` in a shell: `eval "$(wir completion bash)"`."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None  # one of the shells that click knows
    echo(script(main, {}, "wir", "_WIR_COMPLETE").source())


COMMANDS = (
    *inspection.COMMANDS,
    *explain.COMMANDS,
    *memory.COMMANDS,
    *view.COMMANDS,
    *transform.COMMANDS,
    *kernels.COMMANDS,
    *execute.COMMANDS,
    *profile.COMMANDS,
    *debugging.COMMANDS,
    *cache.COMMANDS,
)
for command in COMMANDS:
    main.add_command(command)
