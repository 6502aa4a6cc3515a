// Inner kernels over panels whose rows are interleaved: two of 16 bits, or four of 8 bits, in each 32-bit word.
#pragma once
#include "lanes.h"
#include "panels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace wir {
namespace {  // each file has its own, as in tiles.h

/// Operands of a tile. Rows of `a` are contiguous, `a_step` bytes apart. A row of a panel has 16 words; `rest` numbers of the one
/// after `words` belong to the matrix. The tile is stored in `sums`, with a step of all its columns.
struct InterleavedTile {
  const unsigned char* a;
  int64_t a_step;
  const uint32_t* b;
  int64_t panel_step, words, rest;
  void* sums;
};
using InterleavedKernel = void (*)(const InterleavedTile&);

inline Lanes<float> as_floats(Lanes<uint32_t> bits) { return (Lanes<float>)bits; }

/// Factors and words of a kind of products: float by bfloat16.
struct BFloatPairs {
  using Sum = float;
  using Factor = float;
  static constexpr int kRows = 2;
  static Lanes<float> row(Lanes<uint32_t> words, int index) { return as_floats(index == 0 ? words << 16 : words & 0xFFFF0000u); }
};

/// Float by half.
struct HalfPairs {
  using Sum = float;
  using Factor = float;
  static constexpr int kRows = 2;
  static Lanes<float> row(Lanes<uint32_t> words, int index) {
    typedef uint16_t Bits __attribute__((vector_size(kVectorBytes / 2)));
    const Bits bits = __builtin_convertvector(index == 0 ? words & 0xFFFFu : words >> 16, Bits);
#if defined(__AVX512F__)
    return (Lanes<float>)_mm512_maskz_cvtph_ps(0xFFFF, (__m256i)bits);
#elif defined(__F16C__) && defined(__AVX2__)
    return (Lanes<float>)_mm256_cvtph_ps((__m128i)bits);
#else
    Lanes<float> result;
    for (int i = 0; i < kLanes<float>; ++i) {
      const uint16_t one = bits[i];
      Half value;
      std::memcpy(&value, &one, sizeof value);
      result[i] = static_cast<float>(value);
    }
    return result;
#endif
  }
};

inline Lanes<int32_t> signed_bytes(Lanes<uint32_t> words, int index) {
  return (Lanes<int32_t>)(words << (24 - 8 * index)) >> 24;
}

/// Float by int8.
struct FloatQuads {
  using Sum = float;
  using Factor = float;
  static constexpr int kRows = 4;
  static Lanes<float> row(Lanes<uint32_t> words, int index) {
    return __builtin_convertvector(signed_bytes(words, index), Lanes<float>);
  }
};

/// Uint8 by int8.
struct ByteQuads {
  using Sum = uint32_t;
  using Factor = uint8_t;
  static constexpr int kRows = 4;
  static Lanes<uint32_t> row(Lanes<uint32_t> words, int index) { return (Lanes<uint32_t>)signed_bytes(words, index); }
};

/// Sums of two products of 16-bit integers in each word.
inline Lanes<uint32_t> multiply_pairs(Lanes<uint32_t> left, Lanes<uint32_t> right) {
#if defined(__AVX512BW__)
  return (Lanes<uint32_t>)_mm512_madd_epi16((__m512i)left, (__m512i)right);
#elif defined(__AVX512F__)
  const auto low = [](Lanes<uint32_t> words) { return (Lanes<int32_t>)(words << 16) >> 16; };
  return (Lanes<uint32_t>)(low(left) * low(right) + ((Lanes<int32_t>)left >> 16) * ((Lanes<int32_t>)right >> 16));
#elif defined(__AVX2__)
  return (Lanes<uint32_t>)_mm256_madd_epi16((__m256i)left, (__m256i)right);
#elif defined(__SSE2__)
  return (Lanes<uint32_t>)_mm_madd_epi16((__m128i)left, (__m128i)right);
#else
  const auto low = [](Lanes<uint32_t> words) { return (Lanes<int32_t>)(words << 16) >> 16; };
  return (Lanes<uint32_t>)(low(left) * low(right) + ((Lanes<int32_t>)left >> 16) * ((Lanes<int32_t>)right >> 16));
#endif
}

/// Int8 by int8, as pairs of 16 bits: the numbers 0 and 2 of a word, then 1 and 3. Rows of `a` are such pairs, of whole words.
struct SignedPairs {
  using Sum = uint32_t;
  using Factor = uint32_t;
  static constexpr int kRows = 2;
  static Lanes<uint32_t> row(Lanes<uint32_t> words, int index) {
    typedef int16_t Pairs __attribute__((vector_size(kVectorBytes)));
    const Pairs pairs = (Pairs)words;
    return (Lanes<uint32_t>)(index == 0 ? pairs << 8 >> 8 : pairs >> 8);
  }
};

/// Returns `factor * row + sum` of a kind.
template <class Kind, class Vector>
inline Vector add_product(typename Kind::Sum factor, Vector row, Vector sum) {
  if constexpr (std::is_same_v<Kind, SignedPairs>) {
    return sum + multiply_pairs(Lanes<uint32_t>{} + factor, row);
  } else {
    return multiply_add(factor, row, sum);
  }
}

template <class Kind, int kTileHeight, int kPanels> void compute_interleaved(const InterleavedTile& t) {
  using Sum = typename Kind::Sum;
  using Factor = typename Kind::Factor;
  constexpr int kWidth = kPanels * kPanelVectors<Sum>;
  Lanes<Sum> sums[kTileHeight][kWidth] = {};
  const unsigned char* a = t.a;
  const uint32_t* b = t.b;
  const auto add = [&](int index) __attribute__((always_inline)) {
    Lanes<Sum> row[kWidth];
#pragma GCC unroll 32
    for (int j = 0; j < kWidth; ++j) {
      const uint32_t* from = b + j / kPanelVectors<Sum> * t.panel_step + j % kPanelVectors<Sum> * kLanes<Sum>;
      row[j] = Kind::row(*reinterpret_cast<const Lanes<uint32_t>*>(from), index);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kTileHeight; ++i) {
      const Sum factor = reinterpret_cast<const Factor*>(a + i * t.a_step)[index];
#pragma GCC unroll 32
      for (int j = 0; j < kWidth; ++j) sums[i][j] = add_product<Kind>(factor, row[j], sums[i][j]);
    }
  };
  for (int64_t p = t.words; p > 0; --p) {
#pragma GCC unroll 4
    for (int index = 0; index < Kind::kRows; ++index) add(index);
    a += Kind::kRows * sizeof(Factor), b += kPanel;
  }
  for (int index = 0; index < t.rest; ++index) add(index);
  for (int i = 0; i < kTileHeight; ++i) {
    for (int j = 0; j < kWidth; ++j) {
      *reinterpret_cast<Lanes<Sum>*>(static_cast<Sum*>(t.sums) + i * kPanels * kPanel + j * kLanes<Sum>) = sums[i][j];
    }
  }
}

#ifdef WIR_HAS_DOTS
/// Bfloat16 by bfloat16. Rows of `a` are padded to whole words.
struct BFloatDots {
  using Sum = float;
  static bool is_supported() { return has_pair_products(); }
  static void add(Floats& sum, WordLanes factor, WordLanes row) { add_pairs(sum, factor, row); }
};
/// Uint8 by int8, by an instruction that not all processors of the level have. Rows of `a` are padded to whole words.
struct ByteDots {
  using Sum = uint32_t;
  static bool is_supported() { return __builtin_cpu_supports("avx512vnni"); }
  static void add(Lanes<uint32_t>& sum, Lanes<uint32_t> factor, Lanes<uint32_t> row) {
    asm("vpdpbusd\t%2, %1, %0" : "+v"(sum) : "v"(factor), "v"(row));
  }
};
template <class Kind> constexpr bool is_dots = std::is_same_v<Kind, BFloatDots> || std::is_same_v<Kind, ByteDots>;

template <class Kind, int kTileHeight, int kPanels> void compute_dots(const InterleavedTile& t) {
  using Sum = typename Kind::Sum;
  Lanes<Sum> sums[kTileHeight][kPanels] = {};
  const unsigned char* a = t.a;
  const uint32_t* b = t.b;
  for (int64_t p = t.words + (t.rest > 0); p > 0; --p) {
    Lanes<uint32_t> row[kPanels];
#pragma GCC unroll 32
    for (int j = 0; j < kPanels; ++j) row[j] = *reinterpret_cast<const Lanes<uint32_t>*>(b + j * t.panel_step);
#pragma GCC unroll 32
    for (int i = 0; i < kTileHeight; ++i) {
      int32_t word;
      std::memcpy(&word, a + i * t.a_step, sizeof word);
      const auto factor = (Lanes<uint32_t>)_mm512_set1_epi32(word);
#pragma GCC unroll 32
      for (int j = 0; j < kPanels; ++j) Kind::add(sums[i][j], factor, row[j]);
    }
    a += 4, b += kPanel;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kTileHeight; ++i) {
#pragma GCC unroll 32
    for (int j = 0; j < kPanels; ++j) {
      *reinterpret_cast<Lanes<Sum>*>(static_cast<Sum*>(t.sums) + (i * kPanels + j) * kPanel) = sums[i][j];
    }
  }
}
#else
template <class Kind> constexpr bool is_dots = false;
template <class Kind, int kTileHeight, int kPanels> void compute_dots(const InterleavedTile&) {}
#endif

/// Kernels of a kind by rows, counted from one: of one panel, of as many as fit, and of as many as fit with one row more.
template <class Kind> struct InterleavedKernels {
  InterleavedKernel narrow[kTileRows] = {}, wide[kTileRows] = {}, lower[kTileRows] = {};
  constexpr InterleavedKernels() { add(std::make_integer_sequence<int, tile_rows<float>()>()); }

 private:
  template <int... kIndices> constexpr void add(std::integer_sequence<int, kIndices...>) {
    ((narrow[kIndices] = kernel<kIndices + 1, 1>()), ...);
    ((wide[kIndices] = kernel<kIndices + 1, tile_panels<float>(kIndices + 1)>()), ...);
    ((lower[kIndices] = kernel<kIndices + 1, tile_panels<float>(kIndices + 2)>()), ...);
  }
  template <int kRows, int kPanels> static constexpr InterleavedKernel kernel() {
    if constexpr (is_dots<Kind>) {
      return compute_dots<Kind, kRows, kPanels>;
    } else {
      return compute_interleaved<Kind, kRows, kPanels>;
    }
  }
};
template <class Kind> constexpr InterleavedKernels<Kind> kInterleavedKernels;

/// A tile of sums, with `step` numbers a row.
template <class Sum> struct SumsTile {
  int64_t row, column, rows, columns;
  const Sum* sums;
  int64_t step;
};

/// A product with interleaved panels.
struct InterleavedProduct {
  int64_t m, n, k;
  const unsigned char* a;
  int64_t a_step;  // bytes
  const uint32_t* b;
};

/// Computes a product; `finish` receives its tiles, as `SumsTile`. `group`: rows of a word.
template <class Kind, class Finish>
void multiply_interleaved(const InterleavedProduct& of, int64_t group, const Finish& finish) {
  const int64_t panels = parts_of(of.n, kPanel), tiles = parts_of(of.m, tile_rows<float>()), words = parts_of(of.k, group);
  const int64_t highest = parts_of(of.m, std::max<int64_t>(tiles, 1)), width = tile_panels<float>(static_cast<int>(highest));
  split_product(panels, tiles, of.m * of.n * of.k, [&](const ProductPart& part) {
    alignas(64) typename Kind::Sum sums[kTileRows * 4 * kPanel];
    InterleavedTile tile{nullptr, of.a_step, nullptr, words * kPanel, of.k / group, of.k % group, sums};
    for (int64_t first = part.first_panel; first < part.last_panel;) {
      const bool is_wide = part.last_panel - first >= width;
      const int64_t taken = is_wide ? width : 1, column = first * kPanel, columns = std::min(of.n - column, taken * kPanel);
      tile.b = of.b + first * words * kPanel;
      for (int64_t i = part.first_tile; i < part.last_tile; ++i) {
        const int64_t row = of.m * i / tiles, rows = of.m * (i + 1) / tiles - row;
        tile.a = of.a + row * of.a_step;
        const auto& kernels = kInterleavedKernels<Kind>;
        (!is_wide ? kernels.narrow : rows == highest ? kernels.wide : kernels.lower)[rows - 1](tile);
        finish(SumsTile<typename Kind::Sum>{row, column, rows, columns, sums, taken * kPanel});
      }
      first += taken;
    }
  });
}

}  // namespace
}  // namespace wir
