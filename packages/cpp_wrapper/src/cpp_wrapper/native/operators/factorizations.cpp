// Factorisations of matrices: LU, Cholesky, QR.
#include "linear_algebra.h"

namespace wir {
namespace {

Owned vectors(Sizes batch, int64_t length, int32_t dtype) {
  batch.push_back(length);
  return empty(batch, dtype);
}

/// LU factors of all matrices, or of their transposes.
struct Factors {
  Owned lu, pivots, info;
};
Factors lu_factors(Tensor a, bool of_transpose, const char* name) {
  require_matrices(a, name);
  const Sizes batch = batch_of(a);
  const int64_t m = a->sizes()[a->rank - (of_transpose ? 1 : 2)], n = a->sizes()[a->rank - (of_transpose ? 2 : 1)];
  Factors made{empty_columns(with_matrix(batch, m, n), a->dtype), vectors(batch, std::min(m, n), kI32), empty(batch, kI32)};
  std::vector<int32_t> pivots;
  for (int64_t b = 0; b < made.info->count; ++b) {
    DenseMatrix matrix = read_matrix(a, batch, b);
    if (of_transpose) matrix = transposed(matrix);
    data_of<int32_t>(made.info.get())[b] = factor_lu(matrix, pivots);
    write_matrix(made.lu.get(), b, matrix);
    std::copy(pivots.begin(), pivots.end(), data_of<int32_t>(made.pivots.get()) + b * static_cast<int64_t>(pivots.size()));
  }
  return made;
}

/// Torch factors the transpose of a real matrix that is contiguous by rows, which saves a copy.
bool factors_transpose(Tensor a) { return is_contiguous(a) && !is_complex(a->dtype); }

int64_t require_square(Tensor a, const char* name) {
  require_matrices(a, name);
  const int64_t n = a->sizes()[a->rank - 1];
  if (a->sizes()[a->rank - 2] != n) fail_operator(name, "the matrices are not square");
  return n;
}

/// The determinant's unit factor and the logarithm of its magnitude.
struct Determinant {
  C unit = 1;
  double logarithm = 0;
};
Determinant determinant_of(Tensor lu, Tensor pivots, int64_t number) {
  const DenseMatrix factors = read_matrix(lu, batch_of(lu), number);
  const int64_t n = factors.columns;
  Determinant made;
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::abs(factors(i, i));
    if (size != 0) made.unit *= factors(i, i) / size;
    else made.unit = 0;
    made.logarithm += std::log(size);
    if (data_of<int32_t>(pivots)[number * n + i] != i + 1) made.unit = -made.unit;
  }
  return made;
}

/// The permutation of rows as a matrix.
DenseMatrix permutation(const int32_t* pivots, int64_t count, int64_t m) {
  std::vector<int64_t> rows(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) rows[static_cast<size_t>(i)] = i;
  for (int64_t k = 0; k < count; ++k) std::swap(rows[static_cast<size_t>(k)], rows[static_cast<size_t>(pivots[k] - 1)]);
  DenseMatrix made(m, m);
  for (int64_t i = 0; i < m; ++i) made(rows[static_cast<size_t>(i)], i) = 1;
  return made;
}

/// Writes P, L and U of factors.
void unpack(Tensor lu, Tensor pivots, bool with_data, bool with_pivots, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  const Sizes batch = batch_of(lu);
  const int64_t m = lu->sizes()[lu->rank - 2], n = lu->sizes()[lu->rank - 1], k = std::min(m, n);
  const Owned dense = contiguous(pivots);
  Owned p = with_pivots ? empty(with_matrix(batch, m, m), lu->dtype) : empty({0}, lu->dtype);
  Owned l = with_data ? empty(with_matrix(batch, m, k), lu->dtype) : empty({0}, lu->dtype);
  Owned u = with_data ? empty(with_matrix(batch, k, n), lu->dtype) : empty({0}, lu->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    if (with_pivots) write_matrix(p.get(), b, permutation(data_of<int32_t>(dense.get()) + b * k, k, m));
    if (!with_data) continue;
    const DenseMatrix factors = read_matrix(lu, batch, b);
    DenseMatrix lower(m, k), upper(k, n);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        if (i > j && j < k) lower(i, j) = factors(i, j);
        if (i == j && j < k) lower(i, j) = 1;
        if (i <= j && i < k) upper(i, j) = factors(i, j);
      }
    }
    write_matrix(l.get(), b, lower);
    write_matrix(u.get(), b, upper);
  }
  *ret0 = p.release();
  *ret1 = l.release();
  *ret2 = u.release();
}

Owned cholesky_factors(Tensor a, bool upper, Owned& info, const char* name) {
  require_square(a, name);
  const Sizes batch = batch_of(a);
  Owned made = empty_columns(sizes_of(a), a->dtype);
  info = empty(batch, kI32);
  for (int64_t b = 0; b < info->count; ++b) {
    DenseMatrix matrix = read_matrix(a, batch, b);
    if (upper) matrix = adjoint(matrix);
    data_of<int32_t>(info.get())[b] = factor_cholesky(matrix);
    keep_triangle(matrix, false);
    write_matrix(made.get(), b, upper ? adjoint(matrix) : matrix);
  }
  return made;
}

void fail_singular(const char* name, int32_t info) {
  fail_text("WIR927", {name, " failed: the factorization of a matrix stopped at its row ", info});
}
void require_success(Tensor info, const char* name) {
  const Owned dense = contiguous(info, kI32);
  for (int64_t i = 0; i < dense->count; ++i) {
    if (const int32_t found = data_of<int32_t>(dense.get())[i]; found != 0) fail_singular(name, found);
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_linalg_check_errors)(Tensor info, const char* api_name, int32_t) {
  require_success(info, api_name);
  return 0;
}

WIR_OPERATOR(linalg_lu_factor_ex)(Tensor A, int32_t pivot, int32_t check_errors, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  constexpr const char* kName = "aten::linalg_lu_factor_ex";
  if (pivot == 0) fail_operator(kName, "a factorization without pivots is not supported");
  Factors made = lu_factors(A, false, kName);
  if (check_errors != 0) require_success(made.info.get(), kName);
  *ret0 = made.lu.release();
  *ret1 = made.pivots.release();
  *ret2 = made.info.release();
  return 0;
}

WIR_OPERATOR(linalg_lu)(Tensor A, int32_t pivot, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  constexpr const char* kName = "aten::linalg_lu";
  if (pivot == 0) fail_operator(kName, "a factorization without pivots is not supported");
  const Factors made = lu_factors(A, false, kName);
  unpack(made.lu.get(), made.pivots.get(), true, true, ret0, ret1, ret2);
  return 0;
}

WIR_OPERATOR(lu_unpack)(Tensor LU_data, Tensor LU_pivots, int32_t unpack_data, int32_t unpack_pivots, Tensor* ret0, Tensor* ret1,
                        Tensor* ret2) {
  constexpr const char* kName = "aten::lu_unpack";
  require_matrices(LU_data, kName);
  if (LU_pivots->dtype != kI32) fail_dtype(kName, LU_pivots->dtype);
  unpack(LU_data, LU_pivots, unpack_data != 0, unpack_pivots != 0, ret0, ret1, ret2);
  return 0;
}

WIR_OPERATOR(_linalg_det)(Tensor A, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  constexpr const char* kName = "aten::_linalg_det";
  require_square(A, kName);
  Factors factors = lu_factors(A, factors_transpose(A), kName);
  Owned made = empty(batch_of(A), A->dtype);
  for (int64_t b = 0; b < made->count; ++b) {
    const Determinant found = determinant_of(factors.lu.get(), factors.pivots.get(), b);
    const C value = found.unit == C(0) ? C(0) : found.unit * std::exp(found.logarithm);
    store_number(made->data() + b * element_size(A->dtype), A->dtype, {value.real(), value.imag(), 0, false, false});
  }
  *ret0 = made.release();
  *ret1 = factors.lu.release();
  *ret2 = factors.pivots.release();
  return 0;
}

WIR_OPERATOR(_linalg_slogdet)(Tensor A, Tensor* ret0, Tensor* ret1, Tensor* ret2, Tensor* ret3) {
  constexpr const char* kName = "aten::_linalg_slogdet";
  require_square(A, kName);
  Factors factors = lu_factors(A, factors_transpose(A), kName);
  Owned units = empty(batch_of(A), A->dtype), logarithms = empty(batch_of(A), real_type(A->dtype));
  for (int64_t b = 0; b < units->count; ++b) {
    const Determinant found = determinant_of(factors.lu.get(), factors.pivots.get(), b);
    store_number(units->data() + b * element_size(A->dtype), A->dtype, {found.unit.real(), found.unit.imag(), 0, false, false});
    store_number(logarithms->data() + b * element_size(logarithms->dtype), logarithms->dtype, {found.logarithm, 0, 0, false, false});
  }
  *ret0 = units.release();
  *ret1 = logarithms.release();
  *ret2 = factors.lu.release();
  *ret3 = factors.pivots.release();
  return 0;
}

WIR_OPERATOR(linalg_cholesky_ex)(Tensor self, int32_t upper, int32_t check_errors, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::linalg_cholesky_ex";
  Owned info;
  Owned made = cholesky_factors(self, upper != 0, info, kName);
  if (check_errors != 0) require_success(info.get(), kName);
  *ret0 = made.release();
  *ret1 = info.release();
  return 0;
}

WIR_OPERATOR(cholesky)(Tensor self, int32_t upper, Tensor* ret0) {
  constexpr const char* kName = "aten::cholesky";
  Owned info;
  Owned made = cholesky_factors(self, upper != 0, info, kName);
  require_success(info.get(), kName);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(geqrf)(Tensor self, Tensor* ret0, Tensor* ret1) {
  require_matrices(self, "aten::geqrf");
  const Sizes batch = batch_of(self);
  Owned made = empty_columns(sizes_of(self), self->dtype);
  Owned tau = vectors(batch, std::min(self->sizes()[self->rank - 2], self->sizes()[self->rank - 1]), self->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    DenseMatrix matrix = read_matrix(self, batch, b);
    write_vector(tau.get(), b, factor_qr(matrix));
    write_matrix(made.get(), b, matrix);
  }
  *ret0 = made.release();
  *ret1 = tau.release();
  return 0;
}

WIR_OPERATOR(linalg_qr)(Tensor A, const char* mode, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::linalg_qr";
  require_matrices(A, kName);
  const std::string given = mode;
  if (given != "reduced" && given != "complete" && given != "r") fail_operator(kName, "the mode is unknown");
  const Sizes batch = batch_of(A);
  const int64_t m = A->sizes()[A->rank - 2], n = A->sizes()[A->rank - 1];
  const int64_t k = given == "complete" ? m : std::min(m, n);
  Owned q = given == "r" ? empty({0}, A->dtype) : empty_columns(with_matrix(batch, m, k), A->dtype);
  Owned r = empty_columns(with_matrix(batch, k, n), A->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    DenseMatrix matrix = read_matrix(A, batch, b);
    const std::vector<C> tau = factor_qr(matrix);
    DenseMatrix upper(k, n);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i <= std::min(j, k - 1); ++i) upper(i, j) = matrix(i, j);
    }
    write_matrix(r.get(), b, upper);
    if (given == "r") continue;
    DenseMatrix unitary = identity(m, k);
    apply_reflections(matrix, tau, unitary, false);
    write_matrix(q.get(), b, unitary);
  }
  *ret0 = q.release();
  *ret1 = r.release();
  return 0;
}

WIR_OPERATOR(linalg_householder_product)(Tensor input, Tensor tau, Tensor* ret0) {
  require_matrices(input, "aten::linalg_householder_product");
  const Sizes batch = batch_of(input);
  Owned made = empty_columns(sizes_of(input), input->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    const DenseMatrix matrix = read_matrix(input, batch, b);
    DenseMatrix unitary = identity(matrix.rows, matrix.columns);
    apply_reflections(matrix, read_vector(tau, b), unitary, false);
    write_matrix(made.get(), b, unitary);
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(ormqr)(Tensor self, Tensor input2, Tensor input3, int32_t left, int32_t transpose, Tensor* ret0) {
  require_matrices(self, "aten::ormqr");
  const Sizes batch = batch_of(self);
  Owned made = empty_columns(sizes_of(input3), input3->dtype);
  for (int64_t b = 0; b < count_of(batch); ++b) {
    DenseMatrix reflections = read_matrix(self, batch, b), other = read_matrix(input3, batch, b);
    const std::vector<C> tau = read_vector(input2, b);
    if (left != 0) {
      apply_reflections(reflections, tau, other, transpose != 0);
    } else {  // C Q = (Q^H C^H)^H
      other = adjoint(other);
      apply_reflections(reflections, tau, other, transpose == 0);
      other = adjoint(other);
    }
    write_matrix(made.get(), b, other);
  }
  *ret0 = made.release();
  return 0;
}
