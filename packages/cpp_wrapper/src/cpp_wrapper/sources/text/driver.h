// The CUDA driver, opened by name. The functions that we use are declared here as in its public interface.
#pragma once
#include <cstdint>
#include <string>

namespace wir {

inline constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
inline constexpr int kFunctionMaxShared = 8, kFunctionAnyCluster = 14, kPreferShared = 1;
inline constexpr unsigned kDefaultShared = 48 * 1024, kPortableCluster = 8, kNonBlocking = 1, kWithoutTiming = 2;
/// Capture mode in which other threads and torch's allocator may call functions that are unsafe during capture.
inline constexpr int kRelaxedCapture = 2;
enum AttributeId { kCooperative = 2, kClusterDimension = 4, kClusterPolicy = 5, kDependent = 6 };
inline constexpr int kPolicySpread = 1;

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
  unsigned grid[3], block[3], shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
};

/// Properties of a pool of memory of device `index`: pinned memory that no other process opens.
struct PoolFacts {
  int allocation = 1, handle = 0, location = 1, index = 0;
  void* security = nullptr;
  size_t max_size = 0;
  unsigned char reserved[56] = {};
};
inline constexpr int kMemoryPools = 115, kReleaseThreshold = 4;

struct Driver {
  int (*Init)(unsigned);
  int (*GetErrorName)(int, const char**);
  int (*GetErrorString)(int, const char**);
  int (*DeviceGet)(int*, int);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*DevicePrimaryCtxRetain)(void**, int);
  int (*CtxGetCurrent)(void**);
  int (*CtxPushCurrent)(void*);
  int (*CtxPopCurrent)(void**);
  int (*CtxSynchronize)();
  int (*ModuleLoadData)(void**, const void*);
  int (*ModuleUnload)(void*);
  int (*ModuleGetFunction)(void**, void*, const char*);
  int (*FuncSetAttribute)(void*, int, int);
  int (*FuncSetCacheConfig)(void*, int);
  int (*LaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*LaunchKernelEx)(const Config*, void*, void**, void**);
  int (*StreamCreate)(void**, unsigned);
  int (*StreamDestroy)(void*);
  int (*StreamIsCapturing)(void*, int*);
  int (*StreamBeginCapture)(void*, int);
  int (*StreamEndCapture)(void*, void**);
  int (*GraphInstantiate)(void**, void*, unsigned long long);
  int (*GraphLaunch)(void*, void*);
  int (*GraphExecDestroy)(void*);
  int (*GraphDestroy)(void*);
  int (*MemcpyDtoDAsync)(uint64_t, uint64_t, size_t, void*);
  int (*MemcpyAsync)(uint64_t, uint64_t, size_t, void*);
  int (*MemsetD8Async)(uint64_t, unsigned char, size_t, void*);
  int (*MemPoolCreate)(void**, const PoolFacts*);
  int (*MemPoolSetAttribute)(void*, int, void*);
  int (*MemPoolTrimTo)(void*, size_t);
  int (*MemAllocFromPoolAsync)(uint64_t*, size_t, void*, void*);
  int (*MemFreeAsync)(uint64_t, void*);
  int (*MemAlloc)(uint64_t*, size_t);
  int (*MemFree)(uint64_t);
  int (*MemHostAlloc)(void**, size_t, unsigned);
  int (*MemFreeHost)(void*);
  int (*StreamSynchronize)(void*);
  int (*StreamWaitEvent)(void*, void*, unsigned);
  int (*EventCreate)(void**, unsigned);
  int (*EventRecord)(void*, void*);
  int (*EventSynchronize)(void*);
  int (*EventDestroy)(void*);
  int (*DriverGetVersion)(int*);
  int (*TensorMapEncodeTiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int,
                              int, int, int);
};
/// Opens the driver in the first call; it stays open for the life of the process. Raises CPP590.
const Driver& driver();
/// Raises CPP591 with the driver's name and text of an error.
[[noreturn, gnu::cold]] void driver_failed(int status, const char* what);
inline void check(int status, const char* what) {
  if (status != 0) [[unlikely]] driver_failed(status, what);
}

}  // namespace wir
