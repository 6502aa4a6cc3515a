// Arguments of convolutions: checks, geometry, and layouts.
#pragma once
#include "convolution_geometry.h"
#include "operator.h"

namespace wir {

/// A list of integers of an operator.
struct List {
  const int64_t* values;
  int64_t count;
};

/// Arguments of a convolution. `name` is the operator's.
struct Request {
  const char* name;
  Tensor input;
  const int64_t* weight_sizes;
  int64_t weight_rank;
  List stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

namespace {  // each file has its own: files of different instruction sets are linked together

/// Fails with the operator's name.
[[noreturn, gnu::cold]] void fail(const Request& of, const char* text) { fail_text("WIR927", {of.name, " failed: ", text}); }

/// Returns the value of a list for a dimension; lists of one value are for all.
int64_t value_of(const Request& of, const List& list, int64_t i, int64_t smallest, const char* text) {
  if (list.count != 1 && list.count != of.weight_rank - 2) fail(of, "a list needs one value, or one for each dimension");
  const int64_t value = list.values[list.count == 1 ? 0 : i];
  if (value < smallest) fail(of, text);
  return value;
}

/// Returns whether strides are those of a channels-last tensor, by torch's rule (`is_channels_last_strides_2d`, and 3d).
bool is_channels_last(int64_t rank, const int64_t* sizes, const int64_t* strides) {
  int64_t least = 0;
  if (strides[1] == 0) return false;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t d = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;  // channels, width, height, depth, images
    if (sizes[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;
    least = strides[d] * std::max<int64_t>(1, sizes[d]);
  }
  return true;
}

/// As above, for a tensor of one dimension as torch views it: with a height of one.
bool is_channels_last(Tensor tensor) {
  const int64_t *n = tensor->sizes(), *s = tensor->strides();
  if (tensor->rank != 3) return is_channels_last(tensor->rank, n, s);
  const int64_t sizes[4] = {n[0], n[1], 1, n[2]}, strides[4] = {s[0], s[1], n[2] * s[2], s[2]};
  return is_channels_last(4, sizes, strides);
}

/// Checks the arguments, and returns their geometry.
Convolution geometry(const Request& of) {
  const int64_t rank = of.weight_rank, *sizes = of.input->sizes(), *weight = of.weight_sizes;
  if (rank < 3 || rank > 5) fail(of, "only 1, 2 and 3 dimensions are supported");
  if (of.input->rank != rank) fail(of, "the input and the weight need the same number of dimensions");
  if (of.groups < 1) fail(of, "the number of groups must be positive");
  const int64_t in = sizes[1], rows = weight[0], columns = weight[1];
  if (of.transposed ? rows != in : columns * of.groups != in)
    fail(of, "the weight has another number of input channels than the input");
  if (rows % of.groups != 0) fail(of, "the weight's first size must be a multiple of the number of groups");
  Convolution made{sizes[0], of.groups, in / of.groups, of.transposed ? columns : rows / of.groups, {}, of.transposed};
  for (int64_t i = 0; i < rank - 2; ++i) {
    Axis& axis = made.axes[5 - rank + i];
    axis.in = sizes[2 + i], axis.kernel = weight[2 + i];
    axis.stride = value_of(of, of.stride, i, 1, "strides must be positive");
    axis.padding = value_of(of, of.padding, i, 0, "padding must not be negative");
    axis.dilation = value_of(of, of.dilation, i, 1, "dilations must be positive");
    const int64_t reach = (axis.kernel - 1) * axis.dilation;
    if (of.transposed) {
      const int64_t more = value_of(of, of.output_padding, i, 0, "output padding must not be negative");
      if (more >= axis.stride && more >= axis.dilation)
        fail(of, "output padding must be smaller than the stride or the dilation");
      axis.out = (axis.in - 1) * axis.stride - 2 * axis.padding + reach + 1 + more;
      if (axis.out < 1) fail(of, "the result would be empty");
    } else {
      const int64_t room = axis.in + 2 * axis.padding - reach - 1;
      if (room < 0) fail(of, "the kernel is larger than the padded input");
      axis.out = room / axis.stride + 1;
    }
  }
  return made;
}

/// Checks the bias, which may be null.
void check_bias(const Request& of, Tensor bias, const Convolution& made, int32_t dtype) {
  if (bias == nullptr) return;
  if (bias->rank != 1 || bias->sizes()[0] != made.groups * made.out_channels)
    fail(of, "the bias needs one number for each output channel");
  if (bias->dtype != dtype) fail(of, "input and bias need the same element type");
}

/// Checks the result that a caller provides.
void check_result(const Request& of, const Convolution& made, Tensor out) {
  bool fits = out->rank == of.input->rank && out->dtype == of.input->dtype && out->sizes()[0] == made.batch &&
              out->sizes()[1] == made.groups * made.out_channels;
  for (int64_t i = 2; fits && i < out->rank; ++i) fits = out->sizes()[i] == made.axes[3 - out->rank + i].out;
  if (!fits) fail(of, "`out` needs the sizes and the element type of the result");
}

/// Writes the dense strides of a contiguous or channels-last tensor.
void set_strides(int64_t rank, const int64_t* sizes, bool is_last, int64_t* strides) {
  int64_t step = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t d = !is_last ? rank - 1 - i : i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    strides[d] = step;
    step *= std::max<int64_t>(1, sizes[d]);
  }
}

}  // namespace
}  // namespace wir
