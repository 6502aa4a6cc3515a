// Different elements or slices of tensors. NaN differs from itself; results of elements that are sought everywhere are sorted.
#include "layouts.h"

#include <numeric>

namespace wir {
namespace {

template <class Body> void comparable_numbers(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kU16: return body.template operator()<uint16_t>();
    case kU32: return body.template operator()<uint32_t>();
    case kU64: return body.template operator()<uint64_t>();
    default: return numbers_and_bool(dtype, name, body);
  }
}

template <class T> auto comparable(T value) {
  if constexpr (is_small_float<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}
/// Orders numbers; NaN is the largest.
template <class T> int compare(T left, T right) {
  const auto a = comparable(left), b = comparable(right);
  if (a < b) return -1;
  if (a > b) return 1;
  if (a == b) return 0;
  return (a != a) - (b != b);
}

/// Rows of numbers; a row is an element or a slice.
template <class T> struct Rows {
  const T* items;
  int64_t count, length;

  bool precedes(int64_t a, int64_t b) const {
    const T *left = items + a * length, *right = items + b * length;
    for (int64_t i = 0; i < length; ++i) {
      if (const int order = compare(left[i], right[i]); order != 0) return order < 0;
    }
    return false;
  }
  bool is_same(int64_t a, int64_t b) const {
    const T *left = items + a * length, *right = items + b * length;
    for (int64_t i = 0; i < length; ++i) {
      if (!(comparable(left[i]) == comparable(right[i]))) return false;
    }
    return true;
  }
};

/// The first row of each group of equal ones, the group of each row, and the number of rows of each group.
struct Groups {
  std::vector<int64_t> firsts, inverse, counts;
};

template <class T> Groups groups_of(const Rows<T>& rows, bool sorts) {
  std::vector<int64_t> order(static_cast<size_t>(rows.count));
  std::iota(order.begin(), order.end(), 0);
  if (sorts) std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rows.precedes(a, b); });
  Groups made;
  made.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !rows.is_same(order[i - 1], order[i])) {
      made.firsts.push_back(order[i]);
      made.counts.push_back(0);
    }
    made.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(made.firsts.size()) - 1;
    ++made.counts.back();
  }
  return made;
}

Owned indices_of(const std::vector<int64_t>& items, const Sizes& sizes) {
  Owned made = empty(sizes, kI64);
  std::copy(items.begin(), items.end(), data_of<int64_t>(made.get()));
  return made;
}

/// Copies the rows with these numbers of a contiguous tensor.
void copy_rows(Tensor made, Tensor dense, const std::vector<int64_t>& numbers, int64_t length) {
  const auto size = static_cast<size_t>(length * element_size(dense->dtype));
  for (size_t i = 0; size > 0 && i < numbers.size(); ++i) {
    std::memcpy(made->data() + i * size, dense->data() + static_cast<size_t>(numbers[i]) * size, size);
  }
}

/// Which results besides the different rows are wanted.
struct Wanted {
  bool inverse, counts;
};

void unique_elements(Tensor self, bool sorts, Wanted wanted, const char* name, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  const Owned dense = contiguous(self);
  Groups groups;
  comparable_numbers(self->dtype, name, [&]<class T>() {
    groups = groups_of(Rows<T>{data_of<T>(dense.get()), dense->count, 1}, sorts);
  });
  const auto count = static_cast<int64_t>(groups.firsts.size());
  Owned made = empty({count}, self->dtype);
  copy_rows(made.get(), dense.get(), groups.firsts, 1);
  *ret1 = (wanted.inverse ? indices_of(groups.inverse, sizes_of(self)) : empty({0}, kI64)).release();
  *ret2 = (wanted.counts ? indices_of(groups.counts, {count}) : empty({0}, kI64)).release();
  *ret0 = made.release();
}

/// Returns a view with a dimension moved to the front, or from there to its place.
Owned moved(Tensor tensor, int64_t from, int64_t to) {
  Sizes sizes = sizes_of(tensor), strides = strides_of(tensor);
  const int64_t size = sizes[static_cast<size_t>(from)], stride = strides[static_cast<size_t>(from)];
  sizes.erase(sizes.begin() + from);
  strides.erase(strides.begin() + from);
  sizes.insert(sizes.begin() + to, size);
  strides.insert(strides.begin() + to, stride);
  return view_of(tensor, sizes, strides);
}

void unique_slices(Tensor self, int64_t dim, bool sorts, const char* name, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  if (self->rank == 0) fail_operator(name, "the tensor has no dimensions");
  dim = wrap_dim(dim, self->rank, name);
  for (int64_t i = 0; i < self->rank; ++i) {
    if (i != dim && self->sizes()[i] == 0) fail_operator(name, "another dimension is empty");
  }
  const Owned dense = contiguous(moved(self, dim, 0).get());
  const int64_t rows = dense->sizes()[0], length = rows == 0 ? 0 : dense->count / rows;
  Groups groups;
  comparable_numbers(self->dtype, name, [&]<class T>() {
    groups = groups_of(Rows<T>{data_of<T>(dense.get()), rows, length}, sorts);
  });
  Sizes sizes = sizes_of(dense.get());
  sizes[0] = static_cast<int64_t>(groups.firsts.size());
  const Owned made = empty(sizes, self->dtype);
  copy_rows(made.get(), dense.get(), groups.firsts, length);
  *ret1 = indices_of(groups.inverse, {rows}).release();
  *ret2 = indices_of(groups.counts, {sizes[0]}).release();
  *ret0 = moved(made.get(), 0, dim).release();
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_unique2)(Tensor self, int32_t, int32_t return_inverse, int32_t return_counts, Tensor* ret0, Tensor* ret1,
                       Tensor* ret2) {
  unique_elements(self, true, {return_inverse != 0, return_counts != 0}, "aten::_unique2", ret0, ret1, ret2);
  return 0;
}

WIR_OPERATOR(unique_consecutive)(Tensor self, int32_t return_inverse, int32_t return_counts, int64_t* dim, Tensor* ret0,
                                 Tensor* ret1, Tensor* ret2) {
  constexpr const char* kName = "aten::unique_consecutive";
  if (dim == nullptr || (*dim == 0 && self->rank == 1)) {
    unique_elements(self, false, {return_inverse != 0, return_counts != 0}, kName, ret0, ret1, ret2);
  } else {
    unique_slices(self, *dim, false, kName, ret0, ret1, ret2);
  }
  return 0;
}

WIR_OPERATOR(unique_dim)(Tensor self, int64_t dim, int32_t, int32_t, int32_t, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  unique_slices(self, dim, true, "aten::unique_dim", ret0, ret1, ret2);
  return 0;
}

WIR_OPERATOR(unique_dim_consecutive)(Tensor self, int64_t dim, int32_t, int32_t, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  unique_slices(self, dim, false, "aten::unique_dim_consecutive", ret0, ret1, ret2);
  return 0;
}
