// Arguments, layouts and element types of convolutions.
#include "convolution_calls.h"

#include "depthwise_convolution.h"
#include "direct_convolution.h"
#include "packers.h"
#include "winograd_convolution.h"

namespace wir {
namespace {

/// Returns whether torch would use its slow implementation of three dimensions, which has no channels-last results.
bool is_slow(const Convolution& of, Tensor input) {
  if (input->rank != 5) return false;
  if (input->dtype != kF32 && input->dtype != kBF16) return true;  // float16: oneDNN has it on few processors
  for (const Axis& axis : of.axes) {
    const int64_t smallest = (axis.in - 1) * axis.stride - 2 * axis.padding + (axis.kernel - 1) * axis.dilation + 1;
    if (of.transposed && axis.out - smallest >= axis.stride) return true;
  }
  const Axis &y = of.axes[1], &x = of.axes[2];
  if (input->dtype != kF32) return false;
  bool is_plain = of.batch < 16 && y.kernel == 1 && x.kernel == 1;
  for (const Axis& axis : of.axes) is_plain = is_plain && axis.stride == 1 && axis.dilation == 1;
#ifdef _OPENMP
  is_plain = is_plain && omp_get_max_threads() == 1;
#endif
  const int64_t count = of.batch * of.groups * of.in_channels * of.axes[0].in * y.in;
  return is_plain || !(of.groups > 1 || (y.kernel > 3 && x.kernel > 3) || of.batch > 1 || count > 20480);
}

/// Computes a depthwise convolution; copies images and packs weights as needed.
void run_depthwise(const Convolution& of, const Operands<float>& with) {
  constexpr int64_t kSize = sizeof(float);
  const int64_t channels = of.groups, *steps = with.weights.steps;
  const int64_t in[3] = {of.axes[0].in, of.axes[1].in, of.axes[2].in};
  const bool is_ready = with.input.channel == 1;
  Scratch copy(is_ready ? 0 : of.batch * channels * in[0] * in[1] * in[2] * kSize);
  Scratch packed(with.weights.is_packed ? 0 : packed_count(of.taps(), channels) * kSize);
  Images<const float> input = with.input;
  if (!is_ready) {
    const int64_t row = in[2] * channels;
    const Images<float> to{copy.as<float>(), row * in[1] * in[0], 1, {row * in[1], row, channels}};
    copy_images(of.batch, channels, in, input, to);
    input = {to.data, to.image, 1, {to.steps[0], to.steps[1], to.steps[2]}};
  }
  if (!with.weights.is_packed) {
    float* to = packed.as<float>();
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = with.weights.data + c * with.weights.group;
      float* column = to + c / kPanel * of.taps() * kPanel + c % kPanel;
      for (int64_t z = 0; z < of.axes[0].kernel; ++z) {
        for (int64_t y = 0; y < of.axes[1].kernel; ++y) {
          for (int64_t x = 0; x < of.axes[2].kernel; ++x, column += kPanel)
            *column = from[z * steps[0] + y * steps[1] + x * steps[2]];
        }
      }
    }
  }
  const float* weights = with.weights.is_packed ? with.weights.data : packed.as<float>();
  convolve_depthwise(of, input, weights, with.bias, with.end, with.result);
}

/// Computes one number of a result.
template <class T>
T sum_of(const Convolution& of, const Operands<T>& with, int64_t image, int64_t group, int64_t channel, const int64_t* at) {
  Sum<T> sum = with.bias ? static_cast<Sum<T>>(with.bias[group * of.out_channels + channel]) : Sum<T>{};
  const T* input = with.input.data + image * with.input.image + group * of.in_channels * with.input.channel;
  const T* weights = with.weights.data + group * with.weights.group + channel * with.weights.column;
  for (int64_t tap = 0; tap < of.taps(); ++tap) {
    const int64_t k[3] = {tap / of.axes[2].kernel / of.axes[1].kernel, tap / of.axes[2].kernel % of.axes[1].kernel,
                          tap % of.axes[2].kernel};
    int64_t from = 0, weight = 0;
    bool is_inside = true;
    for (int i = 0; i < 3; ++i) {
      const Axis& axis = of.axes[i];
      int64_t p =
          of.transposed ? at[i] + axis.padding - k[i] * axis.dilation : at[i] * axis.stride - axis.padding + k[i] * axis.dilation;
      if (of.transposed) is_inside = is_inside && p % axis.stride == 0, p /= axis.stride;
      is_inside = is_inside && p >= 0 && p < axis.in;
      from += p * with.input.steps[i], weight += k[i] * with.weights.steps[i];
    }
    if (!is_inside) continue;
    for (int64_t c = 0; c < of.in_channels; ++c) {
      sum +=
          static_cast<Sum<T>>(input[from + c * with.input.channel]) * static_cast<Sum<T>>(weights[weight + c * with.weights.row]);
    }
  }
  return static_cast<T>(sum);
}

}  // namespace

bool has_last_result(const Convolution& of, Tensor input, Tensor weight) {
  return input->count != 0 && !is_slow(of, input) && ((input->rank != 3 && is_channels_last(input)) || is_channels_last(weight));
}

Owned widened(Tensor tensor) {
  int64_t strides[5];
  set_strides(tensor->rank, tensor->sizes(), tensor->rank > 2 && is_channels_last(tensor), strides);
  Owned copy(new_tensor(tensor->rank, tensor->sizes(), strides, kF32));
  copy_into(copy.get(), tensor);
  return copy;
}

template <> void run<float>(const Convolution& of, const Operands<float>& with) {
  const int64_t channels = of.groups * of.out_channels, out[3] = {of.axes[0].out, of.axes[1].out, of.axes[2].out};
  const bool is_ready = with.result.channel == 1 || channels == 1;
  const int64_t row = out[2] * channels, image = row * out[1] * out[0];
  Scratch scratch(is_ready ? 0 : of.batch * image * static_cast<int64_t>(sizeof(float)));
  Operands<float> inner = with;
  if (!is_ready) inner.result = {scratch.as<float>(), image, 1, {row * out[1], row, channels}};
  const bool copies = with.end.has_residual() && with.end.residual.channel != 1 && channels > 1;
  Scratch residual(copies ? of.batch * image * static_cast<int64_t>(sizeof(float)) : 0);
  if (copies) {
    const Images<float> to{residual.as<float>(), image, 1, {row * out[1], row, channels}};
    copy_images(of.batch, channels, out, with.end.residual, to);
    inner.end.residual = {to.data, image, 1, {row * out[1], row, channels}};
  }
  if (of.is_depthwise())
    run_depthwise(of, inner);
  else if (suits_winograd(of))
    convolve_winograd(of, inner.input, inner.weights, inner.bias, inner.end, inner.result);
  else
    convolve(of, inner.input, inner.weights, inner.bias, inner.end, inner.result);
  if (is_ready) return;
  const Images<float>& made = inner.result;
  copy_images(of.batch, channels, out, {made.data, made.image, 1, {made.steps[0], made.steps[1], made.steps[2]}}, with.result);
}

/// Computes a convolution of a rare type, number by number.
template <class T> void run(const Convolution& of, const Operands<T>& with) {
  const int64_t positions = of.axes[0].out * of.axes[1].out * of.axes[2].out;
  parallel_for(of.batch * of.groups * of.out_channels * positions, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = i % positions, c = i / positions % of.out_channels, g = i / positions / of.out_channels % of.groups;
      const int64_t image = i / positions / of.out_channels / of.groups;
      const int64_t at[3] = {p / of.axes[2].out / of.axes[1].out, p / of.axes[2].out % of.axes[1].out, p % of.axes[2].out};
      T* to = with.result.data + image * with.result.image + (g * of.out_channels + c) * with.result.channel;
      for (int d = 0; d < 3; ++d) to += at[d] * with.result.steps[d];
      *to = sum_of(of, with, image, g, c, at);
    }
  });
}

template void run<double>(const Convolution&, const Operands<double>&);
template void run<int64_t>(const Convolution&, const Operands<int64_t>&);
template void run<int32_t>(const Convolution&, const Operands<int32_t>&);
template void run<int16_t>(const Convolution&, const Operands<int16_t>&);
template void run<int8_t>(const Convolution&, const Operands<int8_t>&);
template void run<uint8_t>(const Convolution&, const Operands<uint8_t>&);

void run_tensors(const Convolution& of, Tensor input, Tensor weight, Tensor bias, Tensor out, const char* name) {
  if (out->count == 0) return;
  if (is_small(out->dtype)) {
    const Owned wide = widened(input), weights = widened(weight), biases = bias ? widened(bias) : nullptr, result = widened(out);
    run_tensors(of, wide.get(), weights.get(), biases.get(), result.get(), name);
    return copy_into(out, result.get());
  }
  const Owned numbers = bias ? contiguous(bias) : nullptr;
  with_type(out->dtype, name, [&]<class T>() {
    run(of, Operands<T>{images_of<const T, T>(input), weights_of<T>(of, weight), bias ? data_of<T>(numbers.get()) : nullptr,
                        images_of<T, T>(out)});
  });
}

}  // namespace wir
