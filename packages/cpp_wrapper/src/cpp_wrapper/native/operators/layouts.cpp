// Sizes and strides of results, and loops over several tensors.
#include "layouts.h"

#include <numeric>

namespace wir {

int64_t count_of(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Owned empty(const Sizes& sizes, int32_t dtype) {
  return Owned(new_tensor(static_cast<int64_t>(sizes.size()), sizes.data(), nullptr, dtype));
}
Owned empty(const Sizes& sizes, const Sizes& strides, int32_t dtype) {
  return Owned(new_tensor(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype));
}
Owned empty_beside(Tensor like, const Sizes& sizes, int32_t dtype) {
  return Owned(new_like(like, static_cast<int64_t>(sizes.size()), sizes.data(), nullptr, dtype));
}
Owned empty_beside(Tensor like, const Sizes& sizes, const Sizes& strides, int32_t dtype) {
  return Owned(new_like(like, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype));
}
Owned empty_on(const int32_t* device, int32_t index, const Sizes& sizes, const Sizes& strides, int32_t dtype) {
  if (device == nullptr || *device == aoti_torch_device_type_cpu()) return empty(sizes, strides, dtype);
  return Owned(require_device_memory().allocate(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype, index));
}
Owned view_of(Tensor base, const Sizes& sizes, const Sizes& strides, int64_t offset) {
  const int64_t at = base->offset + offset * element_size(base->dtype);
  return Owned(new_view(base, at, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), base->dtype));
}
Owned sliced(Tensor self, int64_t dim, const int64_t* start, const int64_t* end, int64_t step, const char* name) {
  if (self->rank == 0) fail_operator(name, "the tensor has no dimensions");
  if (step <= 0) fail_operator(name, "the step is not positive");
  dim = wrap_dim(dim, self->rank, name);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  const auto d = static_cast<size_t>(dim);
  const int64_t size = sizes[d];
  const auto bounded = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t first = start != nullptr ? bounded(*start) : 0, last = std::max(first, end != nullptr ? bounded(*end) : size);
  sizes[d] = (last - first + step - 1) / step;
  const int64_t offset = first * strides[d];
  strides[d] *= step;
  return view_of(self, sizes, strides, offset);
}
Owned zeros(const Sizes& sizes, int32_t dtype) {
  Owned made = empty(sizes, dtype);
  fill_zero(made.get());
  return made;
}
Owned reshaped(Tensor tensor, const Sizes& sizes) { return view_of(tensor, sizes, contiguous_strides(sizes)); }

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t running = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = running;
    running *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

namespace {

/// Returns strides of `tensor` for the dimensions of `sizes`; 0 for those along which it is broadcast.
Sizes broadcast_strides(const Sizes& sizes, Tensor tensor) {
  Sizes strides(sizes.size(), 0);
  const size_t missing = sizes.size() - static_cast<size_t>(tensor->rank);
  for (size_t i = missing; i < sizes.size(); ++i) {
    if (tensor->sizes()[i - missing] == sizes[i] && sizes[i] != 1) strides[i] = tensor->strides()[i - missing];
    if (tensor->sizes()[i - missing] == sizes[i] && sizes[i] == 1) strides[i] = tensor->strides()[i - missing];
  }
  return strides;
}

/// Negative if `first` is the inner one of two dimensions, positive if `second` is, 0 if the operands do not tell.
int order(const std::vector<Sizes>& strides, const Sizes& sizes, size_t first, size_t second) {
  for (const Sizes& given : strides) {
    const int64_t a = given[first], b = given[second];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[first] > sizes[second]) return 1;
  }
  return 0;
}

Sizes ordered_strides(const Sizes& sizes, const std::vector<Sizes>& strides) {
  const size_t rank = sizes.size();
  std::vector<size_t> dims(rank);  // from the innermost one on
  for (size_t i = 0; i < rank; ++i) dims[i] = rank - 1 - i;
  for (size_t i = 1; i < rank; ++i) {
    size_t second = i;
    for (size_t first = i; first-- > 0;) {
      const int found = order(strides, sizes, dims[first], dims[second]);
      if (found > 0) {
        std::swap(dims[first], dims[second]);
        second = first;
      } else if (found < 0) {
        break;
      }
    }
  }
  Sizes made(rank);
  int64_t running = 1;
  for (const size_t dim : dims) {
    made[dim] = running;
    running *= std::max<int64_t>(sizes[dim], 1);
  }
  return made;
}

/// Returns whether no two elements share memory and none is unused between them.
bool is_dense(Tensor tensor) {
  std::vector<int64_t> dims(static_cast<size_t>(tensor->rank));
  std::iota(dims.begin(), dims.end(), 0);
  const int64_t *sizes = tensor->sizes(), *strides = tensor->strides();
  std::sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
    if (sizes[a] < 2 || sizes[b] < 2) return sizes[a] >= 2 && sizes[b] < 2;
    return strides[a] < strides[b];
  });
  int64_t running = 1;
  for (const int64_t dim : dims) {
    if (sizes[dim] < 2) continue;
    if (strides[dim] != running) return false;
    running *= sizes[dim];
  }
  return true;
}

bool has_strides(Tensor tensor, const Sizes& sizes, const Sizes& strides) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && tensor->strides()[i] != strides[i]) return false;
  }
  return true;
}

}  // namespace

Sizes dense_strides(const Sizes& sizes, const Tensor* operands, int64_t count) {
  const Sizes last = contiguous_strides(sizes);
  bool same_sizes = true, all_contiguous = true, same_strides = true;
  for (int64_t i = 0; i < count; ++i) {
    same_sizes = same_sizes && sizes_of(operands[i]) == sizes;
    if (!same_sizes) break;
    all_contiguous = all_contiguous && (operands[i]->count == 0 || has_strides(operands[i], sizes, last));
    same_strides = same_strides && strides_of(operands[i]) == strides_of(operands[0]) && is_dense(operands[i]);
  }
  if (same_sizes && all_contiguous) return last;
  if (same_sizes && count > 0) {
    for (const int32_t format : {2, 3}) {
      if (static_cast<int32_t>(sizes.size()) != format + 2) continue;
      const Sizes wanted = strides_of_format(sizes, format, "a loop");
      bool fits = true;
      for (int64_t i = 0; i < count; ++i) fits = fits && has_strides(operands[i], sizes, wanted);
      if (fits) return wanted;
    }
    if (same_strides) return strides_of(operands[0]);
  }
  std::vector<Sizes> strides;
  for (int64_t i = 0; i < count; ++i) strides.push_back(broadcast_strides(sizes, operands[i]));
  return ordered_strides(sizes, strides);
}

Sizes strides_like(Tensor tensor) {
  if (is_dense(tensor)) return strides_of(tensor);
  return ordered_strides(sizes_of(tensor), {strides_of(tensor)});
}

Sizes strides_of_format(const Sizes& sizes, int32_t format, const char* name) {
  if (format < 2) return contiguous_strides(sizes);
  const size_t rank = static_cast<size_t>(format) + 2;
  if (sizes.size() != rank) fail_operator(name, "the memory format requires another rank");
  Sizes strides(rank);
  int64_t running = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t dim = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    strides[dim] = running;
    running *= dim == 0 ? 1 : std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

Owned empty_like(Tensor tensor, int32_t dtype) { return empty_beside(tensor, sizes_of(tensor), strides_like(tensor), dtype); }
Owned clone_like(Tensor tensor) {
  Owned made = empty_like(tensor, tensor->dtype);
  copy_into(made.get(), tensor);
  return made;
}

void fail_operator(const char* name, const char* reason) { fail_text("WIR927", {name, " failed: ", reason}); }

Sizes broadcast(const Sizes& first, const Sizes& second, const char* name) {
  Sizes made(std::max(first.size(), second.size()));
  for (size_t i = 1; i <= made.size(); ++i) {
    const int64_t a = i <= first.size() ? first[first.size() - i] : 1;
    const int64_t b = i <= second.size() ? second[second.size() - i] : 1;
    if (a != b && a != 1 && b != 1) fail_operator(name, "the sizes of its operands do not broadcast");
    made[made.size() - i] = a == 1 ? b : a;
  }
  return made;
}

// --- element types

bool is_complex(int32_t dtype) { return dtype == kC32 || dtype == kC64 || dtype == kC128; }
bool is_float(int32_t dtype) { return dtype == kF16 || dtype == kF32 || dtype == kF64 || dtype == kBF16; }

namespace {

/// 0: bool, 1: integers, 2: floats, 3: complex.
int category(int32_t dtype) { return is_complex(dtype) ? 3 : is_float(dtype) ? 2 : dtype == kBool ? 0 : 1; }

int32_t promoted_types(int32_t a, int32_t b) {
  if (a == b) return a;
  const int first = category(a), second = category(b);
  if (first == 3 || second == 3) {
    const auto parts = [](int32_t dtype) { return dtype == kC128 || dtype == kF64 ? 3 : dtype == kC64 || dtype == kF32 ||
                                                  dtype == kBF16 ? 2 : dtype == kC32 || dtype == kF16 ? 1 : 0; };
    const int wide = std::max(parts(a), parts(b));
    return wide == 3 ? kC128 : wide == 2 ? kC64 : kC32;
  }
  if (first != second) return first > second ? a : b;
  if (first == 2) return element_size(a) == element_size(b) ? kF32 : element_size(a) > element_size(b) ? a : b;
  const bool signed_a = a != kU8 && a != kU16 && a != kU32 && a != kU64;
  const bool signed_b = b != kU8 && b != kU16 && b != kU32 && b != kU64;
  if (signed_a == signed_b) return element_size(a) > element_size(b) ? a : b;
  const int32_t with_sign = signed_a ? a : b, without = signed_a ? b : a;
  if (element_size(with_sign) > element_size(without)) return with_sign;
  constexpr int32_t kSigned[] = {kI16, kI32, kI64};
  return kSigned[element_size(without) == 1 ? 0 : element_size(without) == 2 ? 1 : 2];
}

}  // namespace

int32_t promoted(Tensor first, Tensor second) {
  const int a = category(first->dtype), b = category(second->dtype);
  // A tensor without dimensions has a say only if it is of a higher category.
  if (first->rank == 0 && second->rank > 0 && a <= b) return second->dtype;
  if (second->rank == 0 && first->rank > 0 && b <= a) return first->dtype;
  if (a == b || (first->rank == 0) == (second->rank == 0)) return promoted_types(first->dtype, second->dtype);
  return promoted_types(first->dtype, second->dtype);
}

// --- loops

Loop::Loop(const Sizes& sizes, std::initializer_list<Tensor> tensors) {
  std::vector<Sizes> strides;
  for (const Tensor tensor : tensors) {
    data_[tensors_++] = tensor == nullptr ? nullptr : tensor->data();
    strides.push_back(tensor == nullptr ? Sizes(sizes.size(), 0) : broadcast_strides(sizes, tensor));
    for (int64_t& stride : strides.back()) stride *= tensor == nullptr ? 0 : element_size(tensor->dtype);
  }
  for (size_t i = sizes.size(); i-- > 0;) {
    count_ *= sizes[i];
    if (sizes[i] == 1) continue;
    if (!sizes_.empty()) {  // one run with the dimension inside?
      const int64_t* inner = steps_.data() + (sizes_.size() - 1) * kMaxTensors;
      bool is_run = true;
      for (size_t t = 0; t < strides.size(); ++t) is_run = is_run && strides[t][i] == inner[t] * sizes_.back();
      if (is_run) {
        sizes_.back() *= sizes[i];
        continue;
      }
    }
    sizes_.push_back(sizes[i]);
    steps_.resize(sizes_.size() * kMaxTensors);
    for (size_t t = 0; t < strides.size(); ++t) steps_[(sizes_.size() - 1) * kMaxTensors + t] = strides[t][i];
  }
  if (sizes_.empty()) {
    sizes_.push_back(1);
    steps_.resize(kMaxTensors);
  }
}

Lines::Lines(int64_t dim, std::initializer_list<Tensor> tensors) {
  const Tensor first = *tensors.begin();
  for (int64_t i = first->rank - 1; i >= 0; --i) {
    if (i == dim) continue;
    sizes_.push_back(first->sizes()[i]);
    count_ *= first->sizes()[i];
  }
  strides_.resize(sizes_.size() * kMaxTensors);
  size_t t = 0;
  for (const Tensor tensor : tensors) {
    const int64_t size = element_size(tensor->dtype);
    data_[t] = tensor->data();
    lengths_[t] = tensor->rank == 0 ? 1 : tensor->sizes()[dim];
    steps_[t] = tensor->rank == 0 ? size : tensor->strides()[dim] * size;
    size_t at = 0;
    for (int64_t i = tensor->rank - 1; i >= 0; --i) {
      if (i != dim) strides_[at++ * kMaxTensors + t] = tensor->strides()[i] * size;
    }
    ++t;
  }
}

}  // namespace wir
