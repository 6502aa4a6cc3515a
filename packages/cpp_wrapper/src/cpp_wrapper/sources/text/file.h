// The file of a library: its constants, copied or mapped, and its checksums.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace wir {

/// The CRC-32 of zip archives, of bytes that go on from those of `before`.
uint32_t checksum(const unsigned char* bytes, size_t count, uint32_t before = 0);

/// The bytes of all constants as they were when the file was opened. Below 4 MiB they are a copy. Larger ones are mapped:
/// writes reach pages of this process alone, and `check` finds what others wrote into the file.
class ConstantFile {
 public:
  ConstantFile() = default;
  ConstantFile(const ConstantFile&) = delete;
  ~ConstantFile();
  /// Raises WIR713 where a mapped file was written, or made longer or shorter, since it was opened: one call of the system.
  void check() const { if (descriptor_ >= 0) look(); }
  const unsigned char* bytes() const { return bytes_; }

 private:
  friend struct Opening;
  void look() const;
  void keep(int descriptor);

  void* memory_ = nullptr;
  size_t nbytes_ = 0;
  const unsigned char* bytes_ = nullptr;
  const unsigned char* table_ = nullptr;  // of checksums, a copy
  std::unique_ptr<unsigned char[]> owned_;
  int descriptor_ = -1;
  struct stat opened_{};
  mutable std::atomic<int64_t> seen_{0};  // when the file was changed last, by its own clock
  mutable std::mutex looking_;
};

/// The constants of the library's own file, or of the one that a loader named, which the containers of a process share; null
/// where there are none. Raises CPP304 for a file that is damaged or not the library's, WIR713 as `ConstantFile::check`.
std::shared_ptr<const ConstantFile> constant_file();

}  // namespace wir
