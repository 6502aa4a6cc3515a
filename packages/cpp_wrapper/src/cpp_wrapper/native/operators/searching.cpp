// Binary searches in sorted sequences. NaN is after all numbers, as in torch.
#include "layouts.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 10;  // searches for which a thread is worth it

/// A search: the side of equal elements, and the order in which the sequence is sorted.
struct Search {
  bool after_equal;
  const int64_t* sorter;  // null: the sequence itself is sorted
};

/// Returns the number of elements of a sorted row that are before `value`.
template <class T> int64_t position_of(T value, const T* row, const int64_t* sorter, int64_t length, bool after_equal) {
  const auto wide = [](T item) {
    if constexpr (is_small_float<T>) {
      return static_cast<float>(item);
    } else {
      return item;
    }
  };
  const auto sought = wide(value);
  int64_t low = 0, high = length;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const auto item = wide(row[sorter != nullptr ? sorter[middle] : middle]);
    const bool is_found = after_equal ? item > sought : item >= sought;
    if (is_found) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Searches each value in its row of the sequence; a sequence of one dimension serves all values.
template <class T> void search_rows(Tensor sequence, Tensor values, Tensor made, const Search& search) {
  const int64_t length = sequence->sizes()[sequence->rank - 1];
  const bool is_shared = sequence->rank == 1;
  const int64_t in_row = is_shared || values->rank == 0 ? values->count : values->sizes()[values->rank - 1];
  const T *rows = data_of<T>(sequence), *items = data_of<T>(values);
  parallel_for(values->count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = is_shared ? 0 : i / in_row * length;
      const int64_t* sorter = search.sorter != nullptr ? search.sorter + row : nullptr;
      const int64_t found = position_of(items[i], rows + row, sorter, length, search.after_equal);
      if (made->dtype == kI64) {
        data_of<int64_t>(made)[i] = found;
      } else {
        data_of<int32_t>(made)[i] = static_cast<int32_t>(found);
      }
    }
  });
}

/// Returns whether elements after equal ones are sought.
bool after_equal(int32_t right, const char** side, const char* name) {
  if (side == nullptr) return right != 0;
  const std::string given = *side;
  if (given != "left" && given != "right") fail_operator(name, "the side is neither left nor right");
  if (given == "left" && right != 0) fail_operator(name, "side and right contradict each other");
  return given == "right";
}

void require_rows(Tensor sequence, Tensor values, const char* name) {
  if (sequence->rank == 0) fail_operator(name, "the sequence has no dimension");
  if (sequence->rank == 1) return;
  bool is_same = values->rank == sequence->rank;
  for (int64_t i = 0; is_same && i + 1 < sequence->rank; ++i) is_same = sequence->sizes()[i] == values->sizes()[i];
  if (!is_same) fail_operator(name, "the sequence has several dimensions, which are not those of the values");
}

/// Returns a contiguous sorter whose indices are within the rows.
Owned checked_sorter(Tensor* sorter, Tensor sequence, const char* name) {
  if (sorter == nullptr) return nullptr;
  if ((*sorter)->dtype != kI64) fail_dtype(name, (*sorter)->dtype);
  if (sizes_of(*sorter) != sizes_of(sequence)) fail_operator(name, "sorter and sequence have different sizes");
  Owned dense = contiguous(*sorter);
  const int64_t length = sequence->sizes()[sequence->rank - 1], *items = data_of<int64_t>(dense.get());
  const bool is_within = std::all_of(items, items + dense->count, [&](int64_t i) { return i >= 0 && i < length; });
  if (!is_within) fail_operator(name, "an index of the sorter is out of range");
  return dense;
}

Owned searched(Tensor sequence, Tensor values, bool is_short, bool is_after, Tensor* sorter, const char* name) {
  require_rows(sequence, values, name);
  if (is_short && sequence->sizes()[sequence->rank - 1] >= INT32_MAX) fail_operator(name, "the sequence is too long for i32");
  const Owned order = checked_sorter(sorter, sequence, name);
  Owned made = empty(sizes_of(values), is_short ? kI32 : kI64);
  const int32_t dtype = promoted(sequence, values);
  reals(dtype, name, [&]<class T>() {
    const Owned rows = contiguous(sequence, dtype), items = contiguous(values, dtype);
    search_rows<T>(rows.get(), items.get(), made.get(), {is_after, order ? data_of<int64_t>(order.get()) : nullptr});
  });
  return made;
}

/// Returns a number as a tensor: of the type of the sequence, or of f32 if that is whole and the number is not.
Owned number_tensor(double value, Tensor sequence) {
  const bool is_whole = !is_float(sequence->dtype) && value == std::floor(value) && std::fabs(value) < 0x1p63;
  Owned made = empty({}, is_whole || is_float(sequence->dtype) ? sequence->dtype : kF32);
  store_number(made->data(), made->dtype, {value, 0, is_whole ? static_cast<int64_t>(value) : 0, is_whole, false});
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(searchsorted_Tensor)(Tensor sorted_sequence, Tensor self, int32_t out_int32, int32_t right, const char** side,
                                  Tensor* sorter, Tensor* ret0) {
  constexpr const char* kName = "aten::searchsorted.Tensor";
  *ret0 = searched(sorted_sequence, self, out_int32 != 0, after_equal(right, side, kName), sorter, kName).release();
  return 0;
}

WIR_OPERATOR(searchsorted_Scalar)(Tensor sorted_sequence, double self, int32_t out_int32, int32_t right, const char** side,
                                  Tensor* sorter, Tensor* ret0) {
  constexpr const char* kName = "aten::searchsorted.Scalar";
  const Owned value = number_tensor(self, sorted_sequence);
  if (sorted_sequence->rank != 1) fail_operator(kName, "the sequence does not have one dimension");
  *ret0 = searched(sorted_sequence, value.get(), out_int32 != 0, after_equal(right, side, kName), sorter, kName).release();
  return 0;
}

WIR_OPERATOR(bucketize_Tensor)(Tensor self, Tensor boundaries, int32_t out_int32, int32_t right, Tensor* ret0) {
  constexpr const char* kName = "aten::bucketize.Tensor";
  if (boundaries->rank != 1) fail_operator(kName, "the boundaries do not have one dimension");
  *ret0 = searched(boundaries, self, out_int32 != 0, right != 0, nullptr, kName).release();
  return 0;
}

WIR_OPERATOR(bucketize_Scalar)(double self, Tensor boundaries, int32_t out_int32, int32_t right, Tensor* ret0) {
  constexpr const char* kName = "aten::bucketize.Scalar";
  if (boundaries->rank != 1) fail_operator(kName, "the boundaries do not have one dimension");
  const Owned value = number_tensor(self, boundaries);
  *ret0 = searched(boundaries, value.get(), out_int32 != 0, right != 0, nullptr, kName).release();
  return 0;
}
