// Convolutions on a device by cuDNN: arguments, layouts, and parts of large batches.
#include "cuda_cudnn.h"
#include "operator.h"
#include "per_stream.h"

namespace wir {
namespace {

/// Arguments that only some operators have; as torch's settings are by default.
struct Settings {
  bool is_deterministic = false, allows_tf32 = true;
};

/// cuDNN counts elements of a tensor in 32 bits.
constexpr int64_t kMaxElements = INT32_MAX;
/// The alignment of operands in bytes that fast algorithms need.
constexpr uint64_t kAlignment = 16;

bool is_float(int32_t dtype) { return dtype == kF32 || dtype == kF16 || dtype == kBF16 || dtype == kF64; }

/// Returns whether torch's result by cuDNN is channels-last.
bool has_last_result(Tensor input, Tensor weight) {
  if (input->dtype == kF64) return false;
  return (input->rank != 3 && is_channels_last(input)) || is_channels_last(weight);
}

/// Returns whether a tensor is dense in one of the layouts.
bool has_format(Tensor tensor, bool is_last) {
  int64_t strides[5];
  set_strides(tensor->rank, tensor->sizes(), is_last, strides);
  return has_layout(tensor, tensor->rank, tensor->sizes(), strides, tensor->dtype);
}

/// As above, and at an address that cuDNN takes.
bool is_ready(Tensor tensor, bool is_last) { return has_format(tensor, is_last) && device_address(tensor) % kAlignment == 0; }

Owned new_operand(Tensor like, bool is_last) {
  int64_t strides[5];
  set_strides(like->rank, like->sizes(), is_last, strides);
  return Owned(new_like(like, like->rank, like->sizes(), strides, like->dtype));
}

/// Returns the tensor itself, or a copy in the layout.
Owned in_format(Tensor tensor, bool is_last) {
  if (is_ready(tensor, is_last)) {
    tensor->handles.fetch_add(1, std::memory_order_relaxed);
    return Owned(tensor);
  }
  Owned made = new_operand(tensor, is_last);
  copy_into(made.get(), tensor);
  return made;
}

void check_operands(const Request& of, const Convolution& made, Tensor weight, Tensor bias, Tensor out) {
  if (!is_float(of.input->dtype)) fail_dtype(of.name, of.input->dtype);
  for (const Tensor one : {of.input, weight, bias, out}) {
    if (one != nullptr && one->storage->gpu != of.input->storage->gpu) fail(of, "the tensors are on different devices");
  }
  if (weight->dtype != of.input->dtype) fail(of, "input and weight need the same element type");
  check_bias(of, bias, made, weight->dtype);
  if (out != nullptr) check_result(of, made, out);
  for (const Axis& axis : made.axes) {
    for (const int64_t value : {axis.in, axis.out, axis.kernel, axis.stride, axis.padding, axis.dilation}) {
      if (value > kMaxElements) fail(of, "a size does not fit into 32 bits");
    }
    const int64_t least = (axis.in - 1) * axis.stride - 2 * axis.padding + (axis.kernel - 1) * axis.dilation + 1;
    if (made.transposed && axis.out - least >= axis.stride) fail(of, "cuDNN needs output padding smaller than the stride");
  }
}

Owned new_result(const Convolution& made, Tensor input, Tensor weight) {
  const int64_t rank = input->rank;
  int64_t sizes[5] = {made.batch, made.groups * made.out_channels}, strides[5];
  for (int64_t i = 2; i < rank; ++i) sizes[i] = made.axes[3 - rank + i].out;
  set_strides(rank, sizes, has_last_result(input, weight), strides);
  return Owned(new_like(input, rank, sizes, strides, input->dtype));
}

/// Sets the result of an empty sum.
void fill_with_bias(Tensor out, Tensor bias) {
  if (bias == nullptr) return fill_zero(out);
  int64_t strides[5] = {0, bias->strides()[0]};
  const Owned each(new_view(bias, bias->offset, out->rank, out->sizes(), strides, bias->dtype));
  copy_into(out, each.get());
}

/// Operands in one layout.
struct Operands {
  Tensor input, weight, bias, out;
};

/// Computes as many images at once as cuDNN can count. Returns an error, or "".
std::string run_parts(const ConvolutionKind& kind, const Operands& with) {
  const int32_t gpu = with.out->storage->gpu;
  void* const stream = current_device.stream;
  const int64_t size = element_size(kind.dtype), batch = kind.of.batch;
  const int64_t from = with.input->count / batch, to = with.out->count / batch, largest = std::max(from, to);
  if (largest > kMaxElements || with.weight->count > kMaxElements) return "a tensor has more elements than cuDNN counts";
  const std::shared_ptr<OfStream<Convolutions>> own = of_stream<Convolutions>(gpu, stream);
  const std::lock_guard<std::mutex> lock(own->using_it);
  ConvolutionKind part = kind;
  for (int64_t first = 0; first < batch; first += part.of.batch) {
    part.of.batch = std::min(batch - first, kMaxElements / largest);
    const std::string why = own->state.convolve(
        gpu, stream, part,
        {with.input->data() + first * from * size, with.weight->data(), with.bias != nullptr ? with.bias->data() : nullptr,
         with.out->data() + first * to * size});
    if (!why.empty()) return why;
  }
  return "";
}

/// Computes a convolution in one layout; copies what has another one. Returns an error, or "".
std::string run_format(const ConvolutionKind& kind, const Operands& with) {
  const Owned input = in_format(with.input, kind.is_last), weight = in_format(with.weight, kind.is_last);
  const Owned bias = with.bias != nullptr ? contiguous(with.bias) : nullptr;
  bool is_direct = is_ready(with.out, kind.is_last);
  for (const Tensor one : {input.get(), weight.get(), bias.get()}) is_direct = is_direct && (one == nullptr || !may_overlap(with.out, one));
  const Owned apart = is_direct ? nullptr : new_operand(with.out, kind.is_last);
  const Tensor out = is_direct ? with.out : apart.get();
  const std::string why = run_parts(kind, {input.get(), weight.get(), bias.get(), out});
  if (why.empty() && !is_direct) copy_into(with.out, out);
  return why;
}

/// Computes a convolution into `out`, or a new tensor if that is null, which is returned.
Tensor convolution(const Request& of, Tensor weight, Tensor bias, Tensor out, Settings settings = {}) {
  if (of.input->storage->gpu < 0) fail(of, "expected tensors on a device");
  const DeviceContext context(of.input->storage->gpu);
  const Convolution made = geometry(of);
  check_operands(of, made, weight, bias, out);
  Owned result = out == nullptr ? new_result(made, of.input, weight) : nullptr;
  const Tensor to = out != nullptr ? out : result.get();
  if (to->count == 0) return result.release();
  if (of.input->count == 0 || weight->count == 0) {
    fill_with_bias(to, bias);
    return result.release();
  }
  const Operands with{of.input, weight, bias, to};
  const bool is_contiguous = has_format(to, false), is_last = has_format(to, true);
  ConvolutionKind kind{of.input->dtype, is_last, settings.allows_tf32, settings.is_deterministic, made, of.input->rank == 5 ? 3 : 2};
  if (is_contiguous == is_last) kind.is_last = has_last_result(of.input, weight);
  std::string why = run_format(kind, with);
  if (!why.empty() && kind.is_last) {  // fewer algorithms are for channels-last tensors
    kind.is_last = false;
    why = run_format(kind, with);
  }
  if (!why.empty()) {
    fail_text("WIR927", {of.name, " failed: ", why,
                         ": install cuDNN 9, set WIR_CUDNN to its path, or capture with CaptureOptions(matmuls='templates')"});
  }
  return result.release();
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_CUDA_OPERATOR(convolution)(Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                               const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                               int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups,
                               Tensor* ret0) {
  const Request of{"aten::convolution",       input,
                   weight->sizes(),           weight->rank,
                   {stride, stride_len_},     {padding, padding_len_},
                   {dilation, dilation_len_}, {output_padding, output_padding_len_},
                   transposed != 0,           groups};
  *ret0 = convolution(of, weight, bias != nullptr ? *bias : nullptr, nullptr);
  return 0;
}

WIR_CUDA_OPERATOR(convolution_out)(Tensor out, Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                                   const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                                   int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups) {
  const Request of{"aten::convolution.out",   input,
                   weight->sizes(),           weight->rank,
                   {stride, stride_len_},     {padding, padding_len_},
                   {dilation, dilation_len_}, {output_padding, output_padding_len_},
                   transposed != 0,           groups};
  convolution(of, weight, bias != nullptr ? *bias : nullptr, out);
  return 0;
}

WIR_CUDA_OPERATOR(_convolution)(Tensor input, Tensor weight, Tensor* bias, const int64_t* stride, int64_t stride_len_,
                                const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
                                int32_t transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t groups,
                                int32_t, int32_t deterministic, int32_t, int32_t allow_tf32, Tensor* ret0) {
  const Request of{"aten::_convolution",      input,
                   weight->sizes(),           weight->rank,
                   {stride, stride_len_},     {padding, padding_len_},
                   {dilation, dilation_len_}, {output_padding, output_padding_len_},
                   transposed != 0,           groups};
  *ret0 = convolution(of, weight, bias != nullptr ? *bias : nullptr, nullptr, {deterministic != 0, allow_tf32 != 0});
  return 0;
}
