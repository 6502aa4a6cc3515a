// The file of a library: its constants, copied or mapped, and its checksums.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace wir {

/// Returns the CRC-32 of zip archives; `before` is that of the preceding bytes.
uint32_t checksum(const unsigned char* bytes, size_t count, uint32_t before = 0);

/// The bytes of all constants when the file was opened. Below 4 MiB they are a copy. Larger ones are mapped privately:
/// writes of this process do not reach the file, and `check` detects writes of others.
class ConstantFile {
 public:
  ConstantFile() = default;
  ConstantFile(const ConstantFile&) = delete;
  ~ConstantFile();
  /// Raises WIR713 if a mapped file was written or resized since it was opened. Costs one system call.
  void check() const { if (descriptor_ >= 0) look(); }
  const unsigned char* bytes() const { return bytes_; }

 private:
  friend struct Opening;
  void look() const;
  [[gnu::cold]] void look_again(const struct stat& now, int64_t changed) const;
  [[noreturn, gnu::cold]] void refuse_write() const;
  [[gnu::cold]] void keep(int descriptor, const std::string& name);

  void* memory_ = nullptr;
  size_t nbytes_ = 0;
  const unsigned char* bytes_ = nullptr;
  const unsigned char* table_ = nullptr;  // a copy of the checksums
  std::unique_ptr<unsigned char[]> owned_;
  int descriptor_ = -1;
  std::string name_;
  struct stat opened_{};
  mutable std::atomic<int64_t> seen_{0};  // the last modification time that was checked
  mutable std::mutex looking_;
};

/// Sets the library's file, `nbytes` bytes from `begin` on, the file of constants outside of it, and whether constants are
/// compared with their checksums. Null: found from the code, or beside the library.
[[gnu::cold]] void set_file(const char* name, uint64_t begin, uint64_t nbytes, const char* weights, bool checks_constants);
/// Returns the metadata of the library's file. Raises CPP304 for a damaged file.
[[gnu::cold]] std::string read_metadata();
/// Returns the constants of the library's file, or of the one that a loader named; null if there are none. Containers
/// of a process share them. Raises CPP304 for a damaged or different file, and WIR713 as `ConstantFile::check` does.
[[gnu::cold]] std::shared_ptr<const ConstantFile> constant_file();

}  // namespace wir
