// Convolutions by cuDNN, which is opened by name. Operands are dense, all in one of two layouts.
#pragma once
#include "convolution_arguments.h"
#include "cuda_memory.h"

#include <array>
#include <map>

namespace wir {

/// A convolution for cuDNN: the integers that determine its algorithms.
struct ConvolutionKind {
  int32_t dtype;
  bool is_last;           // all tensors are channels-last; otherwise they are contiguous
  bool allows_tf32;       // float32 may be multiplied with 10 bits of the fraction
  bool is_deterministic;  // the same operands give the same bits
  Convolution of;
  int dims;  // spatial dimensions: 2 or 3
};
/// The addresses of a convolution's operands. `bias` may be null.
struct ConvolutionData {
  const unsigned char *input, *weight, *bias;
  unsigned char* out;
};
using ConvolutionKey = std::array<int64_t, 24>;
struct PreparedConvolution;

/// cuDNN with a workspace, for calls of one stream, one at a time.
class Convolutions {
 public:
  Convolutions();
  Convolutions(const Convolutions&) = delete;
  ~Convolutions();
  /// Computes a convolution, and adds the bias. Returns an error, or "".
  std::string convolve(int32_t gpu, void* stream, const ConvolutionKind& kind, const ConvolutionData& data);

 private:
  bool compute(PreparedConvolution& prepared, int32_t gpu, void* stream, const ConvolutionData& data, double kept);
  bool add_bias(PreparedConvolution& prepared, const ConvolutionData& data);
  unsigned char* workspace(size_t nbytes, int32_t gpu, void* stream, Owned& apart);

  void* handle_ = nullptr;
  int status_ = 0;  // of the last failed call
  Owned workspace_;
  std::map<ConvolutionKey, std::unique_ptr<PreparedConvolution>> prepared_;
};

}  // namespace wir
