// Copies of images: between layouts, and into zeros.
#include "images.h"

namespace wir {
namespace {

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t Order __attribute__((vector_size(16)));

/// Copies a matrix: element (i, j) is `from[i * from_step + j]` and `to[j * to_step + i]`.
void transpose(int64_t rows, int64_t columns, const float* from, int64_t from_step, float* to, int64_t to_step) {
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      const auto row = [&](int64_t r) { return *reinterpret_cast<const Four*>(from + (i + r) * from_step + j); };
      const auto set = [&](int64_t r, Four value) { *reinterpret_cast<Four*>(to + (j + r) * to_step + i) = value; };
      const Four a = row(0), b = row(1), c = row(2), d = row(3);
      const Four ab = __builtin_shuffle(a, b, Order{0, 4, 1, 5}), cd = __builtin_shuffle(c, d, Order{0, 4, 1, 5});
      const Four ef = __builtin_shuffle(a, b, Order{2, 6, 3, 7}), gh = __builtin_shuffle(c, d, Order{2, 6, 3, 7});
      set(0, __builtin_shuffle(ab, cd, Order{0, 1, 4, 5})), set(1, __builtin_shuffle(ab, cd, Order{2, 3, 6, 7}));
      set(2, __builtin_shuffle(ef, gh, Order{0, 1, 4, 5})), set(3, __builtin_shuffle(ef, gh, Order{2, 3, 6, 7}));
    }
    for (; i < rows; ++i) {
      for (int64_t k = j; k < j + 4; ++k) to[k * to_step + i] = from[i * from_step + k];
    }
  }
  for (; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * from_step + j];
  }
}

}  // namespace

void copy_images(int64_t batch, int64_t channels, const int64_t* sizes, const Images<const float>& from,
                 const Images<float>& to) {
  const bool are_rows = (from.channel == 1 && to.channel == 1) || channels == 1;
  const bool is_one = are_rows && from.steps[2] == channels && to.steps[2] == channels;
  const int64_t width = sizes[2], part = std::min<int64_t>(width, 256), parts = width == 0 ? 0 : (width + part - 1) / part;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, part * channels));
  parallel_for(batch * sizes[0] * sizes[1] * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t x0 = i % parts * part, count = std::min(part, width - x0), y = i / parts % sizes[1];
      const int64_t z = i / parts / sizes[1] % sizes[0], image = i / parts / sizes[1] / sizes[0];
      const float* source = from.data + image * from.image + z * from.steps[0] + y * from.steps[1] + x0 * from.steps[2];
      float* target = to.data + image * to.image + z * to.steps[0] + y * to.steps[1] + x0 * to.steps[2];
      if (is_one) {
        std::memcpy(target, source, static_cast<size_t>(count * channels) * sizeof(float));
      } else if (are_rows) {
        for (int64_t x = 0; x < count; ++x) std::copy_n(source + x * from.steps[2], channels, target + x * to.steps[2]);
      } else if (from.channel == 1 && to.steps[2] == 1) {
        transpose(count, channels, source, from.steps[2], target, to.channel);
      } else if (from.steps[2] == 1 && to.channel == 1) {
        transpose(channels, count, source, from.channel, target, to.steps[2]);
      } else {
        for (int64_t x = 0; x < count; ++x) {
          for (int64_t c = 0; c < channels; ++c)
            target[x * to.steps[2] + c * to.channel] = source[x * from.steps[2] + c * from.channel];
        }
      }
    }
  });
}

void pad_images(int64_t batch, int64_t channels, const int64_t* sizes, const int64_t* before, const int64_t* padded,
                const Images<const float>& from, float* to) {
  const int64_t row = padded[2] * channels, plane = row * padded[1];
  const bool is_padded = padded[0] != sizes[0] || padded[1] != sizes[1] || padded[2] != sizes[2];
  if (is_padded) {
    parallel_for(batch * padded[0] * padded[1], 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t y = i % padded[1] - before[1], z = i / padded[1] % padded[0] - before[0];
        const bool is_inside = y >= 0 && y < sizes[1] && z >= 0 && z < sizes[0];
        const int64_t left = is_inside ? before[2] : padded[2], right = is_inside ? padded[2] - left - sizes[2] : 0;
        std::fill_n(to + i * row, left * channels, 0.0f);
        std::fill_n(to + i * row + (padded[2] - right) * channels, right * channels, 0.0f);
      }
    });
  }
  float* inner = to + before[0] * plane + before[1] * row + before[2] * channels;
  copy_images(batch, channels, sizes, from, {inner, plane * padded[0], 1, {plane, row, channels}});
}

}  // namespace wir
