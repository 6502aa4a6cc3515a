// CRC-32, as in zip archives.
#include "file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

namespace wir {
namespace {

uint32_t crc_table[8][256];

void fill_table() {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1u));
    crc_table[0][i] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (int i = 0; i < 256; ++i) crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xFF];
  }
}

uint32_t by_table(const unsigned char* bytes, size_t count, uint32_t crc) {
  for (; count >= 8; count -= 8, bytes += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= crc_table[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count) crc = (crc >> 8) ^ crc_table[0][(crc ^ *bytes++) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
/// `__builtin_cpu_supports` would link 5 KB of libgcc, which queries everything.
bool can_multiply() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_PCLMUL) != 0;
}

using Pair = long long __attribute__((vector_size(16)));

/// Folds a remainder over other bytes. V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ.
__attribute__((target("pclmul"))) inline Pair folded(Pair from, Pair by, Pair onto) {
  return __builtin_ia32_pclmulqdq128(from, by, 0x00) ^ __builtin_ia32_pclmulqdq128(from, by, 0x11) ^ onto;
}

/// Requires at least 64 bytes; computes four remainders in parallel.
__attribute__((target("pclmul"))) uint32_t by_multiplication(const unsigned char* bytes, size_t count, uint32_t crc) {
  const Pair over_64{0x154442bd4, 0x1c6e41596}, over_16{0x1751997d0, 0x0ccaa009e};
  Pair part[4], next;
  std::memcpy(part, bytes, sizeof part);
  part[0] ^= Pair{crc, 0};
  for (bytes += 64, count -= 64; count >= 64; bytes += 64, count -= 64) {
    for (int k = 0; k < 4; ++k) {
      std::memcpy(&next, bytes + 16 * k, sizeof next);
      part[k] = folded(part[k], over_64, next);
    }
  }
  for (int k = 1; k < 4; ++k) part[k] = folded(part[k - 1], over_16, part[k]);
  unsigned char rest[16];
  std::memcpy(rest, &part[3], sizeof rest);
  return by_table(bytes, count, by_table(rest, sizeof rest, 0));
}
#endif

}  // namespace

uint32_t checksum(const unsigned char* bytes, size_t count, uint32_t before) {
  static const bool is_filled = (fill_table(), true);
  (void)is_filled;
#if defined(__x86_64__)
  static const bool multiplies = can_multiply();
  if (multiplies && count >= 64) return ~by_multiplication(bytes, count, ~before);
#endif
  return ~by_table(bytes, count, ~before);
}

}  // namespace wir
