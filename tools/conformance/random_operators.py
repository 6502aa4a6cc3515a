"""C++ sources of operators that random programs call and the native runtime lacks."""

from __future__ import annotations

from cpp_wrapper import OperatorSource
from cpp_wrapper.sources.native import native_operators
from wrapper_ir_tools.testing.catalogue import EXTERNS

_HEAD = '#include "operator.h"\n\nusing namespace wir;\n\n'
_POINTWISE = """\
WIR_OPERATOR({name})({parameters}) {{
  const Owned dense = contiguous(self, kF32);
  Owned made(new_tensor(self->rank, self->sizes(), nullptr, kF32));
  for (int64_t i = 0; i < dense->count; ++i) {{
    const float x = data_of<float>(dense.get())[i];
    data_of<float>(made.get())[i] = {value};
  }}
  {end}
  return 0;
}}
"""


def _pointwise(name: str, parameters: str, value: str, end: str = "*ret0 = made.release();") -> str:
    return _POINTWISE.format(name=name, parameters=parameters, value=value, end=end)


_GELU = "tanh ? 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))) : "
_BODIES = {
    "aten::relu": _pointwise("relu", "Tensor self, Tensor* ret0", "x > 0 ? x : 0"),
    "aten::gelu": _pointwise(
        "gelu",
        "Tensor self, const char* approximate, Tensor* ret0",
        _GELU.replace("tanh ?", "*approximate == 't' ?") + "0.5f * x * (1 + std::erf(x * 0.70710678f))",
    ),
    "aten::sigmoid_": _pointwise(
        "sigmoid_", "Tensor self", "1 / (1 + std::exp(-x))", "copy_into(self, made.get());"
    ),
    "aten::add.out": """\
WIR_OPERATOR(add_out)(Tensor out, Tensor self, Tensor other, double alpha) {
  Owned first(new_tensor(out->rank, out->sizes(), nullptr, kF32));
  Owned second(new_tensor(out->rank, out->sizes(), nullptr, kF32));
  copy_into(first.get(), self);
  copy_into(second.get(), other);
  for (int64_t i = 0; i < first->count; ++i) {
    data_of<float>(first.get())[i] += static_cast<float>(alpha) * data_of<float>(second.get())[i];
  }
  copy_into(out, first.get());
  return 0;
}
""",
    "aten::zeros": """\
WIR_OPERATOR(zeros)(const int64_t* size, int64_t rank, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*,
                    Tensor* ret0) {
  Owned made(new_tensor(rank, size, nullptr, dtype != nullptr ? *dtype : kF32));
  fill_zero(made.get());
  *ret0 = made.release();
  return 0;
}
""",
    "aten::nonzero": """\
WIR_OPERATOR(nonzero)(Tensor self, Tensor* ret0) {
  const Owned dense = contiguous(self);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < dense->count; ++i) {
    const Number value = load_number(dense->data() + i * element_size(dense->dtype), dense->dtype);
    if (value.is_whole ? value.whole != 0 : value.real != 0) places.push_back(i);
  }
  const int64_t sizes[2] = {static_cast<int64_t>(places.size()), self->rank};
  Owned made(new_tensor(2, sizes, nullptr, kI64));
  for (int64_t row = 0; row < sizes[0]; ++row) {
    int64_t rest = places[static_cast<size_t>(row)];
    for (int64_t dim = self->rank; dim-- > 0; rest /= self->sizes()[dim]) {
      data_of<int64_t>(made.get())[row * self->rank + dim] = rest % self->sizes()[dim];
    }
  }
  *ret0 = made.release();
  return 0;
}
""",
}


def random_operators() -> tuple[OperatorSource, ...]:
    """Returns sources of the operators that the native runtime lacks."""
    missing = [name for name in _BODIES if name not in native_operators().host]
    return tuple(
        OperatorSource(text=_HEAD + _BODIES[name], schemas=(EXTERNS[name].schema,)) for name in missing
    )
