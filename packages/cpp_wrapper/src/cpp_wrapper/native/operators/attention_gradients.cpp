// Gradients of attention.
#include "attention.h"
#include "layouts.h"
#include "products.h"

namespace wir {
namespace {

constexpr const char* kName = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";

/// Returns a matrix of a batch and a head of a contiguous tensor.
Owned matrix_of(const Owned& tensor, int64_t batch, int64_t head) {
  const int64_t *sizes = tensor->sizes(), *strides = tensor->strides();
  return view_of(tensor.get(), {sizes[2], sizes[3]}, {strides[2], strides[3]}, batch * strides[0] + head * strides[1]);
}
Owned transposed(const Owned& matrix) {
  return view_of(matrix.get(), {matrix->sizes()[1], matrix->sizes()[0]}, {matrix->strides()[1], matrix->strides()[0]});
}

/// Arguments of a call, in the type in which it computes.
struct Operands4 {
  Owned query, key, value, out, grad, logsumexp, mask;
};

/// Adds to `to`, or replaces it.
void multiply(const Owned& to, const Owned& a, const Owned& b, double factor, bool adds) {
  multiply_matrices(kName, to.get(), {adds ? to.get() : nullptr, a.get(), b.get(), adds ? 1.0 : 0.0, factor}, 2);
}

/// Replaces scores of a head by the shares of values: exp(score + mask - logsumexp). Masks are of numbers, or bool.
template <class W> void make_shares(const Attention& call, const Operands4& given, int64_t batch, int64_t head, W* scores) {
  const int64_t* steps = given.logsumexp->strides();
  const int64_t mask_at = batch * call.mask_steps[0] + head * call.mask_steps[1];
  for (int64_t i = 0; i < call.queries; ++i) {
    const W sum = data_of<W>(given.logsumexp.get())[batch * steps[0] + head * steps[1] + i * steps[2]];
    W* line = scores + i * call.keys;
    for (int64_t j = 0; j < call.keys; ++j) {
      W added = 0;
      if (call.mask != nullptr) {
        const int64_t at = mask_at + i * call.mask_steps[2] + j * call.mask_steps[3];
        if (given.mask) {
          added = data_of<W>(given.mask.get())[at];
        } else if (!data_of<bool>(call.mask)[at]) {
          added = -std::numeric_limits<W>::infinity();
        }
      }
      const bool is_left_out = (call.is_causal && j > i) || (std::isinf(added) && added < 0);
      line[j] = is_left_out ? W(0) : std::exp(line[j] + added - sum);
    }
  }
}

/// Computes the gradients of a head, which are added for key and value: heads of the query may share them.
template <class W>
void add_head(const Attention& call, const Operands4& given, int64_t batch, int64_t head, const Owned& shares, const Owned& slopes,
              const Owned* grads) {
  const int64_t shared = head / call.group();
  const Owned query = matrix_of(given.query, batch, head), key = matrix_of(given.key, batch, shared);
  const Owned value = matrix_of(given.value, batch, shared), out = matrix_of(given.out, batch, head);
  const Owned grad = matrix_of(given.grad, batch, head);
  multiply(shares, query, transposed(key), call.scale, false);
  W* share = data_of<W>(shares.get());
  make_shares(call, given, batch, head, share);
  multiply(matrix_of(grads[2], batch, shared), transposed(shares), grad, 1, true);
  multiply(slopes, grad, transposed(value), 1, false);
  W* slope = data_of<W>(slopes.get());
  for (int64_t i = 0; i < call.queries; ++i) {
    W total = 0;
    for (int64_t d = 0; d < call.depth; ++d) {
      total += data_of<W>(grad.get())[i * grad->strides()[0] + d] * data_of<W>(out.get())[i * out->strides()[0] + d];
    }
    for (int64_t j = 0; j < call.keys; ++j) slope[i * call.keys + j] = share[i * call.keys + j] * (slope[i * call.keys + j] - total);
  }
  multiply(matrix_of(grads[0], batch, head), slopes, key, call.scale, false);
  multiply(matrix_of(grads[1], batch, shared), transposed(slopes), query, call.scale, true);
}

/// Returns a tensor of an argument's sizes as torch: positions before heads in memory.
Owned positions_first(Tensor like, int32_t dtype) {
  const int64_t* n = like->sizes();
  return empty(sizes_of(like), {n[2] * n[1] * n[3], n[3], n[1] * n[3], 1}, dtype);
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_scaled_dot_product_flash_attention_for_cpu_backward)
(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, double dropout_p, int32_t is_causal,
 Tensor* attn_mask, double* scale, Tensor* ret0, Tensor* ret1, Tensor* ret2) {
  if (!is_float(query->dtype)) fail_dtype(kName, query->dtype);
  const Attention call = checked_attention(kName, query, key, value, attn_mask, is_causal != 0, scale);
  if (dropout_p != 0) fail_operator(kName, "dropout is not supported");
  const Sizes sizes{call.batch, call.heads, call.queries, call.depth}, rows{call.batch, call.heads, call.queries};
  if (sizes_of(out) != sizes || sizes_of(grad_out) != sizes || sizes_of(logsumexp) != rows) {
    fail_operator(kName, "the gradient or the results of the forward operator have other shapes");
  }
  if (grad_out->dtype != query->dtype || out->dtype != query->dtype) fail_operator(kName, "its arguments have different element types");
  const int32_t dtype = query->dtype == kF64 ? kF64 : kF32;
  Operands4 given{contiguous(query, dtype), contiguous(key, dtype), contiguous(value, dtype), contiguous(out, dtype),
                  contiguous(grad_out, dtype), contiguous(logsumexp, dtype), nullptr};
  Attention shaped = call;
  if (call.mask != nullptr && call.mask->dtype != kBool) {
    given.mask = contiguous(call.mask, dtype);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t dim = i - (4 - call.mask->rank);
      if (shaped.mask_steps[i] != 0) shaped.mask_steps[i] = given.mask->strides()[dim];
    }
  }
  const Owned sums[] = {zeros(sizes_of(query), dtype), zeros(sizes_of(key), dtype), zeros(sizes_of(value), dtype)};
  const Owned shares = empty({call.queries, call.keys}, dtype), slopes = empty({call.queries, call.keys}, dtype);
  for (int64_t batch = 0; batch < call.batch; ++batch) {
    for (int64_t head = 0; head < call.heads; ++head) {
      const auto add = dtype == kF64 ? add_head<double> : add_head<float>;
      add(shaped, given, batch, head, shares, slopes, sums);
    }
  }
  Tensor* const results[] = {ret0, ret1, ret2};
  for (int64_t i = 0; i < 3; ++i) {
    Owned made = positions_first(sums[i].get(), query->dtype);
    copy_into(made.get(), sums[i].get());
    *results[i] = made.release();
  }
  return 0;
}
