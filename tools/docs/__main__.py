"""Writes every generated page; with `--check`, lists stale ones and exits with status 1."""

from __future__ import annotations

import argparse
import sys

from tools.docs.pages import PAGES, is_stale, page_path


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check: bool = parser.parse_args().check
    stale = [page for page in PAGES if is_stale(page)]
    for page in stale:
        print(f"{page}: {'stale' if check else 'written'}")
        if not check:
            page_path(page).write_text(PAGES[page](), encoding="utf-8")
    if not stale:
        print(f"{len(PAGES)} generated pages are up to date")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
