#include "driver.h"

#include <dlfcn.h>

#include <cstring>

#include "container.h"

namespace wir {
namespace {

// The versions of these functions that `cuda.h` chooses.
constexpr const char* kNames[] = {
    "cuInit", "cuGetErrorName", "cuGetErrorString", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSynchronize", "cuModuleLoadData", "cuModuleUnload",
    "cuModuleGetFunction", "cuFuncSetAttribute", "cuFuncSetCacheConfig", "cuLaunchKernel", "cuLaunchKernelEx",
    "cuStreamCreate", "cuStreamDestroy_v2", "cuStreamIsCapturing", "cuStreamBeginCapture_v2",
    "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuMemcpyDtoDAsync_v2",
    "cuMemcpyAsync", "cuMemsetD8Async", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemAllocFromPoolAsync", "cuMemFreeAsync",
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
    "cuStreamWaitEvent", "cuEventCreate", "cuEventRecord", "cuEventSynchronize",
    "cuEventDestroy_v2", "cuDriverGetVersion", "cuTensorMapEncodeTiled"};
constexpr size_t kFunctions = sizeof kNames / sizeof kNames[0];
static_assert(sizeof(Driver) == sizeof kNames, "a name for each function, in order");

Driver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail_text("CPP590", {"the CUDA driver cannot be used: ", dlerror()});
  void* functions[kFunctions];
  for (size_t i = 0; i < kFunctions; ++i) {
    functions[i] = dlsym(library, kNames[i]);
    if (functions[i] == nullptr) fail_text("CPP590", {"the CUDA driver is too old: it has no ", kNames[i]});
  }
  Driver made;
  std::memcpy(&made, functions, sizeof made);
  if (made.Init(0) != 0) fail("CPP590", "the CUDA driver cannot be used: it finds no device");
  return made;
}

}  // namespace

const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}

void driver_failed(int status, const char* what) {
  const char *name = nullptr, *text = nullptr;
  driver().GetErrorName(status, &name);
  driver().GetErrorString(status, &text);
  fail_text("CPP591", {"the CUDA driver cannot ", what, ": ", name ? Part(name) : Part(status), " (",
                       text ? text : "an unknown error", ")"});
}

}  // namespace wir
