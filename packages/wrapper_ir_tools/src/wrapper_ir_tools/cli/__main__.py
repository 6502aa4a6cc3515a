"""`python -m wrapper_ir_tools.cli` is the `wir` command."""

from wrapper_ir_tools.cli.entry import run

run()
