"""The script `wir`, which says what to install where click is missing."""

from __future__ import annotations

import sys


def run() -> None:
    """Runs the command line of the process."""
    try:
        from wrapper_ir_tools.cli.main import main
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("wir: the command line needs click: pip install 'wrapper-ir[cli]'")
    main(prog_name="wir")
