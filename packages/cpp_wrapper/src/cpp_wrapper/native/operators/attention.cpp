// Attention: forward operators.
#include "attention.h"

#include "attention_rows.h"

namespace wir {
namespace {

/// Products of numbers that are worth a thread.
constexpr double kThreadWork = 250000;

template <class T, bool kPairs = false> void compute_rows(const Attention& call) {
  const AttentionRows<T, kPairs> rows(call);
  const auto all_rows = static_cast<double>(call.batch * call.heads * call.queries);
  const auto useful = static_cast<int64_t>(all_rows * static_cast<double>(call.keys * (call.width + call.depth)) / kThreadWork);
  const int64_t parts = std::max<int64_t>(1, std::min({rows.blocks(), thread_count(), useful}));
  const int64_t floats = rows.memory(), size = (rows.blocks() + parts - 1) / parts;
  const Scratch memory(parts * floats * static_cast<int64_t>(sizeof(float)));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      rows.compute(part * size, std::min((part + 1) * size, rows.blocks()), memory.as<float>() + part * floats);
    }
  });
}

/// A matrix of a batch and a head: positions x numbers.
struct Matrix {
  const double* data;
  int64_t row, step;
  double at(int64_t i, int64_t j) const { return data[i * row + j * step]; }
};
Matrix matrix_of(Tensor tensor, int64_t batch, int64_t head) {
  const int64_t* steps = tensor->strides();
  return {data_of<double>(tensor) + batch * steps[0] + head * steps[1], steps[2], steps[3]};
}

/// Returns what the mask adds to a score.
double mask_at(const Attention& call, int64_t batch, int64_t head, int64_t query, int64_t key) {
  const int64_t* steps = call.mask_steps;
  const int64_t offset = batch * steps[0] + head * steps[1] + query * steps[2] + key * steps[3];
  if (call.mask->dtype == kBool) return data_of<bool>(call.mask)[offset] ? 0 : -std::numeric_limits<double>::infinity();
  double found = 0;
  floats(call.mask->dtype, "a mask", [&]<class M>() { found = converted<double>(data_of<M>(call.mask)[offset]); });
  return found;
}

/// Computes a row in double.
void compute_double_row(const Attention& call, int64_t batch, int64_t head, int64_t i, double* scores) {
  const Matrix query = matrix_of(call.query, batch, head), key = matrix_of(call.key, batch, head / call.group()),
               value = matrix_of(call.value, batch, head / call.group());
  const int64_t keys = call.is_causal ? std::min(call.keys, i + 1) : call.keys;
  double highest = std::numeric_limits<double>::lowest(), total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (int64_t d = 0; d < call.width; ++d) score += query.at(i, d) * key.at(j, d);
    scores[j] = score * call.scale + (call.mask != nullptr ? mask_at(call, batch, head, i, j) : 0);
    highest = std::max(highest, scores[j]);
  }
  for (int64_t j = 0; j < keys; ++j) total += scores[j] = std::exp(scores[j] - highest);
  const int64_t* steps = call.out->strides();
  double* out = data_of<double>(call.out) + batch * steps[0] + head * steps[1] + i * steps[2];
  for (int64_t d = 0; d < call.depth; ++d) {
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += scores[j] * value.at(j, d);
    out[d * steps[3]] = total == 0 ? 0 : sum / total;
  }
  if (call.logsumexp == nullptr) return;
  const int64_t index = (batch * call.queries + i) * call.heads + head;
  static_cast<double*>(call.logsumexp)[index] = total == 0 ? 0 : highest + std::log(total);
}

void compute_doubles(const Attention& call) {
  const int64_t rows = call.batch * call.heads * call.queries, parts = std::max<int64_t>(1, std::min(rows, thread_count()));
  const int64_t size = (rows + parts - 1) / parts;
  const Scratch memory(parts * call.keys * static_cast<int64_t>(sizeof(double)));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t row = part * size; row < std::min((part + 1) * size, rows); ++row) {
        const int64_t head = row / call.queries;
        double* scores = memory.as<double>() + part * call.keys;
        compute_double_row(call, head / call.heads, head % call.heads, row % call.queries, scores);
      }
    }
  });
}

[[noreturn, gnu::cold]] void refuse(const char* name, const char* why) { fail_text("WIR927", {name, " failed: ", why}); }

void set_mask(Attention& call, const char* name, Tensor mask) {
  const int64_t sizes[] = {call.batch, call.heads, call.queries, call.keys};
  constexpr int32_t kTypes[] = {kBool, kF32, kF64, kF16, kBF16};
  if (std::find(kTypes, kTypes + 5, mask->dtype) == kTypes + 5) {
    refuse(name, "the mask contains neither bool nor floating-point numbers");
  }
  if (mask->rank > 4) refuse(name, "the mask has more than 4 dimensions");
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t dim = i - (4 - mask->rank), size = dim < 0 ? 1 : mask->sizes()[dim];
    if (size != 1 && size != sizes[i]) refuse(name, "the mask cannot be broadcast to batch x heads x queries x keys");
    call.mask_steps[i] = size == 1 ? 0 : mask->strides()[dim];
  }
  call.mask = mask;
}

/// Returns whether elements fill the memory between the first and the last one, each at another address.
bool is_dense(Tensor tensor, int64_t* order) {
  std::sort(order, order + 4, [&](int64_t a, int64_t b) { return tensor->strides()[a] < tensor->strides()[b]; });
  int64_t wanted = 1;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t size = tensor->sizes()[order[i]];
    if (size == 1) continue;
    if (tensor->strides()[order[i]] != wanted) return false;
    wanted *= size;
  }
  return true;
}
/// Creates a tensor as torch's `empty_like`: with the strides of a dense tensor, else dense with the same order of dimensions.
Owned new_like(Tensor tensor) {
  const int64_t *sizes = tensor->sizes(), *strides = tensor->strides();
  int64_t order[] = {3, 2, 1, 0}, dense[4];
  if (int64_t sorted[] = {3, 2, 1, 0}; tensor->count > 0 && is_dense(tensor, sorted)) {
    return Owned(new_tensor(4, sizes, strides, tensor->dtype));
  }
  const auto is_larger = [&](int64_t a, int64_t b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] > sizes[b];
  };
  for (int64_t i = 1; i < 4; ++i) {  // dimensions of stride 0 stay between their neighbours
    for (int64_t j = i, k = i - 1; k >= 0; --k) {
      if (strides[order[k]] == 0 || strides[order[j]] == 0) continue;
      if (!is_larger(order[k], order[j])) break;
      std::swap(order[k], order[j]);
      j = k;
    }
  }
  int64_t step = 1;
  for (const int64_t dim : order) {
    dense[dim] = step;
    if (sizes[dim] > 1) step *= sizes[dim];
  }
  return Owned(new_tensor(4, sizes, dense, tensor->dtype));
}

}  // namespace

Attention checked_attention(const char* name, Tensor query, Tensor key, Tensor value, Tensor* mask, bool is_causal,
                            const double* scale) {
  if (query->rank != 4 || key->rank != 4 || value->rank != 4) refuse(name, "query, key and value need 4 dimensions");
  if (key->dtype != query->dtype || value->dtype != query->dtype) {
    refuse(name, "query, key and value have different element types");
  }
  const int64_t *q = query->sizes(), *k = key->sizes(), *v = value->sizes();
  if (k[0] != q[0] || v[0] != q[0]) refuse(name, "query, key and value have different batches");
  if (k[1] != v[1] || k[2] != v[2]) refuse(name, "key and value have different numbers of heads or positions");
  if (k[3] != q[3]) refuse(name, "heads of query and key have different sizes");
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0) refuse(name, "the heads of the query are not a multiple of those of the key");
  Attention call{query, key, value, nullptr, nullptr, q[0], q[1], k[1], q[2], k[2], q[3], v[3], {}, is_causal, 0, nullptr};
  call.scale = scale != nullptr ? *scale : 1 / std::sqrt(static_cast<double>(q[3]));
  if (mask != nullptr) set_mask(call, name, *mask);
  return call;
}

void compute_attention(const Attention& call) {
  if (call.batch * call.heads * call.queries == 0) return;
  switch (call.query->dtype) {
    case kF32: return compute_rows<float>(call);
#ifndef WIR_WITHOUT_SMALL_FLOATS
    case kBF16:
#ifdef WIR_HAS_DOTS
      if (has_pair_products()) return compute_rows<BFloat16, true>(call);
#endif
      return compute_rows<BFloat16>(call);
    case kF16: return compute_rows<Half>(call);
#endif
    case kF64: return compute_doubles(call);
    default: fail_dtype("attention", call.query->dtype);
  }
}

}  // namespace wir

using namespace wir;

WIR_OPERATOR(_scaled_dot_product_flash_attention_for_cpu)
(Tensor query, Tensor key, Tensor value, double dropout_p, int32_t is_causal, Tensor* attn_mask, double* scale, Tensor* ret0,
 Tensor* ret1) {
  const char* name = "aten::_scaled_dot_product_flash_attention_for_cpu";
  Attention call = checked_attention(name, query, key, value, attn_mask, is_causal != 0, scale);
  if (dropout_p != 0) refuse(name, "dropout is not supported");
  if (call.depth != call.width) refuse(name, "heads of key and value have different sizes");
  Owned out = new_like(query);
  const int64_t sizes[] = {call.batch, call.heads, call.queries}, strides[] = {call.queries * call.heads, 1, call.heads};
  Owned logsumexp(new_tensor(3, sizes, strides, query->dtype == kF64 ? kF64 : kF32));
  call.out = out.get();
  call.logsumexp = data_of<void>(logsumexp.get());
  compute_attention(call);
  *ret0 = out.release();
  *ret1 = logsumexp.release();
  return 0;
}

/// Attention in memory of the caller, without the logarithms of the sums.
WIR_OPERATOR(attention_out)
(Tensor out, Tensor query, Tensor key, Tensor value, int32_t is_causal, Tensor* mask, double* scale) {
  const char* name = "wrapper_ir::attention.out";
  Attention call = checked_attention(name, query, key, value, mask, is_causal != 0, scale);
  const int64_t sizes[] = {call.batch, call.heads, call.queries, call.depth};
  if (out->rank != 4 || !std::equal(sizes, sizes + 4, out->sizes()) || out->dtype != query->dtype) {
    refuse(name, "`out` has another shape or element type than the result");
  }
  call.out = out;
  compute_attention(call);
  return 0;
}
