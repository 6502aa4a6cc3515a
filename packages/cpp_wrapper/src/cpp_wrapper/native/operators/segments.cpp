// Reductions of runs of elements along a dimension, and their gradients.
#include "layouts.h"

namespace wir {
namespace {

enum class Reduce { kSum, kMean, kLargest, kSmallest, kProduct };
Reduce reduce_named(const char* text, const char* name) {
  const std::string given = text;
  if (given == "sum") return Reduce::kSum;
  if (given == "mean") return Reduce::kMean;
  if (given == "max") return Reduce::kLargest;
  if (given == "min") return Reduce::kSmallest;
  if (given == "prod") return Reduce::kProduct;
  fail_operator(name, "the reduction is unknown");
}

/// Segments of the rows before an axis: where each begins and ends along the axis, and the elements after it.
struct Segments {
  Sizes sizes;                         // those of the result
  int64_t rows, count, length, inner;  // `count`: segments of a row; `length`: elements of the axis
  std::vector<int64_t> bounds;         // `count` + 1 for each row

  int64_t begin(int64_t row, int64_t segment) const { return bounds[static_cast<size_t>(row * (count + 1) + segment)]; }
  /// Calls `body(row, segment, inner, result)` for each result, with its number.
  template <class Body> void each(const Body& body) const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t segment = 0; segment < count; ++segment) {
        for (int64_t i = 0; i < inner; ++i) body(row, segment, i, (row * count + segment) * inner + i);
      }
    }
  }
  int64_t element(int64_t row, int64_t at, int64_t i) const { return (row * length + at) * inner + i; }
};

/// Fills the bounds from lengths or offsets.
void fill_bounds(Segments& made, Tensor given, bool are_lengths, bool exact, const char* name) {
  const Owned dense = contiguous(given, kI64);
  const int64_t* items = data_of<int64_t>(dense.get());
  for (int64_t row = 0; row < made.rows; ++row) {
    int64_t at = 0;
    if (are_lengths) made.bounds.push_back(0);
    for (int64_t i = 0; i < made.count + (are_lengths ? 0 : 1); ++i) {
      const int64_t next = are_lengths ? at + *items++ : *items++;
      if (next < at || next > made.length) fail_operator(name, "a segment is not within the data");
      made.bounds.push_back(at = next);
    }
    if (are_lengths && exact && at != made.length) fail_operator(name, "the lengths of segments are not those of the data");
  }
}

Segments segments_of(Tensor data, Tensor* lengths, Tensor* offsets, int64_t axis, bool exact, const char* name) {
  if (lengths == nullptr && offsets == nullptr) fail_operator(name, "there are neither lengths nor offsets");
  axis = wrap_dim(axis, data->rank, name);
  const bool are_lengths = offsets == nullptr;
  const Tensor given = are_lengths ? *lengths : *offsets;
  if (given->dtype != kI64 && given->dtype != kI32) fail_dtype(name, given->dtype);
  bool fits = data->rank > 0 && given->rank == axis + 1;
  for (int64_t i = 0; fits && i < axis; ++i) fits = given->sizes()[i] == data->sizes()[i];
  if (!fits) fail_operator(name, "the segments do not have the dimensions before the axis");
  Segments made{{}, 1, given->sizes()[axis] - (are_lengths ? 0 : 1), data->sizes()[axis], 1, {}};
  if (made.count < 0) fail_operator(name, "there are no offsets");
  made.sizes = sizes_of(data);
  made.sizes[static_cast<size_t>(axis)] = made.count;
  for (int64_t i = 0; i < axis; ++i) made.rows *= data->sizes()[i];
  for (int64_t i = axis + 1; i < data->rank; ++i) made.inner *= data->sizes()[i];
  fill_bounds(made, given, are_lengths, exact, name);
  return made;
}

template <class T> using Sum = std::conditional_t<is_small_float<T>, float, T>;

template <class W> W first_of(Reduce reduce, const double* initial) {
  if (initial != nullptr) return static_cast<W>(*initial);
  constexpr W kLimit = std::numeric_limits<W>::infinity();
  return reduce == Reduce::kLargest ? -kLimit : reduce == Reduce::kSmallest ? kLimit : reduce == Reduce::kProduct ? W(1) : W(0);
}

template <class W> W combined(W value, W item, Reduce reduce) {
  switch (reduce) {
    case Reduce::kLargest: return item != item || item > value ? item : value;
    case Reduce::kSmallest: return item != item || item < value ? item : value;
    case Reduce::kProduct: return value * item;
    default: return value + item;
  }
}

/// The product of the elements of a run except one.
template <class T, class At>
Sum<T> product_without(const T* items, int64_t begin, int64_t end, int64_t left_out, Sum<T> first, const At& at) {
  for (int64_t i = begin; i < end; ++i) {
    if (i != left_out) first = converted<Sum<T>>(converted<T>(first * converted<Sum<T>>(items[at(i)])));
  }
  return first;
}

/// The gradients of the extremes of a run: shared by all elements that have it. As torch, it divides positive ones only.
template <class T, class At>
void share_gradient(const T* items, T* made, int64_t begin, int64_t end, Sum<T> extreme, Sum<T> grad, const At& at) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) {
    const auto item = converted<Sum<T>>(items[at(i)]);
    if (item != item || item == extreme) made[at(i)] = converted<T>(grad), ++count;
  }
  for (int64_t i = begin; count > 1 && i < end; ++i) {
    const auto item = converted<Sum<T>>(made[at(i)]);
    if (item > 0) made[at(i)] = converted<T>(item / static_cast<Sum<T>>(count));
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(segment_reduce)(Tensor data, const char* reduce, Tensor* lengths, Tensor* indices, Tensor* offsets, int64_t axis,
                             int32_t unsafe, double* initial, Tensor* ret0) {
  constexpr const char* kName = "aten::segment_reduce";
  if (indices != nullptr) fail_operator(kName, "indices are not supported");
  const Reduce kind = reduce_named(reduce, kName);
  const Segments segments = segments_of(data, lengths, offsets, axis, unsafe == 0, kName);
  Owned made = empty(segments.sizes, data->dtype);
  const Owned dense = contiguous(data);
  floats(data->dtype, kName, [&]<class T>() {
    using W = Sum<T>;
    const T* items = data_of<T>(dense.get());
    segments.each([&](int64_t row, int64_t segment, int64_t inner, int64_t result) {
      const int64_t begin = segments.begin(row, segment), end = segments.begin(row, segment + 1);
      T value = converted<T>(first_of<W>(kind, initial));  // rounded after each step, as torch does
      for (int64_t i = begin; i < end; ++i) {
        const auto item = converted<W>(items[segments.element(row, i, inner)]);
        value = converted<T>(combined(converted<W>(value), item, kind));
      }
      if (kind == Reduce::kMean && begin == end && initial == nullptr) value = converted<T>(std::numeric_limits<W>::quiet_NaN());
      if (kind == Reduce::kMean && begin < end) value = converted<T>(converted<W>(value) / static_cast<W>(end - begin));
      data_of<T>(made.get())[result] = value;
    });
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_segment_reduce_backward)(Tensor grad, Tensor output, Tensor data, const char* reduce, Tensor* lengths,
                                       Tensor* offsets, int64_t axis, double* initial, Tensor* ret0) {
  constexpr const char* kName = "aten::_segment_reduce_backward";
  const Reduce kind = reduce_named(reduce, kName);
  const Segments segments = segments_of(data, lengths, offsets, axis, false, kName);
  if (sizes_of(grad) != segments.sizes || sizes_of(output) != segments.sizes) {
    fail_operator(kName, "gradient or result have another size");
  }
  Owned made = zeros(sizes_of(data), data->dtype);
  const Owned dense = contiguous(data), grads = contiguous(grad, data->dtype), results = contiguous(output, data->dtype);
  floats(data->dtype, kName, [&]<class T>() {
    using W = Sum<T>;
    const T* items = data_of<T>(dense.get());
    T* to = data_of<T>(made.get());
    segments.each([&](int64_t row, int64_t segment, int64_t inner, int64_t result) {
      const int64_t begin = segments.begin(row, segment), end = segments.begin(row, segment + 1);
      const auto outer = converted<W>(data_of<T>(grads.get())[result]), value = converted<W>(data_of<T>(results.get())[result]);
      const auto at = [&](int64_t i) { return segments.element(row, i, inner); };
      if (kind == Reduce::kLargest || kind == Reduce::kSmallest) return share_gradient(items, to, begin, end, value, outer, at);
      for (int64_t i = begin; i < end; ++i) {
        if (kind == Reduce::kSum) {
          to[at(i)] = converted<T>(outer);
        } else if (kind == Reduce::kMean) {
          to[at(i)] = converted<T>(outer / static_cast<W>(end - begin));
        } else {
          const auto item = converted<W>(items[at(i)]);
          const W others = product_without(items, begin, end, i, first_of<W>(kind, initial), at);
          to[at(i)] = converted<T>(item != item || item == 0 ? outer * others : outer * value / item);
        }
      }
    });
  });
  *ret0 = made.release();
  return 0;
}
