"""`wir`: inspect, check, compare, transform, emit and run wrapper programs.

Every command takes a `.wir` artifact; those that need no constants also take text or JSON, and `-` for
standard input. Exit status: 0 success, 1 a negative answer (invalid, different), 2 the command failed.
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
    """Turns an exception of a command into one message on standard error and exit status 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # Any: click's own
        # covers the output of `--help` and `--version`
        with _one_message(None):
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
    # raised by a plug-in, torch, or a kernel
    except Exception as error:
        # torch appends C++ frames
        message, _, _ = str(error).partition("\nException raised from ")
        _fail(ctx, error, "\n".join([f"{type(error).__name__}: {message}", *getattr(error, "__notes__", ())]))


def _fail(ctx: click.Context | None, error: Exception, message: str) -> NoReturn:
    if ctx is not None and ctx.params.get("traceback"):
        raise error
    echo(f"wir: {message}", err=True)
    sys.exit(2)


def _discard_output() -> None:
    """Redirects standard output, so that the interpreter does not fail again on exit when it flushes."""
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
    # `_SHELLS` lists those that click supports
    assert script is not None
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
