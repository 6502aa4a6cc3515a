// Matrices for linear algebra: batches of tensors are read into complex matrices in double precision, and written back.
#pragma once
#include "layouts.h"

#include <complex>

namespace wir {

using C = std::complex<double>;

/// A matrix of complex numbers, column by column.
struct DenseMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<C> items;

  DenseMatrix() = default;
  DenseMatrix(int64_t m, int64_t n) : rows(m), columns(n), items(static_cast<size_t>(m * n)) {}
  C& operator()(int64_t i, int64_t j) { return items[static_cast<size_t>(j * rows + i)]; }
  const C& operator()(int64_t i, int64_t j) const { return items[static_cast<size_t>(j * rows + i)]; }
};
DenseMatrix identity(int64_t m, int64_t n);
/// Returns the conjugate transpose.
DenseMatrix adjoint(const DenseMatrix& given);
DenseMatrix transposed(const DenseMatrix& given);
DenseMatrix product(const DenseMatrix& a, const DenseMatrix& b);
/// Keeps one triangle, with the diagonal, and sets the other elements to zero.
void keep_triangle(DenseMatrix& matrix, bool upper);

/// Fails unless the tensor contains f32, f64, c64 or c128 and has at least two dimensions.
void require_matrices(Tensor tensor, const char* name);
/// The sizes before the last two.
Sizes batch_of(Tensor tensor);
/// Sizes of a batch with two more dimensions.
Sizes with_matrix(Sizes batch, int64_t rows, int64_t columns);
/// Strides of matrices that are contiguous by columns.
Sizes column_strides(const Sizes& sizes);
Owned empty_columns(const Sizes& sizes, int32_t dtype);
int32_t real_type(int32_t dtype);

/// Reads matrix `number` of a batch of these sizes, to which the tensor's broadcasts.
DenseMatrix read_matrix(Tensor tensor, const Sizes& batch, int64_t number);
void write_matrix(Tensor tensor, int64_t number, const DenseMatrix& matrix);
/// Reads and writes vectors of a tensor whose last dimension is that of the vectors.
std::vector<C> read_vector(Tensor tensor, int64_t number);
void write_vector(Tensor tensor, int64_t number, const std::vector<C>& vector);

// --- factorisations

/// Factors a matrix in place as permutation, lower and upper triangle. Returns the first column, from 1, without a pivot; 0 for none.
int32_t factor_lu(DenseMatrix& a, std::vector<int32_t>& pivots);
/// Solves `L U x = P b` in place for all columns; with the adjoint of the factored matrix if asked.
void solve_lu(const DenseMatrix& lu, const std::vector<int32_t>& pivots, DenseMatrix& b, bool of_adjoint);
/// Factors in place; returns the first order, from 1, of a leading minor that is not positive, 0 for none.
int32_t factor_cholesky(DenseMatrix& a);
/// Replaces a matrix by its triangle R, with the vectors of reflections below it, and returns their factors.
std::vector<C> factor_qr(DenseMatrix& a);
/// Applies the product of the reflections below the diagonal of `a` to `b` from the left; its adjoint if asked.
void apply_reflections(const DenseMatrix& a, const std::vector<C>& tau, DenseMatrix& b, bool is_adjoint);
/// Solves `T x = b` in place, with a triangle of `t`.
void solve_triangle(const DenseMatrix& t, DenseMatrix& b, bool upper, bool unit);

}  // namespace wir
