// Convolutions, also with packed weights.
#include "convolution_calls.h"
#include "packers.h"

namespace wir {
namespace {

Owned new_result(const Convolution& of, Tensor input, Tensor weight) {
  const int64_t rank = input->rank;
  int64_t sizes[5] = {of.batch, of.groups * of.out_channels}, strides[5];
  if (input->sizes()[1] == 0) sizes[1] = 0;
  for (int64_t i = 2; i < rank; ++i) sizes[i] = of.axes[3 - rank + i].out;
  set_strides(rank, sizes, has_last_result(of, input, weight), strides);
  return Owned(new_tensor(rank, sizes, strides, input->dtype));
}

/// Computes a convolution into `out`, or a new tensor if that is null, which is returned.
Tensor convolution(const Request& of, Tensor weight, Tensor bias, Tensor out) {
  if (of.input->dtype != weight->dtype) fail(of, "input and weight need the same element type");
  const Convolution made = geometry(of);
  check_bias(of, bias, made, weight->dtype);
  if (out != nullptr) check_result(of, made, out);
  Owned result = out == nullptr ? new_result(made, of.input, weight) : nullptr;
  run_tensors(made, of.input, weight, bias, out ? out : result.get(), of.name);
  return result.release();
}

/// Arguments of an epilogue, and what they refer to.
struct EpilogueRequest {
  Tensor scale, residual;
  const char* activation;
  double low, high;
};

/// Checks the arguments of an epilogue for a result of these sizes.
void check_epilogue(const Request& of, const EpilogueRequest& end, const Convolution& made) {
  if (end.scale != nullptr && (end.scale->rank != 1 || end.scale->sizes()[0] != made.groups * made.out_channels))
    fail(of, "the scale needs one number for each output channel");
  const Tensor other = end.residual;
  bool fits = other == nullptr || (other->rank == of.input->rank && other->sizes()[0] == made.batch &&
                                   other->sizes()[1] == made.groups * made.out_channels);
  for (int64_t i = 2; other != nullptr && fits && i < other->rank; ++i)
    fits = other->sizes()[i] == made.axes[3 - other->rank + i].out;
  if (!fits) fail(of, "the residual needs the sizes of the result");
  for (const Tensor one : {end.scale, end.residual}) {
    if (one != nullptr && one->dtype != of.input->dtype) fail(of, "all operands need the same element type");
  }
}

/// Computes a convolution with an epilogue. Small floats are computed in float32.
void run_fused(const Request& of, const Convolution& made, const Weights<float>& weights, Tensor bias,
               const EpilogueRequest& request, Tensor out) {
  Epilogue end;
  if (!set_activation(request.activation, request.low, request.high, end)) fail(of, kOtherActivation);
  if (out->count == 0) return;
  const bool is_wide = is_small(of.input->dtype);
  if (of.input->dtype != kF32 && !is_wide) fail_dtype(of.name, of.input->dtype);
  const Owned input = is_wide ? widened(of.input) : nullptr, result = is_wide ? widened(out) : nullptr;
  const Owned residual = is_wide && request.residual ? widened(request.residual) : nullptr;
  const Owned numbers = bias ? contiguous(bias, kF32) : nullptr, scale = request.scale ? contiguous(request.scale, kF32) : nullptr;
  if (scale) end.scale = data_of<float>(scale.get());
  if (request.residual) end.residual = images_of<const float, float>(residual ? residual.get() : request.residual);
  run(made, Operands<float>{images_of<const float, float>(input ? input.get() : of.input), weights,
                            numbers ? data_of<float>(numbers.get()) : nullptr,
                            images_of<float, float>(result ? result.get() : out), end});
  if (result) copy_into(out, result.get());
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(convolution)(Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                          const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                          int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups,
                          Tensor* ret0) {
  const Request of{"aten::convolution",       input,
                   weight->sizes(),           weight->rank,
                   {stride, stride_len_},     {padding, padding_len_},
                   {dilation, dilation_len_}, {output_padding, output_padding_len_},
                   transposed != 0,           groups};
  *ret0 = convolution(of, weight, bias ? *bias : nullptr, nullptr);
  return 0;
}

WIR_OPERATOR(convolution_out)(Tensor out, Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                              const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                              int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups) {
  const Request of{"aten::convolution.out",   input,
                   weight->sizes(),           weight->rank,
                   {stride, stride_len_},     {padding, padding_len_},
                   {dilation, dilation_len_}, {output_padding, output_padding_len_},
                   transposed != 0,           groups};
  convolution(of, weight, bias ? *bias : nullptr, out);
  return 0;
}

WIR_OPERATOR(_convolution)(Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                           const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                           int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups,
                           int32_t, int32_t, int32_t, int32_t, Tensor* ret0) {
  return WIR_OPERATOR_NAME(convolution)(input, weight, bias, stride, stride_len_, padding, padding_len_, dilation, dilation_len_, transposed,
                            output_padding, output_padding_len_, groups, ret0);
}

WIR_OPERATOR(packed_convolution_out)(Tensor out, Tensor input, Tensor packed, Tensor* bias, const int64_t* kernel,
                                     int64_t kernel_len_, int64_t out_channels, const int64_t* stride, int64_t stride_len_,
                                     const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                                     int64_t groups, Tensor* scale, Tensor* residual, const char* activation, double low,
                                     double high) {
  int64_t sizes[5] = {out_channels, groups > 0 && input->rank > 1 ? input->sizes()[1] / groups : 0};
  std::copy_n(kernel, std::clamp<int64_t>(kernel_len_, 0, 3), sizes + 2);
  const Request of{"wrapper_ir::packed_convolution.out",
                   input,
                   sizes,
                   kernel_len_ + 2,
                   {stride, stride_len_},
                   {padding, padding_len_},
                   {dilation, dilation_len_},
                   {nullptr, 0},
                   false,
                   groups};
  const Convolution made = geometry(of);
  check_bias(of, bias ? *bias : nullptr, made, input->dtype);
  check_result(of, made, out);
  const int64_t taps = made.taps();
  const int64_t count =
      made.is_depthwise() ? packed_count(taps, groups) : groups * packed_count(taps * made.in_channels, made.out_channels);
  if (packed->dtype != kF32 || !is_contiguous(packed) || packed->count != count)
    fail(of, "the packed weight has another type, layout or size");
  const EpilogueRequest end{scale ? *scale : nullptr, residual ? *residual : nullptr, activation, low, high};
  check_epilogue(of, end, made);
  run_fused(of, made, {data_of<float>(packed), true}, bias ? *bias : nullptr, end, out);
  return 0;
}

WIR_OPERATOR(fused_convolution)(Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                                const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                                int64_t groups, Tensor* scale, Tensor* residual, const char* activation, double low, double high,
                                Tensor* ret0) {
  const Request of{"wrapper_ir::fused_convolution", input,        weight->sizes(), weight->rank,
                   {stride, stride_len_},           {padding, padding_len_},
                   {dilation, dilation_len_},       {nullptr, 0}, false,           groups};
  if (input->dtype != weight->dtype) fail(of, "input and weight need the same element type");
  const Convolution made = geometry(of);
  check_bias(of, bias ? *bias : nullptr, made, input->dtype);
  const EpilogueRequest end{scale ? *scale : nullptr, residual ? *residual : nullptr, activation, low, high};
  check_epilogue(of, end, made);
  Owned result = new_result(made, input, weight);
  const Owned wide = is_small(input->dtype) ? widened(weight) : nullptr;
  run_fused(of, made, weights_of<float>(made, wide ? wide.get() : weight), bias ? *bias : nullptr, end, result.get());
  *ret0 = result.release();
  return 0;
}
