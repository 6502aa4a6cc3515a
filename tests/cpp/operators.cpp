// Operators of a library that is not torch's, against torch's stable headers alone.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

using torch::stable::Tensor;

namespace {

void scale(Tensor& x, float factor, float shift) {
  auto* data = static_cast<float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) data[i] = data[i] * factor + shift;
}

std::tuple<Tensor, Tensor> many(
    Tensor x, double factor, int64_t count, bool flag, std::string mode, std::vector<int64_t> shifts,
    std::optional<Tensor> other, std::optional<double> extra) {
  STD_TORCH_CHECK(mode == "sum", "mode is ", mode);
  Tensor first = torch::stable::clone(x), second = torch::stable::clone(other.has_value() ? *other : x);
  float shift = flag ? static_cast<float>(count) : 0.0f;
  for (int64_t one : shifts) shift += static_cast<float>(one);
  scale(first, static_cast<float>(factor), shift);
  scale(second, 1.0f, static_cast<float>(extra.value_or(0.0)));
  return {first, second};
}

void bump_(Tensor x, int64_t by) { scale(x, 1.0f, static_cast<float>(by)); }

Tensor stack_first(std::vector<Tensor> tensors) { return torch::stable::clone(tensors.at(0)); }

}  // namespace

STABLE_TORCH_LIBRARY(cpp_tests, m) {
  m.def(
      "many(Tensor x, float factor, SymInt count, bool flag=True, *, str mode='sum', int[] shifts=[], "
      "Tensor? other=None, float? extra=None) -> (Tensor, Tensor)");
  m.def("bump_(Tensor(a!) x, SymInt by) -> ()");
  m.def("stack_first(Tensor[] tensors) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(cpp_tests, CPU, m) {
  m.impl("many", TORCH_BOX(&many));
  m.impl("bump_", TORCH_BOX(&bump_));
  m.impl("stack_first", TORCH_BOX(&stack_first));
}
