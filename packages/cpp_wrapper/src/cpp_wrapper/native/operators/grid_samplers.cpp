// Samples of images at the positions of a grid, and their gradients.
#include "windows.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 12;  // products for which a thread is worth it
constexpr int kMaxTaps = 16;

enum class Mode { kLinear, kNearest, kCubic };
enum class Border { kZeros, kEdge, kReflection };

/// What a sample is: a sum of elements of a plane times weights. `slopes` are the derivatives of weights by grid positions.
template <class W> struct Taps {
  int count = 0;
  int64_t offsets[kMaxTaps];
  W weights[kMaxTaps], slopes[kMaxTaps][3];
};

/// A position along an axis, and its derivative by the position in the grid.
template <class W> struct Place {
  W at, slope;
};

struct Sampler {
  const char* name;
  int64_t axes;
  Mode mode;
  Border border;
  bool corners;
  int64_t sizes[3];  // of the image, from the outermost axis on

  /// Converts a position of the grid, in [-1, 1], to one of the image.
  template <class W> Place<W> place_of(W given, int64_t size) const {
    const W half = static_cast<W>(corners ? size - 1 : size) / 2;
    return {corners ? (given + 1) * half : ((given + 1) * static_cast<W>(size) - 1) / 2, half};
  }
  /// Moves a position outside of the image into it.
  template <class W> Place<W> bounded(Place<W> place, int64_t size) const {
    if (border == Border::kZeros) return place;
    if (border == Border::kReflection) place = reflected(place, size);
    const W last = static_cast<W>(size - 1);
    if (!(place.at > 0)) return {0, 0};
    return place.at >= last ? Place<W>{last, 0} : place;
  }
  /// Reflects at the centers, or at the edges, of the first and the last position.
  template <class W> Place<W> reflected(Place<W> place, int64_t size) const {
    const W low = corners ? W(0) : W(-0.5), span = static_cast<W>(corners ? size - 1 : size);
    if (span <= 0) return {0, 0};
    const W distance = std::fabs(place.at - low), rest = std::fmod(distance, span);
    const W slope = place.at < low ? -place.slope : place.slope;
    const bool is_even = std::fmod(std::floor(distance / span), W(2)) == 0;
    return is_even ? Place<W>{rest + low, slope} : Place<W>{span - rest + low, -slope};
  }
  /// Returns the index of a whole position, or -1 if it is outside.
  template <class W> int64_t index_of(W position, int64_t size) const {
    return position >= 0 && position < static_cast<W>(size) ? static_cast<int64_t>(position) : -1;
  }

  /// Returns the taps of a position, which the grid states from the innermost axis on.
  template <class W> Taps<W> taps_at(const W* grid) const {
    Taps<W> made;
    Place<W> places[3];
    for (int64_t i = 0; i < axes; ++i) {
      places[i] = place_of(grid[axes - 1 - i], sizes[i]);
      if (mode != Mode::kCubic) places[i] = bounded(places[i], sizes[i]);
    }
    switch (mode) {
      case Mode::kNearest: add_nearest(made, places); break;
      case Mode::kLinear: add_linear(made, places); break;
      case Mode::kCubic: add_cubic(made, places); break;
    }
    return made;
  }

 private:
  template <class W> void add_nearest(Taps<W>& made, const Place<W>* places) const {
    int64_t offset = 0;
    for (int64_t i = 0; i < axes; ++i) {
      const int64_t index = index_of(std::nearbyint(places[i].at), sizes[i]);
      if (index < 0) return;
      offset = offset * sizes[i] + index;
    }
    made.count = 1;
    made.offsets[0] = offset;
    made.weights[0] = 1;
    std::fill(made.slopes[0], made.slopes[0] + 3, W(0));
  }
  template <class W> void add_linear(Taps<W>& made, const Place<W>* places) const {
    W low[3];
    for (int64_t i = 0; i < axes; ++i) low[i] = std::floor(places[i].at);
    for (int corner = 0; corner < 1 << axes; ++corner) {
      int64_t offset = 0;
      W parts[3];
      bool is_inside = true;
      for (int64_t i = 0; i < axes; ++i) {
        const bool is_high = (corner >> i & 1) != 0;
        const int64_t index = index_of(low[i] + (is_high ? W(1) : W(0)), sizes[i]);
        is_inside = is_inside && index >= 0;
        offset = offset * sizes[i] + index;
        parts[i] = is_high ? places[i].at - low[i] : low[i] + 1 - places[i].at;
      }
      if (!is_inside) continue;
      const int tap = made.count++;
      made.offsets[tap] = offset;
      made.weights[tap] = 1;
      for (int64_t i = 0; i < axes; ++i) made.weights[tap] *= parts[i];
      for (int64_t i = 0; i < axes; ++i) {
        W slope = (corner >> i & 1) != 0 ? places[i].slope : -places[i].slope;
        for (int64_t j = 0; j < axes; ++j) slope *= j == i ? W(1) : parts[j];
        made.slopes[tap][i] = slope;
      }
    }
  }
  /// The weights of cubic convolution at a share of the distance, and their derivatives.
  template <class W> static void cubic_weights(W share, W* weights, W* slopes) {
    constexpr W kA = W(-0.75);
    for (int j = 0; j < 4; ++j) {
      const W sign = j < 2 ? W(1) : W(-1), x = j < 2 ? share + static_cast<W>(1 - j) : static_cast<W>(j - 1) - share;
      if (j == 1 || j == 2) {
        weights[j] = ((kA + 2) * x - (kA + 3)) * x * x + 1;
        slopes[j] = sign * (3 * (kA + 2) * x - 2 * (kA + 3)) * x;
      } else {
        weights[j] = ((x - 5) * x + 8) * x * kA - 4 * kA;
        slopes[j] = sign * ((3 * x - 10) * x + 8) * kA;
      }
    }
  }
  template <class W> void add_cubic(Taps<W>& made, const Place<W>* places) const {
    W weights[2][4], slopes[2][4], low[2];
    for (int i = 0; i < 2; ++i) {
      low[i] = std::floor(places[i].at);
      cubic_weights(places[i].at - low[i], weights[i], slopes[i]);
    }
    for (int i = 0; i < 4; ++i) {
      const int64_t row = index_of(bounded(Place<W>{low[0] + static_cast<W>(i - 1), 1}, sizes[0]).at, sizes[0]);
      for (int j = 0; j < 4; ++j) {
        const int64_t column = index_of(bounded(Place<W>{low[1] + static_cast<W>(j - 1), 1}, sizes[1]).at, sizes[1]);
        if (row < 0 || column < 0) continue;
        const int tap = made.count++;
        made.offsets[tap] = row * sizes[1] + column;
        made.weights[tap] = weights[0][i] * weights[1][j];
        made.slopes[tap][0] = slopes[0][i] * weights[1][j] * places[0].slope;
        made.slopes[tap][1] = weights[0][i] * slopes[1][j] * places[1].slope;
      }
    }
  }
};

Sampler sampler_of(Tensor input, Tensor grid, int64_t axes, int64_t mode, int64_t border, bool corners, const char* name) {
  if (input->rank != axes + 2 || grid->rank != axes + 2) fail_operator(name, "the image or the grid has another rank");
  if (grid->sizes()[axes + 1] != axes) fail_operator(name, "positions of the grid do not have one number for each axis");
  if (grid->sizes()[0] != input->sizes()[0]) fail_operator(name, "the image and the grid have different batches");
  if (grid->dtype != input->dtype) fail_dtype(name, grid->dtype);
  if (mode < 0 || mode > 2 || border < 0 || border > 2) fail_operator(name, "an unknown interpolation or padding");
  if (mode == 2 && axes == 3) fail_operator(name, "cubic interpolation has two axes");
  Sampler made{name, axes, static_cast<Mode>(mode), static_cast<Border>(border), corners, {}};
  for (int64_t i = 0; i < axes; ++i) {
    made.sizes[i] = input->sizes()[2 + i];
    if (made.sizes[i] == 0) fail_operator(name, "the image has no positions");
  }
  return made;
}

/// Calls `body.operator()<W>()` with the type in which a sampler computes; `dtype` is that of the image.
template <class Body> void computed(int32_t dtype, const char* name, const Body& body) {
  if (!is_float(dtype)) fail_dtype(name, dtype);
  return dtype == kF64 ? body.template operator()<double>() : body.template operator()<float>();
}
int32_t wide(int32_t dtype) { return dtype == kF64 ? kF64 : kF32; }

/// Numbers of a call with contiguous tensors.
struct Extents {
  int64_t batch, channels, pixels, positions;
};
Extents extents_of(Tensor input, Tensor grid) {
  Extents made{input->sizes()[0], input->sizes()[1], 1, 1};
  for (int64_t i = 2; i < input->rank; ++i) made.pixels *= input->sizes()[i];
  for (int64_t i = 1; i + 1 < grid->rank; ++i) made.positions *= grid->sizes()[i];
  return made;
}

Owned as_result(Owned made, int32_t dtype) {
  if (made->dtype == dtype) return made;
  Owned found = empty(sizes_of(made.get()), dtype);
  copy_into(found.get(), made.get());
  return found;
}

Owned sampled(Tensor input, Tensor grid, const Sampler& sampler) {
  Sizes sizes = sizes_of(grid);
  sizes.pop_back();
  sizes.insert(sizes.begin() + 1, input->sizes()[1]);
  Owned made = empty(sizes, wide(input->dtype));
  const Owned image = contiguous(input, wide(input->dtype)), places = contiguous(grid, wide(input->dtype));
  const Extents n = extents_of(input, grid);
  computed(input->dtype, sampler.name, [&]<class W>() {
    parallel_for(n.batch * n.positions, std::max<int64_t>(1, kGrain / (8 * std::max<int64_t>(n.channels, 1))), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t b = item / n.positions, position = item % n.positions;
        const Taps<W> taps = sampler.taps_at(data_of<W>(places.get()) + item * sampler.axes);
        const W* plane = data_of<W>(image.get()) + b * n.channels * n.pixels;
        W* to = data_of<W>(made.get()) + b * n.channels * n.positions + position;
        for (int64_t c = 0; c < n.channels; ++c, plane += n.pixels, to += n.positions) {
          W sum = 0;
          for (int t = 0; t < taps.count; ++t) sum += taps.weights[t] * plane[taps.offsets[t]];
          *to = sum;
        }
      }
    });
  });
  return as_result(std::move(made), input->dtype);
}

/// Adds the gradients of one image. Null targets are not needed.
template <class W>
void add_gradients(const Sampler& sampler, const Extents& n, const W* image, const W* grid, const W* grad, W* image_grad, W* grid_grad) {
  for (int64_t position = 0; position < n.positions; ++position) {
    const Taps<W> taps = sampler.taps_at(grid + position * sampler.axes);
    W sums[3] = {};
    for (int64_t c = 0; c < n.channels; ++c) {
      const W given = grad[c * n.positions + position];
      for (int t = 0; t < taps.count; ++t) {
        const int64_t offset = c * n.pixels + taps.offsets[t];
        if (image_grad != nullptr) image_grad[offset] += given * taps.weights[t];
        for (int64_t i = 0; i < sampler.axes; ++i) sums[i] += given * image[offset] * taps.slopes[t][i];
      }
    }
    if (grid_grad == nullptr) continue;
    for (int64_t i = 0; i < sampler.axes; ++i) grid_grad[position * sampler.axes + sampler.axes - 1 - i] = sums[i];
  }
}

void give_gradients(Tensor grad, Tensor input, Tensor grid, const Sampler& sampler, const int32_t* mask, int64_t mask_count, Tensor* ret0,
                    Tensor* ret1) {
  if (mask_count != 2) fail_operator(sampler.name, "the mask of results does not have two values");
  if (grad->dtype != input->dtype) fail_dtype(sampler.name, grad->dtype);
  const Extents n = extents_of(input, grid);
  if (grad->count != n.batch * n.channels * n.positions) fail_operator(sampler.name, "the gradient has another shape than the result");
  const int32_t dtype = wide(input->dtype);
  const Owned image = contiguous(input, dtype), places = contiguous(grid, dtype), given = contiguous(grad, dtype);
  Owned image_grad = mask[0] != 0 ? zeros(sizes_of(input), dtype) : Owned(), grid_grad = empty(sizes_of(grid), dtype);
  computed(input->dtype, sampler.name, [&]<class W>() {
    parallel_for(n.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t pixel = b * n.channels * n.pixels, place = b * n.positions * sampler.axes;
        add_gradients(sampler, n, data_of<W>(image.get()) + pixel, data_of<W>(places.get()) + place,
                      data_of<W>(given.get()) + b * n.channels * n.positions,
                      image_grad ? data_of<W>(image_grad.get()) + pixel : nullptr, data_of<W>(grid_grad.get()) + place);
      }
    });
  });
  *ret0 = image_grad ? as_result(std::move(image_grad), input->dtype).release() : nullptr;
  *ret1 = as_result(std::move(grid_grad), input->dtype).release();
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(grid_sampler_2d)
(Tensor input, Tensor grid, int64_t interpolation_mode, int64_t padding_mode, int32_t align_corners, Tensor* ret0) {
  constexpr const char* kName = "aten::grid_sampler_2d";
  *ret0 = sampled(input, grid, sampler_of(input, grid, 2, interpolation_mode, padding_mode, align_corners != 0, kName)).release();
  return 0;
}

WIR_OPERATOR(grid_sampler_3d)
(Tensor input, Tensor grid, int64_t interpolation_mode, int64_t padding_mode, int32_t align_corners, Tensor* ret0) {
  constexpr const char* kName = "aten::grid_sampler_3d";
  *ret0 = sampled(input, grid, sampler_of(input, grid, 3, interpolation_mode, padding_mode, align_corners != 0, kName)).release();
  return 0;
}

WIR_OPERATOR(grid_sampler_2d_backward)
(Tensor grad_output, Tensor input, Tensor grid, int64_t interpolation_mode, int64_t padding_mode, int32_t align_corners,
 const int32_t* output_mask, int64_t output_mask_len_, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::grid_sampler_2d_backward";
  const Sampler sampler = sampler_of(input, grid, 2, interpolation_mode, padding_mode, align_corners != 0, kName);
  give_gradients(grad_output, input, grid, sampler, output_mask, output_mask_len_, ret0, ret1);
  return 0;
}

WIR_OPERATOR(grid_sampler_3d_backward)
(Tensor grad_output, Tensor input, Tensor grid, int64_t interpolation_mode, int64_t padding_mode, int32_t align_corners,
 const int32_t* output_mask, int64_t output_mask_len_, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::grid_sampler_3d_backward";
  const Sampler sampler = sampler_of(input, grid, 3, interpolation_mode, padding_mode, align_corners != 0, kName);
  give_gradients(grad_output, input, grid, sampler, output_mask, output_mask_len_, ret0, ret1);
  return 0;
}
