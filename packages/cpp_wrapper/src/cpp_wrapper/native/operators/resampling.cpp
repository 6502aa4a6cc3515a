// Images of another size: nearest, linear and cubic interpolation, filters over areas, and their gradients.
//
// A resampling is a product with a sparse matrix along each axis: a row of the matrix contains the weights of an output position.
// Gradients are products with the transposed matrices.
#include "resampling.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 14;  // products for which a thread is worth it

/// The matrix of an axis: row i has the elements from `starts[i]` to `starts[i + 1]` of `at` (positions of the input) and `weights`.
template <class W> struct Matrix {
  int64_t columns;
  std::vector<int64_t> starts{0}, at{};
  std::vector<W> weights{};

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }
  /// Adds to the element of a column of the last row.
  void add(int64_t column, W weight) {
    for (size_t i = static_cast<size_t>(starts.back()); i < at.size(); ++i) {
      if (at[i] != column) continue;
      weights[i] += weight;
      return;
    }
    at.push_back(column);
    weights.push_back(weight);
  }
  void end_row() { starts.push_back(static_cast<int64_t>(at.size())); }
};

/// An axis: its sizes, and the scale that the caller states, or 0. Torch ignores a scale that is not that of the sizes in some
/// operators: `is_copied` if the sizes are equal, `is_doubled` if one is twice the other one.
struct Axis {
  int64_t from, to;
  bool corners;
  double scale;
  bool is_copied, is_doubled;
};

/// Positions of the input for each of the output. `W` is the type in which torch computes, so that the same positions are found.
template <class W> W step_of(const Axis& axis) {
  if (axis.corners) return axis.to > 1 ? static_cast<W>(axis.from - 1) / static_cast<W>(axis.to - 1) : W(0);
  return axis.scale > 0 ? static_cast<W>(1.0 / axis.scale) : static_cast<W>(axis.from) / static_cast<W>(axis.to);
}

/// Cubic convolution at a distance, with its parameter.
template <class W> W cubic(W x, W a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : W(0);
}

/// Rows of an axis that stays as it is.
template <class W> void add_identity(Matrix<W>& made, const Axis& axis) {
  for (int64_t i = 0; i < axis.to; ++i) {
    made.add(i, 1);
    made.end_row();
  }
}

template <class W> void add_nearest(Matrix<W>& made, const Axis& axis, bool exact) {
  W step = axis.scale > 0 ? static_cast<W>(1.0 / axis.scale) : static_cast<W>(axis.from) / static_cast<W>(axis.to);
  if (axis.is_doubled) step = W(0.5);
  for (int64_t i = 0; i < axis.to; ++i) {
    const W place = exact ? (static_cast<W>(i) + W(0.5)) * step : static_cast<W>(i) * step;
    made.add(std::min(static_cast<int64_t>(std::floor(place)), axis.from - 1), 1);
    made.end_row();
  }
}

template <class W> void add_linear(Matrix<W>& made, const Axis& axis) {
  const W step = step_of<W>(axis);
  for (int64_t i = 0; i < axis.to; ++i) {
    const W center = (static_cast<W>(i) + W(0.5)) * step - W(0.5);
    const W place = axis.corners ? step * static_cast<W>(i) : std::max(center, W(0));
    const int64_t first = std::min(static_cast<int64_t>(place), axis.from - 1), second = std::min(first + 1, axis.from - 1);
    const W share = std::clamp(place - static_cast<W>(first), W(0), W(1));
    made.add(first, 1 - share);
    made.add(second, share);
    made.end_row();
  }
}

template <class W> void add_cubic(Matrix<W>& made, const Axis& axis) {
  const W step = step_of<W>(axis);
  for (int64_t i = 0; i < axis.to; ++i) {
    const W place = axis.corners ? step * static_cast<W>(i) : (static_cast<W>(i) + W(0.5)) * step - W(0.5), first = std::floor(place);
    const W share = std::clamp(place - first, W(0), W(1));
    for (int64_t j = -1; j < 3; ++j) {
      const int64_t column = std::clamp<int64_t>(static_cast<int64_t>(first) + j, 0, axis.from - 1);
      made.add(column, cubic(share - static_cast<W>(j), W(-0.75)));
    }
    made.end_row();
  }
}

/// Filters that reach as far as an output position does in the input; their weights add up to 1.
template <class W> void add_area(Matrix<W>& made, const Axis& axis, bool is_cubic) {
  const W step = step_of<W>(axis), stretch = std::max(step, W(1)), reach = (is_cubic ? W(2) : W(1)) * stretch;
  std::vector<W> weights;
  for (int64_t i = 0; i < axis.to; ++i) {
    const W center = step * (static_cast<W>(i) + W(0.5));
    const int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(center - reach + W(0.5)));
    const int64_t end = std::min(axis.from, static_cast<int64_t>(center + reach + W(0.5)));
    W total = 0;
    weights.clear();
    for (int64_t j = begin; j < end; ++j) {
      const W x = (static_cast<W>(j) - center + W(0.5)) / stretch;
      weights.push_back(is_cubic ? cubic(x, W(-0.5)) : std::max(W(0), 1 - std::fabs(x)));
      total += weights.back();
    }
    for (int64_t j = begin; j < end; ++j) made.add(j, total == 0 ? W(0) : weights[static_cast<size_t>(j - begin)] / total);
    made.end_row();
  }
}

template <class W> Matrix<W> matrix_of(Filter filter, const Axis& axis) {
  Matrix<W> made{axis.from};
  if (axis.is_copied) {
    add_identity(made, axis);
    return made;
  }
  switch (filter) {
    case Filter::kNearest: add_nearest(made, axis, false); break;
    case Filter::kNearestExact: add_nearest(made, axis, true); break;
    case Filter::kLinear: add_linear(made, axis); break;
    case Filter::kCubic: add_cubic(made, axis); break;
    case Filter::kLinearArea: add_area(made, axis, false); break;
    case Filter::kCubicArea: add_area(made, axis, true); break;
  }
  return made;
}

/// Multiplies lines of `inner` elements: `to[o, i] = sum of weights[i, j] * from[o, j]`.
template <class W> void multiply(const Matrix<W>& matrix, int64_t outer, int64_t inner, const W* from, W* to) {
  const int64_t rows = matrix.rows(), work = std::max<int64_t>(1, static_cast<int64_t>(matrix.at.size()) / std::max<int64_t>(rows, 1)) * inner;
  parallel_for(outer * rows, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t row = line % rows;
      const W* source = from + line / rows * matrix.columns * inner;
      W* target = to + line * inner;
      std::fill(target, target + inner, W(0));
      for (int64_t t = matrix.starts[static_cast<size_t>(row)]; t < matrix.starts[static_cast<size_t>(row) + 1]; ++t) {
        const W weight = matrix.weights[static_cast<size_t>(t)];
        const W* item = source + matrix.at[static_cast<size_t>(t)] * inner;
        for (int64_t k = 0; k < inner; ++k) target[k] += weight * item[k];
      }
    }
  });
}
/// Multiplies with the transposed matrix.
template <class W> void multiply_transposed(const Matrix<W>& matrix, int64_t outer, int64_t inner, const W* from, W* to) {
  const int64_t work = std::max<int64_t>(1, static_cast<int64_t>(matrix.at.size()) * inner);
  parallel_for(outer, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const W* source = from + o * matrix.rows() * inner;
      W* target = to + o * matrix.columns * inner;
      std::fill(target, target + matrix.columns * inner, W(0));
      for (int64_t row = 0; row < matrix.rows(); ++row, source += inner) {
        for (int64_t t = matrix.starts[static_cast<size_t>(row)]; t < matrix.starts[static_cast<size_t>(row) + 1]; ++t) {
          const W weight = matrix.weights[static_cast<size_t>(t)];
          W* item = target + matrix.at[static_cast<size_t>(t)] * inner;
          for (int64_t k = 0; k < inner; ++k) item[k] += weight * source[k];
        }
      }
    }
  });
}

/// A call: the image's sizes after batch and channels, and axes from the outermost one on.
struct Call {
  const char* name;
  Filter filter;
  std::vector<Axis> axes;
};

/// `is_gradient` and `is_byte` tell when torch ignores scales.
Call call_of(const char* name, Filter filter, bool corners, const int64_t* from, const int64_t* to, int64_t count, int64_t axes,
             const double* const* scales, bool is_gradient, bool is_byte) {
  if (count != axes) fail_operator(name, "there is not one size for each axis");
  Call call{name, filter, {}};
  for (int64_t i = 0; i < axes; ++i) {
    if (from[i] <= 0 || to[i] <= 0) fail_operator(name, "a size of the images is not positive");
    call.axes.push_back({from[i], to[i], corners, scales[i] == nullptr ? 0 : *scales[i], false, false});
  }
  const bool is_area = filter == Filter::kLinearArea || filter == Filter::kCubicArea, all_same = std::equal(from, from + axes, to);
  const bool by_index = filter == Filter::kNearest && (axes == 2 || is_gradient);
  for (Axis& axis : call.axes) {
    const bool copies = filter == Filter::kCubic ? all_same && (is_gradient || is_byte)
                        : is_area                ? all_same && !is_gradient
                                                 : filter == Filter::kLinear || by_index;
    axis.is_copied = copies && axis.from == axis.to;
    axis.is_doubled = by_index && 2 * axis.from == axis.to;
  }
  return call;
}

/// Multiplies along each axis, the innermost one first. `from` is contiguous; sizes are those of its axes, and are replaced.
template <class W> Owned multiply_axes(const Call& call, Owned from, bool transposed) {
  for (size_t axis = call.axes.size(); axis-- > 0;) {
    const Matrix<W> matrix = matrix_of<W>(call.filter, call.axes[axis]);
    Sizes sizes = sizes_of(from.get());
    const int64_t dim = from->rank - static_cast<int64_t>(call.axes.size() - axis);
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < from->rank; ++i) (i < dim ? outer : inner) *= i == dim ? 1 : sizes[static_cast<size_t>(i)];
    sizes[static_cast<size_t>(dim)] = transposed ? matrix.columns : matrix.rows();
    Owned made = empty(sizes, from->dtype);
    const auto product = transposed ? multiply_transposed<W> : multiply<W>;
    product(matrix, outer, inner, data_of<W>(from.get()), data_of<W>(made.get()));
    from = std::move(made);
  }
  return from;
}

// --- bytes

/// Weights as whole numbers, all times 2 to the power of `bits`: torch's arithmetic for bytes.
struct WholeMatrix {
  Matrix<double> matrix;
  std::vector<int32_t> weights;
  int bits;
};
WholeMatrix whole_matrix(Filter filter, const Axis& axis) {
  WholeMatrix made{matrix_of<double>(filter, axis), {}, 0};
  double largest = 0;
  for (const double weight : made.matrix.weights) largest = std::max(largest, weight);
  while (made.bits < 22 && static_cast<int>(0.5 + largest * (1 << (made.bits + 1))) < 1 << 15) ++made.bits;
  for (const double weight : made.matrix.weights) {
    made.weights.push_back(static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << made.bits)));
  }
  return made;
}

void multiply_bytes(const WholeMatrix& whole, int64_t outer, int64_t inner, const uint8_t* from, uint8_t* to) {
  const Matrix<double>& matrix = whole.matrix;
  const int64_t rows = matrix.rows();
  parallel_for(outer * rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const auto row = static_cast<size_t>(line % rows);
      const uint8_t* source = from + line / rows * matrix.columns * inner;
      for (int64_t k = 0; k < inner; ++k) {
        int32_t sum = 1 << whole.bits >> 1;
        for (auto t = static_cast<size_t>(matrix.starts[row]); t < static_cast<size_t>(matrix.starts[row + 1]); ++t) {
          sum += whole.weights[t] * source[matrix.at[t] * inner + k];
        }
        to[line * inner + k] = static_cast<uint8_t>(std::clamp(sum >> whole.bits, 0, 255));
      }
    }
  });
}

Owned resample_bytes(const Call& call, Owned from) {
  for (size_t axis = call.axes.size(); axis-- > 0;) {
    Sizes sizes = sizes_of(from.get());
    const int64_t dim = from->rank - static_cast<int64_t>(call.axes.size() - axis);
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < from->rank; ++i) (i < dim ? outer : inner) *= i == dim ? 1 : sizes[static_cast<size_t>(i)];
    sizes[static_cast<size_t>(dim)] = call.axes[axis].to;
    Owned made = empty(sizes, kU8);
    multiply_bytes(whole_matrix(call.filter, call.axes[axis]), outer, inner, from->data(), made->data());
    from = std::move(made);
  }
  return from;
}

// --- operators

bool is_nearest(Filter filter) { return filter == Filter::kNearest || filter == Filter::kNearestExact; }

/// Returns `found` as a result for `like`: with its element type, and channels-last if it is and the operator keeps that.
Owned result_like(Owned found, Tensor like, int64_t axes, bool keeps_format) {
  const Sizes sizes = sizes_of(found.get());
  const Sizes strides = keeps_format ? strides_as(like, axes, sizes) : contiguous_strides(sizes);
  if (found->dtype == like->dtype && strides == contiguous_strides(sizes)) return found;
  Owned made = empty(sizes, strides, like->dtype);
  copy_into(made.get(), found.get());
  return made;
}

Owned multiplied(const Call& call, Tensor given, bool transposed) {
  const bool is_double = given->dtype == kF64;
  Owned dense = contiguous(given, is_double ? kF64 : kF32);
  return is_double ? multiply_axes<double>(call, std::move(dense), transposed) : multiply_axes<float>(call, std::move(dense), transposed);
}

Owned resampled(Tensor self, const Call& call) {
  const auto axes = static_cast<int64_t>(call.axes.size());
  const bool is_byte = self->dtype == kU8;
  if (!is_float(self->dtype) && !(is_byte && (is_nearest(call.filter) || axes == 2))) fail_dtype(call.name, self->dtype);
  Owned found = is_byte && !is_nearest(call.filter) ? resample_bytes(call, contiguous(self)) : multiplied(call, self, false);
  return result_like(std::move(found), self, axes, axes > 1);
}

}  // namespace

Owned resize(Tensor self, int64_t axes, const int64_t* sizes, int64_t count, Filter filter, bool corners,
             std::initializer_list<const double*> scales, const char* name) {
  if (self->rank != axes + 2) fail_operator(name, "the tensor has another rank");
  return resampled(self, call_of(name, filter, corners, self->sizes() + 2, sizes, count, axes, scales.begin(), false, self->dtype == kU8));
}

Owned resize_gradient(Tensor grad, int64_t axes, const int64_t* sizes, int64_t count, const int64_t* input, int64_t input_count,
                      Filter filter, bool corners, std::initializer_list<const double*> scales, const char* name) {
  if (input_count != axes + 2) fail_operator(name, "the sizes of the images are those of another rank");
  const Call call = call_of(name, filter, corners, input + 2, sizes, count, axes, scales.begin(), true, false);
  Sizes wanted(input, input + 2);
  wanted.insert(wanted.end(), sizes, sizes + count);
  if (sizes_of(grad) != wanted) fail_operator(name, "the gradient has another shape than the result");
  const bool is_byte = grad->dtype == kU8 && is_nearest(filter);
  if (!is_float(grad->dtype) && !is_byte) fail_dtype(name, grad->dtype);
  const bool keeps_format = axes == 2 ? filter != Filter::kCubic && filter != Filter::kCubicArea : axes == 3 && !is_nearest(filter);
  return result_like(multiplied(call, grad, true), grad, axes, keeps_format);
}

}  // namespace wir
