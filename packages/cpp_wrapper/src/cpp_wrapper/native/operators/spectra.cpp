// Singular values and vectors, eigenvalues and eigenvectors of Hermitian matrices, and pseudoinverses: by Jacobi rotations.
// Vectors have other signs than LAPACK's.
#include "linear_algebra.h"

#include <numeric>

namespace wir {
namespace {

constexpr int kSweeps = 60;
constexpr double kLeast = 1e-290;  // of smaller numbers, the phase is not accurate

/// Rotates pairs of columns of `a` until all are orthogonal; `v` collects the rotations. Then `a` is U times the singular values.
void orthogonalize(DenseMatrix& a, DenseMatrix& v) {
  constexpr double kTolerance = 1e-15;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool is_done = true;
    for (int64_t p = 0; p + 1 < a.columns; ++p) {
      for (int64_t q = p + 1; q < a.columns; ++q) {
        double first = 0, second = 0;
        C inner = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          first += std::norm(a(i, p));
          second += std::norm(a(i, q));
          inner += std::conj(a(i, p)) * a(i, q);
        }
        const double size = std::abs(inner);
        if (!(size > kTolerance * std::sqrt(first * second)) || size < kLeast) continue;
        is_done = false;
        const double ratio = (second - first) / (2 * size);
        const double tangent = std::copysign(1.0, ratio) / (std::fabs(ratio) + std::hypot(1.0, ratio));
        const double cosine = 1 / std::hypot(1.0, tangent), sine = cosine * tangent;
        const C phase = inner / size;
        const auto rotate = [&](DenseMatrix& matrix) {
          for (int64_t i = 0; i < matrix.rows; ++i) {
            const C x = matrix(i, p), y = std::conj(phase) * matrix(i, q);
            matrix(i, p) = cosine * x - sine * y;
            matrix(i, q) = sine * x + cosine * y;
          }
        };
        rotate(a);
        rotate(v);
      }
    }
    if (is_done) return;
  }
}

std::vector<double> column_norms(const DenseMatrix& a) {
  std::vector<double> norms(static_cast<size_t>(a.columns));
  for (int64_t j = 0; j < a.columns; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) norms[static_cast<size_t>(j)] += std::norm(a(i, j));
    norms[static_cast<size_t>(j)] = std::sqrt(norms[static_cast<size_t>(j)]);
  }
  return norms;
}

/// The numbers of items in the order of their values.
std::vector<int64_t> sorted_order(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double first = values[static_cast<size_t>(a)], second = values[static_cast<size_t>(b)];
    return descending ? first > second : first < second;
  });
  return order;
}

DenseMatrix columns_of(const DenseMatrix& given, const std::vector<int64_t>& order) {
  DenseMatrix made(given.rows, static_cast<int64_t>(order.size()));
  for (int64_t j = 0; j < made.columns; ++j) {
    for (int64_t i = 0; i < made.rows; ++i) made(i, j) = given(i, order[static_cast<size_t>(j)]);
  }
  return made;
}

/// Extends `count` orthonormal columns of a matrix by others: of the unit vector that is farthest from those, what they lack.
void complete_columns(DenseMatrix& u, int64_t count) {
  for (int64_t j = count; j < u.columns; ++j) {
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < u.rows; ++i) {
      double known = 0;
      for (int64_t k = 0; k < j; ++k) known += std::norm(u(i, k));
      if (known < least) best = i, least = known;
    }
    for (int64_t i = 0; i < u.rows; ++i) u(i, j) = i == best ? 1 : 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < j; ++k) {
        C inner = 0;
        for (int64_t i = 0; i < u.rows; ++i) inner += std::conj(u(i, k)) * u(i, j);
        for (int64_t i = 0; i < u.rows; ++i) u(i, j) -= inner * u(i, k);
      }
    }
    double size = 0;
    for (int64_t i = 0; i < u.rows; ++i) size += std::norm(u(i, j));
    for (int64_t i = 0; i < u.rows; ++i) u(i, j) /= std::sqrt(size);
  }
}

/// A singular value decomposition: `u` and `v` have orthonormal columns, values descend.
struct Decomposition {
  DenseMatrix u, v;
  std::vector<double> values;
};

/// Decomposes a matrix; square `u` and `v` if `full`.
Decomposition decomposed(DenseMatrix a, bool full) {
  const bool is_wide = a.columns > a.rows;
  if (is_wide) a = adjoint(a);
  const int64_t m = a.rows, n = a.columns;
  DenseMatrix v = identity(n, n);
  orthogonalize(a, v);
  const std::vector<double> norms = column_norms(a);
  const std::vector<int64_t> order = sorted_order(norms, true);
  Decomposition made{DenseMatrix(m, full ? m : n), columns_of(v, order), {}};
  int64_t rank = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const double value = norms[static_cast<size_t>(from)];
    made.values.push_back(value);
    if (value < std::numeric_limits<double>::min()) continue;
    ++rank;
    for (int64_t i = 0; i < m; ++i) made.u(i, j) = a(i, from) / value;
  }
  complete_columns(made.u, rank);
  if (is_wide) std::swap(made.u, made.v);
  return made;
}

void require_finite(const DenseMatrix& matrix, const char* name) {
  for (const C item : matrix.items) {
    if (!std::isfinite(item.real()) || !std::isfinite(item.imag())) fail_operator(name, "a matrix is not finite");
  }
}

/// Returns the eigenvalues in ascending order of the Hermitian matrix that one triangle describes; its eigenvectors are the
/// columns of `vectors`, unless that is null.
std::vector<double> eigenvalues_of(const DenseMatrix& given, bool upper, DenseMatrix* vectors) {
  const int64_t n = given.columns;
  DenseMatrix a(n, n), v = identity(vectors != nullptr ? n : 0, n);
  for (int64_t j = 0; j < n; ++j) {
    a(j, j) = given(j, j).real();
    for (int64_t i = 0; i < j; ++i) {
      a(i, j) = upper ? given(i, j) : std::conj(given(j, i));
      a(j, i) = std::conj(a(i, j));
    }
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double outside = 0, total = 0;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) {
        total += std::norm(a(i, j));
        if (i != j) outside += std::norm(a(i, j));
      }
    }
    if (!(outside > 1e-32 * total)) break;
    for (int64_t p = 0; p + 1 < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double size = std::abs(a(p, q));
        const double diagonal = std::fabs(a(p, p).real()) + std::fabs(a(q, q).real());
        if (size < kLeast || size <= 0x1p-60 * diagonal) continue;
        const double ratio = (a(q, q).real() - a(p, p).real()) / (2 * size);
        const double tangent = std::copysign(1.0, ratio) / (std::fabs(ratio) + std::hypot(1.0, ratio));
        const double cosine = 1 / std::hypot(1.0, tangent), sine = cosine * tangent;
        const C phase = a(p, q) / size;
        for (int64_t i = 0; i < n; ++i) {  // columns
          const C x = a(i, p), y = std::conj(phase) * a(i, q);
          a(i, p) = cosine * x - sine * y;
          a(i, q) = sine * x + cosine * y;
        }
        for (int64_t i = 0; i < v.rows; ++i) {
          const C x = v(i, p), y = std::conj(phase) * v(i, q);
          v(i, p) = cosine * x - sine * y;
          v(i, q) = sine * x + cosine * y;
        }
        for (int64_t i = 0; i < n; ++i) {  // rows
          const C x = a(p, i), y = phase * a(q, i);
          a(p, i) = cosine * x - sine * y;
          a(q, i) = sine * x + cosine * y;
        }
      }
    }
  }
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = a(i, i).real();
  if (vectors != nullptr) *vectors = columns_of(v, sorted_order(values, false));
  std::sort(values.begin(), values.end());
  return values;
}

/// The number that a tolerance has for an item of a batch.
double tolerance_at(Tensor* given, const Sizes& batch, int64_t number) {
  if (given == nullptr) return 0;
  Sizes strides(batch.size(), 0);
  const size_t missing = batch.size() - static_cast<size_t>((*given)->rank);
  int64_t offset = 0;
  for (size_t i = batch.size(); i-- > 0;) {
    const int64_t index = number % batch[i];
    number /= batch[i];
    if (i >= missing && (*given)->sizes()[i - missing] != 1) offset += index * (*given)->strides()[i - missing];
  }
  return load_number((*given)->data() + offset * element_size((*given)->dtype), (*given)->dtype).real;
}

std::vector<C> as_complex(const std::vector<double>& values) { return std::vector<C>(values.begin(), values.end()); }

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_linalg_svd)(Tensor A, int32_t full_matrices, int32_t compute_uv, const char**, Tensor* ret0, Tensor* ret1,
                          Tensor* ret2) {
  constexpr const char* kName = "aten::_linalg_svd";
  require_matrices(A, kName);
  const Sizes batch = batch_of(A);
  const int64_t m = A->sizes()[A->rank - 2], n = A->sizes()[A->rank - 1], k = std::min(m, n);
  const bool has_vectors = compute_uv != 0, full = full_matrices != 0;
  Sizes sizes = batch;
  sizes.push_back(k);
  Owned values = empty(sizes, real_type(A->dtype));
  Owned u = has_vectors ? empty_columns(with_matrix(batch, m, full ? m : k), A->dtype) : empty({0}, A->dtype);
  Owned v = has_vectors ? empty_columns(with_matrix(batch, full ? n : k, n), A->dtype) : empty({0}, A->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix matrix = read_matrix(A, batch, i);
    require_finite(matrix, kName);
    if (has_vectors) {
      const Decomposition made = decomposed(std::move(matrix), full);
      write_vector(values.get(), i, as_complex(made.values));
      write_matrix(u.get(), i, made.u);
      write_matrix(v.get(), i, adjoint(made.v));
    } else {
      if (n > m) matrix = adjoint(matrix);
      DenseMatrix unused;
      orthogonalize(matrix, unused);
      std::vector<double> found = column_norms(matrix);
      std::sort(found.begin(), found.end(), [](double a, double b) { return a > b; });
      write_vector(values.get(), i, as_complex(found));
    }
  }
  *ret0 = u.release();
  *ret1 = values.release();
  *ret2 = v.release();
  return 0;
}

WIR_OPERATOR(_linalg_eigh)(Tensor A, const char* UPLO, int32_t compute_v, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::_linalg_eigh";
  require_matrices(A, kName);
  if (A->sizes()[A->rank - 1] != A->sizes()[A->rank - 2]) fail_operator(kName, "the matrices are not square");
  const Sizes batch = batch_of(A);
  Sizes sizes = batch;
  sizes.push_back(A->sizes()[A->rank - 1]);
  Owned values = empty(sizes, real_type(A->dtype));
  Owned vectors = compute_v != 0 ? empty_columns(sizes_of(A), A->dtype) : empty({0}, A->dtype);
  const bool upper = UPLO[0] == 'U' || UPLO[0] == 'u';
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix found;
    const DenseMatrix matrix = read_matrix(A, batch, i);
    write_vector(values.get(), i, as_complex(eigenvalues_of(matrix, upper, compute_v != 0 ? &found : nullptr)));
    if (compute_v != 0) write_matrix(vectors.get(), i, found);
  }
  *ret0 = values.release();
  *ret1 = vectors.release();
  return 0;
}

WIR_OPERATOR(linalg_pinv_atol_rtol_tensor)(Tensor self, Tensor* atol, Tensor* rtol, int32_t hermitian, Tensor* ret0) {
  constexpr const char* kName = "aten::linalg_pinv.atol_rtol_tensor";
  require_matrices(self, kName);
  const Sizes batch = batch_of(self);
  const int64_t m = self->sizes()[self->rank - 2], n = self->sizes()[self->rank - 1];
  const double epsilon = real_type(self->dtype) == kF32 ? 0x1p-23 : 0x1p-52;
  Owned made = empty(with_matrix(batch, n, m), self->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    DenseMatrix matrix = read_matrix(self, batch, b);
    if (hermitian != 0) {  // the lower triangle describes the matrix
      for (int64_t j = 0; j < n; ++j) {
        matrix(j, j) = matrix(j, j).real();
        for (int64_t i = 0; i < j; ++i) matrix(i, j) = std::conj(matrix(j, i));
      }
    }
    const bool is_wide = n > m;
    if (is_wide) matrix = adjoint(matrix);
    DenseMatrix v = identity(matrix.columns, matrix.columns);
    orthogonalize(matrix, v);
    const std::vector<double> values = column_norms(matrix);
    const double largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    const double absolute = tolerance_at(atol, batch, b);
    const double relative = rtol != nullptr ? tolerance_at(rtol, batch, b)
                            : absolute > 0  ? 0 : epsilon * static_cast<double>(std::max(m, n));
    const double limit = std::max(absolute, relative * largest);
    for (int64_t j = 0; j < matrix.columns; ++j) {  // the columns of U, each over its singular value
      const double value = values[static_cast<size_t>(j)];
      for (int64_t i = 0; i < matrix.rows; ++i) matrix(i, j) = value > limit ? matrix(i, j) / (value * value) : C(0);
    }
    DenseMatrix inverse = product(v, adjoint(matrix));
    write_matrix(made.get(), b, is_wide ? adjoint(inverse) : inverse);
  }
  *ret0 = made.release();
  return 0;
}
