// Sorting and selection along a dimension. Elements of all types become integers of the same order, so that one piece of
// code serves all types; NaN is the largest.
#include "layouts.h"

#include <numeric>

namespace wir {
namespace {

/// An element of a line: its order, and its index in the line.
struct Keyed {
  uint64_t key;
  int64_t index;
};
bool is_less(const Keyed& a, const Keyed& b) { return a.key < b.key; }
bool is_greater(const Keyed& a, const Keyed& b) { return a.key > b.key; }

constexpr uint64_t kSign = uint64_t{1} << 63, kNan = ~uint64_t{0};

template <class T> uint64_t key_of(T value) {
  if constexpr (is_small_float<T>) {
    return key_of(static_cast<double>(static_cast<float>(value)));
  } else if constexpr (std::is_floating_point_v<T>) {
    const double wide = value;
    if (wide != wide) return kNan;
    if (wide == 0) return kSign;  // both zeros
    uint64_t bits;
    std::memcpy(&bits, &wide, sizeof bits);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(value)) ^ kSign;
  }
}
template <> uint64_t key_of(uint64_t value) { return value; }

template <class Body> void sortable(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kU16: return body.template operator()<uint16_t>();
    case kU32: return body.template operator()<uint32_t>();
    case kU64: return body.template operator()<uint64_t>();
    default: return numbers_and_bool(dtype, name, body);
  }
}

/// Reads the keys of line `line` of the first tensor.
using ReadKeys = void (*)(const Lines& lines, int64_t line, Keyed* keys);
ReadKeys reader_of(int32_t dtype, const char* name) {
  ReadKeys found = nullptr;
  sortable(dtype, name, [&]<class T>() {
    found = [](const Lines& lines, int64_t line, Keyed* keys) {
      const T* from = lines.line<T>(0, line);
      const int64_t stride = lines.stride<T>(0);
      for (int64_t i = 0; i < lines.length(0); ++i) keys[i] = {key_of(from[i * stride]), i};
    };
  });
  return found;
}

constexpr int64_t kGrain = 1 << 14;  // elements for which a thread is worth it
int64_t grain_of(int64_t length) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)); }

/// Copies the elements with these indices of line `line` to tensor 1, and the indices to tensor 2.
void store_selected(const Lines& lines, int64_t line, int64_t size, const Keyed* keys, int64_t count) {
  const unsigned char* from = lines.at(0, line);
  unsigned char *values = lines.at(1, line), *indices = lines.at(2, line);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(values + i * lines.step(1), from + keys[i].index * lines.step(0), static_cast<size_t>(size));
    std::memcpy(indices + i * lines.step(2), &keys[i].index, sizeof(int64_t));
  }
}

/// Values and indices of a selection from each line.
struct Selected {
  Owned values, indices;
  void hand_over(Tensor* ret0, Tensor* ret1) {
    *ret0 = values.release();
    *ret1 = indices.release();
  }
};

/// Selects from each line: `select(keys, length)` moves the selected elements to the front of `keys`.
template <class Select> void select_lines(Tensor self, int64_t dim, Selected& made, const char* name, const Select& select) {
  if (made.values->count == 0) return;
  const Lines lines(dim, {self, made.values.get(), made.indices.get()});
  const ReadKeys read = reader_of(self->dtype, name);
  const int64_t length = lines.length(0), size = element_size(self->dtype);
  parallel_for(lines.count(), grain_of(length), [&](int64_t begin, int64_t end) {
    std::vector<Keyed> keys(static_cast<size_t>(length));
    for (int64_t line = begin; line < end; ++line) {
      read(lines, line, keys.data());
      select(keys);
      store_selected(lines, line, size, keys.data(), lines.length(1));
    }
  });
}

/// Creates a result that has `length` elements along the dimension.
Selected selection(Tensor self, int64_t dim, int64_t length) {
  Sizes sizes = sizes_of(self);
  if (!sizes.empty()) sizes[static_cast<size_t>(dim)] = length;
  return {empty(sizes, self->dtype), empty(sizes, kI64)};
}

/// Drops the dimension along which a result has one element.
void drop_dim(Owned& tensor, int64_t dim, bool keepdim) {
  if (keepdim || tensor->rank == 0) return;
  Sizes sizes = sizes_of(tensor.get()), strides = strides_of(tensor.get());
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  tensor = view_of(tensor.get(), sizes, strides);
}
void drop_dim(Selected& made, int64_t dim, bool keepdim) {
  drop_dim(made.values, dim, keepdim);
  drop_dim(made.indices, dim, keepdim);
}

/// Partitions until `keys[k]` is the element that sorting would place there. Median of three, so that equal elements end where
/// torch's selection places them.
void select_nth(std::vector<Keyed>& keys, int64_t k) {
  const auto order = [&](int64_t a, int64_t b) {
    if (keys[a].key > keys[b].key) std::swap(keys[a], keys[b]);
  };
  int64_t low = 0, high = static_cast<int64_t>(keys.size()) - 1;
  while (high > low + 1) {
    std::swap(keys[(low + high) / 2], keys[low + 1]);
    order(low + 1, high);
    order(low, high);
    order(low + 1, low);
    const uint64_t pivot = keys[low].key;
    int64_t up = low + 1, down = high;
    for (;;) {
      do ++up; while (pivot > keys[up].key);
      do --down; while (keys[down].key > pivot);
      if (down < up) break;
      std::swap(keys[up], keys[down]);
    }
    std::swap(keys[low], keys[down]);
    const bool is_right = down <= k, is_left = down >= k;
    if (is_right) low = up;
    if (is_left) high = down - 1;
  }
  if (high == low + 1) order(low, high);
}

/// Moves the median to the front; of an even number the lower one.
void select_median(std::vector<Keyed>& keys, bool ignores_nan) {
  const auto nans = std::count_if(keys.begin(), keys.end(), [](const Keyed& item) { return item.key == kNan; });
  if (nans > 0 && !ignores_nan) {
    keys[0] = *std::find_if(keys.begin(), keys.end(), [](const Keyed& item) { return item.key == kNan; });
    return;
  }
  const auto size = static_cast<int64_t>(keys.size());
  const int64_t valid = size - nans, nth = valid == 0 ? 0 : (valid - 1) / 2;
  std::nth_element(keys.begin(), keys.begin() + nth, keys.end(), is_less);
  keys[0] = keys[static_cast<size_t>(nth)];
}

/// Moves the most frequent element to the front; of several the smallest one.
void select_mode(std::vector<Keyed>& keys) {
  std::sort(keys.begin(), keys.end(), is_less);
  size_t longest = 0, run = 0, found = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    ++run;
    if (i + 1 < keys.size() && keys[i].key == keys[i + 1].key) continue;
    if (run > longest) longest = run, found = i;
    run = 0;
  }
  keys[0] = keys[found];
}

void require_elements(Tensor self, int64_t dim, const char* name) {
  if (self->rank > 0 && self->sizes()[dim] == 0) fail_operator(name, "the dimension is empty");
}

void sort_stable(Tensor self, int64_t dim, bool descending, const char* name, Tensor* ret0, Tensor* ret1) {
  dim = wrap_dim(dim, self->rank, name);
  Selected made{empty_like(self, self->dtype), empty_like(self, kI64)};
  select_lines(self, dim, made, name, [&](std::vector<Keyed>& keys) {
    std::stable_sort(keys.begin(), keys.end(), descending ? is_greater : is_less);
  });
  made.hand_over(ret0, ret1);
}

void median_along(Tensor self, int64_t dim, bool keepdim, bool ignores_nan, const char* name, Tensor* ret0, Tensor* ret1) {
  dim = wrap_dim(dim, self->rank, name);
  require_elements(self, dim, name);
  Selected made = selection(self, dim, 1);
  select_lines(self, dim, made, name, [&](std::vector<Keyed>& keys) { select_median(keys, ignores_nan); });
  drop_dim(made, dim, keepdim);
  made.hand_over(ret0, ret1);
}

Owned median_of(Tensor self, bool ignores_nan, const char* name) {
  const Owned dense = contiguous(self);
  if (dense->count == 0) {
    if (!is_float(self->dtype)) fail_operator(name, "the tensor is empty");
    Owned made = empty({}, self->dtype);
    store_number(made->data(), self->dtype, {std::numeric_limits<double>::quiet_NaN(), 0, 0, false, false});
    return made;
  }
  const Owned flat = reshaped(dense.get(), {dense->count});
  Selected made = selection(flat.get(), 0, 1);
  select_lines(flat.get(), 0, made, name, [&](std::vector<Keyed>& keys) { select_median(keys, ignores_nan); });
  drop_dim(made, 0, false);
  return std::move(made.values);
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(sort)(Tensor self, int64_t dim, int32_t descending, Tensor* ret0, Tensor* ret1) {
  sort_stable(self, dim, descending != 0, "aten::sort", ret0, ret1);
  return 0;
}

WIR_OPERATOR(sort_stable)(Tensor self, int32_t*, int64_t dim, int32_t descending, Tensor* ret0, Tensor* ret1) {
  sort_stable(self, dim, descending != 0, "aten::sort.stable", ret0, ret1);
  return 0;
}

WIR_OPERATOR(argsort_stable)(Tensor self, int32_t, int64_t dim, int32_t descending, Tensor* ret0) {
  Tensor values = nullptr;
  sort_stable(self, dim, descending != 0, "aten::argsort.stable", &values, ret0);
  free_tensor(values);
  return 0;
}

WIR_OPERATOR(msort)(Tensor self, Tensor* ret0) {
  Tensor indices = nullptr;
  sort_stable(self, 0, false, "aten::msort", ret0, &indices);
  free_tensor(indices);
  return 0;
}

WIR_OPERATOR(topk)(Tensor self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::topk";
  constexpr int64_t kFewest = 64;  // of that many elements for each selected one, a heap selects
  dim = wrap_dim(dim, self->rank, kName);
  const int64_t length = self->rank == 0 ? 1 : self->sizes()[dim];
  if (k < 0 || k > length) fail_text("WIR927", {kName, " failed: k is ", k, ", the dimension has ", length, " elements"});
  Selected made = selection(self, dim, k);
  const auto before = largest != 0 ? is_greater : is_less;
  select_lines(self, dim, made, kName, [&](std::vector<Keyed>& keys) {
    if (k == 0) return;
    if (k * kFewest <= length) {
      std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), before);
    } else {
      std::nth_element(keys.begin(), keys.begin() + k - 1, keys.end(), before);
      if (sorted != 0) std::sort(keys.begin(), keys.begin() + k - 1, before);
    }
  });
  made.hand_over(ret0, ret1);
  return 0;
}

WIR_OPERATOR(kthvalue)(Tensor self, int64_t k, int64_t dim, int32_t keepdim, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::kthvalue";
  dim = wrap_dim(dim, self->rank, kName);
  require_elements(self, dim, kName);
  const int64_t length = self->rank == 0 ? 1 : self->sizes()[dim];
  if (k < 1 || k > length) fail_text("WIR927", {kName, " failed: k is ", k, ", the dimension has ", length, " elements"});
  Selected made = selection(self, dim, 1);
  select_lines(self, dim, made, kName, [&](std::vector<Keyed>& keys) {
    select_nth(keys, k - 1);
    keys[0] = keys[static_cast<size_t>(k - 1)];
  });
  drop_dim(made, dim, keepdim != 0);
  made.hand_over(ret0, ret1);
  return 0;
}

WIR_OPERATOR(median)(Tensor self, Tensor* ret0) {
  *ret0 = median_of(self, false, "aten::median").release();
  return 0;
}

WIR_OPERATOR(nanmedian)(Tensor self, Tensor* ret0) {
  *ret0 = median_of(self, true, "aten::nanmedian").release();
  return 0;
}

WIR_OPERATOR(median_dim)(Tensor self, int64_t dim, int32_t keepdim, Tensor* ret0, Tensor* ret1) {
  median_along(self, dim, keepdim != 0, false, "aten::median.dim", ret0, ret1);
  return 0;
}

WIR_OPERATOR(nanmedian_dim)(Tensor self, int64_t dim, int32_t keepdim, Tensor* ret0, Tensor* ret1) {
  median_along(self, dim, keepdim != 0, true, "aten::nanmedian.dim", ret0, ret1);
  return 0;
}

WIR_OPERATOR(mode)(Tensor self, int64_t dim, int32_t keepdim, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::mode";
  dim = wrap_dim(dim, self->rank, kName);
  require_elements(self, dim, kName);
  Selected made = selection(self, dim, 1);
  select_lines(self, dim, made, kName, [](std::vector<Keyed>& keys) { select_mode(keys); });
  drop_dim(made, dim, keepdim != 0);
  made.hand_over(ret0, ret1);
  return 0;
}
