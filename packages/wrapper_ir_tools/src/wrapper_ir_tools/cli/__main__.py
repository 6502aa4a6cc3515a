"""`python -m wrapper_ir_tools.cli` is the `wir` command."""

from wrapper_ir_tools.cli.main import main

main(prog_name="wir")
