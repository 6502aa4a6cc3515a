"""`python -m wrapper_ir.cli` is the `wir` command."""

from wrapper_ir.cli.main import main

main(prog_name="wir")
