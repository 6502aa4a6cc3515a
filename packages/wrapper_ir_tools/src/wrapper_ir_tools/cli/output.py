"""Prints all text for the terminal; control characters are escaped."""

from __future__ import annotations

import click

from wrapper_ir.support.quoting import terminal_text


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Prints text in which only line breaks and tabs move the cursor."""
    click.echo(terminal_text(text), nl=nl, err=err)
