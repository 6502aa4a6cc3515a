// Attention: arguments that its operators share, and the kernels by element type.
#pragma once
#include "operator.h"

namespace wir {

/// A call: batch x heads x positions x size of a head. Several heads of the query share one of key and value.
struct Attention {
  Tensor query, key, value, mask, out;  // `mask`: null or of rank 4 after broadcasting, with `mask_steps`
  int64_t batch, heads, shared_heads, queries, keys, width, depth;
  int64_t mask_steps[4];
  bool is_causal;
  double scale;
  void* logsumexp;  // null, or batch x positions x heads of float (double for double)

  int64_t group() const { return heads / shared_heads; }
  /// Rows of queries that use the same keys.
  int64_t rows() const { return group() * queries; }
};

/// Checks shapes and types. Fails with the operator's name.
Attention checked_attention(const char* name, Tensor query, Tensor key, Tensor value, Tensor* mask, bool is_causal,
                            const double* scale);
/// Computes in float, or in double for double.
void compute_attention(const Attention& call);

}  // namespace wir
