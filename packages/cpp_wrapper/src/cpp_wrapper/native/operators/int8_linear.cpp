// Linear layers with int8 weights: rows are rounded, multiplied, scaled and activated in one pass.
#include "byte_panels.h"
#include "epilogue.h"
#include "packed_calls.h"
#include "rounded_rows.h"

namespace wir {
namespace {

/// Rows of floats that are multiplied as they are, rounded to 16 bits if that is faster, or rounded to 8 bits.
enum class Rounding : uint8_t { kExact, kFixed, kInt8 };

/// A call with what follows its sums: `activation(sums * row_scales * scales + bias)`.
struct Layer : PackedCall {
  Rounding rounding = Rounding::kExact;
  Owned row_scales = nullptr;
  Epilogue end = {};
};

/// Copies a number for each of some columns to whole panels; null: copies of `other`.
const float* padded_columns(Tensor from, int64_t column, int64_t columns, float other, float* to) {
  if (from != nullptr && columns % kPanel == 0) return data_of<float>(from) + column;
  std::fill_n(to, 4 * kPanel, other);
  if (from != nullptr) std::copy_n(data_of<float>(from) + column, columns, to);
  return to;
}

/// Columns of a group of panels, with their scales and bias, where results are stored.
struct Columns {
  Columns(const Layer& of, int64_t first, int64_t count)
      : column(first), columns(count), scales(padded_columns(of.scales.get(), first, count, 1, own_scales)),
        bias(padded_columns(of.bias.get(), first, count, 0, own_bias)), end(of.end) {}
  Columns(const Columns&) = delete;
  /// Writes the columns of rows; `read(i, j)` returns the sums of a vector of a row from column `j` on.
  template <class Read> void finish_rows(int64_t rows, const Read& read, float* to, int64_t step) const {
    const Lanes<float> low = Lanes<float>{} + end.low, high = Lanes<float>{} + end.high;
    for (int64_t j = 0; j < columns; j += kLanes<float>) {
      const Lanes<float> scale = *reinterpret_cast<const Lanes<float>*>(scales + j);
      const Lanes<float> term = *reinterpret_cast<const Lanes<float>*>(bias + j);
      const int64_t count = std::min<int64_t>(kLanes<float>, columns - j);
      for (int64_t i = 0; i < rows; ++i) {
        // Bounds that are infinite change nothing.
        const Lanes<float> result = clamped(read(i, j) * scale + term, low, high);
        if (count == kLanes<float>) {
          *reinterpret_cast<Lanes<float>*>(to + i * step + j) = result;
        } else {
          std::memcpy(to + i * step + j, &result, static_cast<size_t>(count) * sizeof *to);
        }
      }
    }
    for (int64_t i = 0; !end.is_short() && i < rows; ++i) finish_numbers(end, nullptr, columns, to + i * step);
  }
  int64_t column, columns;
  const float *scales, *bias;

 private:
  const Epilogue& end;
  alignas(64) float own_scales[4 * kPanel], own_bias[4 * kPanel];
};

/// Returns the format of rows that this processor multiplies.
RowFormat row_format() {
#ifdef WIR_HAS_DOTS
  if (ByteDots::is_supported()) return RowFormat::kBytes;
#endif
  return RowFormat::kPairs;
}

/// Sums the columns of some panels, times 128.
void sum_columns(const uint32_t* b, int64_t words, int64_t panels, uint32_t* sums) {
#ifdef WIR_HAS_DOTS
  const auto factor = (Lanes<uint32_t>)_mm512_set1_epi32(static_cast<int32_t>(0x80808080));
  for (int64_t i = 0; i < panels; ++i, b += words * kPanel, sums += kPanel) {
    Lanes<uint32_t> parts[4] = {};
    int64_t p = 0;
    for (; p + 4 <= words; p += 4) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) ByteDots::add(parts[q], factor, *reinterpret_cast<const Lanes<uint32_t>*>(b + (p + q) * kPanel));
    }
    for (; p < words; ++p) ByteDots::add(parts[0], factor, *reinterpret_cast<const Lanes<uint32_t>*>(b + p * kPanel));
    *reinterpret_cast<Lanes<uint32_t>*>(sums) = parts[0] + parts[1] + (parts[2] + parts[3]);
  }
#else
  static_cast<void>(b), static_cast<void>(words), static_cast<void>(panels), static_cast<void>(sums);
#endif
}

/// Writes the rows of a tile of sums. `excess`: what the shift of the bytes has added to each column; null: nothing.
void finish_tile(const Layer& of, const IntegerRows& rows, const Columns& at, const SumsTile<uint32_t>& tile,
                 const uint32_t* excess) {
  float* to = data_of<float>(of.to()) + tile.row * of.to_step() + at.column;
  const float* scales = rows.scales ? rows.scales + tile.row : nullptr;
  const auto exact = [=](int64_t row, int64_t j) __attribute__((always_inline)) {
    const Lanes<uint32_t> sums = *reinterpret_cast<const Lanes<uint32_t>*>(tile.sums + row * tile.step + j);
    return excess ? sums - *reinterpret_cast<const Lanes<uint32_t>*>(excess + j) : sums;
  };
  const auto floats_of = [](Lanes<uint32_t> numbers) { return __builtin_convertvector((Lanes<int32_t>)numbers, Lanes<float>); };
  if (rows.planes == 2) {
    at.finish_rows(tile.rows, [=](int64_t i, int64_t j) __attribute__((always_inline)) {
      const Lanes<float> high = floats_of(exact(2 * i, j)) * 256.0f;
      return (high + floats_of(*reinterpret_cast<const Lanes<uint32_t>*>(tile.sums + (2 * i + 1) * tile.step + j))) * scales[i];
    }, to, of.to_step());
  } else if (scales) {
    at.finish_rows(tile.rows, [=](int64_t i, int64_t j) __attribute__((always_inline)) {
      return floats_of(exact(i, j)) * scales[i];
    }, to, of.to_step());
  } else {
    at.finish_rows(tile.rows, [=](int64_t i, int64_t j) __attribute__((always_inline)) { return floats_of(exact(i, j)); },
                   to, of.to_step());
  }
}

/// Multiplies rows of bytes. Those of dot products have no sign: they are moved by 128, and one more row is 128. Few rows
/// are one tile with it, so that the matrix is read once.
template <class Kind> void multiply_bytes(const Layer& of, const IntegerRows& rows) {
  const int64_t highest_tile = tile_rows<float>() / rows.planes, tiles = parts_of(of.m, highest_tile);
  const bool has_row = is_dots<Kind> && of.m * rows.planes < tile_rows<float>();
  const int64_t highest = parts_of(of.m, tiles) * rows.planes + (has_row ? 1 : 0), words = parts_of(of.k, 4);
  const int64_t width = tile_panels<float>(static_cast<int>(highest));
  const auto* packed = data_of<uint32_t>(of.packed);
  split_product(parts_of(of.n, kPanel), tiles, of.m * of.n * of.k, [&](const ProductPart& part) {
    alignas(64) uint32_t sums[kTileRows * 4 * kPanel], excess[4 * kPanel];
    InterleavedTile tile{nullptr, rows.step, nullptr, words * kPanel, words, 0, sums};
    for (int64_t first = part.first_panel; first < part.last_panel;) {
      const bool is_wide = part.last_panel - first >= width;
      const int64_t taken = is_wide ? width : 1, column = first * kPanel, step = taken * kPanel;
      const Columns at(of, column, std::min(of.n - column, step));
      tile.b = packed + first * words * kPanel;
      if (is_dots<Kind> && !has_row) sum_columns(tile.b, words, taken, excess);
      for (int64_t i = part.first_tile; i < part.last_tile; ++i) {
        const int64_t row = of.m * i / tiles, count = of.m * (i + 1) / tiles - row;
        const int64_t height = count * rows.planes + (has_row ? 1 : 0);
        tile.a = rows.data + row * rows.planes * rows.step;
        const auto& kernels = kInterleavedKernels<Kind>;
        (!is_wide ? kernels.narrow : height == highest ? kernels.wide : kernels.lower)[height - 1](tile);
        const uint32_t* shift = !is_dots<Kind> ? nullptr : has_row ? sums + (height - 1) * step : excess;
        finish_tile(of, rows, at, {row, column, count, at.columns, sums, step}, shift);
      }
      first += taken;
    }
  });
}

void multiply_bytes(const Layer& of, const IntegerRows& rows) {
#ifdef WIR_HAS_DOTS
  if (row_format() == RowFormat::kBytes) return multiply_bytes<ByteDots>(of, rows);
#endif
  multiply_bytes<SignedPairs>(of, rows);
}

/// Multiplies rows that are 8-bit integers already.
void multiply_integers(Layer& of) {
  const RowFormat format = row_format();
  const int64_t step = row_bytes(of.k, format);
  const Rows given = read_rows(of, kI8, 1);
  const Scratch scratch((of.m + 1) * step);
  auto* to = scratch.as<unsigned char>();
  for (int64_t i = 0; i < of.m; ++i) {
    const auto* from = reinterpret_cast<const int8_t*>(given.data + i * given.step);
    int64_t p = 0;
    for (; p + kLanes<int32_t> <= of.k; p += kLanes<int32_t>) store_integers(load_bytes(from + p), format, p, to + i * step);
    if (p == of.k) continue;
    int8_t last[kLanes<int32_t>] = {};
    std::memcpy(last, from + p, static_cast<size_t>(of.k - p));
    store_integers(load_bytes(last), format, p, to + i * step);
  }
  std::memset(to + of.m * step, 128, static_cast<size_t>(step));
  multiply_bytes(of, {to, step, 1, of.row_scales ? data_of<float>(of.row_scales.get()) : nullptr});
}

/// Rounds rows to 8 bits and multiplies them; `is_fixed`: to 16 bits. Returns false if a row cannot be rounded.
bool multiply_rounded(Layer& of, const Rows& given, bool is_fixed) {
  const RowFormat format = row_format();
  const int64_t step = row_bytes(of.k, format), planes = is_fixed ? 2 : 1, room = (of.m * planes + 1) * step;
  const Scratch scratch(room + of.m * static_cast<int64_t>(sizeof(float)));
  auto* to = scratch.as<unsigned char>();
  auto* scales = reinterpret_cast<float*>(to + room);
  std::atomic<bool> is_rounded{true};
  parallel_for(of.m, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(of.k, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto* x = reinterpret_cast<const float*>(given.data + i * given.step);
      unsigned char* row = to + i * planes * step;
      scales[i] = is_fixed ? round_to_pairs(x, of.k, row, row + step) : round_row(x, of.k, format, row);
      if (is_fixed && scales[i] != scales[i]) is_rounded = false;
    }
  });
  if (!is_rounded) return false;
  std::memset(to + of.m * planes * step, 128, static_cast<size_t>(step));
  multiply_bytes(of, {to, step, planes, scales});
  return true;
}

/// The matrix of a product of floats: its panels, their words, and scales of the columns.
struct Quads {
  const uint32_t* words;
  int64_t depth;
  const float* scales;
};
/// A `Packer`: the matrix in floats, times the scales.
void widen_panels(const Product<float>& of, int64_t row, int64_t column, int64_t k, int64_t n, float* packed) {
  const auto& from = *static_cast<const Quads*>(of.source);
  for (int64_t j = 0; j < n; j += kPanel) {
    alignas(64) float scales[kPanel] = {};
    for (int64_t i = 0; i < std::min(kPanel, n - j); ++i) scales[i] = from.scales ? from.scales[column + j + i] : 1.0f;
    const uint32_t* panel = from.words + (column + j) * from.depth;
    for (int64_t p = row; p < row + k; ++p, packed += kPanel) {
      const uint32_t* words = panel + p / 4 * kPanel;
      for (int64_t i = 0; i < kPanel; i += kLanes<float>) {
        const auto bytes = signed_bytes(*reinterpret_cast<const Lanes<uint32_t>*>(words + i), static_cast<int>(p % 4));
        *reinterpret_cast<Lanes<float>*>(packed + i) =
            __builtin_convertvector(bytes, Lanes<float>) * *reinterpret_cast<const Lanes<float>*>(scales + i);
      }
    }
  }
}

/// Multiplies many rows of floats: each panel is widened once, in the cache.
void multiply_widened(Layer& of, const Rows& rows) {
  const Quads quads{data_of<uint32_t>(of.packed), parts_of(of.k, 4), of.scales ? data_of<float>(of.scales.get()) : nullptr};
  Product<float> product{};
  product.m = of.m, product.n = of.n, product.k = of.k, product.packer = widen_panels, product.source = &quads;
  product.a = reinterpret_cast<const float*>(rows.data), product.a_row = rows.step / static_cast<int64_t>(sizeof(float));
  product.a_column = 1, product.c = data_of<float>(of.to()), product.c_row = of.to_step();
  product.bias = of.bias ? data_of<float>(of.bias.get()) : nullptr;
  product.relu = of.end.clamps() && of.end.low == 0 && of.end.high == std::numeric_limits<float>::infinity();
  multiply_parallel(product);
  if (product.relu || of.end.activation == Activation::kNone) return;
  parallel_for(of.m, std::max<int64_t>(1, (1 << 14) / of.n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) finish_numbers(of.end, nullptr, of.n, product.c + i * product.c_row);
  });
}

/// Multiplies few rows of floats: the matrix is widened in registers.
void multiply_narrow(Layer& of, const Rows& rows) {
  const InterleavedProduct product{of.m, of.n, of.k, rows.data, rows.step, data_of<uint32_t>(of.packed)};
  multiply_interleaved<FloatQuads>(product, 4, [&](const SumsTile<float>& tile) {
    const Columns at(of, tile.column, tile.columns);
    at.finish_rows(tile.rows, [=](int64_t i, int64_t j) {
      return *reinterpret_cast<const Lanes<float>*>(tile.sums + i * tile.step + j);
    }, data_of<float>(of.to()) + tile.row * of.to_step() + tile.column, of.to_step());
  });
}

void multiply_layer(Layer& of) {
  constexpr int64_t kNarrowRows = 2 * kTileRows, kFixedDepth = 1 << 16;
  if (of.mat1->dtype == kI8) return multiply_integers(of);
  const Rows rows = read_rows(of, kF32, 1);
  if (of.rounding == Rounding::kInt8) return static_cast<void>(multiply_rounded(of, rows, false));
  const bool may_round = of.rounding == Rounding::kFixed && row_format() == RowFormat::kBytes && of.k <= kFixedDepth;
  if (may_round && multiply_rounded(of, rows, true)) return;
  of.m <= kNarrowRows ? multiply_narrow(of, rows) : multiply_widened(of, rows);
}

/// Arguments of a layer beside its matrices.
struct LayerRequest {
  Tensor *scales, *row_scales, *bias;
  const char *rows, *activation;
  double low, high;
};

void read_request(Layer& of, const LayerRequest& request) {
  constexpr std::pair<const char*, Rounding> kRoundings[] = {
      {"exact", Rounding::kExact}, {"fixed", Rounding::kFixed}, {"int8", Rounding::kInt8}};
  const bool is_integer = of.mat1->dtype == kI8;
  if (!is_integer && of.mat1->dtype != kF32) fail_dtype(of.name, of.mat1->dtype);
  if (of.out->dtype != kF32) fail_dtype(of.name, of.out->dtype);
  bool is_known = false;
  for (const auto& [name, rounding] : kRoundings) {
    if (std::strcmp(name, request.rows) == 0) of.rounding = rounding, is_known = true;
  }
  if (!is_known) fail_arguments(of.name, "the kind of rows is not one of exact, fixed, int8");
  if (is_integer && of.rounding != Rounding::kExact) fail_arguments(of.name, "rows of integers are not rounded");
  if (!set_activation(request.activation, request.low, request.high, of.end)) fail_arguments(of.name, kOtherActivation);
  of.bias = read_columns(of, request.bias);
  of.scales = read_columns(of, request.scales);
  if (request.row_scales == nullptr) return;
  Tensor scales = *request.row_scales;
  if (!is_integer) fail_arguments(of.name, "only rows of integers have scales");
  if (scales->count != of.m || scales->rank < 1 || scales->sizes()[0] != of.m) {
    fail_arguments(of.name, "the scales of rows need a number for each row");
  }
  of.row_scales = overlaps(of.out, scales) ? converted_copy(scales, kF32) : contiguous(scales, kF32);
}

void run_layer(Layer& of, const LayerRequest& request, int64_t columns) {
  prepare(of, columns, 4);
  read_request(of, request);
  if (of.out->count > 0) multiply_layer(of);
  of.finish();
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(int8_linear)(Tensor input, Tensor weight, Tensor* scales, Tensor* row_scales, Tensor* bias, const char* rows,
                          const char* activation, double low, double high, Tensor* ret0) {
  constexpr const char* kName = "wrapper_ir::int8_linear";
  if (input->rank != 2 || weight->rank != 2 || weight->sizes()[1] != input->sizes()[1]) {
    fail_arguments(kName, "the sizes of its arguments do not match");
  }
  if (weight->dtype != kI8) fail_dtype(kName, weight->dtype);
  const int64_t n = weight->sizes()[0], k = weight->sizes()[1], sizes[] = {input->sizes()[0], n};
  Owned out(new_tensor(2, sizes, nullptr, kF32));
  const Owned packed = pack_bytes(data_of<int8_t>(weight), {weight->strides()[1], weight->strides()[0]}, k, n);
  Layer layer{{kName, out.get(), input, packed.get()}};
  run_layer(layer, {scales, row_scales, bias, rows, activation, low, high}, n);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(packed_int8_linear_out)(Tensor out, Tensor input, Tensor packed, Tensor* scales, Tensor* row_scales,
                                     Tensor* bias, int64_t columns, const char* rows, const char* activation, double low,
                                     double high) {
  constexpr const char* kName = "wrapper_ir::packed_int8_linear.out";
  if (packed->dtype != kI8) fail_dtype(kName, packed->dtype);
  Layer layer{{kName, out, input, packed}};
  run_layer(layer, {scales, row_scales, bias, rows, activation, low, high}, columns);
  return 0;
}
