// The CUDA driver: the functions and types that the launcher uses, declared as the driver's public interface
// defines them.
#pragma once

#include "python.h"

namespace {

using Result = int;
constexpr Result kInvalidContext = 201, kInvalidHandle = 400;

enum AttributeId {
  kCooperative = 2,
  kClusterDimension = 4,
  kClusterPolicy = 5,
  kProgrammaticSerialization = 6
};
constexpr int kPolicySpread = 1;
constexpr int kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4, kFunctionMaxShared = 8;
constexpr int kFunctionAnyCluster = 14, kPreferShared = 1, kPointerDevice = 3;
constexpr int kDefaultShared = 48 * 1024;
constexpr int kPortableCluster = 8;

struct Attribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int number;
  } value;
};

struct Config {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
};

// In the order of `DRIVER_FUNCTIONS` in `functions.py`.
struct Api {
  Result (*Init)(unsigned);
  Result (*GetErrorName)(Result, const char**);
  Result (*GetErrorString)(Result, const char**);
  Result (*DeviceGet)(int*, int);
  Result (*DevicePrimaryCtxRetain)(void**, int);
  Result (*CtxPushCurrent)(void*);
  Result (*CtxPopCurrent)(void**);
  Result (*ModuleLoadData)(void**, const void*);
  Result (*ModuleUnload)(void*);
  Result (*ModuleGetFunction)(void**, void*, const char*);
  Result (*FuncGetAttribute)(int*, int, void*);
  Result (*FuncSetAttribute)(void*, int, int);
  Result (*FuncSetCacheConfig)(void*, int);
  Result (*PointerGetAttribute)(void*, int, std::uint64_t);
  Result (*LaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                         void**, void**);
  Result (*LaunchKernelEx)(const Config*, void*, void**, void**);
  Result (*DriverGetVersion)(int*);
  Result (*TensorMapEncodeTiled)(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*,
                                 const unsigned*, const unsigned*, int, int, int, int);
};

constexpr const char* kCapsule = "wrapper_ir_cuda_launcher.driver";

void free_api(PyObject* capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, kCapsule)); }

// open_driver(addresses) -> capsule; raises OSError. The library stays open for the lifetime of the process.
PyObject* open_driver(PyObject*, PyObject* addresses) {
  Api* api = static_cast<Api*>(PyMem_Malloc(sizeof(Api)));
  if (api == nullptr) {
    return PyErr_NoMemory();
  }
  if (!copy_functions(addresses, api)) {
    PyMem_Free(api);
    return nullptr;
  }
  if (const Result status = api->Init(0)) {
    const char* text = nullptr;
    api->GetErrorString(status, &text);
    PyMem_Free(api);
    return PyErr_Format(PyExc_OSError, "cuInit failed with %d (%s)", status, text ? text : "unknown");
  }
  return PyCapsule_New(api, kCapsule, free_api);
}

// Runs `run` with a current context; returns its status, or that of the context switch.
template <class Run>
Result in_context(const Api& api, void* context, Run run) {
  Result status = api.CtxPushCurrent(context);
  if (status == 0) {
    status = run();
    void* popped = nullptr;
    api.CtxPopCurrent(&popped);
  }
  return status;
}

// Launches, and retries in the kernel's context if the thread has none or another one. Must be called without
// the interpreter's lock: the driver blocks while its queue is full, and the work ahead may need Python.
template <class Launch>
Result launch_anywhere(const Api& api, void* context, Launch launch) {
  const Result status = launch();
  if (status != kInvalidContext && status != kInvalidHandle) [[likely]] {
    return status;
  }
  Result again = status;
  in_context(api, context, [&] { return again = launch(); });
  return again;
}

}  // namespace
