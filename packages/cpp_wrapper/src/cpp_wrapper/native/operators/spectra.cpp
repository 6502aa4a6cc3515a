// Singular values, eigenvalues of Hermitian matrices, and pseudoinverses: by Jacobi rotations.
#include "linear_algebra.h"

namespace wir {
namespace {

constexpr int kSweeps = 60;

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
        if (!(size > kTolerance * std::sqrt(first * second)) || size == 0) continue;
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

/// Eigenvalues in ascending order, of the Hermitian matrix that one triangle describes.
std::vector<double> eigenvalues_of(const DenseMatrix& given, bool upper) {
  const int64_t n = given.columns;
  DenseMatrix a(n, n);
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
        if (size == 0) continue;
        const double ratio = (a(q, q).real() - a(p, p).real()) / (2 * size);
        const double tangent = std::copysign(1.0, ratio) / (std::fabs(ratio) + std::hypot(1.0, ratio));
        const double cosine = 1 / std::hypot(1.0, tangent), sine = cosine * tangent;
        const C phase = a(p, q) / size;
        for (int64_t i = 0; i < n; ++i) {  // columns
          const C x = a(i, p), y = std::conj(phase) * a(i, q);
          a(i, p) = cosine * x - sine * y;
          a(i, q) = sine * x + cosine * y;
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

WIR_OPERATOR(_linalg_svd)(Tensor A, int32_t, int32_t compute_uv, const char**, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  constexpr const char* kName = "aten::_linalg_svd";
  require_matrices(A, kName);
  if (compute_uv != 0) fail_operator(kName, "the native operator has no code for singular vectors");
  Sizes sizes = batch_of(A);
  sizes.push_back(std::min(A->sizes()[A->rank - 2], A->sizes()[A->rank - 1]));
  Owned made = empty(sizes, real_type(A->dtype));
  for (int64_t i = 0; i < count_of(batch_of(A)); ++i) {
    DenseMatrix matrix = read_matrix(A, batch_of(A), i);
    if (matrix.columns > matrix.rows) matrix = adjoint(matrix);
    DenseMatrix unused;
    orthogonalize(matrix, unused);
    std::vector<double> values = column_norms(matrix);
    std::sort(values.begin(), values.end(), [](double a, double b) { return a > b; });
    write_vector(made.get(), i, as_complex(values));
  }
  *ret0 = empty({0}, A->dtype).release();
  *ret1 = made.release();
  *ret2 = empty({0}, A->dtype).release();
  return 0;
}

WIR_OPERATOR(_linalg_eigh)(Tensor A, const char* UPLO, int32_t compute_v, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::_linalg_eigh";
  require_matrices(A, kName);
  if (compute_v != 0) fail_operator(kName, "the native operator has no code for eigenvectors");
  const Sizes batch = batch_of(A);
  Sizes sizes = batch;
  sizes.push_back(A->sizes()[A->rank - 1]);
  Owned made = empty(sizes, real_type(A->dtype));
  const bool upper = UPLO[0] == 'U' || UPLO[0] == 'u';
  for (int64_t i = 0; i < count_of(batch); ++i) {
    write_vector(made.get(), i, as_complex(eigenvalues_of(read_matrix(A, batch, i), upper)));
  }
  *ret0 = made.release();
  *ret1 = empty({0}, A->dtype).release();
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
