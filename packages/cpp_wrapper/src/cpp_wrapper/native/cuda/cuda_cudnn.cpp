// cuDNN: its functions, descriptions of tensors, and an algorithm for each kind of convolution.
#include "cuda_cudnn.h"

#include <dlfcn.h>

#include <bit>
#include <cstdlib>

namespace wir {
namespace {

// The used part of cudnn.h, as in its public interface.
enum DataType { kFloat = 0, kDouble = 1, kHalf = 2, kBrain = 9 };
enum MathType { kDefaultMath = 0, kTensorMath = 1, kExactMath = 3 };
enum Format { kContiguousFormat = 0, kLastFormat = 1 };
constexpr int kCrossCorrelation = 1, kMaxAlgorithms = 8;
constexpr int kBadArguments = 2, kNotSupported = 3;  // thousands of a status
/// Algorithms that need more memory are used only if there is no other one.
constexpr size_t kMaxWorkspace = 256 << 20, kMinWorkspace = 1 << 20;

struct Algorithm {
  int number, status;
  float time;
  size_t nbytes;
  int is_deterministic, math, reserved[3];
};

struct Cudnn {
  const char* (*GetErrorString)(int);
  int (*Create)(void**);
  int (*Destroy)(void*);
  int (*SetStream)(void*, void*);
  int (*CreateTensorDescriptor)(void**);
  int (*DestroyTensorDescriptor)(void*);
  int (*SetTensorNdDescriptor)(void*, int, int, const int*, const int*);
  int (*CreateFilterDescriptor)(void**);
  int (*DestroyFilterDescriptor)(void*);
  int (*SetFilterNdDescriptor)(void*, int, int, int, const int*);
  int (*CreateConvolutionDescriptor)(void**);
  int (*DestroyConvolutionDescriptor)(void*);
  int (*SetConvolutionNdDescriptor)(void*, int, const int*, const int*, const int*, int, int);
  int (*SetConvolutionMathType)(void*, int);
  int (*SetConvolutionGroupCount)(void*, int);
  int (*GetConvolutionForwardAlgorithm_v7)(void*, void*, void*, void*, void*, int, int*, Algorithm*);
  int (*GetConvolutionForwardWorkspaceSize)(void*, void*, void*, void*, void*, int, size_t*);
  int (*ConvolutionForward)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*, void*,
                            void*);
  int (*GetConvolutionBackwardDataAlgorithm_v7)(void*, void*, void*, void*, void*, int, int*, Algorithm*);
  int (*GetConvolutionBackwardDataWorkspaceSize)(void*, void*, void*, void*, void*, int, size_t*);
  int (*ConvolutionBackwardData)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,
                                 void*, void*);
  int (*AddTensor)(void*, const void*, void*, const void*, const void*, void*, void*);
};
constexpr const char* kNames[] = {
    "GetErrorString", "Create", "Destroy", "SetStream", "CreateTensorDescriptor", "DestroyTensorDescriptor", "SetTensorNdDescriptor",
    "CreateFilterDescriptor", "DestroyFilterDescriptor", "SetFilterNdDescriptor", "CreateConvolutionDescriptor",
    "DestroyConvolutionDescriptor", "SetConvolutionNdDescriptor", "SetConvolutionMathType", "SetConvolutionGroupCount",
    "GetConvolutionForwardAlgorithm_v7", "GetConvolutionForwardWorkspaceSize", "ConvolutionForward",
    "GetConvolutionBackwardDataAlgorithm_v7", "GetConvolutionBackwardDataWorkspaceSize", "ConvolutionBackwardData", "AddTensor"};
static_assert(sizeof(Cudnn) == sizeof kNames, "a name for each function, in order");

/// cuDNN's functions, or why there are none.
struct Opened {
  Cudnn functions;
  std::string why;
};

void open_library(Opened& made) {
  const char* const given = std::getenv("WIR_CUDNN");
  void* const library = dlopen(given != nullptr ? given : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    made.why = join({"there is no cuDNN 9 (", why != nullptr ? why : "", ")"});
    return;
  }
  void* functions[sizeof kNames / sizeof kNames[0]];
  for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    functions[i] = dlsym(library, join({"cudnn", kNames[i]}).c_str());
    if (functions[i] == nullptr) {
      made.why = join({"cuDNN has no function cudnn", kNames[i]});
      return;
    }
  }
  std::memcpy(&made.functions, functions, sizeof made.functions);
}
const Opened& opened() {
  // Never destroyed: states of streams, which live as long as the process, use it.
  static const Opened* const found = [] {
    auto* const made = new Opened{};
    open_library(*made);
    return made;
  }();
  return *found;
}
const Cudnn& cudnn() { return opened().functions; }

int data_type(int32_t dtype) {
  switch (dtype) {
    case kF32: return kFloat;
    case kF64: return kDouble;
    case kF16: return kHalf;
    default: return kBrain;
  }
}

/// A description of cuDNN, freed at the end of the scope; null if there was none.
template <auto Make, auto End> class Description {
 public:
  Description() {
    if ((cudnn().*Make)(&made_) != 0) made_ = nullptr;
  }
  Description(const Description&) = delete;
  ~Description() {
    if (made_ != nullptr) (cudnn().*End)(made_);
  }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
};

/// Sizes of images or weights, with the kind's number of spatial dimensions.
struct Sizes {
  int values[5], strides[5];
  /// `last`: channels are innermost in memory, and images outermost.
  Sizes(int dims, int64_t first, int64_t second, const int64_t (&spatial)[3], bool is_last) {
    const int rank = dims + 2;
    int64_t wide[5] = {first, second}, steps[5];
    std::copy(spatial + 3 - dims, spatial + 3, wide + 2);
    set_strides(rank, wide, is_last, steps);
    for (int i = 0; i < rank; ++i) values[i] = static_cast<int>(wide[i]), strides[i] = static_cast<int>(steps[i]);
  }
};

}  // namespace

/// A kind of convolution: the descriptions that cuDNN is called with, and algorithms, the first of which works.
struct PreparedConvolution {
  Description<&Cudnn::CreateTensorDescriptor, &Cudnn::DestroyTensorDescriptor> input, out, bias;
  Description<&Cudnn::CreateFilterDescriptor, &Cudnn::DestroyFilterDescriptor> weight;
  Description<&Cudnn::CreateConvolutionDescriptor, &Cudnn::DestroyConvolutionDescriptor> how;
  Algorithm algorithms[kMaxAlgorithms];
  int first = 0, count = 0;
  int status = 0;  // of the search, or of the last algorithm
  bool transposed = false, is_double = false, adds_bias = true;
};

namespace {

constexpr size_t kMaxPrepared = 512;

ConvolutionKey key_of(const ConvolutionKind& kind) {
  const Convolution& of = kind.of;
  const int flags = kind.is_last | kind.allows_tf32 << 1 | kind.is_deterministic << 2 | of.transposed << 3 | kind.dims << 4;
  ConvolutionKey key{kind.dtype, flags, of.batch, of.groups, of.in_channels, of.out_channels};
  size_t at = 6;
  for (const Axis& axis : of.axes) {
    for (const int64_t value : {axis.in, axis.out, axis.kernel, axis.stride, axis.padding, axis.dilation}) key[at++] = value;
  }
  return key;
}

/// Describes the tensors and the convolution. Returns cuDNN's status.
int describe(PreparedConvolution& made, const ConvolutionKind& kind) {
  const Convolution& of = kind.of;
  const int type = data_type(kind.dtype), rank = kind.dims + 2;
  int64_t in[3], result[3], kernel[3];
  const int64_t ones[3] = {1, 1, 1};
  int steps[3], padding[3], dilation[3];
  for (int i = 0; i < 3; ++i) {
    const Axis& axis = of.axes[i];
    in[i] = axis.in, result[i] = axis.out, kernel[i] = axis.kernel;
    steps[i] = static_cast<int>(axis.stride), padding[i] = static_cast<int>(axis.padding), dilation[i] = static_cast<int>(axis.dilation);
  }
  const int64_t inputs = of.groups * of.in_channels, outputs = of.groups * of.out_channels;
  const Sizes from(kind.dims, of.batch, inputs, in, kind.is_last), to(kind.dims, of.batch, outputs, result, kind.is_last);
  const Sizes bias(kind.dims, 1, outputs, ones, kind.is_last);
  const Sizes weight(kind.dims, of.transposed ? inputs : outputs, of.transposed ? of.out_channels : of.in_channels, kernel, kind.is_last);
  const int compute = kind.dtype == kF64 ? kDouble : kFloat, at = 3 - kind.dims;
  const int math = kind.dtype == kF32 ? (kind.allows_tf32 ? kDefaultMath : kExactMath) : kind.dtype == kF64 ? kDefaultMath : kTensorMath;
  const Cudnn& api = cudnn();
  for (void* const one : {made.input.get(), made.out.get(), made.bias.get(), made.weight.get(), made.how.get()}) {
    if (one == nullptr) fail_text("WIR927", {"cuDNN has no memory for a description"});
  }
  int status = api.SetTensorNdDescriptor(made.input.get(), type, rank, from.values, from.strides);
  if (status == 0) status = api.SetTensorNdDescriptor(made.out.get(), type, rank, to.values, to.strides);
  if (status == 0) status = api.SetTensorNdDescriptor(made.bias.get(), type, rank, bias.values, bias.strides);
  if (status == 0)
    status = api.SetFilterNdDescriptor(made.weight.get(), type, kind.is_last ? kLastFormat : kContiguousFormat, rank, weight.values);
  if (status == 0)
    status = api.SetConvolutionNdDescriptor(made.how.get(), kind.dims, padding + at, steps + at, dilation + at, kCrossCorrelation, compute);
  if (status == 0) status = api.SetConvolutionGroupCount(made.how.get(), static_cast<int>(of.groups));
  if (status == 0) status = api.SetConvolutionMathType(made.how.get(), math);
  return status;
}

/// Asks for algorithms, the best first, and the memory that they need. Returns cuDNN's status.
int find_algorithms(void* handle, PreparedConvolution& made, const ConvolutionKind& kind) {
  const Cudnn& api = cudnn();
  const bool is_exact = kind.dtype == kF32 && !kind.allows_tf32;
  void *const input = made.input.get(), *const weight = made.weight.get(), *const how = made.how.get(), *const out = made.out.get();
  Algorithm found[kMaxAlgorithms];
  int count = 0;
  const int status = made.transposed
                         ? api.GetConvolutionBackwardDataAlgorithm_v7(handle, weight, input, how, out, kMaxAlgorithms, &count, found)
                         : api.GetConvolutionForwardAlgorithm_v7(handle, input, weight, how, out, kMaxAlgorithms, &count, found);
  if (status != 0) return status;
  for (Algorithm& one : found) {
    if (&one >= found + count || one.status != 0 || (kind.is_deterministic && one.is_deterministic == 0)) continue;
    if (is_exact) one.math = kExactMath;
    if (api.SetConvolutionMathType(how, one.math) != 0) continue;
    const int sized = made.transposed
                          ? api.GetConvolutionBackwardDataWorkspaceSize(handle, weight, input, how, out, one.number, &one.nbytes)
                          : api.GetConvolutionForwardWorkspaceSize(handle, input, weight, how, out, one.number, &one.nbytes);
    if (sized == 0) made.algorithms[made.count++] = one;
  }
  std::stable_partition(made.algorithms, made.algorithms + made.count, [](const Algorithm& one) { return one.nbytes <= kMaxWorkspace; });
  return 0;
}

/// Sets each image of the result to the bias.
void begin_with_bias(const ConvolutionKind& kind, const ConvolutionData& data, int32_t gpu) {
  const Convolution& of = kind.of;
  const int64_t channels = of.groups * of.out_channels, positions = of.axes[0].out * of.axes[1].out * of.axes[2].out;
  const int64_t sizes[] = {of.batch, positions, channels}, each[] = {0, 0, 1};
  const int64_t strides[] = {positions * channels, kind.is_last ? channels : 1, kind.is_last ? 1 : positions};
  const Owned to(borrow_tensor(data.out, 0, 3, sizes, strides, kind.dtype, gpu));
  const Owned from(borrow_tensor(const_cast<unsigned char*>(data.bias), 0, 3, sizes, each, kind.dtype, gpu));
  copy_on_device(to.get(), from.get());
}

/// A factor in the type that cuDNN scales by.
struct Factor {
  double wide;
  float narrow;
  bool is_double;
  Factor(double value, bool is_double) : wide(value), narrow(static_cast<float>(value)), is_double(is_double) {}
  const void* get() const { return is_double ? static_cast<const void*>(&wide) : &narrow; }
};

}  // namespace

Convolutions::Convolutions() = default;
Convolutions::~Convolutions() {
  prepared_.clear();
  if (handle_ != nullptr) cudnn().Destroy(handle_);
}

/// Returns memory for a call. Graphs that a caller captures have their own: the stream's may be replaced by a larger one.
unsigned char* Convolutions::workspace(size_t nbytes, int32_t gpu, void* stream, Owned& apart) {
  if (nbytes == 0) return nullptr;
  int is_capturing = 0;
  int64_t size = static_cast<int64_t>(nbytes);
  if (driver().StreamIsCapturing(stream, &is_capturing) != 0 || is_capturing != 0) {
    apart.reset(device_memory.allocate(1, &size, nullptr, kU8, gpu));
    return apart->data();
  }
  if (workspace_ == nullptr || workspace_->count < size) {
    size = static_cast<int64_t>(std::bit_ceil(std::max(nbytes, kMinWorkspace)));
    workspace_.reset();
    workspace_.reset(device_memory.allocate(1, &size, nullptr, kU8, gpu));
  }
  return workspace_->data();
}

/// Sets `out` to the convolution plus `kept` times its elements, by the first algorithm that works.
bool Convolutions::compute(PreparedConvolution& one, int32_t gpu, void* stream, const ConvolutionData& data, double kept) {
  const Cudnn& api = cudnn();
  const Factor all(1, one.is_double), before(kept, one.is_double);
  void *const input = one.input.get(), *const weight = one.weight.get(), *const how = one.how.get(), *const out = one.out.get();
  for (; one.first < one.count; ++one.first) {
    const Algorithm& chosen = one.algorithms[one.first];
    Owned apart;
    unsigned char* const memory = workspace(chosen.nbytes, gpu, stream, apart);
    status_ = api.SetConvolutionMathType(how, chosen.math);
    if (status_ == 0) {
      status_ = one.transposed ? api.ConvolutionBackwardData(handle_, all.get(), weight, data.weight, input, data.input, how, chosen.number,
                                                             memory, chosen.nbytes, before.get(), out, data.out)
                               : api.ConvolutionForward(handle_, all.get(), input, data.input, weight, data.weight, how, chosen.number,
                                                        memory, chosen.nbytes, before.get(), out, data.out);
    }
    if (status_ == 0) return true;
    if (status_ / 1000 != kNotSupported) return false;
    one.status = status_;
  }
  status_ = one.status;
  return false;
}

/// Adds the bias. Returns false if cuDNN does not.
bool Convolutions::add_bias(PreparedConvolution& one, const ConvolutionData& data) {
  const Factor all(1, one.is_double);
  if (one.adds_bias)
    one.adds_bias = cudnn().AddTensor(handle_, all.get(), one.bias.get(), data.bias, all.get(), one.out.get(), data.out) == 0;
  return one.adds_bias;
}

std::string Convolutions::convolve(int32_t gpu, void* stream, const ConvolutionKind& kind, const ConvolutionData& data) {
  if (!opened().why.empty()) return opened().why;
  const Cudnn& api = cudnn();
  const auto error = [&] {
    return status_ == 0 ? std::string("cuDNN has no algorithm for it") : join({"cuDNN says ", status_, ", ", api.GetErrorString(status_)});
  };
  if (handle_ == nullptr && (status_ = api.Create(&handle_)) != 0) {
    handle_ = nullptr;
    return error();
  }
  if ((status_ = api.SetStream(handle_, stream)) != 0) return error();
  if (prepared_.size() > kMaxPrepared) prepared_.clear();  // sizes vary: start again
  std::unique_ptr<PreparedConvolution>& prepared = prepared_[key_of(kind)];
  if (prepared == nullptr) {
    auto made = std::make_unique<PreparedConvolution>();
    made->transposed = kind.of.transposed, made->is_double = kind.dtype == kF64;
    status_ = describe(*made, kind);
    if (status_ == 0) status_ = find_algorithms(handle_, *made, kind);
    if (status_ != 0 && status_ / 1000 != kBadArguments && status_ / 1000 != kNotSupported) return error();  // may pass
    made->status = status_;
    prepared = std::move(made);
  }
  PreparedConvolution& one = *prepared;
  if (data.bias == nullptr || one.adds_bias) {
    if (!compute(one, gpu, stream, data, 0)) return error();
    if (data.bias == nullptr || add_bias(one, data)) return "";
  }
  begin_with_bias(kind, data, gpu);
  return compute(one, gpu, stream, data, 1) ? "" : error();
}

}  // namespace wir
