"""Canonical text of values: equal text means equal meaning in every process. Other values are refused."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from types import MappingProxyType

import sympy
import torch
from torch import fx

from inductor_frontend.cache.operators import NoCanonicalForm, is_operator, name_of, operator_text

Text = Callable[[object], str]


class Writer:
    """Writes values as canonical text.

    `nodes` names the nodes of the graph being written. `tensor` writes tensors. `own` refuses operators that
    are not torch's. Raises NoCanonicalForm, which names the value.
    """

    def __init__(
        self,
        nodes: Mapping[fx.Node, str] = MappingProxyType({}),
        tensor: Text | None = None,
        own: bool = False,
    ) -> None:
        self._nodes = nodes
        self._tensor = tensor
        self._own = own
        self._by_type: dict[type, Text] = {
            type(None): str,
            bool: str,
            int: str,
            float: repr,
            complex: repr,
            str: json.dumps,
            bytes: repr,
            type(...): lambda _: "...",
            fx.Node: self._node,
            tuple: self._tuple,
            torch.Size: self._tuple,
            list: self._list,
            fx.immutable_collections.immutable_list: self._list,
            fx.immutable_collections.immutable_dict: self._dict,
            dict: self._dict,
            set: self._set,
            frozenset: self._set,
            slice: self._slice,
            range: repr,
            torch.dtype: str,
            torch.device: str,
            torch.layout: str,
            torch.memory_format: str,
            torch.SymInt: _symbolic,
            torch.SymFloat: _symbolic,
            torch.SymBool: _symbolic,
        }

    def text(self, value: object) -> str:
        """Returns the canonical text of a value."""
        write = self._by_type.get(type(value))
        return write(value) if write is not None else self._other(value)

    def _other(self, value: object) -> str:
        """Writes values that are recognized by a base class, not by their exact type."""
        match value:
            case enum.Enum():
                return f"{name_of(type(value))}.{value.name}"
            case sympy.Basic():
                return f"sympy {sympy.srepr(value)}"
            case torch.Tensor():
                if self._tensor is None:
                    raise NoCanonicalForm("a tensor where none is expected")
                return self._tensor(value)
            case PurePath():
                return f"path {json.dumps(str(value))}"
            case functools.partial():
                parts = (value.func, value.args, value.keywords)
                return f"partial{self._tuple(parts)}"
            case _:
                pass
        if is_operator(value):
            return operator_text(value, own=self._own)
        if is_dataclass(value) and not isinstance(value, type):
            inside = ",".join(f"{f.name}={self.text(getattr(value, f.name))}" for f in fields(value))
            return f"{type(value).__module__}:{type(value).__qualname__}({inside})"
        if callable(value):
            return name_of(value)
        raise NoCanonicalForm(f"a value of type {type(value).__module__}.{type(value).__qualname__}")

    def _node(self, value: object) -> str:
        assert isinstance(value, fx.Node)
        name = self._nodes.get(value)
        if name is None:
            raise NoCanonicalForm(f"node {value.name} of another graph")
        return f"%{name}"

    def _tuple(self, value: object) -> str:
        assert isinstance(value, tuple)
        return f"({','.join(map(self.text, value))})"

    def _list(self, value: object) -> str:
        assert isinstance(value, list)
        return f"[{','.join(map(self.text, value))}]"

    def _dict(self, value: object) -> str:
        assert isinstance(value, dict)
        return "{" + ",".join(f"{self.text(k)}:{self.text(v)}" for k, v in value.items()) + "}"

    def _set(self, value: object) -> str:
        assert isinstance(value, (set, frozenset))
        return "set{" + ",".join(sorted(map(self.text, value))) + "}"

    def _slice(self, value: object) -> str:
        assert isinstance(value, slice)
        return f"slice{self._tuple((value.start, value.stop, value.step))}"


def _symbolic(value: object) -> str:
    assert isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
    return f"sym {value.node.expr}"
