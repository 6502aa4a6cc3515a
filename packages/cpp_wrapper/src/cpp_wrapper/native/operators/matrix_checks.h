// Checks of the arguments of matrix products.
#pragma once
#include "operator.h"

namespace wir {

/// Fails with the operator's name and a problem of its arguments.
[[noreturn, gnu::cold]] inline void fail_arguments(const char* name, const char* problem) {
  fail_text("WIR927", {name, " failed: ", problem});
}
/// Returns the bytes from the first to after the last element.
inline int64_t extent(Tensor tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor->rank; ++i) last += (tensor->sizes()[i] - 1) * tensor->strides()[i];
  return tensor->count == 0 ? 0 : (last + 1) * element_size(tensor->dtype);
}
/// Returns whether the memory between first and last elements overlaps.
inline bool overlaps(Tensor left, Tensor right) {
  return left->data() < right->data() + extent(right) && right->data() < left->data() + extent(left);
}

}  // namespace wir
