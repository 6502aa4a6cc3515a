// Distances between the rows of matrices, and their gradients. Differences are summed directly, also where torch subtracts
// products of the rows, which is less exact.
#include "layouts.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 14;  // differences for which a thread is worth it

/// The norms that have their own code.
enum class Norm { kZero, kOne, kTwo, kLargest, kAny };
Norm norm_of(double p, const char* name) {
  if (!(p >= 0)) fail_operator(name, "the norm is negative");
  return p == 0 ? Norm::kZero : p == 1 ? Norm::kOne : p == 2 ? Norm::kTwo : std::isinf(p) ? Norm::kLargest : Norm::kAny;
}

template <class T> T larger_or_nan(T a, T b) { return a > b || a != a ? a : b; }

/// Adds up `term(i)` by `add`, in as many sums as vectors have lanes, so that the compiler uses vectors.
template <class T, class Term, class Add> T total(int64_t count, const Term& term, const Add& add) {
  constexpr int64_t kSums = 16;
  T sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t k = 0; k < kSums; ++k) sums[k] = add(sums[k], term(i + k));
  }
  for (; i < count; ++i) sums[0] = add(sums[0], term(i));
  T sum = 0;
  for (const T item : sums) sum = add(sum, item);
  return sum;
}

template <class T> T distance(const T* a, const T* b, int64_t count, Norm norm, T p) {
  const auto difference = [&](int64_t i) { return std::fabs(a[i] - b[i]); };
  const auto sum = [](T x, T y) { return x + y; };
  switch (norm) {
    case Norm::kZero: return total<T>(count, [&](int64_t i) { return std::min(std::ceil(difference(i)), T(1)); }, sum);
    case Norm::kOne: return total<T>(count, difference, sum);
    case Norm::kTwo: return std::sqrt(total<T>(count, [&](int64_t i) { return (a[i] - b[i]) * (a[i] - b[i]); }, sum));
    case Norm::kLargest: return total<T>(count, difference, [](T x, T y) { return larger_or_nan(y, x); });
    default: return std::pow(total<T>(count, [&](int64_t i) { return std::pow(difference(i), p); }, sum), 1 / p);
  }
}

template <class T> T sign_of(T value) { return static_cast<T>((value > 0) - (value < 0)); }

/// The derivative of a distance by a difference of its rows, times `grad`.
template <class T> T derivative(T difference, T grad, T distance, Norm norm, T p) {
  const T size = std::fabs(difference);
  switch (norm) {
    case Norm::kZero: return 0;
    case Norm::kOne: return grad * sign_of(difference);
    case Norm::kTwo: return distance == 0 ? 0 : grad * difference / distance;
    case Norm::kLargest: return size == distance ? grad * sign_of(difference) : 0;
    default:
      if (distance == 0 || (difference == 0 && p < 1)) return 0;
      if (p < 2) return sign_of(difference) * std::pow(size, p - 1) * grad / std::pow(distance, p - 1);
      return difference * std::pow(size, p - 2) * grad / std::pow(distance, p - 1);
  }
}

template <class Body> void wide_floats(int32_t dtype, const char* name, const Body& body) {
  if (dtype == kF32) return body.template operator()<float>();
  if (dtype == kF64) return body.template operator()<double>();
  fail_dtype(name, dtype);
}

/// Two batches of matrices whose rows have the same length, broadcast to one batch.
struct Pairs {
  Owned first, second;
  Sizes batch;
  int64_t items, rows, columns, length;  // `columns`: rows of the second matrix
};

Owned expanded(Tensor given, Sizes sizes) {
  sizes.push_back(given->sizes()[given->rank - 2]);
  sizes.push_back(given->sizes()[given->rank - 1]);
  if (sizes == sizes_of(given)) return contiguous(given);
  Owned made = empty(sizes, given->dtype);
  copy_into(made.get(), given);
  return made;
}

Pairs pairs_of(Tensor x1, Tensor x2, const char* name) {
  if (x1->rank < 2 || x2->rank < 2) fail_operator(name, "an operand has fewer than two dimensions");
  if (x1->dtype != x2->dtype) fail_operator(name, "the operands have different types");
  const int64_t length = x1->sizes()[x1->rank - 1];
  if (length != x2->sizes()[x2->rank - 1]) fail_operator(name, "the rows have different lengths");
  const Sizes first = sizes_of(x1), second = sizes_of(x2);
  const Sizes batch = broadcast(Sizes(first.begin(), first.end() - 2), Sizes(second.begin(), second.end() - 2), name);
  const int64_t rows = x1->sizes()[x1->rank - 2], columns = x2->sizes()[x2->rank - 2];
  return {expanded(x1, batch), expanded(x2, batch), batch, count_of(batch), rows, columns, length};
}

Owned cdist(Tensor x1, Tensor x2, double p, const char* name) {
  const Norm norm = norm_of(p, name);
  const Pairs pairs = pairs_of(x1, x2, name);
  Sizes sizes = pairs.batch;
  sizes.push_back(pairs.rows);
  sizes.push_back(pairs.columns);
  Owned made = empty(sizes, x1->dtype);
  wide_floats(x1->dtype, name, [&]<class T>() {
    const T *first = data_of<T>(pairs.first.get()), *second = data_of<T>(pairs.second.get());
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(pairs.columns * pairs.length, 1));
    parallel_for(pairs.items * pairs.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T *a = first + row * pairs.length, *b = second + row / pairs.rows * pairs.columns * pairs.length;
        T* to = data_of<T>(made.get()) + row * pairs.columns;
        for (int64_t j = 0; j < pairs.columns; ++j, b += pairs.length) {
          to[j] = distance(a, b, pairs.length, norm, static_cast<T>(p));
        }
      }
    });
  });
  return made;
}

void require_pairs(Tensor self, const char* name) {
  if (self->rank != 2) fail_operator(name, "the tensor does not have two dimensions");
}

/// The number of the pair of rows `i` and `j`, `i` < `j`, of `rows` rows.
int64_t pair_number(int64_t i, int64_t j, int64_t rows) { return i * (2 * rows - i - 1) / 2 + j - i - 1; }

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_cdist_forward)(Tensor x1, Tensor x2, double p, int64_t*, Tensor* ret0) {
  *ret0 = cdist(x1, x2, p, "aten::_cdist_forward").release();
  return 0;
}

WIR_OPERATOR(_euclidean_dist)(Tensor x1, Tensor x2, Tensor* ret0) {
  *ret0 = cdist(x1, x2, 2, "aten::_euclidean_dist").release();
  return 0;
}

WIR_OPERATOR(_cdist_backward)(Tensor grad, Tensor x1, Tensor x2, double p, Tensor cdist, Tensor* ret0) {
  constexpr const char* kName = "aten::_cdist_backward";
  const Norm norm = norm_of(p, kName);
  const Pairs pairs = pairs_of(x1, x2, kName);
  Sizes sizes = pairs.batch;
  sizes.push_back(pairs.rows);
  sizes.push_back(pairs.columns);
  if (sizes_of(grad) != sizes || sizes_of(cdist) != sizes) fail_operator(kName, "gradient or distances have another size");
  sizes.back() = pairs.length;
  Owned made = zeros(sizes, x1->dtype);
  const Owned grads = contiguous(grad, x1->dtype), distances = contiguous(cdist, x1->dtype);
  wide_floats(x1->dtype, kName, [&]<class T>() {
    parallel_for(pairs.items * pairs.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* a = data_of<T>(pairs.first.get()) + row * pairs.length;
        const T* b = data_of<T>(pairs.second.get()) + row / pairs.rows * pairs.columns * pairs.length;
        T* to = data_of<T>(made.get()) + row * pairs.length;
        for (int64_t j = 0; j < pairs.columns; ++j, b += pairs.length) {
          const T outer = data_of<T>(grads.get())[row * pairs.columns + j];
          const T far = data_of<T>(distances.get())[row * pairs.columns + j];
          for (int64_t i = 0; i < pairs.length; ++i) to[i] += derivative(a[i] - b[i], outer, far, norm, static_cast<T>(p));
        }
      }
    });
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_pdist_forward)(Tensor self, double p, Tensor* ret0) {
  constexpr const char* kName = "aten::_pdist_forward";
  require_pairs(self, kName);
  const Norm norm = norm_of(p, kName);
  const int64_t rows = self->sizes()[0], length = self->sizes()[1];
  Owned made = empty({rows < 2 ? 0 : rows * (rows - 1) / 2}, self->dtype);
  const Owned dense = contiguous(self);
  wide_floats(self->dtype, kName, [&]<class T>() {
    const T* items = data_of<T>(dense.get());
    parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = i + 1; j < rows; ++j) {
          const T found = distance(items + i * length, items + j * length, length, norm, static_cast<T>(p));
          data_of<T>(made.get())[pair_number(i, j, rows)] = found;
        }
      }
    });
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_pdist_backward)(Tensor grad, Tensor self, double p, Tensor pdist, Tensor* ret0) {
  constexpr const char* kName = "aten::_pdist_backward";
  require_pairs(self, kName);
  const Norm norm = norm_of(p, kName);
  const int64_t rows = self->sizes()[0], length = self->sizes()[1], count = rows < 2 ? 0 : rows * (rows - 1) / 2;
  if (grad->count != count || pdist->count != count) fail_operator(kName, "gradient or distances have another size");
  Owned made = zeros(sizes_of(self), self->dtype);
  const Owned dense = contiguous(self), grads = contiguous(grad, self->dtype), distances = contiguous(pdist, self->dtype);
  wide_floats(self->dtype, kName, [&]<class T>() {
    const T* items = data_of<T>(dense.get());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = i + 1; j < rows; ++j) {
        const int64_t pair = pair_number(i, j, rows);
        const T outer = data_of<T>(grads.get())[pair], far = data_of<T>(distances.get())[pair];
        T *first = data_of<T>(made.get()) + i * length, *second = data_of<T>(made.get()) + j * length;
        for (int64_t k = 0; k < length; ++k) {
          const T change = derivative(items[i * length + k] - items[j * length + k], outer, far, norm, static_cast<T>(p));
          first[k] += change;
          second[k] -= change;
        }
      }
    }
  });
  *ret0 = made.release();
  return 0;
}
