"""The artifact that a converted graph module was created from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from torch import fx, nn

from fx_converter.errors import GraphPicklingError, SavedGraphError
from fx_converter.graph.metadata import FakeValues
from fx_converter.options import FxOptions
from fx_converter.state import ModelState, place
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.support.files import MappedFile, check_files

KEY = "wrapper_ir"
"""The entry of `GraphModule.meta` with the `Origin`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """The source of a graph module. `constants` are the tensors in the graph's buffers, and packed objects of
    torch; `fakes` created the graph's fake values."""

    artifact: Artifact
    options: FxOptions
    constants: Mapping[ir.Value, object]
    fakes: FakeValues

    def __deepcopy__(self, memo: dict[int, object]) -> Origin:
        """Copies for a copy of the module: the constants are the tensors of that copy."""
        constants = {value: copy.deepcopy(tensor, memo) for value, tensor in self.constants.items()}
        return replace(self, constants=constants)


class ConvertedModule(fx.GraphModule):
    """A graph module that can be saved, and whose state has the model's names."""

    _model_state = ModelState()

    # Any: torch's own signatures
    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        self._model_state.load_packed(self, state_dict, prefix)
        self._model_state.to_buffers(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """See `torch.nn.Module`."""
        state = super().state_dict(*args, **kwargs)
        prefix = str(kwargs.get("prefix", ""))
        self._model_state.from_buffers(state, prefix)
        self._model_state.add_originals(self, state, prefix)
        return state

    def __deepcopy__(self, memo: dict[int, object]) -> ConvertedModule:
        """Copies all names of a buffer; torch copies one."""
        module = super().__deepcopy__(memo)
        assert isinstance(module, ConvertedModule)
        module._model_state = self._model_state
        saved = set(nn.Module.state_dict(self))
        for path, buffer in self.named_buffers(remove_duplicate=False):
            place(module, path, copy.deepcopy(buffer, memo), persistent=path in saved)
        return module

    def __reduce__(self) -> NoReturn:
        """Raises GraphPicklingError FX201."""
        raise GraphPicklingError(
            "FX201", "graph modules with kernels are not pickled", hint="use fx_converter.save and load"
        )


class WatchedModule(ConvertedModule):
    """A module with constants that are mapped from files, which each call checks for changes. A copy has
    separate tensors, and nothing to check."""

    files: tuple[MappedFile, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: torch's own signature
        """Calls the module; raises ArtifactError WIR713 if a file has changed."""
        check_files(self.files)
        return super().__call__(*args, **kwargs)


def origin_of(module: fx.GraphModule) -> Origin:
    """Returns the origin of the module; raises SavedGraphError FX201 if it has none."""
    origin = module.meta.get(KEY)
    if isinstance(origin, Origin):
        return origin
    raise SavedGraphError(
        "FX201",
        "this graph module has no record of its artifact",
        hint="pass the converted module that it was created from as origin=",
    )
