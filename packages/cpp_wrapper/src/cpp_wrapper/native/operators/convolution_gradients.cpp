// Gradients of convolutions, which are convolutions themselves.
#include "convolution_calls.h"

namespace wir {
namespace {

/// Returns the convolution of a result's gradient with the same weight, whose result is the gradient of the input.
Convolution input_gradient(const Convolution& of) {
  Convolution made{of.batch, of.groups, of.out_channels, of.in_channels, {}, !of.transposed};
  for (int i = 0; i < 3; ++i) {
    made.axes[i] = of.axes[i];
    std::swap(made.axes[i].in, made.axes[i].out);
  }
  return made;
}

/// Computes the gradient of a weight: a convolution of the input with the result's gradient in place of the weight, in which
/// images are channels. For a transposed convolution the two change places.
template <class T> void weight_gradient(const Convolution& of, Tensor gradient, Tensor input, Tensor result) {
  if (of.transposed) std::swap(gradient, input);
  const int64_t rows = of.transposed ? of.in_channels : of.out_channels,
                columns = of.transposed ? of.out_channels : of.in_channels;
  Convolution made{columns, 1, of.batch, rows, {}, false};
  for (int i = 0; i < 3; ++i) {
    const Axis& axis = of.axes[i];
    made.axes[i] = {axis.in, axis.kernel, axis.out, axis.dilation, axis.padding, axis.stride};
    if (of.transposed) std::swap(made.axes[i].in, made.axes[i].kernel);
  }
  for (int64_t g = 0; g < of.groups; ++g) {
    Operands<T> with{images_of<const T, T>(input), weights_of<T>(made, gradient), nullptr, images_of<T, T>(result)};
    with.input.data += g * columns * with.input.channel;
    with.weights.data += g * rows * gradient->strides()[1];
    with.result.data += g * rows * with.result.image;
    std::swap(with.input.image, with.input.channel);
    std::swap(with.weights.row, with.weights.column);
    std::swap(with.result.image, with.result.channel);
    run(made, with);
  }
}

template <class T> void bias_gradient(Tensor gradient, Tensor result) {
  const Images<T> from = images_of<T, T>(gradient);
  const int64_t *sizes = gradient->sizes(), rank = gradient->rank;
  int64_t counts[3] = {1, 1, 1};
  for (int64_t i = 2; i < rank; ++i) counts[3 - rank + i] = sizes[i];
  for (int64_t c = 0; c < sizes[1]; ++c) {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, Sum<T>>;
    Wide sum{};
    for (int64_t i = 0; i < sizes[0] * counts[0] * counts[1] * counts[2]; ++i) {
      const int64_t x = i % counts[2], y = i / counts[2] % counts[1], z = i / counts[2] / counts[1] % counts[0];
      const int64_t image = i / counts[2] / counts[1] / counts[0];
      sum += static_cast<Wide>(
          from.data[image * from.image + c * from.channel + z * from.steps[0] + y * from.steps[1] + x * from.steps[2]]);
    }
    data_of<T>(result)[c] = static_cast<T>(sum);
  }
}

/// The three gradients; null if they are not wanted.
struct Gradients {
  Owned input, weight, bias;
};

void run_gradients(const Convolution& of, Tensor gradient, Tensor input, Tensor weight, const Gradients& into, const char* name) {
  if (into.input) {
    if (gradient->count == 0)
      fill_zero(into.input.get());
    else
      run_tensors(input_gradient(of), gradient, weight, nullptr, into.input.get(), name);
  }
  if (into.weight && (gradient->count == 0 || input->count == 0)) fill_zero(into.weight.get());
  with_type(gradient->dtype, name, [&]<class T>() {
    if (into.weight && into.weight->count != 0 && gradient->count != 0 && input->count != 0)
      weight_gradient<T>(of, gradient, input, into.weight.get());
    if (into.bias) bias_gradient<T>(gradient, into.bias.get());
  });
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(convolution_backward)(Tensor grad_output, Tensor input, Tensor weight, const int64_t** bias_sizes, int64_t,
                                   const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t padding_len_,
                                   const int64_t* dilation, int64_t dilation_len_, int32_t transposed,
                                   const int64_t* output_padding, int64_t output_padding_len_, int64_t groups,
                                   const int32_t* output_mask, int64_t, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  const Request of{"aten::convolution_backward",
                   input,
                   weight->sizes(),
                   weight->rank,
                   {stride, stride_len_},
                   {padding, padding_len_},
                   {dilation, dilation_len_},
                   {output_padding, output_padding_len_},
                   transposed != 0,
                   groups};
  const Convolution made = geometry(of);
  check_result(of, made, grad_output);
  if (input->dtype != weight->dtype) fail(of, "input and weight need the same element type");
  const bool is_last = has_last_result(made, input, weight);
  const auto made_like = [&](Tensor like, int32_t dtype) {
    int64_t strides[5];
    set_strides(like->rank, like->sizes(), is_last, strides);
    return Owned(new_tensor(like->rank, like->sizes(), strides, dtype));
  };
  const auto made_for = [&](int32_t dtype) {
    Gradients into;
    const int64_t channels = made.groups * made.out_channels;
    if (output_mask[0]) into.input = made_like(input, dtype);
    if (output_mask[1]) into.weight = made_like(weight, dtype);
    if (output_mask[2] && bias_sizes != nullptr) into.bias = Owned(new_tensor(1, &channels, nullptr, dtype));
    return into;
  };
  Gradients results = made_for(input->dtype);
  if (is_small(input->dtype)) {
    const Owned wide_gradient = widened(grad_output), wide_input = widened(input), wide_weight = widened(weight);
    const Gradients wide = made_for(kF32);
    run_gradients(made, wide_gradient.get(), wide_input.get(), wide_weight.get(), wide, of.name);
    if (wide.input) copy_into(results.input.get(), wide.input.get());
    if (wide.weight) copy_into(results.weight.get(), wide.weight.get());
    if (wide.bias) copy_into(results.bias.get(), wide.bias.get());
  } else {
    run_gradients(made, grad_output, input, weight, results, of.name);
  }
  *ret0 = results.input.release(), *ret1 = results.weight.release(), *ret2 = results.bias.release();
  return 0;
}
