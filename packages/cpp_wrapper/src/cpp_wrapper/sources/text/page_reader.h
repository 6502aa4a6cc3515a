/// Pages of a mapped file, read while something else is waited for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace {

/// Maps the pages of a part of a file in a thread during its lifetime, so that a copy to the device finds them. The driver
/// makes a context meanwhile. Without Linux 5.14 the copy maps them, as it does for small parts.
class PageReader {
 public:
  PageReader(const unsigned char* bytes, size_t nbytes) {
#ifdef __linux__
    if (nbytes < kFrom) return;
    try {
      thread_ = std::thread([this, bytes, nbytes] { read(bytes, nbytes); });
    } catch (const std::system_error&) {
    }
#else
    static_cast<void>(bytes), static_cast<void>(nbytes);
#endif
  }
  PageReader(const PageReader&) = delete;
  ~PageReader() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
#ifdef __linux__
  static constexpr size_t kFrom = 16 << 20, kPart = 1 << 20;

  /// In parts, since mappings of the context wait for each.
  void read(const unsigned char* bytes, size_t nbytes) const {
    constexpr int kPopulateRead = 22;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(bytes);
    for (uintptr_t at = begin / page * page; at < begin + nbytes && !ends_; at += kPart) {
      const size_t count = begin + nbytes - at < kPart ? begin + nbytes - at : kPart;
      if (madvise(reinterpret_cast<void*>(at), count, kPopulateRead) != 0) return;
    }
  }
#endif

  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace
