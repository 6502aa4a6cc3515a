"""What a converted graph module remembers of the artifact that it was made of."""

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
"""The entry of `GraphModule.meta`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """`constants` are the tensors that the graph's buffers hold (Any: packed ones are torch's own objects); `fakes` made
    the graph's fake values."""

    artifact: Artifact
    options: FxOptions
    constants: Mapping[ir.Value, Any]
    fakes: FakeValues

    # Any: what is copied already, by identity
    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        """For a copy of the module: its constants are the tensors that are copied with it."""
        held = {value: copy.deepcopy(tensor, memo) for value, tensor in self.constants.items()}
        return replace(self, constants=held)


class ConvertedModule(fx.GraphModule):
    """A graph module that says how it is kept in a file, and has the model's names for its state."""

    _model_state = ModelState()

    # Any: as torch calls them, and what is copied already, by identity
    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        self._model_state.to_buffers(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """See `torch.nn.Module`."""
        found = super().state_dict(*args, **kwargs)
        self._model_state.from_buffers(found, str(kwargs.get("prefix", "")))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> ConvertedModule:
        """With all names of a buffer: torch keeps one."""
        made = super().__deepcopy__(memo)
        assert isinstance(made, ConvertedModule)
        made._model_state = self._model_state
        saved = set(nn.Module.state_dict(self))
        for path, held in self.named_buffers(remove_duplicate=False):
            place(made, path, copy.deepcopy(held, memo), persistent=path in saved)
        return made

    def __reduce__(self) -> NoReturn:
        """Raises GraphPicklingError FX201."""
        raise GraphPicklingError(
            "FX201", "graph modules with kernels are not pickled", hint="use fx_converter.save and load"
        )


class WatchedModule(ConvertedModule):
    """One whose constants are mapped from files: a call finds out first whether somebody wrote them. A copy has tensors of
    its own, and nothing to watch."""

    files: tuple[MappedFile, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call; raises ArtifactError WIR713."""
        check_files(self.files)
        return super().__call__(*args, **kwargs)


def origin_of(module: fx.GraphModule) -> Origin:
    """What the module remembers; raises SavedGraphError FX201 for one that nothing of ours has made."""
    found = module.meta.get(KEY)
    if isinstance(found, Origin):
        return found
    raise SavedGraphError(
        "FX201",
        "this graph module does not say which artifact it comes from",
        hint="pass the converted module that it was made from as origin=",
    )
