// Linear systems, inverses, and functions of matrices.
#include "linear_algebra.h"

namespace wir {
namespace {

int64_t require_square(Tensor a, const char* name) {
  require_matrices(a, name);
  const int64_t n = a->sizes()[a->rank - 1];
  if (a->sizes()[a->rank - 2] != n) fail_operator(name, "the matrices are not square");
  return n;
}

void require_success(Tensor info, const char* name) {
  for (int64_t i = 0; i < info->count; ++i) {
    if (const int32_t found = data_of<int32_t>(info)[i]; found != 0) {
      fail_text("WIR927", {name, " failed: a matrix is singular at its row ", found});
    }
  }
}

/// A tensor of vectors as one of matrices with one column.
Owned as_columns(Tensor vectors) {
  Sizes sizes = sizes_of(vectors), strides = strides_of(vectors);
  sizes.push_back(1);
  strides.push_back(1);
  return view_of(vectors, sizes, strides);
}

/// The solution of systems, and the factors of their matrices.
struct Solution {
  Owned result, lu, pivots, info;
};
Solution solved(Tensor a, Tensor b, bool left, const char* name) {
  const int64_t n = require_square(a, name);
  if (a->dtype != b->dtype) fail_dtype(name, b->dtype);
  Sizes vector_sizes = batch_of(a);
  vector_sizes.push_back(n);
  const bool is_vector = left && (b->rank == 1 || (b->rank == a->rank - 1 && sizes_of(b) == vector_sizes));
  const Owned given = is_vector ? as_columns(b) : Owned(same(b));
  require_matrices(given.get(), name);
  if (given->sizes()[given->rank - (left ? 2 : 1)] != n) fail_operator(name, "the sizes of the matrices differ");
  const Sizes own = batch_of(a), batch = broadcast(own, batch_of(given.get()), name);
  const Sizes sizes = with_matrix(batch, given->sizes()[given->rank - 2], given->sizes()[given->rank - 1]);
  Sizes pivot_sizes = own;
  pivot_sizes.push_back(n);
  Solution made{left || is_vector ? empty_columns(sizes, a->dtype) : empty(sizes, a->dtype), empty_columns(sizes_of(a), a->dtype),
                empty(pivot_sizes, kI32), empty(own, kI32)};
  std::vector<int32_t> pivots;
  for (int64_t i = 0; i < made.info->count; ++i) {
    DenseMatrix matrix = read_matrix(a, own, i);
    data_of<int32_t>(made.info.get())[i] = factor_lu(matrix, pivots);
    write_matrix(made.lu.get(), i, matrix);
    std::copy(pivots.begin(), pivots.end(), data_of<int32_t>(made.pivots.get()) + i * n);
  }
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix matrix = read_matrix(a, batch, i), right = read_matrix(given.get(), batch, i);
    if (!left) matrix = adjoint(matrix), right = adjoint(right);
    factor_lu(matrix, pivots);
    solve_lu(matrix, pivots, right, false);
    write_matrix(made.result.get(), i, left ? right : adjoint(right));
  }
  if (is_vector) {
    Sizes result_sizes = sizes_of(made.result.get()), strides = strides_of(made.result.get());
    result_sizes.pop_back();
    strides.pop_back();
    made.result = view_of(made.result.get(), result_sizes, strides);
  }
  return made;
}

/// Solves with one triangle of matrices.
Owned solve_triangular(Tensor a, Tensor b, bool upper, bool left, bool unit, bool turned, const char* name) {
  require_square(a, name);
  require_matrices(b, name);
  if (a->dtype != b->dtype) fail_dtype(name, b->dtype);
  if (a->sizes()[a->rank - 1] != b->sizes()[b->rank - (left ? 2 : 1)]) fail_operator(name, "the sizes of the matrices differ");
  const Sizes batch = broadcast(batch_of(a), batch_of(b), name);
  const Sizes sizes = with_matrix(batch, b->sizes()[b->rank - 2], b->sizes()[b->rank - 1]);
  Owned made = left ? empty_columns(sizes, a->dtype) : empty(sizes, a->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix triangle = read_matrix(a, batch, i), right = read_matrix(b, batch, i);
    keep_triangle(triangle, upper);
    bool is_upper = upper;
    if (turned) triangle = transposed(triangle), is_upper = !is_upper;
    if (!left) triangle = adjoint(triangle), right = adjoint(right), is_upper = !is_upper;
    solve_triangle(triangle, right, is_upper, unit);
    write_matrix(made.get(), i, left ? right : adjoint(right));
  }
  return made;
}

/// Solves `L L^H x = b` in place, with the triangle that `upper` names.
void solve_cholesky(DenseMatrix factor, bool upper, DenseMatrix& b) {
  keep_triangle(factor, upper);
  if (upper) factor = adjoint(factor);
  solve_triangle(factor, b, false, false);
  solve_triangle(adjoint(factor), b, true, false);
}

double largest_column_sum(const DenseMatrix& matrix) {
  double largest = 0;
  for (int64_t j = 0; j < matrix.columns; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < matrix.rows; ++i) sum += std::abs(matrix(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}

/// The exponential of a matrix: a Taylor series of the matrix over a power of two, squared as often.
DenseMatrix exponential(DenseMatrix matrix) {
  constexpr int kTerms = 20;
  const double norm = largest_column_sum(matrix);
  const int squarings = norm > 0.5 && std::isfinite(norm) ? static_cast<int>(std::ceil(std::log2(norm))) + 1 : 0;
  for (C& item : matrix.items) item *= std::ldexp(1.0, -squarings);
  DenseMatrix sum = identity(matrix.rows, matrix.columns), term = sum;
  for (int k = 1; k <= kTerms; ++k) {
    term = product(term, matrix);
    for (size_t i = 0; i < term.items.size(); ++i) {
      term.items[i] /= k;
      sum.items[i] += term.items[i];
    }
  }
  for (int i = 0; i < squarings; ++i) sum = product(sum, sum);
  return sum;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(linalg_inv_ex)(Tensor A, int32_t check_errors, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::linalg_inv_ex";
  const int64_t n = require_square(A, kName);
  const Sizes batch = batch_of(A);
  Owned made = empty_columns(sizes_of(A), A->dtype), info = empty(batch, kI32);
  std::vector<int32_t> pivots;
  for (int64_t i = 0; i < info->count; ++i) {
    DenseMatrix matrix = read_matrix(A, batch, i), inverse = identity(n, n);
    data_of<int32_t>(info.get())[i] = factor_lu(matrix, pivots);
    solve_lu(matrix, pivots, inverse, false);
    write_matrix(made.get(), i, inverse);
  }
  if (check_errors != 0) require_success(info.get(), kName);
  *ret0 = made.release();
  *ret1 = info.release();
  return 0;
}

WIR_OPERATOR(_linalg_solve_ex)(Tensor A, Tensor B, int32_t left, int32_t check_errors, Tensor* ret0, Tensor* ret1, Tensor* ret2,
                               Tensor* ret3) {
  constexpr const char* kName = "aten::_linalg_solve_ex";
  Solution made = solved(A, B, left != 0, kName);
  if (check_errors != 0) require_success(made.info.get(), kName);
  *ret0 = made.result.release();
  *ret1 = made.lu.release();
  *ret2 = made.pivots.release();
  *ret3 = made.info.release();
  return 0;
}

WIR_OPERATOR(linalg_lu_solve)(Tensor LU, Tensor pivots, Tensor B, int32_t left, int32_t is_adjoint, Tensor* ret0) {
  constexpr const char* kName = "aten::linalg_lu_solve";
  const int64_t n = require_square(LU, kName);
  require_matrices(B, kName);
  if (pivots->dtype != kI32) fail_dtype(kName, pivots->dtype);
  const Sizes own = batch_of(LU), batch = broadcast(own, batch_of(B), kName);
  const Sizes sizes = with_matrix(batch, B->sizes()[B->rank - 2], B->sizes()[B->rank - 1]);
  Owned made = left != 0 ? empty_columns(sizes, B->dtype) : empty(sizes, B->dtype);
  Sizes expanded = batch;
  expanded.push_back(n);
  const Owned rows = empty(expanded, kI32);
  copy_into(rows.get(), pivots);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix right = read_matrix(B, batch, i);
    const std::vector<int32_t> swaps(data_of<int32_t>(rows.get()) + i * n, data_of<int32_t>(rows.get()) + (i + 1) * n);
    if (left == 0) right = adjoint(right);
    solve_lu(read_matrix(LU, batch, i), swaps, right, (is_adjoint != 0) == (left != 0));
    write_matrix(made.get(), i, left != 0 ? right : adjoint(right));
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(linalg_solve_triangular)(Tensor self, Tensor B, int32_t upper, int32_t left, int32_t unitriangular, Tensor* ret0) {
  *ret0 = solve_triangular(self, B, upper != 0, left != 0, unitriangular != 0, false, "aten::linalg_solve_triangular").release();
  return 0;
}

WIR_OPERATOR(triangular_solve)(Tensor self, Tensor A, int32_t upper, int32_t transpose, int32_t unitriangular, Tensor* ret0,
                               Tensor* ret1) {
  constexpr const char* kName = "aten::triangular_solve";
  Owned made = solve_triangular(A, self, upper != 0, true, unitriangular != 0, transpose != 0, kName);
  const Sizes batch = batch_of(made.get());
  Owned copy = empty_columns(with_matrix(batch, A->sizes()[A->rank - 2], A->sizes()[A->rank - 1]), A->dtype);
  copy_into(copy.get(), A);
  *ret0 = made.release();
  *ret1 = copy.release();
  return 0;
}

WIR_OPERATOR(cholesky_solve)(Tensor self, Tensor input2, int32_t upper, Tensor* ret0) {
  constexpr const char* kName = "aten::cholesky_solve";
  require_square(input2, kName);
  require_matrices(self, kName);
  const Sizes batch = broadcast(batch_of(self), batch_of(input2), kName);
  Owned made = empty_columns(with_matrix(batch, self->sizes()[self->rank - 2], self->sizes()[self->rank - 1]), self->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix right = read_matrix(self, batch, i);
    solve_cholesky(read_matrix(input2, batch, i), upper != 0, right);
    write_matrix(made.get(), i, right);
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(cholesky_inverse)(Tensor self, int32_t upper, Tensor* ret0) {
  constexpr const char* kName = "aten::cholesky_inverse";
  const int64_t n = require_square(self, kName);
  const Sizes batch = batch_of(self);
  Owned made = empty_columns(sizes_of(self), self->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) {
    DenseMatrix inverse = identity(n, n);
    solve_cholesky(read_matrix(self, batch, i), upper != 0, inverse);
    write_matrix(made.get(), i, inverse);
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(linalg_matrix_exp)(Tensor self, Tensor* ret0) {
  require_square(self, "aten::linalg_matrix_exp");
  const Sizes batch = batch_of(self);
  Owned made = empty(sizes_of(self), self->dtype);
  for (int64_t i = 0; i < count_of(batch); ++i) write_matrix(made.get(), i, exponential(read_matrix(self, batch, i)));
  *ret0 = made.release();
  return 0;
}
