"""The table of generated pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tools.docs.command import command_page
from tools.docs.error_codes import error_codes
from tools.docs.ir_reference import ir_reference

_ROOT = Path(__file__).resolve().parents[2]

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"docs/errors.md": error_codes, "docs/ir-reference.md": ir_reference, "docs/wir.md": command_page}
)
"""Path from the repository's root -> function that generates the page's text."""


def page_path(page: str) -> Path:
    """Returns the page's path on disk."""
    return _ROOT / page


def is_stale(page: str) -> bool:
    """Returns whether the file is missing or differs from the generated text."""
    path = page_path(page)
    return not path.is_file() or path.read_text(encoding="utf-8") != PAGES[page]()
