// cuDNN's convolutions of float32 on a CPU, as `cuda_cudnn.cpp` asks for them; a thread that captures a stream has them noted.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace {

struct Shape {
  int type, rank, sizes[5], strides[5];
};
struct How {
  int dims, padding[3], steps[3], dilation[3], mode, type, math = 0, groups = 1;
};
struct Algorithm {
  int number, status;
  float time;
  size_t nbytes;
  int is_deterministic, math, reserved[3];
};
struct Handle {
  void* stream;
};
struct Call {
  Shape image, weight, out;
  How how;
  bool transposed;
  const float *x, *w;
  float* y;
  float kept;
};
struct Addition {
  Shape bias, out;
  const float* from;
  float* to;
};

std::map<std::string, int> counts;
std::string refused;
int refusals;
uint64_t workspace_of_last, stream_of_last;
int math_of_last;

constexpr int kBadParam = 2000, kNotSupported = 3000;

/// Counts a call of a function. Returns the status to fail with.
int count(const char* name) {
  ++counts[name];
  return refusals > 0 && refused == name ? --refusals, kNotSupported : 0;
}
const Shape& shape(void* one) { return *static_cast<Shape*>(one); }

bool is_dense(const Shape& one, bool is_last) {
  int step = 1;
  for (int i = 0; i < one.rank; ++i) {
    const int d = !is_last ? one.rank - 1 - i : i == 0 ? 1 : i == one.rank - 1 ? 0 : one.rank - i;
    if (one.sizes[d] != 1 && one.strides[d] != step) return false;
    step *= one.sizes[d];
  }
  return true;
}

/// Sizes and strides with a missing depth.
void widen(const Shape& one, int* sizes, int* strides) {
  const int more = 5 - one.rank;
  for (int i = 0; i < 5; ++i) sizes[i] = 1, strides[i] = 0;
  for (int i = 0; i < one.rank; ++i) sizes[i < 2 ? i : i + more] = one.sizes[i], strides[i < 2 ? i : i + more] = one.strides[i];
}

/// `image` is what a forward convolution reads, `out` what it writes; a transposed one exchanges them.
void compute(void* data, void*) {
  const Call& call = *static_cast<Call*>(data);
  int in[5], in_steps[5], out[5], out_steps[5], kernel[5], kernel_steps[5], pad[3] = {}, step[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  widen(call.image, in, in_steps), widen(call.out, out, out_steps), widen(call.weight, kernel, kernel_steps);
  for (int i = 0; i < call.how.dims; ++i) {
    const int d = 3 - call.how.dims + i;
    pad[d] = call.how.padding[i], step[d] = call.how.steps[i], dilation[d] = call.how.dilation[i];
  }
  const int* to = call.transposed ? in : out;
  const int* to_steps = call.transposed ? in_steps : out_steps;
  for (int n = 0; n < to[0]; ++n)
    for (int c = 0; c < to[1]; ++c)
      for (int z = 0; z < to[2]; ++z)
        for (int y = 0; y < to[3]; ++y)
          for (int x = 0; x < to[4]; ++x) {
            float& one = call.y[n * to_steps[0] + c * to_steps[1] + z * to_steps[2] + y * to_steps[3] + x * to_steps[4]];
            one = call.kept == 0 ? 0 : one * call.kept;
          }
  const int per_group = kernel[0] / call.how.groups;
  for (int n = 0; n < out[0]; ++n)
    for (int k = 0; k < out[1]; ++k)
      for (int c = 0; c < kernel[1]; ++c)
        for (int z = 0; z < out[2]; ++z)
          for (int y = 0; y < out[3]; ++y)
            for (int x = 0; x < out[4]; ++x)
              for (int a = 0; a < kernel[2]; ++a)
                for (int b = 0; b < kernel[3]; ++b)
                  for (int e = 0; e < kernel[4]; ++e) {
                    const int p[3] = {z * step[0] - pad[0] + a * dilation[0], y * step[1] - pad[1] + b * dilation[1],
                                      x * step[2] - pad[2] + e * dilation[2]};
                    if (p[0] < 0 || p[1] < 0 || p[2] < 0 || p[0] >= in[2] || p[1] >= in[3] || p[2] >= in[4]) continue;
                    const int channel = k / per_group * kernel[1] + c;
                    const int i = n * in_steps[0] + channel * in_steps[1] + p[0] * in_steps[2] + p[1] * in_steps[3] + p[2] * in_steps[4];
                    const int o = n * out_steps[0] + k * out_steps[1] + z * out_steps[2] + y * out_steps[3] + x * out_steps[4];
                    const float w =
                        call.w[k * kernel_steps[0] + c * kernel_steps[1] + a * kernel_steps[2] + b * kernel_steps[3] + e * kernel_steps[4]];
                    if (call.transposed) {
                      call.y[i] += call.x[o] * w;
                    } else {
                      call.y[o] += call.x[i] * w;
                    }
                  }
}

void add(void* data, void*) {
  const Addition& one = *static_cast<Addition*>(data);
  int sizes[5], steps[5], bias[5], bias_steps[5];
  widen(one.out, sizes, steps), widen(one.bias, bias, bias_steps);
  for (int n = 0; n < sizes[0]; ++n)
    for (int c = 0; c < sizes[1]; ++c)
      for (int z = 0; z < sizes[2]; ++z)
        for (int y = 0; y < sizes[3]; ++y)
          for (int x = 0; x < sizes[4]; ++x)
            one.to[n * steps[0] + c * steps[1] + z * steps[2] + y * steps[3] + x * steps[4]] += one.from[c * bias_steps[1]];
}

/// Performs a call, or has it noted for the graph of this thread.
template <class T> int perform(void (*run)(void*, void*), const T& call) {
  auto* made = new T(call);
  using Note = int(void (*)(void*, void*), void*);
  static const auto note = reinterpret_cast<Note*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_note"));
  if (note(run, made)) return 0;
  run(made, nullptr);
  delete made;
  return 0;
}

/// Whether descriptions are those of one convolution. `image` and `out` as in `compute`.
bool fits(const Shape& image, const Shape& weight, const How& how, const Shape& out) {
  const bool is_last = !is_dense(image, false) || !is_dense(out, false) || !is_dense(weight, false);
  if (!is_dense(image, is_last) || !is_dense(weight, is_last) || !is_dense(out, is_last)) return false;
  if (image.type != 0 || weight.type != 0 || out.type != 0 || how.type != 0 || how.mode != 1) return false;
  if (image.rank != how.dims + 2 || image.sizes[0] != out.sizes[0] || out.sizes[1] != weight.sizes[0]) return false;
  if (image.sizes[1] != weight.sizes[1] * how.groups) return false;
  for (int i = 0; i < how.dims; ++i) {
    const int room = image.sizes[2 + i] + 2 * how.padding[i] - (weight.sizes[2 + i] - 1) * how.dilation[i] - 1;
    if (room / how.steps[i] + 1 != out.sizes[2 + i]) return false;
  }
  return true;
}

int choose(const Shape& image, const Shape& weight, const How& how, const Shape& out, int asked, int* found, Algorithm* made) {
  if (const int status = count("choose")) return status;
  if (!fits(image, weight, how, out) || asked < 3) return kBadParam;
  *found = 3;
  made[0] = {4, kNotSupported, -1, 0, 1, 0, {}};
  made[1] = {1, 0, 1, 0, 0, how.math, {}};
  made[2] = {2, 0, 2, 0, 1, how.math, {}};
  return 0;
}

int convolve(const char* name, void* handle, bool transposed, const Shape& image, const Shape& weight, const How& how, const Shape& out,
             const void* x, const void* w, void* y, void* workspace, size_t nbytes, const void* alpha, const void* beta) {
  if (const int status = count(name)) return status;
  if (!fits(image, weight, how, out) || nbytes < 100 || workspace == nullptr || *static_cast<const float*>(alpha) != 1) return kBadParam;
  workspace_of_last = reinterpret_cast<uint64_t>(workspace);
  stream_of_last = reinterpret_cast<uint64_t>(static_cast<Handle*>(handle)->stream);
  math_of_last = how.math;
  std::memset(workspace, 1, nbytes);
  return perform(compute, Call{image, weight, out, how, transposed, static_cast<const float*>(x), static_cast<const float*>(w),
                               static_cast<float*>(y), *static_cast<const float*>(beta)});
}

template <class T> int create(void** made) {
  ++counts["live"];
  return *made = new T{}, 0;
}
template <class T> int destroy(void* made) {
  --counts["live"];
  return delete static_cast<T*>(made), 0;
}

}  // namespace

extern "C" {
/// Returns how often a function was called; "live": the number of descriptions.
int fake_count(const char* name) { return counts[name]; }
/// The next `times` calls of a function are not supported.
void fake_refuse(const char* name, int times) { refused = name, refusals = times; }
uint64_t fake_workspace() { return workspace_of_last; }
uint64_t fake_stream() { return stream_of_last; }
int fake_math() { return math_of_last; }

const char* cudnnGetErrorString(int status) { return status == kNotSupported ? "FAKE_NOT_SUPPORTED" : "FAKE_BAD_PARAM"; }
int cudnnCreate(void** made) {
  *made = new Handle{};
  return count("create");
}
int cudnnDestroy(void* made) { return delete static_cast<Handle*>(made), 0; }
int cudnnSetStream(void* handle, void* stream) { return static_cast<Handle*>(handle)->stream = stream, 0; }
int cudnnCreateTensorDescriptor(void** made) { return create<Shape>(made); }
int cudnnDestroyTensorDescriptor(void* made) { return destroy<Shape>(made); }
int cudnnSetTensorNdDescriptor(void* made, int type, int rank, const int* sizes, const int* strides) {
  auto& one = *static_cast<Shape*>(made);
  one.type = type, one.rank = rank;
  std::memcpy(one.sizes, sizes, sizeof(int) * static_cast<size_t>(rank));
  std::memcpy(one.strides, strides, sizeof(int) * static_cast<size_t>(rank));
  return rank < 4 || rank > 5 ? kBadParam : 0;
}
int cudnnCreateFilterDescriptor(void** made) { return create<Shape>(made); }
int cudnnDestroyFilterDescriptor(void* made) { return destroy<Shape>(made); }
int cudnnSetFilterNdDescriptor(void* made, int type, int format, int rank, const int* sizes) {
  auto& one = *static_cast<Shape*>(made);
  one.type = type, one.rank = rank;
  int step = 1;
  for (int i = 0; i < rank; ++i) {
    const int d = format == 0 ? rank - 1 - i : i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    one.sizes[d] = sizes[d], one.strides[d] = step, step *= sizes[d];
  }
  return rank < 4 || rank > 5 || format > 1 ? kBadParam : 0;
}
int cudnnCreateConvolutionDescriptor(void** made) { return create<How>(made); }
int cudnnDestroyConvolutionDescriptor(void* made) { return destroy<How>(made); }
int cudnnSetConvolutionNdDescriptor(void* made, int dims, const int* padding, const int* steps, const int* dilation, int mode, int type) {
  auto& one = *static_cast<How*>(made);
  one.dims = dims, one.mode = mode, one.type = type;
  for (int i = 0; i < dims; ++i) one.padding[i] = padding[i], one.steps[i] = steps[i], one.dilation[i] = dilation[i];
  return dims < 2 || dims > 3 ? kBadParam : 0;
}
int cudnnSetConvolutionMathType(void* made, int math) { return static_cast<How*>(made)->math = math, 0; }
int cudnnSetConvolutionGroupCount(void* made, int groups) { return static_cast<How*>(made)->groups = groups, 0; }

int cudnnGetConvolutionForwardAlgorithm_v7(void*, void* x, void* w, void* how, void* y, int asked, int* found, Algorithm* made) {
  return choose(shape(x), shape(w), *static_cast<How*>(how), shape(y), asked, found, made);
}
int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* nbytes) { return *nbytes = 100, 0; }
int cudnnConvolutionForward(void* handle, const void* alpha, void* x, const void* from, void* w, const void* weight, void* how, int,
                            void* workspace, size_t nbytes, const void* beta, void* y, void* to) {
  return convolve("forward", handle, false, shape(x), shape(w), *static_cast<How*>(how), shape(y), from, weight, to, workspace, nbytes,
                  alpha, beta);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void* w, void* dy, void* how, void* dx, int asked, int* found, Algorithm* made) {
  return choose(shape(dx), shape(w), *static_cast<How*>(how), shape(dy), asked, found, made);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* nbytes) { return *nbytes = 100, 0; }
int cudnnConvolutionBackwardData(void* handle, const void* alpha, void* w, const void* weight, void* dy, const void* from, void* how, int,
                                 void* workspace, size_t nbytes, const void* beta, void* dx, void* to) {
  return convolve("backward", handle, true, shape(dx), shape(w), *static_cast<How*>(how), shape(dy), from, weight, to, workspace, nbytes,
                  alpha, beta);
}
int cudnnAddTensor(void*, const void*, void* a, const void* from, const void*, void* c, void* to) {
  if (const int status = count("add")) return status;
  const Shape &bias = shape(a), &out = shape(c);
  if (bias.rank != out.rank || bias.sizes[1] != out.sizes[1] || bias.sizes[0] != 1 || bias.sizes[2] != 1) return kBadParam;
  return perform(add, Addition{bias, out, static_cast<const float*>(from), static_cast<float*>(to)});
}
}
