// Operators of products with int8 matrices: of floats, and of 8-bit integers with sums of 32 bits.
#include "byte_panels.h"
#include "packed_calls.h"

namespace wir {
namespace {

constexpr const char* kName = "wrapper_ir::packed_addmm_int8.out";

/// Makes rows of bytes without sign, padded with zeros to whole words. Signed ones are moved by 128, and followed by a row of
/// 128: its product is what that adds to the sums.
Rows read_bytes(PackedCall& call) {
  const bool is_signed = call.mat1->dtype == kI8;
  if (!is_signed) return read_rows(call, kU8, 4);
  const int64_t padded = parts_of(call.k, 4) * 4, sizes[] = {call.m + 1, padded};
  call.first.reset(new_tensor(2, sizes, nullptr, kU8));
  const int64_t row = call.mat1->strides()[0], column = call.mat1->strides()[1];
  uint8_t* to = call.first->data();
  for (int64_t i = 0; i < call.m; ++i, to += padded) {
    const uint8_t* from = call.mat1->data() + i * row;
    if (column == 1) {
      for (int64_t p = 0; p < call.k; ++p) to[p] = static_cast<uint8_t>(from[p] ^ 0x80);
    } else {
      for (int64_t p = 0; p < call.k; ++p) to[p] = static_cast<uint8_t>(from[p * column] ^ 0x80);
    }
    for (int64_t p = call.k; p < padded; ++p) to[p] = 0;
  }
  std::memset(to, 128, static_cast<size_t>(padded));
  return {call.first->data(), padded};
}

template <class Finish> void multiply_bytes(const InterleavedProduct& product, const Finish& finish) {
#ifdef WIR_HAS_DOTS
  if (ByteDots::is_supported()) return multiply_interleaved<ByteDots>(product, 4, finish);
#endif
  multiply_interleaved<ByteQuads>(product, 4, finish);
}

/// Returns the sums of the row of 128, for each column.
Owned read_excess(const PackedCall& call, const Rows& rows) {
  const int64_t columns[] = {call.n};
  Owned excess(new_tensor(1, columns, nullptr, kI32));
  uint32_t* to = data_of<uint32_t>(excess.get());
  const InterleavedProduct product{1, call.n, call.k, rows.data + call.m * rows.step, rows.step, data_of<uint32_t>(call.packed)};
  multiply_bytes(product, [=](const SumsTile<uint32_t>& tile) {
    std::memcpy(to + tile.column, tile.sums, static_cast<size_t>(tile.columns) * sizeof *to);
  });
  return excess;
}

/// Multiplies bytes; `store(row, column, columns, sums)` receives rows of sums as int32_t. Few rows are one tile with the row of
/// 128, so that the matrix is read once.
template <class Store> void multiply_integers(PackedCall& call, const Store& store) {
  const Rows rows = read_bytes(call);
  const bool is_signed = call.mat1->dtype == kI8, is_one_tile = is_signed && call.m < tile_rows<float>();
  const Owned excess = is_signed && !is_one_tile ? read_excess(call, rows) : nullptr;
  const uint32_t* found = excess ? data_of<uint32_t>(excess.get()) : nullptr;
  const int64_t m = call.m, count = m + (is_one_tile ? 1 : 0);
  const InterleavedProduct product{count, call.n, call.k, rows.data, rows.step, data_of<uint32_t>(call.packed)};
  multiply_bytes(product, [=](const SumsTile<uint32_t>& tile) {
    const uint32_t* subtracted = is_one_tile ? tile.sums + m * tile.step : found != nullptr ? found + tile.column : nullptr;
    for (int64_t i = 0; i < tile.rows - (is_one_tile ? 1 : 0); ++i) {
      int32_t line[4 * kPanel];
      const uint32_t* sums = tile.sums + i * tile.step;
      if (subtracted) {
        for (int64_t j = 0; j < tile.columns; ++j) line[j] = static_cast<int32_t>(sums[j] - subtracted[j]);
      } else {
        std::memcpy(line, sums, static_cast<size_t>(tile.columns) * sizeof *line);
      }
      store(tile.row + i, tile.column, tile.columns, line);
    }
  });
}

void store_integers(PackedCall& call) {
  int32_t* out = data_of<int32_t>(call.to());
  const int64_t step = call.to_step();
  multiply_integers(call, [=](int64_t row, int64_t column, int64_t columns, const int32_t* sums) {
    std::memcpy(out + row * step + column, sums, static_cast<size_t>(columns) * sizeof *sums);
  });
}

template <class To> void store_scaled(PackedCall& call) {
  To* out = data_of<To>(call.to());
  const int64_t step = call.to_step();
  const float* bias = call.bias ? data_of<float>(call.bias.get()) : nullptr;
  const float* scales = call.scales ? data_of<float>(call.scales.get()) : nullptr;
  multiply_integers(call, [=](int64_t row, int64_t column, int64_t columns, const int32_t* sums) {
    finish_row(sums, columns, scales ? scales + column : nullptr, bias ? bias + column : nullptr, out + row * step + column);
  });
}

void multiply_packed(PackedCall& call) {
  const int32_t from = call.mat1->dtype, to = call.out->dtype;
  const bool is_bytes = from == kI8 || from == kU8;
  if (is_bytes && to == kI32) {
    if (call.bias || call.scales) fail_arguments(call.name, "a result of integers has no bias or scales");
    store_integers(call);
  } else if (is_bytes && to == kF32) {
    store_scaled<float>(call);
  } else if (is_bytes && to == kBF16) {
    store_scaled<BFloat16>(call);
  } else if (from == kF32 || from == kBF16 || from == kF16) {
    multiply_to_floats<FloatQuads>(call, 4, read_rows(call, kF32, 1));
  } else {
    fail_dtype(call.name, is_bytes ? to : from);
  }
}

int32_t multiply_bytes_unpacked(const char* name, Tensor out, Tensor self, Tensor mat2) {
  if (self->dtype != kI8 && self->dtype != kU8) fail_dtype(name, self->dtype);
  if (mat2->dtype != kI8 || out->dtype != kI32) {
    fail_arguments(name, "its arguments have other element types than int8 and int32");
  }
  if (mat2->rank != 2 || self->rank != 2 || mat2->sizes()[0] != self->sizes()[1]) {
    fail_arguments(name, "the sizes of its arguments do not match");
  }
  const int64_t k = mat2->sizes()[0], n = mat2->sizes()[1];
  const Owned packed = pack_bytes(data_of<int8_t>(mat2), {mat2->strides()[0], mat2->strides()[1]}, k, n);
  PackedCall call{name, out, self, packed.get()};
  prepare(call, n, 4);
  if (out->count > 0) store_integers(call);
  call.finish();
  return 0;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(packed_addmm_int8_out)(Tensor out, Tensor* bias, Tensor mat1, Tensor packed, Tensor* scales, int64_t columns) {
  PackedCall call{kName, out, mat1, packed};
  if (packed->dtype != kI8) fail_dtype(kName, packed->dtype);
  prepare(call, columns, 4);
  call.bias = read_columns(call, bias);
  call.scales = read_columns(call, scales);
  if (out->count > 0) multiply_packed(call);
  call.finish();
  return 0;
}

WIR_OPERATOR(_int_mm_out)(Tensor out, Tensor self, Tensor mat2) {
  return multiply_bytes_unpacked("aten::_int_mm.out", out, self, mat2);
}

WIR_OPERATOR(_int_mm)(Tensor self, Tensor mat2, Tensor* ret0) {
  if (self->rank != 2 || mat2->rank != 2) fail_arguments("aten::_int_mm", "its arguments are not matrices");
  const int64_t sizes[] = {self->sizes()[0], mat2->sizes()[1]};
  Owned out(new_tensor(2, sizes, nullptr, kI32));
  multiply_bytes_unpacked("aten::_int_mm", out.get(), self, mat2);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(_weight_int8pack_mm)(Tensor self, Tensor mat2, Tensor scales, Tensor* ret0) {
  constexpr const char* kWeightName = "aten::_weight_int8pack_mm";
  if (self->rank != 2 || mat2->rank != 2 || mat2->dtype != kI8 || mat2->sizes()[1] != self->sizes()[1]) {
    fail_arguments(kWeightName, "its arguments do not match");
  }
  if (self->dtype != kF32 && self->dtype != kBF16 && self->dtype != kF16) fail_dtype(kWeightName, self->dtype);
  const int64_t n = mat2->sizes()[0], k = mat2->sizes()[1], sizes[] = {self->sizes()[0], n};
  Owned out(new_tensor(2, sizes, nullptr, self->dtype));
  const Owned packed = pack_bytes(data_of<int8_t>(mat2), {mat2->strides()[1], mat2->strides()[0]}, k, n);
  PackedCall call{kWeightName, out.get(), self, packed.get()};
  prepare(call, n, 4);
  call.scales = read_columns(call, &scales);
  if (out->count > 0) multiply_packed(call);
  *ret0 = out.release();
  return 0;
}
