// Sums of products of three tensors.
#include "layouts.h"

namespace wir {
namespace {

constexpr const char* kName = "aten::_trilinear";

/// Returns for each dimension whether a list names it.
std::vector<bool> named(const int64_t* dims, int64_t count, int64_t rank) {
  std::vector<bool> made(static_cast<size_t>(rank));
  for (int64_t i = 0; i < count; ++i) made[static_cast<size_t>(wrap_dim(dims[i], rank, kName))] = true;
  return made;
}

/// Returns a view with dimensions of size 1 where `added` is set.
Owned expanded(Tensor tensor, const std::vector<bool>& added) {
  Sizes sizes, strides;
  int64_t next = 0;
  for (const bool is_added : added) {
    sizes.push_back(is_added ? 1 : tensor->sizes()[next]);
    strides.push_back(is_added ? 0 : tensor->strides()[next]);
    next += is_added ? 0 : 1;
  }
  return view_of(tensor, sizes, strides);
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_trilinear)
(Tensor i1, Tensor i2, Tensor i3, const int64_t* expand1, int64_t expand1_len_, const int64_t* expand2, int64_t expand2_len_,
 const int64_t* expand3, int64_t expand3_len_, const int64_t* sumdim, int64_t sumdim_len_, int64_t, Tensor* ret0) {
  const int64_t rank = i1->rank + expand1_len_;
  if (i2->rank + expand2_len_ != rank || i3->rank + expand3_len_ != rank) fail_operator(kName, "its tensors have different ranks");
  if (i2->dtype != i1->dtype || i3->dtype != i1->dtype) fail_operator(kName, "its tensors have different element types");
  const Owned first = expanded(i1, named(expand1, expand1_len_, rank)), second = expanded(i2, named(expand2, expand2_len_, rank)),
              third = expanded(i3, named(expand3, expand3_len_, rank));
  const Sizes sizes = broadcast(broadcast(sizes_of(first.get()), sizes_of(second.get()), kName), sizes_of(third.get()), kName);
  const std::vector<bool> is_summed = named(sumdim, sumdim_len_, rank);
  Sizes kept;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!is_summed[i]) kept.push_back(sizes[i]);
  }
  const bool is_real = is_float(i1->dtype);
  Owned sums = zeros(kept, is_real ? kF64 : kI64);
  Sizes strides;
  int64_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i) strides.push_back(is_summed[i] ? 0 : sums->strides()[next++]);
  const Owned target = view_of(sums.get(), sizes, strides);
  reals(i1->dtype, kName, [&]<class T>() {
    using W = std::conditional_t<is_small_float<T> || std::is_floating_point_v<T>, double, uint64_t>;  // integers wrap
    Loop(sizes, {target.get(), first.get(), second.get(), third.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      const auto value = [&](int64_t tensor, int64_t i) { return converted<W>(*reinterpret_cast<const T*>(at[tensor] + i * steps[tensor])); };
      for (int64_t i = 0; i < count; ++i) {
        *reinterpret_cast<W*>(at[0] + i * steps[0]) += value(1, i) * value(2, i) * value(3, i);
      }
    });
  });
  *ret0 = contiguous(sums.get(), i1->dtype).release();
  return 0;
}
