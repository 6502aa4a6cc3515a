// Products of tensors of any strides and element types, by kernels over panels.
#include "products.h"

#include "matrix_checks.h"
#include "pair_products.h"
#include "panels.h"

namespace wir {
namespace {

/// A batch of matrices: its steps are in elements, those of dimensions that it repeats are 0.
struct Matrices {
  unsigned char* data = nullptr;
  int64_t batch = 0, row = 0, column = 0;

  template <class T> T* at(int64_t index) const { return reinterpret_cast<T*>(data) + index * batch; }
  void transpose() { std::swap(row, column); }
};

/// The batch of products out = beta * self + alpha * a @ b.
struct Call {
  const char* name;
  int32_t dtype;
  int64_t batches, m, n, k;
  Matrices out, self, a, b;
  double beta, alpha;
  bool has_self, self_is_out;

  void transpose() {
    std::swap(m, n), std::swap(a, b);
    out.transpose(), self.transpose(), a.transpose(), b.transpose();
  }
};

/// Reads the layout of a tensor that is broadcast to a batch of matrices.
Matrices read(const char* name, Tensor tensor, int64_t batches, int64_t rows, int64_t columns, bool may_repeat) {
  const int64_t wanted[3] = {batches, rows, columns};
  int64_t steps[3] = {};
  if (tensor->rank > 3) fail_arguments(name, "an argument has too many dimensions");
  for (int64_t i = 0; i < tensor->rank; ++i) {
    const int64_t place = 3 - tensor->rank + i, size = tensor->sizes()[i];
    if (size == wanted[place]) {
      steps[place] = size == 1 ? 0 : tensor->strides()[i];
    } else if (size != 1 || !may_repeat) {
      fail_arguments(name, "the sizes of its arguments do not match");
    }
  }
  return {tensor->data(), steps[0], steps[1], steps[2]};
}

template <class To, class From> void copy_rows(const From* from, int64_t row, int64_t column, int64_t m, int64_t n, To* to) {
  for (int64_t i = 0; i < m; ++i) {
    const From* source = from + i * row;
    if constexpr (!std::is_same_v<To, From>) {
      if (column == 1) {
        convert_numbers(source, n, to + i * n);
        continue;
      }
    }
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = static_cast<To>(converted<To>(source[j * column]));
  }
}

/// Writes `beta * self + alpha * sums` of a row; `self`: null for zeros. Steps are between elements.
template <class S>
void combine_row(const float* sums, int64_t count, float alpha, const S* self, int64_t self_step, float beta, S* out,
                 int64_t step) {
  int64_t j = 0;
  if (step == 1 && (self == nullptr || self_step == 1)) {
    for (; j + kWidth <= count; j += kWidth) {
      const Floats values = load_lanes(sums + j) * alpha;
      store_lanes(out + j, self != nullptr ? load_lanes(self + j) * beta + values : values);
    }
  }
  for (; j < count; ++j) {
    const float value = alpha * sums[j];
    out[j * step] = converted<S>(self != nullptr ? beta * converted<float>(self[j * self_step]) + value : value);
  }
}

/// Writes `beta * self + product` to `out` of any layout.
template <class T, class S> void combine(const Call& call, int64_t index, const T* product) {
  S* out = call.out.at<S>(index);
  const S* self = call.has_self ? call.self.at<S>(index) : nullptr;
  const T beta = static_cast<T>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, T>>(call.beta));
  for (int64_t i = 0; i < call.m; ++i) {
    if constexpr (is_small_float<S>) {
      const S* line = self ? self + i * call.self.row : nullptr;
      combine_row(product + i * call.n, call.n, 1, line, call.self.column, beta, out + i * call.out.row, call.out.column);
      continue;
    }
    for (int64_t j = 0; j < call.n; ++j) {
      T value = product[i * call.n + j];
      if (self) value += beta * converted<T>(self[i * call.self.row + j * call.self.column]);
      out[i * call.out.row + j * call.out.column] = converted<S>(value);
    }
  }
}

/// Copies `self`, broadcast, to `out`, whose rows are contiguous.
template <class T> void fill(const Call& call, T* out, const T* self) {
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) out[i * call.out.row + j] = self[i * call.self.row + j * call.self.column];
  }
}

#ifdef WIR_HAS_DOTS
/// Computes one product of a batch of bfloat16.
void multiply_one_of_pairs(const Call& call, int64_t index) {
  auto* out = call.out.at<BFloat16>(index);
  const auto* self = call.has_self ? call.self.at<BFloat16>(index) : nullptr;
  const auto alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
  const PairMatrix a{call.a.at<BFloat16>(index), call.a.row, call.a.column};
  const PairMatrix b{call.b.at<BFloat16>(index), call.b.row, call.b.column};
  multiply_pairs({call.m, call.n, call.k, a, b}, [&](const SumsTile<float>& tile) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t row = tile.row + i;
      const BFloat16* line = self ? self + row * call.self.row + tile.column * call.self.column : nullptr;
      combine_row(tile.sums + i * tile.step, tile.columns, alpha, line, call.self.column, beta,
                  out + row * call.out.row + tile.column * call.out.column, call.out.column);
    }
  });
}
#endif

/// Computes one product of a batch. T: type of the sums, S: type of the tensors.
template <class T, class S> void multiply_one(const Call& call, int64_t index, bool parallel) {
#ifdef WIR_HAS_DOTS
  if constexpr (std::is_same_v<S, BFloat16>) {
    if (has_pair_products()) return multiply_one_of_pairs(call, index);
  }
#endif
  constexpr bool kSame = std::is_same_v<T, S>;
  const auto scalar = [](double value) {
    return static_cast<T>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, T>>(value));
  };
  const bool direct = kSame && (call.out.column == 1 || call.n == 1);
  Product<T> product{};
  product.m = call.m, product.n = call.n, product.k = call.k, product.alpha = scalar(call.alpha);
  product.b_row = call.b.row, product.b_column = call.b.column;
  Scratch converted_rows(kSame ? 0 : call.m * call.k * static_cast<int64_t>(sizeof(T)));
  if constexpr (kSame) {
    product.a = call.a.at<T>(index), product.a_row = call.a.row, product.a_column = call.a.column;
    product.b = call.b.at<T>(index);
  } else {
    copy_rows(call.a.at<S>(index), call.a.row, call.a.column, call.m, call.k, converted_rows.as<T>());
    product.a = converted_rows.as<T>(), product.a_row = call.k, product.a_column = 1;
    product.source = call.b.at<S>(index), product.packer = pack_converted<T, S>;
  }
  Scratch result(direct ? 0 : call.m * call.n * static_cast<int64_t>(sizeof(T)));
  product.c = result.as<T>(), product.c_row = call.n;
  if constexpr (kSame) {
    if (direct) {
      product.c = call.out.at<T>(index), product.c_row = call.out.row;
      if (call.has_self) {
        const T* self = call.self.at<T>(index);
        const bool is_bias = !call.self_is_out && call.self.row == 0 && call.self.column == 1 && call.beta == 1;
        if (is_bias) {
          product.bias = self;
        } else {
          if (!call.self_is_out) fill(call, product.c, self);
          product.beta = scalar(call.beta);
        }
      }
    }
  }
  parallel ? multiply_parallel(product) : multiply(product);
  if (!direct) combine<T, S>(call, index, product.c);
}

template <class T, class S> void multiply_all(Call call) {
  // A product with one column is one with one row; a result in columns is transposed.
  const bool is_column = call.n == 1 && call.m > 1, in_columns = call.out.column != 1 && call.out.row == 1 && call.n > 1;
  if (is_column || in_columns) call.transpose();
  constexpr int64_t kThreadWork = 1 << 16;
  const int64_t work = call.m * call.n * std::max<int64_t>(call.k, 1);
  if (call.batches == 1) return multiply_one<T, S>(call, 0, true);
  parallel_for(call.batches, std::max<int64_t>(1, kThreadWork / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiply_one<T, S>(call, i, false);
  });
}

/// Computes complex products as four products of real and imaginary parts. `conjugates`: the parts of `a` are conjugated.
template <class T> void multiply_complex(const Call& call, bool conjugates) {
  const int64_t count = call.m * call.n;
  for (int64_t index = 0; index < call.batches; ++index) {
    Scratch sums(2 * count * static_cast<int64_t>(sizeof(T)));
    T *real = sums.as<T>(), *imaginary = real + count;
    const T *a = call.a.at<T>(2 * index), *b = call.b.at<T>(2 * index);
    Product<T> product{};
    product.m = call.m, product.n = call.n, product.k = call.k, product.c_row = call.n;
    product.a_row = 2 * call.a.row, product.a_column = 2 * call.a.column;
    product.b_row = 2 * call.b.row, product.b_column = 2 * call.b.column;
    for (int part = 0; part < 4; ++part) {
      const bool left = part & 1, right = part >> 1;
      product.a = a + left, product.b = b + right, product.c = left == right ? real : imaginary;
      product.alpha = left && (right != conjugates) ? -1 : 1;
      product.beta = part == 0 || part == 1 ? 0 : 1;
      multiply_parallel(product);
    }
    for (int64_t i = 0; i < call.m; ++i) {
      for (int64_t j = 0; j < call.n; ++j) {
        T* out = call.out.at<T>(2 * index) + 2 * (i * call.out.row + j * call.out.column);
        const T alpha = static_cast<T>(call.alpha);
        T sum[2] = {alpha * real[i * call.n + j], alpha * imaginary[i * call.n + j]};
        if (call.has_self) {
          const T* self = call.self.at<T>(2 * index) + 2 * (i * call.self.row + j * call.self.column);
          for (int part = 0; part < 2; ++part) sum[part] += static_cast<T>(call.beta) * self[part];
        }
        out[0] = sum[0], out[1] = sum[1];
      }
    }
  }
}

void multiply_typed(const Call& call, bool conjugates) {
  switch (call.dtype) {
    case kF32: return multiply_all<float, float>(call);
    case kF64: return multiply_all<double, double>(call);
    case kF16: return multiply_all<float, Half>(call);
    case kBF16: return multiply_all<float, BFloat16>(call);
    case kI64: return multiply_all<uint64_t, uint64_t>(call);
    case kI32: return multiply_all<uint32_t, uint32_t>(call);
    case kI16: return multiply_all<uint32_t, int16_t>(call);
    case kI8: return multiply_all<uint32_t, int8_t>(call);
    case kU8: return multiply_all<uint32_t, uint8_t>(call);
    case kC64: return multiply_complex<float>(call, conjugates);
    case kC128: return multiply_complex<double>(call, conjugates);
    default: fail_dtype(call.name, call.dtype);
  }
}

bool same_layout(const Matrices& left, const Matrices& right) {
  return left.data == right.data && left.batch == right.batch && left.row == right.row && left.column == right.column;
}

/// Views of vectors as matrices with one column or row.
struct Shape {
  int64_t batches, m, n, k;
};

int32_t compute(const char* name, Tensor out, const Operands& of, const Shape& shape, const Matrices& to,
                const Matrices& a, const Matrices& b) {
  if (of.a->dtype != out->dtype || of.b->dtype != out->dtype || (of.self && of.self->dtype != out->dtype)) {
    fail_arguments(name, "its arguments have different element types");
  }
  Call call{name, out->dtype, shape.batches, shape.m, shape.n, shape.k, to, {}, a, b, of.beta, of.alpha, false, false};
  Owned self_copy, a_copy, b_copy;
  const auto separate = [&](Tensor tensor, Matrices& view, Owned& copy) {
    if (!overlaps(out, tensor)) return;
    copy.reset(clone_with_strides(tensor));
    view.data = copy->data();
  };
  if (of.self) {
    const bool is_vector = of.self->rank == 1 && out->rank == 1;  // addmv: a number for each row
    call.self = is_vector ? read(name, of.self, 1, 1, shape.m, true)
                          : read(name, of.self, shape.batches, shape.m, shape.n, true);
    if (is_vector) call.self.transpose();
    call.has_self = of.beta != 0;
    call.self_is_out = same_layout(call.self, call.out);
    if (call.has_self && !call.self_is_out) separate(of.self, call.self, self_copy);
  }
  separate(of.a, call.a, a_copy), separate(of.b, call.b, b_copy);
  if (out->count > 0) multiply_typed(call, of.conjugates);
  return 0;
}

constexpr const char* kWrongRank = "its arguments have the wrong number of dimensions";

}  // namespace

int32_t multiply_matrices(const char* name, Tensor out, const Operands& of, int64_t rank) {
  Tensor a = of.a, b = of.b;
  if (a->rank != rank || b->rank != rank || out->rank != rank) fail_arguments(name, kWrongRank);
  const int64_t batches = rank == 3 ? a->sizes()[0] : 1;
  const Shape shape{batches, a->sizes()[rank - 2], b->sizes()[rank - 1], a->sizes()[rank - 1]};
  return compute(name, out, of, shape, read(name, out, batches, shape.m, shape.n, false),
                 read(name, a, batches, shape.m, shape.k, false), read(name, b, batches, shape.k, shape.n, false));
}

int32_t multiply_vector(const char* name, Tensor out, const Operands& of) {
  Tensor a = of.a, b = of.b;
  if (b->rank != 1 || out->rank != a->rank - 1) fail_arguments(name, kWrongRank);
  const int64_t m = a->rank == 2 ? a->sizes()[0] : 1, k = b->sizes()[0];
  Matrices vector = read(name, b, 1, 1, k, false), to = read(name, out, 1, 1, m, false);
  vector.transpose(), to.transpose();
  return compute(name, out, of, {1, m, 1, k}, to, read(name, a, 1, m, k, false), vector);
}

}  // namespace wir
