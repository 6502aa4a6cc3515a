// Matrices for linear algebra, and their factorisations: unblocked, in double precision.
#include "linear_algebra.h"

namespace wir {

DenseMatrix identity(int64_t m, int64_t n) {
  DenseMatrix made(m, n);
  for (int64_t i = 0; i < std::min(m, n); ++i) made(i, i) = 1;
  return made;
}
DenseMatrix transposed(const DenseMatrix& given) {
  DenseMatrix made(given.columns, given.rows);
  for (int64_t j = 0; j < given.columns; ++j) {
    for (int64_t i = 0; i < given.rows; ++i) made(j, i) = given(i, j);
  }
  return made;
}
DenseMatrix adjoint(const DenseMatrix& given) {
  DenseMatrix made = transposed(given);
  for (C& item : made.items) item = std::conj(item);
  return made;
}
namespace {
/// Adds a multiple of a column to another one. Spelled out, since C++'s complex product checks for NaN.
void add_multiple(C* to, const C* from, C factor, int64_t count) {
  const double re = factor.real(), im = factor.imag();
  for (int64_t i = 0; i < count; ++i) {
    to[i] += C(from[i].real() * re - from[i].imag() * im, from[i].real() * im + from[i].imag() * re);
  }
}
}  // namespace
DenseMatrix product(const DenseMatrix& a, const DenseMatrix& b) {
  DenseMatrix made(a.rows, b.columns);
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t k = 0; k < a.columns; ++k) add_multiple(&made(0, j), &a(0, k), b(k, j), a.rows);
  }
  return made;
}
void keep_triangle(DenseMatrix& matrix, bool upper) {
  for (int64_t j = 0; j < matrix.columns; ++j) {
    for (int64_t i = 0; i < matrix.rows; ++i) {
      if (upper ? i > j : i < j) matrix(i, j) = 0;
    }
  }
}

void require_matrices(Tensor tensor, const char* name) {
  const int32_t dtype = tensor->dtype;
  if (dtype != kF32 && dtype != kF64 && dtype != kC64 && dtype != kC128) fail_dtype(name, dtype);
  if (tensor->rank < 2) fail_operator(name, "the tensor has fewer than two dimensions");
}
Sizes batch_of(Tensor tensor) { return Sizes(tensor->sizes(), tensor->sizes() + tensor->rank - 2); }
Sizes with_matrix(Sizes batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
Sizes column_strides(const Sizes& sizes) {
  Sizes strides = contiguous_strides(sizes);
  const size_t rank = sizes.size();
  strides[rank - 2] = 1;
  strides[rank - 1] = std::max<int64_t>(sizes[rank - 2], 1);
  return strides;
}
Owned empty_columns(const Sizes& sizes, int32_t dtype) { return empty(sizes, column_strides(sizes), dtype); }
int32_t real_type(int32_t dtype) { return dtype == kC64 ? kF32 : dtype == kC128 ? kF64 : dtype; }

namespace {

/// The address of item `number` of a batch, of a tensor whose last `inner` dimensions are those of an item.
unsigned char* item_at(Tensor tensor, const Sizes& batch, int64_t number, int64_t inner) {
  int64_t offset = 0;
  const int64_t own = tensor->rank - inner, missing = static_cast<int64_t>(batch.size()) - own;
  for (int64_t i = static_cast<int64_t>(batch.size()) - 1; i >= 0; --i) {
    const int64_t size = batch[static_cast<size_t>(i)], index = number % size;
    number /= size;
    if (i >= missing && tensor->sizes()[i - missing] != 1) offset += index * tensor->strides()[i - missing];
  }
  return tensor->data() + offset * element_size(tensor->dtype);
}
C load_complex(const unsigned char* at, int32_t dtype) {
  const Number value = load_number(at, dtype);
  return {value.real, value.imaginary};
}
void store_complex(unsigned char* at, int32_t dtype, C value) {
  store_number(at, dtype, {value.real(), value.imag(), static_cast<int64_t>(value.real()), !is_float(dtype) && !is_complex(dtype), false});
}

}  // namespace

DenseMatrix read_matrix(Tensor tensor, const Sizes& batch, int64_t number) {
  const int64_t rank = tensor->rank, size = element_size(tensor->dtype);
  DenseMatrix made(tensor->sizes()[rank - 2], tensor->sizes()[rank - 1]);
  const unsigned char* at = item_at(tensor, batch, number, 2);
  const int64_t down = tensor->strides()[rank - 2] * size, right = tensor->strides()[rank - 1] * size;
  for (int64_t j = 0; j < made.columns; ++j) {
    for (int64_t i = 0; i < made.rows; ++i) made(i, j) = load_complex(at + i * down + j * right, tensor->dtype);
  }
  return made;
}
void write_matrix(Tensor tensor, int64_t number, const DenseMatrix& matrix) {
  const int64_t rank = tensor->rank, size = element_size(tensor->dtype);
  unsigned char* at = item_at(tensor, batch_of(tensor), number, 2);
  const int64_t down = tensor->strides()[rank - 2] * size, right = tensor->strides()[rank - 1] * size;
  for (int64_t j = 0; j < matrix.columns; ++j) {
    for (int64_t i = 0; i < matrix.rows; ++i) store_complex(at + i * down + j * right, tensor->dtype, matrix(i, j));
  }
}
std::vector<C> read_vector(Tensor tensor, int64_t number) {
  const int64_t rank = tensor->rank, size = element_size(tensor->dtype);
  const unsigned char* at = item_at(tensor, Sizes(tensor->sizes(), tensor->sizes() + rank - 1), number, 1);
  std::vector<C> made(static_cast<size_t>(tensor->sizes()[rank - 1]));
  for (size_t i = 0; i < made.size(); ++i) {
    made[i] = load_complex(at + static_cast<int64_t>(i) * tensor->strides()[rank - 1] * size, tensor->dtype);
  }
  return made;
}
void write_vector(Tensor tensor, int64_t number, const std::vector<C>& vector) {
  const int64_t rank = tensor->rank, size = element_size(tensor->dtype);
  unsigned char* at = item_at(tensor, Sizes(tensor->sizes(), tensor->sizes() + rank - 1), number, 1);
  for (size_t i = 0; i < vector.size(); ++i) {
    store_complex(at + static_cast<int64_t>(i) * tensor->strides()[rank - 1] * size, tensor->dtype, vector[i]);
  }
}

// --- factorisations

int32_t factor_lu(DenseMatrix& a, std::vector<int32_t>& pivots) {
  const int64_t count = std::min(a.rows, a.columns);
  pivots.resize(static_cast<size_t>(count));
  const auto weight = [](C item) { return std::fabs(item.real()) + std::fabs(item.imag()); };
  int32_t info = 0;
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      if (weight(a(i, k)) > weight(a(best, k))) best = i;
    }
    pivots[static_cast<size_t>(k)] = static_cast<int32_t>(best + 1);
    if (a(best, k) == C(0)) {
      if (info == 0) info = static_cast<int32_t>(k + 1);
      continue;
    }
    if (best != k) {
      for (int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(best, j));
    }
    const C inverse = 1.0 / a(k, k);
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) *= inverse;
    for (int64_t j = k + 1; j < a.columns; ++j) {
      if (k + 1 < a.rows) add_multiple(&a(k + 1, j), &a(k + 1, k), -a(k, j), a.rows - k - 1);
    }
  }
  return info;
}

void solve_triangle(const DenseMatrix& t, DenseMatrix& b, bool upper, bool unit) {
  const int64_t n = t.columns;
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t k = upper ? n - 1 - step : step;
      if (!unit) b(k, j) /= t(k, k);
      if (upper) {
        add_multiple(&b(0, j), &t(0, k), -b(k, j), k);
      } else if (k + 1 < n) {
        add_multiple(&b(k + 1, j), &t(k + 1, k), -b(k, j), n - k - 1);
      }
    }
  }
}

void solve_lu(const DenseMatrix& lu, const std::vector<int32_t>& pivots, DenseMatrix& b, bool of_adjoint) {
  const auto count = static_cast<int64_t>(pivots.size());
  const auto swap_rows = [&](int64_t k) {
    const int64_t other = pivots[static_cast<size_t>(k)] - 1;
    for (int64_t j = 0; other != k && j < b.columns; ++j) std::swap(b(k, j), b(other, j));
  };
  if (!of_adjoint) {
    for (int64_t k = 0; k < count; ++k) swap_rows(k);
    solve_triangle(lu, b, false, true);
    solve_triangle(lu, b, true, false);
    return;
  }
  const DenseMatrix turned = adjoint(lu);
  solve_triangle(turned, b, false, false);
  solve_triangle(turned, b, true, true);
  for (int64_t k = count - 1; k >= 0; --k) swap_rows(k);
}

int32_t factor_cholesky(DenseMatrix& a) {
  for (int64_t k = 0; k < a.columns; ++k) {
    double pivot = a(k, k).real();
    for (int64_t j = 0; j < k; ++j) pivot -= std::norm(a(k, j));
    if (!(pivot > 0)) return static_cast<int32_t>(k + 1);
    const double root = std::sqrt(pivot);
    a(k, k) = root;
    if (k + 1 == a.rows) continue;
    for (int64_t j = 0; j < k; ++j) add_multiple(&a(k + 1, k), &a(k + 1, j), -std::conj(a(k, j)), a.rows - k - 1);
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) /= root;
  }
  return 0;
}

namespace {

/// Applies `I - tau v v^H` to columns of `b` from the left; `v` is 1 at row `k`, and below it as in column `k` of `a`.
void reflect(const DenseMatrix& a, int64_t k, C tau, DenseMatrix& b, int64_t first) {
  if (tau == C(0)) return;
  for (int64_t j = first; j < b.columns; ++j) {
    C sum = b(k, j);
    for (int64_t i = k + 1; i < a.rows; ++i) sum += std::conj(a(i, k)) * b(i, j);
    sum *= tau;
    b(k, j) -= sum;
    if (k + 1 < a.rows) add_multiple(&b(k + 1, j), &a(k + 1, k), -sum, a.rows - k - 1);
  }
}

}  // namespace

std::vector<C> factor_qr(DenseMatrix& a) {
  const int64_t count = std::min(a.rows, a.columns);
  std::vector<C> tau(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) below += std::norm(a(i, k));
    const C alpha = a(k, k);
    if (below == 0 && alpha.imag() == 0) continue;
    const double beta = -std::copysign(std::sqrt(std::norm(alpha) + below), alpha.real());
    tau[static_cast<size_t>(k)] = C((beta - alpha.real()) / beta, -alpha.imag() / beta);
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) /= alpha - beta;
    a(k, k) = beta;
    reflect(a, k, std::conj(tau[static_cast<size_t>(k)]), a, k + 1);
  }
  return tau;
}

void apply_reflections(const DenseMatrix& a, const std::vector<C>& tau, DenseMatrix& b, bool is_adjoint) {
  const auto count = static_cast<int64_t>(tau.size());
  for (int64_t step = 0; step < count; ++step) {
    const int64_t k = is_adjoint ? step : count - 1 - step;
    const C factor = tau[static_cast<size_t>(k)];
    reflect(a, k, is_adjoint ? std::conj(factor) : factor, b, 0);
  }
}

}  // namespace wir
