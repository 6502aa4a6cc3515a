"""`python -m wrapper_ir.cli` is the `wir` command."""

from wrapper_ir.cli.entry import run

run()
