"""Torch's helpers for Inductor's kernels without the rest of torch, for the fork server.

The functions of `torch._inductor.runtime.triton_helpers` need only Triton. Importing that module normally
runs `torch/__init__.py` and `torch/_inductor/__init__.py`, four fifths of the time until the process can
fork. Here the two packages are empty modules. Any other access fails and is recorded, so that the job is
repeated with all of torch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_HELPERS = "torch._inductor.runtime.triton_helpers"
HELPERS = frozenset({"torch._inductor.runtime", _HELPERS})
"""Modules of torch that Inductor's kernels import."""
_PACKAGES = ("torch", "torch._inductor")
_WHOLE = HELPERS | {"torch._inductor.runtime.triton_compat"}
"""Modules that are imported normally."""
_SPARED = frozenset({"torch.autograd"})
"""Optional modules that these probe for on import."""


class TorchStub:
    """Replaces torch in `sys.modules` from `install` to `remove`.

    It is also a finder in `sys.meta_path` that refuses all other modules of torch. `missed` has the names
    that were requested and refused.
    """

    def __init__(self) -> None:
        self.missed: set[str] = set()
        self._installed = False

    def install(self) -> bool:
        """Imports the helpers; returns False if torch is already imported, or the helpers need more of it."""
        if "torch" in sys.modules:
            return self._installed
        sys.meta_path.insert(0, self)
        self._installed = True
        try:
            for name in _PACKAGES:
                self._add(name)
            importlib.import_module(_HELPERS)
        # other versions of torch may raise anything
        except Exception:
            self.missed.add(_HELPERS)
        if self.missed - _SPARED:
            self.remove()
        self.missed.clear()
        return self._installed

    def remove(self) -> None:
        """Removes all modules of torch, so that torch itself can be imported."""
        if not self._installed:
            return
        self._installed = False
        sys.meta_path.remove(self)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            del sys.modules[name]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError for refused modules, to stop other
        finders.
        """
        if name.partition(".")[0] != "torch" or name in _WHOLE or name in _PACKAGES:
            return None
        self.missed.add(name)
        raise ModuleNotFoundError(f"'{name}' is not imported in a compiler process", name=name)

    def _add(self, name: str) -> None:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"no module '{name}'", name=name)
        module = module_from_spec(spec)

        def absent(attribute: str) -> object:
            if not attribute.startswith("__"):
                self.missed.add(f"{name}.{attribute}")
            raise AttributeError(f"'{name}.{attribute}' is not imported in a compiler process")

        vars(module)["__getattr__"] = absent
        sys.modules[name] = module
        package, _, child = name.rpartition(".")
        if package:
            setattr(sys.modules[package], child, module)
