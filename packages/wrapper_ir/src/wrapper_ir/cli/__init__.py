"""The `wir` command."""

from wrapper_ir.cli.main import main

__all__ = ["main"]
