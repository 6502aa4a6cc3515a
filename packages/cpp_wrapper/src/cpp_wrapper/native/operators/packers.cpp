// Packing of matrices into panels, from any strides and element types.
#include "packers.h"

#include "operator.h"

namespace wir {
namespace {

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

/// Moves a 4 x 4 block of floats from columns to rows of a panel.
void transpose4(const float* from, int64_t step, float* to) {
  typedef int32_t Index __attribute__((vector_size(16)));
  const auto load = [&](int i) { return *reinterpret_cast<const Four*>(from + i * step); };
  const Four a = load(0), b = load(1), c = load(2), d = load(3);
  const Four ab = __builtin_shuffle(a, b, Index{0, 4, 1, 5}), cd = __builtin_shuffle(c, d, Index{0, 4, 1, 5});
  const Four ef = __builtin_shuffle(a, b, Index{2, 6, 3, 7}), gh = __builtin_shuffle(c, d, Index{2, 6, 3, 7});
  const auto store = [&](int i, Four value) { *reinterpret_cast<Four*>(to + i * kPanel) = value; };
  store(0, __builtin_shuffle(ab, cd, Index{0, 1, 4, 5}));
  store(1, __builtin_shuffle(ab, cd, Index{2, 3, 6, 7}));
  store(2, __builtin_shuffle(ef, gh, Index{0, 1, 4, 5}));
  store(3, __builtin_shuffle(ef, gh, Index{2, 3, 6, 7}));
}

/// Moves `count` numbers (a multiple of 4) of each of 16 columns to the rows of a panel.
void transpose_panel(const float* from, int64_t step, int64_t count, float* to) {
  for (int64_t p = 0; p < count; p += 4) {
    for (int64_t j = 0; j < kPanel; j += 4) transpose4(from + j * step + p, step, to + p * kPanel + j);
  }
}

/// Converts 16 numbers.
template <class To, class From> inline void convert_sixteen(const From* from, To* to) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<From, Half>) {
    _mm512_storeu_ps(to, _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
    return;
  }
#elif defined(__F16C__)
  if constexpr (std::is_same_v<From, Half>) {
    for (int i = 0; i < 16; i += 8) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
    return;
  }
#endif
  if constexpr (std::is_same_v<From, BFloat16>) {
    typedef uint16_t Bits __attribute__((vector_size(32), aligned(2), may_alias));
    typedef uint32_t Wide __attribute__((vector_size(64), aligned(4), may_alias));
    *reinterpret_cast<Wide*>(to) = __builtin_convertvector(*reinterpret_cast<const Bits*>(from), Wide) << 16;
  } else {
    for (int i = 0; i < 16; ++i) to[i] = converted<To>(from[i]);
  }
}

/// Packs one panel of `columns` valid columns.
template <class To, class From>
void pack_panel(const From* b, int64_t b_row, int64_t b_column, int64_t k, int64_t columns, To* to) {
  int64_t p = 0;
  if (columns == kPanel && b_column == 1) {
    for (; p < k; ++p) {
      if constexpr (std::is_same_v<To, From>) {
        std::memcpy(to + p * kPanel, b + p * b_row, kPanel * sizeof(To));
      } else {
        convert_sixteen(b + p * b_row, to + p * kPanel);
      }
    }
  } else if (columns == kPanel && b_row == 1 && std::is_same_v<To, float>) {
    if constexpr (std::is_same_v<From, float>) {
      p = k / 4 * 4;
      transpose_panel(b, b_column, p, to);
    } else if constexpr (std::is_same_v<To, float>) {
      float block[16 * kPanel];
      for (; p + 16 <= k; p += 16) {
        for (int64_t j = 0; j < kPanel; ++j) convert_sixteen(b + j * b_column + p, block + j * 16);
        transpose_panel(block, 16, 16, to + p * kPanel);
      }
    }
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < columns; ++j) to[p * kPanel + j] = converted<To>(b[p * b_row + j * b_column]);
    for (int64_t j = columns; j < kPanel; ++j) to[p * kPanel + j] = To{0};
  }
}

template <class To, class From>
void pack_all(const From* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, To* packed) {
  for (int64_t j = 0; j < n; j += kPanel) {
    pack_panel(b + j * b_column, b_row, b_column, k, std::min(kPanel, n - j), packed + j * k);
  }
}

}  // namespace

template <class T> void pack_panels(const T* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, T* packed) {
  pack_all(b, b_row, b_column, k, n, packed);
}

template <class To, class From>
void pack_converted(const Product<To>& of, int64_t row, int64_t column, int64_t k, int64_t n, To* packed) {
  const From* from = static_cast<const From*>(of.source) + row * of.b_row + column * of.b_column;
  pack_all(from, of.b_row, of.b_column, k, n, packed);
}

template <class To, class From> void convert_numbers(const From* from, int64_t count, To* to) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) convert_sixteen(from + i, to + i);
  for (; i < count; ++i) to[i] = converted<To>(from[i]);
}

template void pack_panels<float>(const float*, int64_t, int64_t, int64_t, int64_t, float*);
template void pack_panels<double>(const double*, int64_t, int64_t, int64_t, int64_t, double*);
template void pack_panels<uint32_t>(const uint32_t*, int64_t, int64_t, int64_t, int64_t, uint32_t*);
template void pack_panels<uint64_t>(const uint64_t*, int64_t, int64_t, int64_t, int64_t, uint64_t*);
#define WIR_PACKERS_OF(To, From)                                                                             \
  template void pack_converted<To, From>(const Product<To>&, int64_t, int64_t, int64_t, int64_t, To*);       \
  template void convert_numbers<To, From>(const From*, int64_t, To*);
WIR_PACKERS_OF(float, BFloat16)
WIR_PACKERS_OF(float, Half)
WIR_PACKERS_OF(float, int8_t)
WIR_PACKERS_OF(uint32_t, int16_t)
WIR_PACKERS_OF(uint32_t, int8_t)
WIR_PACKERS_OF(uint32_t, uint8_t)

}  // namespace wir
