// What libtorch_cuda has of the C shim, over the CPU: its devices are the host, and all of their tensors are the CPU's. Libraries
// that need it by name find these functions before those of libtorch_cpu.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
struct Tensor;
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_cpu_mm_out(Tensor*, Tensor*, Tensor*);
int32_t aoti_torch_cpu_add_Tensor(Tensor*, Tensor*, double, Tensor**);
int32_t aoti_torch_cpu_addmm_out(Tensor*, Tensor*, Tensor*, Tensor*, double, double);
int32_t aoti_torch_cpu_bmm_out(Tensor*, Tensor*, Tensor*);
int32_t aoti_torch_cpu_baddbmm_out(Tensor*, Tensor*, Tensor*, Tensor*, double, double);
int32_t aoti_torch_new_tensor_handle(Tensor*, Tensor**);
int32_t aoti_torch_delete_tensor_object(Tensor*);

static int32_t current_device = 0, tensors_on = 0;
static thread_local void* current_stream = nullptr;
static char log_text[1 << 16];
static int matmuls;

__attribute__((visibility("default"))) void fake_device(int32_t current, int32_t tensors) {
  current_device = current;
  tensors_on = tensors;
}
void fake_stream(void* stream) { current_stream = stream; }
const char* fake_log() { return log_text; }
int fake_torch_matmuls() { return matmuls; }
void fake_forget() { log_text[0] = 0; }
static void note(const char* what, const void* value) {
  const size_t length = std::strlen(log_text);
  std::snprintf(log_text + length, sizeof log_text - length, "%s %lx\n", what, reinterpret_cast<unsigned long>(value));
}

static void* of_cpu(const char* name) { return dlsym(dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD), name); }

int32_t aoti_torch_device_type_cuda() { return aoti_torch_device_type_cpu(); }
int32_t aoti_torch_get_current_device_index(int32_t* found) { return *found = current_device, 0; }
int32_t aoti_torch_get_device_index(Tensor*, int32_t* found) { return *found = tensors_on, 0; }
int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t type,
                                 int32_t, Tensor** made) {
  using Function = int32_t(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Tensor**);
  static const auto real = reinterpret_cast<Function*>(of_cpu("aoti_torch_empty_strided"));
  return real(rank, sizes, strides, dtype, type, 0, made);
}
int32_t aoti_torch_create_cuda_guard(int32_t device, void** guard) {
  *guard = reinterpret_cast<void*>(static_cast<intptr_t>(current_device) + 1);
  note("device", reinterpret_cast<void*>(static_cast<intptr_t>(device)));
  current_device = device;
  return 0;
}
int32_t aoti_torch_delete_cuda_guard(void* guard) {
  current_device = static_cast<int32_t>(reinterpret_cast<intptr_t>(guard)) - 1;
  note("back to device", reinterpret_cast<void*>(static_cast<intptr_t>(current_device)));
  return 0;
}
struct StreamGuard {
  void* before;
};
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t, StreamGuard** guard) {
  *guard = new StreamGuard{current_stream};
  note("stream", stream);
  current_stream = stream;
  return 0;
}
int32_t aoti_torch_delete_cuda_stream_guard(StreamGuard* guard) {
  current_stream = guard->before;
  note("back to stream", current_stream);
  delete guard;
  return 0;
}
/// The driver's own, which notes what is to be done when a graph is replayed.
static bool is_noted(void (*run)(void*, void*), void* data) {
  using Note = int(void (*)(void*, void*), void*);
  static const auto fake = reinterpret_cast<Note*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_note"));
  return fake(run, data) != 0;
}
struct Two {
  Tensor *first = nullptr, *second = nullptr;
};
static int32_t copy_now(Tensor* to, Tensor* from) {
  static const auto real = reinterpret_cast<int32_t (*)(Tensor*, Tensor*, int32_t)>(of_cpu("aoti_torch_copy_"));
  return real(to, from, 0);
}
static int32_t zero_now(Tensor* tensor) {
  static const auto real = reinterpret_cast<int32_t (*)(Tensor*)>(of_cpu("aoti_torch_zero_"));
  return real(tensor);
}
int32_t aoti_torch_copy_(Tensor* to, Tensor* from, int32_t) {
  auto* both = new Two;
  aoti_torch_new_tensor_handle(to, &both->first), aoti_torch_new_tensor_handle(from, &both->second);
  const auto run = [](void* data, void*) { copy_now(static_cast<Two*>(data)->first, static_cast<Two*>(data)->second); };
  if (is_noted(run, both)) return 0;
  aoti_torch_delete_tensor_object(both->first), aoti_torch_delete_tensor_object(both->second);
  delete both;
  return copy_now(to, from);
}
int32_t aoti_torch_zero_(Tensor* tensor) {
  Tensor* own = nullptr;
  aoti_torch_new_tensor_handle(tensor, &own);
  if (is_noted([](void* data, void*) { zero_now(static_cast<Tensor*>(data)); }, own)) return 0;
  aoti_torch_delete_tensor_object(own);
  return zero_now(tensor);
}
int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) { return *stream = current_stream, 0; }
int32_t aoti_torch_cuda_add_Tensor(Tensor* a, Tensor* b, double alpha, Tensor** made) { return aoti_torch_cpu_add_Tensor(a, b, alpha, made); }
int32_t aoti_torch_cuda_mm_out(Tensor* out, Tensor* a, Tensor* b) {
  ++matmuls;
  return aoti_torch_cpu_mm_out(out, a, b);
}
int32_t aoti_torch_cuda_bmm_out(Tensor* out, Tensor* a, Tensor* b) { return aoti_torch_cpu_bmm_out(out, a, b); }
int32_t aoti_torch_cuda_baddbmm_out(Tensor* out, Tensor* self, Tensor* a, Tensor* b, double beta, double alpha) {
  return aoti_torch_cpu_baddbmm_out(out, self, a, b, beta, alpha);
}
int32_t aoti_torch_cuda_addmm_out(Tensor* out, Tensor* self, Tensor* a, Tensor* b, double beta, double alpha) {
  ++matmuls;
  return aoti_torch_cpu_addmm_out(out, self, a, b, beta, alpha);
}
}
