"""Lazy loading of a package's public names on first use (PEP 562)."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # true for type checkers; `import wrapper_ir` loads no module of the library but these
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def homes(modules: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the module of each name."""
    return {name: module for module, names in modules.items() for name in names}


def loaded_on_use(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package.

    `modules` has the names of each module, which is relative to the package, or absolute in `wrapper_ir`. A
    loaded name becomes an attribute of the package.
    """
    home = homes(modules)

    def load(name: str) -> object:
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path = module if module.startswith("wrapper_ir.") else f"{package}.{module}"
        value: object = getattr(import_module(path), name)  # by the table of the package
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return load, names
