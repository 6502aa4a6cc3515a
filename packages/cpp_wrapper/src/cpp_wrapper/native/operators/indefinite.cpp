// Symmetric and Hermitian indefinite matrices: factors L D L^T with pivots of one or two rows (Bunch and Kaufman, 1977), in
// LAPACK's form of the lower triangle.
#include "linear_algebra.h"

namespace wir {
namespace {

/// A factorization of the lower triangle in place. `pivots` count from 1; those of two rows are negative.
class Indefinite {
 public:
  Indefinite(DenseMatrix& a, bool hermitian) : a_(a), n_(a.columns), is_hermitian_(hermitian) {}

  /// Factors; returns the first row, from 1, whose pivot is zero, 0 for none.
  int32_t factor(int32_t* pivots) {
    int32_t info = 0;
    for (int64_t k = 0; k < n_;) {
      const Pivot pivot = pivot_of(k);
      if (pivot.is_zero && info == 0) info = static_cast<int32_t>(k + 1);
      const int64_t last = k + pivot.rows - 1;
      if (pivot.row != last) interchange(k, last, pivot.row);
      if (is_hermitian_) a_(k, k) = a_(k, k).real();
      if (is_hermitian_ && pivot.rows == 2) a_(k + 1, k + 1) = a_(k + 1, k + 1).real();
      if (!pivot.is_zero) eliminate(k, pivot.rows);
      const auto number = static_cast<int32_t>(pivot.row + 1);
      for (int64_t i = k; i <= last; ++i) pivots[i] = pivot.rows == 1 ? number : -number;
      k = last + 1;
    }
    return info;
  }

  /// Solves for the columns of `b` in place, with a factored matrix.
  void solve(const int32_t* pivots, DenseMatrix& b) const {
    for (int64_t j = 0; j < b.columns; ++j) {
      C* x = n_ > 0 ? &b(0, j) : nullptr;
      for (int64_t k = 0; k < n_;) {
        const int64_t rows = pivots[k] > 0 ? 1 : 2, last = k + rows - 1;
        std::swap(x[last], x[std::abs(pivots[k]) - 1]);
        for (int64_t r = k; r <= last; ++r) {
          for (int64_t i = last + 1; i < n_; ++i) x[i] -= a_(i, r) * x[r];
        }
        divide(k, rows, x[k], x[last]);
        k = last + 1;
      }
      for (int64_t k = n_ - 1; k >= 0;) {
        const int64_t rows = pivots[k] > 0 ? 1 : 2;
        for (int64_t r = k - rows + 1; r <= k; ++r) {
          for (int64_t i = k + 1; i < n_; ++i) x[r] -= turned(a_(i, r)) * x[i];
        }
        std::swap(x[k], x[std::abs(pivots[k]) - 1]);
        k -= rows;
      }
    }
  }

 private:
  struct Pivot {
    int64_t row, rows;
    bool is_zero;
  };

  C turned(C item) const { return is_hermitian_ ? std::conj(item) : item; }
  static double size(C item) { return std::fabs(item.real()) + std::fabs(item.imag()); }
  double diagonal(int64_t i) const { return is_hermitian_ ? std::fabs(a_(i, i).real()) : size(a_(i, i)); }

  Pivot pivot_of(int64_t k) const {
    const double alpha = (1 + std::sqrt(17.0)) / 8, own = diagonal(k);
    int64_t largest = k;
    double column = 0;
    for (int64_t i = k + 1; i < n_; ++i) {
      if (size(a_(i, k)) > column) largest = i, column = size(a_(i, k));
    }
    if (!(std::max(own, column) > 0)) return {k, 1, true};
    if (own >= alpha * column) return {k, 1, false};
    double row = 0;
    for (int64_t j = k; j < largest; ++j) row = std::max(row, size(a_(largest, j)));
    for (int64_t i = largest + 1; i < n_; ++i) row = std::max(row, size(a_(i, largest)));
    if (own >= alpha * column * (column / row)) return {k, 1, false};
    return {largest, diagonal(largest) >= alpha * row ? 1 : 2, false};
  }

  /// Interchanges two rows and columns of the trailing matrix, which begins at `k`.
  void interchange(int64_t k, int64_t last, int64_t row) {
    for (int64_t i = row + 1; i < n_; ++i) std::swap(a_(i, last), a_(i, row));
    for (int64_t i = last + 1; i < row; ++i) {
      const C upper = a_(i, last);
      a_(i, last) = turned(a_(row, i));
      a_(row, i) = turned(upper);
    }
    a_(row, last) = turned(a_(row, last));
    std::swap(a_(last, last), a_(row, row));
    if (last > k) std::swap(a_(last, k), a_(row, k));
  }

  /// Divides by a pivot of one or two rows.
  void divide(int64_t k, int64_t rows, C& first, C& second) const {
    if (rows == 1) {
      first /= a_(k, k);
      return;
    }
    const C below = a_(k + 1, k), above = turned(below), one = a_(k, k) / above, two = a_(k + 1, k + 1) / below;
    const C x = first / above, y = second / below, denominator = one * two - 1.0;
    first = (two * x - y) / denominator;
    second = (one * y - x) / denominator;
  }

  /// Subtracts the part of a pivot from the trailing matrix, and leaves the columns of L.
  void eliminate(int64_t k, int64_t rows) {
    const int64_t begin = k + rows;
    std::vector<C> factors(static_cast<size_t>(2 * n_));
    for (int64_t i = begin; i < n_; ++i) {  // the row of L times D is a row of A
      C &first = factors[static_cast<size_t>(2 * i)], &second = factors[static_cast<size_t>(2 * i + 1)];
      first = turned(a_(i, k));
      second = rows == 2 ? turned(a_(i, k + 1)) : first;
      divide(k, rows, first, second);
      first = turned(first);
      second = turned(second);
    }
    for (int64_t j = begin; j < n_; ++j) {
      const C first = turned(factors[static_cast<size_t>(2 * j)]), second = turned(factors[static_cast<size_t>(2 * j + 1)]);
      for (int64_t i = j; i < n_; ++i) {
        a_(i, j) -= a_(i, k) * first;
        if (rows == 2) a_(i, j) -= a_(i, k + 1) * second;
      }
      if (is_hermitian_) a_(j, j) = a_(j, j).real();
    }
    for (int64_t i = begin; i < n_; ++i) {
      a_(i, k) = factors[static_cast<size_t>(2 * i)];
      if (rows == 2) a_(i, k + 1) = factors[static_cast<size_t>(2 * i + 1)];
    }
  }

  DenseMatrix& a_;
  int64_t n_;
  bool is_hermitian_;
};

int64_t require_square(Tensor a, const char* name) {
  require_matrices(a, name);
  const int64_t n = a->sizes()[a->rank - 1];
  if (a->sizes()[a->rank - 2] != n) fail_operator(name, "the matrices are not square");
  return n;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(linalg_ldl_factor_ex)(Tensor self, int32_t hermitian, int32_t check_errors, Tensor* ret0, Tensor* ret1,
                                   Tensor* ret2) {
  constexpr const char* kName = "aten::linalg_ldl_factor_ex";
  const int64_t n = require_square(self, kName);
  const Sizes batch = batch_of(self);
  Sizes pivot_sizes = batch;
  pivot_sizes.push_back(n);
  Owned made = empty_columns(sizes_of(self), self->dtype), pivots = empty(pivot_sizes, kI32), info = empty(batch, kI32);
  for (int64_t i = 0; i < info->count; ++i) {
    DenseMatrix matrix = read_matrix(self, batch, i);
    keep_triangle(matrix, false);
    const int32_t found = Indefinite(matrix, hermitian != 0).factor(data_of<int32_t>(pivots.get()) + i * n);
    data_of<int32_t>(info.get())[i] = found;
    write_matrix(made.get(), i, matrix);
    if (check_errors != 0 && found != 0) fail_text("WIR927", {kName, " failed: the pivot of row ", found, " is zero"});
  }
  *ret0 = made.release();
  *ret1 = pivots.release();
  *ret2 = info.release();
  return 0;
}

WIR_OPERATOR(linalg_ldl_solve)(Tensor LD, Tensor pivots, Tensor B, int32_t hermitian, Tensor* ret0) {
  constexpr const char* kName = "aten::linalg_ldl_solve";
  const int64_t n = require_square(LD, kName);
  require_matrices(B, kName);
  if (LD->dtype != B->dtype) fail_dtype(kName, B->dtype);
  if (B->sizes()[B->rank - 2] != n) fail_operator(kName, "the sizes of the matrices differ");
  Sizes pivot_sizes = batch_of(LD);
  pivot_sizes.push_back(n);
  if (pivots->dtype != kI32) fail_dtype(kName, pivots->dtype);
  if (sizes_of(pivots) != pivot_sizes) fail_operator(kName, "the pivots have another size");
  const Sizes batch = broadcast(batch_of(LD), batch_of(B), kName);
  Sizes sizes = batch;
  sizes.push_back(n);
  Owned rows = empty(sizes, kI32);
  copy_into(rows.get(), pivots);
  for (int64_t i = 0; i < rows->count; ++i) {
    const int64_t row = std::abs(static_cast<int64_t>(data_of<int32_t>(rows.get())[i]));
    if (row < 1 || row > n) fail_operator(kName, "a pivot is out of range");
  }
  Owned made = empty_columns(with_matrix(batch, n, B->sizes()[B->rank - 1]), B->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix factors = read_matrix(LD, batch, i), right = read_matrix(B, batch, i);
    Indefinite(factors, hermitian != 0).solve(data_of<int32_t>(rows.get()) + i * n, right);
    write_matrix(made.get(), i, right);
  }
  *ret0 = made.release();
  return 0;
}
