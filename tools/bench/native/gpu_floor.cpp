// Prints the seconds that a process needs for the driver, its context, and cuBLASLt, which every side has to load.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>

int main() {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  const auto report = [&](const char* what) {
    const auto now = Clock::now();
    std::printf("%s %.3f\n", what, std::chrono::duration<double>(now - last).count());
    last = now;
  };
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto function = [&](const char* name) { return dlsym(driver, name); };
  report("driver");
  if (reinterpret_cast<int (*)(unsigned)>(function("cuInit"))(0) != 0) return 1;
  report("cuInit");
  void* context = nullptr;
  if (reinterpret_cast<int (*)(void**, int)>(function("cuDevicePrimaryCtxRetain"))(&context, 0) != 0) return 1;
  reinterpret_cast<int (*)(void*)>(function("cuCtxPushCurrent_v2"))(context);
  report("context");
  void* matmuls = dlopen("libcublasLt.so.13", RTLD_NOW);
  if (matmuls == nullptr) matmuls = dlopen("libcublasLt.so.12", RTLD_NOW);
  report("cublasLt");
  void* handle = nullptr;
  if (matmuls != nullptr) reinterpret_cast<int (*)(void**)>(dlsym(matmuls, "cublasLtCreate"))(&handle);
  report("cublasLtCreate");
  return 0;
}
