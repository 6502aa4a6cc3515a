// Prints the seconds that a process needs for the driver, its context, and cuBLASLt. Given a file, it prints instead of
// cuBLASLt's those of copies of the file to the device: as it is mapped, twice, registered, and through pinned memory.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
Clock::time_point last = Clock::now();
void* driver = nullptr;

void report(const char* what) {
  const auto now = Clock::now();
  std::printf("%s %.4f\n", what, std::chrono::duration<double>(now - last).count());
  last = Clock::now();
}

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name))(arguments...);
}

constexpr size_t kPart = 8 << 20;

/// Copies through two pinned buffers, which `threads` threads fill.
void copy_staged(uint64_t to, const char* from, size_t nbytes, unsigned char* const* pinned, void* const* events, unsigned threads) {
  for (size_t at = 0, part = 0; at < nbytes; at += kPart, ++part) {
    const size_t count = std::min(kPart, nbytes - at), slice = (count + threads - 1) / threads;
    if (part >= 2) call("cuEventSynchronize", events[part % 2]);
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads && i * slice < count; ++i) {
      const auto work = [=] { std::memcpy(pinned[part % 2] + i * slice, from + at + i * slice, std::min(slice, count - i * slice)); };
      if (i + 1 == threads) work(); else workers.emplace_back(work);
    }
    for (std::thread& worker : workers) worker.join();
    call("cuMemcpyHtoDAsync_v2", to + at, static_cast<const void*>(pinned[part % 2]), count, static_cast<void*>(nullptr));
    call("cuEventRecord", events[part % 2], static_cast<void*>(nullptr));
  }
  call("cuCtxSynchronize");
}

int report_copies(const char* path) {
  const int file = open(path, O_RDONLY);
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0) return 1;
  const auto nbytes = static_cast<size_t>(facts.st_size);
  const auto map = [&] { return static_cast<char*>(mmap(nullptr, nbytes, PROT_READ, MAP_PRIVATE, file, 0)); };
  uint64_t to = 0;
  call("cuMemAlloc_v2", &to, nbytes);
  std::printf("MiB %zu\n", nbytes >> 20);
  report("allocation");
  for (const char* what : {"mapped", "mapped_again"}) {
    char* const from = map();
    call("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(from), nbytes, static_cast<void*>(nullptr));
    call("cuCtxSynchronize");
    report(what);
  }
  char* const populated = static_cast<char*>(mmap(nullptr, nbytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0));
  report("populate");
  call("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(populated), nbytes, static_cast<void*>(nullptr));
  call("cuCtxSynchronize");
  report("populated");
  char* const registered = map();
  constexpr unsigned kReadOnly = 8;
  const int status = call("cuMemHostRegister_v2", static_cast<void*>(registered), nbytes, kReadOnly);
  std::printf("register_status %d\n", status);
  report("register");
  if (status == 0) {
    call("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(registered), nbytes, static_cast<void*>(nullptr));
    call("cuCtxSynchronize");
    report("registered");
  }
  unsigned char* pinned[2] = {};
  void* events[2] = {};
  for (int i = 0; i < 2; ++i) {
    call("cuMemHostAlloc", &pinned[i], kPart, 0u);
    call("cuEventCreate", &events[i], 2u);
  }
  report("pinned");
  for (const unsigned threads : {1u, 2u, 4u, 8u}) {
    char* const from = map();
    last = Clock::now();
    copy_staged(to, from, nbytes, pinned, events, threads);
    std::printf("threads %u ", threads);
    report("staged");
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  report("driver");
  if (call("cuInit", 0u) != 0) return 1;
  report("cuInit");
  void* context = nullptr;
  if (call("cuDevicePrimaryCtxRetain", &context, 0) != 0) return 1;
  call("cuCtxPushCurrent_v2", context);
  report("context");
  if (count > 1) return report_copies(words[1]);
  void* matmuls = dlopen("libcublasLt.so.13", RTLD_NOW);
  if (matmuls == nullptr) matmuls = dlopen("libcublasLt.so.12", RTLD_NOW);
  report("cublasLt");
  void* handle = nullptr;
  if (matmuls != nullptr) reinterpret_cast<int (*)(void**)>(dlsym(matmuls, "cublasLtCreate"))(&handle);
  report("cublasLtCreate");
  return 0;
}
