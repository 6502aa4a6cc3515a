// Reads the constants from the library's file, and checks them: once for each file that a process opens.
#include "file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cerrno>
#include <cstring>

#include "container.h"

extern "C" {
/// The constants and their checksums, if they are linked into the library.
extern const unsigned char wir_constants_begin[] __attribute__((weak));
extern const unsigned char wir_checksums_begin[] __attribute__((weak));
}

namespace wir {

// --- checksums

namespace {

uint32_t crc_table[8][256];

void fill_table() {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1u));
    crc_table[0][i] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (int i = 0; i < 256; ++i) crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xFF];
  }
}

uint32_t by_table(const unsigned char* bytes, size_t count, uint32_t crc) {
  for (; count >= 8; count -= 8, bytes += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= crc_table[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count) crc = (crc >> 8) ^ crc_table[0][(crc ^ *bytes++) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
/// `__builtin_cpu_supports` would link 5 KB of libgcc, which queries everything.
bool can_multiply() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_PCLMUL) != 0;
}

using Pair = long long __attribute__((vector_size(16)));

/// Folds a remainder over other bytes. V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ.
__attribute__((target("pclmul"))) inline Pair folded(Pair from, Pair by, Pair onto) {
  return __builtin_ia32_pclmulqdq128(from, by, 0x00) ^ __builtin_ia32_pclmulqdq128(from, by, 0x11) ^ onto;
}

/// Requires at least 64 bytes; computes four remainders in parallel.
__attribute__((target("pclmul"))) uint32_t by_multiplication(const unsigned char* bytes, size_t count, uint32_t crc) {
  const Pair over_64{0x154442bd4, 0x1c6e41596}, over_16{0x1751997d0, 0x0ccaa009e};
  Pair part[4], next;
  std::memcpy(part, bytes, sizeof part);
  part[0] ^= Pair{crc, 0};
  for (bytes += 64, count -= 64; count >= 64; bytes += 64, count -= 64) {
    for (int k = 0; k < 4; ++k) {
      std::memcpy(&next, bytes + 16 * k, sizeof next);
      part[k] = folded(part[k], over_64, next);
    }
  }
  for (int k = 1; k < 4; ++k) part[k] = folded(part[k - 1], over_16, part[k]);
  unsigned char rest[16];
  std::memcpy(rest, &part[3], sizeof rest);
  return by_table(bytes, count, by_table(rest, sizeof rest, 0));
}
#endif

}  // namespace

uint32_t checksum(const unsigned char* bytes, size_t count, uint32_t before) {
  static const bool is_filled = (fill_table(), true);
  (void)is_filled;
#if defined(__x86_64__)
  static const bool multiplies = can_multiply();
  if (multiplies && count >= 64) return ~by_multiplication(bytes, count, ~before);
#endif
  return ~by_table(bytes, count, ~before);
}

// --- the file

namespace {

/// The footer of a library's file, after the checksums.
struct Tail {
  char magic[8];
  uint64_t constants, constants_nbytes, metadata_nbytes;
};
constexpr char kMagic[8] = {'W', 'I', 'R', 'T', 'A', 'I', 'L', '2'};
constexpr uint64_t kChunk = 1 << 20, kMapFrom = 1 << 22, kThreadsFrom = 1 << 24;
constexpr uint64_t kOthers = 3;  // checksums after those of constants: code, metadata, table with tail
constexpr int kThreads = 8;

std::mutex opening;
std::string file_name;
uint64_t file_begin = 0, file_nbytes = 0;
bool is_code_checked = false, are_constants_checked = true;
std::weak_ptr<const ConstantFile> opened;

size_t all_bytes() {
  size_t end = 0;
  for (size_t i = 0; i < wir_program.blobs; ++i) {
    const Blob& blob = wir_program.blob_table[i];
    if (blob.offset + blob.nbytes > end) end = blob.offset + blob.nbytes;
  }
  return end;
}

[[noreturn, gnu::cold]] void refuse(const char* why, const char* details = "") {
  fail_text("CPP304", {file_name, why, details});
}

uint32_t entry(const unsigned char* table, uint64_t number) {
  uint32_t found = 0;
  std::memcpy(&found, table + 4 * number, sizeof found);
  return found;
}

/// The chunks of constants, which threads check in parallel.
struct Chunks {
  const unsigned char* bytes;
  const unsigned char* table;
  uint64_t nbytes;
  bool are_mapped;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> are_whole{true};

  /// Maps the pages of a chunk at once (Linux 5.14), which saves a fifth of the time. Returns false if the file no
  /// longer has them.
  bool has_pages(uint64_t begin, uint64_t count) const {
    constexpr int kPopulateRead = 22;
    static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto from = reinterpret_cast<uintptr_t>(bytes + begin), rest = from % page;
    return madvise(reinterpret_cast<void*>(from - rest), count + rest, kPopulateRead) == 0 || errno != EFAULT;
  }
};

void* check_chunks(void* given) {
  Chunks& chunks = *static_cast<Chunks*>(given);
  for (;;) {
    const uint64_t number = chunks.next.fetch_add(1), begin = number * kChunk;
    if (begin >= chunks.nbytes) return nullptr;
    const uint64_t count = chunks.nbytes - begin < kChunk ? chunks.nbytes - begin : kChunk;
    if (chunks.are_mapped && !chunks.has_pages(begin, count)) {
      chunks.are_whole = false;
      return nullptr;
    }
    if (checksum(chunks.bytes + begin, count) != entry(chunks.table, number)) chunks.are_whole = false;
  }
}

/// Compares constants with their checksums. Uses separate threads, which end here: OpenMP's threads stay, and a process
/// that forks would wait for them forever.
[[gnu::cold]] bool are_whole(const unsigned char* bytes, uint64_t nbytes, const unsigned char* table) {
  Chunks chunks{bytes, table, nbytes, nbytes >= kMapFrom};
  pthread_t threads[kThreads];
  int started = 0;
  while (nbytes >= kThreadsFrom && started < kThreads && pthread_create(&threads[started], nullptr, check_chunks, &chunks) == 0) {
    ++started;
  }
  check_chunks(&chunks);
  while (started > 0) pthread_join(threads[--started], nullptr);
  return chunks.are_whole;
}

[[gnu::cold]] void check_constants(const unsigned char* bytes, uint64_t nbytes, const unsigned char* table) {
  if (!are_whole(bytes, nbytes, table)) refuse(" is damaged: its constants do not fit their checksums");
}

}  // namespace

[[gnu::cold]] ConstantFile::~ConstantFile() {
  if (memory_ != nullptr) munmap(memory_, nbytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

void ConstantFile::keep(int descriptor) {
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0 || fstat(descriptor_, &opened_) != 0) refuse(" cannot be watched");
  seen_ = opened_.st_ctim.tv_sec * 1000000000 + opened_.st_ctim.tv_nsec;
}

void ConstantFile::look() const {
  struct stat now;
  if (fstat(descriptor_, &now) != 0 || now.st_size != opened_.st_size) return refuse_write();
  const int64_t changed = now.st_ctim.tv_sec * 1000000000 + now.st_ctim.tv_nsec;
  if (changed != seen_.load(std::memory_order_relaxed)) look_again(now, changed);  // every write changes the time
}

/// Accepts a file whose name, owner or mode have changed.
void ConstantFile::look_again(const struct stat& now, int64_t changed) const {
  const std::lock_guard<std::mutex> lock(looking_);
  if (changed == seen_) return;
  const bool is_same_time = now.st_mtim.tv_sec == opened_.st_mtim.tv_sec && now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
  if (!is_same_time || table_ == nullptr || !are_whole(bytes_, all_bytes(), table_)) refuse_write();
  seen_ = changed;
}

void ConstantFile::refuse_write() const {
  fail_text("WIR713", {file_name, " was written in place while its constants are in use; load it again, and replace such "
                                  "files by renaming another file to their name"});
}

/// Opens the file once a process.
struct Opening {
  ConstantFile& made;
  int descriptor = -1;
  uint64_t begin = 0;

  ~Opening() { if (descriptor >= 0) close(descriptor); }

  [[gnu::cold]] void open_file() {
    if (file_name.empty()) {
      Dl_info here{};
      if (dladdr(reinterpret_cast<const void*>(&wir_program), &here) == 0 || here.dli_fname == nullptr) {
        fail("CPP304", "the library's own file is not known");
      }
      file_name = here.dli_fname;
    }
    descriptor = open(file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) refuse(" cannot be read: ", std::strerror(errno));
    if (file_nbytes == 0) file_nbytes = static_cast<uint64_t>(lseek(descriptor, 0, SEEK_END)) - file_begin;
  }

  [[gnu::cold]] void read(unsigned char* target, uint64_t at, uint64_t count) const {
    while (count > 0) {
      const ssize_t got = pread(descriptor, target, count, static_cast<off_t>(at));
      if (got <= 0) refuse(" has lost bytes that belong to its code");
      target += got, at += static_cast<uint64_t>(got), count -= static_cast<uint64_t>(got);
    }
  }

  /// Allocates page-aligned memory of this process.
  unsigned char* room(size_t nbytes) {
    return mapping(nbytes, MAP_ANONYMOUS, -1, 0);
  }
  [[gnu::cold]] unsigned char* mapping(size_t nbytes, int flags, int of, uint64_t at) {
    const int all = MAP_PRIVATE | MAP_NORESERVE | flags;
    void* found = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, all, of, static_cast<off_t>(at));
    if (found == MAP_FAILED) refuse(" cannot be mapped: ", std::strerror(errno));
    made.memory_ = found;
    made.nbytes_ = nbytes;
    return static_cast<unsigned char*>(found);
  }

  /// The tail, and the table of checksums before it.
  [[gnu::cold]] Tail read_tail(uint64_t wanted) {
    Tail tail{};
    if (file_nbytes < sizeof tail) refuse(" has lost the constants that belong to its code");
    read(reinterpret_cast<unsigned char*>(&tail), file_begin + file_nbytes - sizeof tail, sizeof tail);
    const uint64_t table = 4 * ((tail.constants_nbytes + kChunk - 1) / kChunk + kOthers);
    const bool is_whole = std::memcmp(tail.magic, kMagic, sizeof kMagic) == 0 && tail.constants_nbytes == wanted &&
                          tail.constants + tail.constants_nbytes + tail.metadata_nbytes + table + sizeof tail == file_nbytes;
    if (!is_whole) refuse(" has lost the constants that belong to its code");
    made.owned_ = std::make_unique<unsigned char[]>(table);
    unsigned char* found = made.owned_.get();
    read(found, file_begin + file_nbytes - sizeof tail - table, table);
    const uint32_t told = checksum(reinterpret_cast<const unsigned char*>(&tail), sizeof tail, checksum(found, table - 4));
    if (told != entry(found, table / 4 - 1)) refuse(" is damaged: its checksums do not fit");
    made.table_ = found;
    return tail;
  }

  [[gnu::cold]] void check_code(const Tail& tail, uint64_t chunks) const {
    if (is_code_checked) return;
    const auto code = std::make_unique<unsigned char[]>(tail.constants);
    read(code.get(), file_begin, tail.constants);
    if (checksum(code.get(), tail.constants) != entry(made.table_, chunks)) refuse(" is damaged: its code");
    is_code_checked = true;
  }

  [[gnu::cold]] void from_file(uint64_t wanted) {
    open_file();
    const Tail tail = read_tail(wanted);
    check_code(tail, (wanted + kChunk - 1) / kChunk);
    if (wanted == 0) return;
    const uint64_t at = file_begin + tail.constants;
    if (wanted < kMapFrom) {
      unsigned char* copy = room(wanted);
      read(copy, at, wanted);
      made.bytes_ = copy;
    } else {
      made.keep(descriptor);
      const uint64_t before = at % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
      made.bytes_ = mapping(wanted + before, 0, descriptor, at - before) + before;
    }
    if (are_constants_checked) check_constants(made.bytes_, wanted, made.table_);
    made.check();
  }

  [[gnu::cold]] void from_library(uint64_t wanted) {
    if (wanted == 0) return;
    made.table_ = wir_checksums_begin;
    made.bytes_ = wir_constants_begin;
    if (wanted < kMapFrom) {
      unsigned char* copy = room(wanted);
      std::memcpy(copy, wir_constants_begin, wanted);
      made.bytes_ = copy;
    } else {
      open_file();
      made.keep(descriptor);
    }
    if (made.table_ != nullptr) check_constants(made.bytes_, wanted, made.table_);
  }
};

std::shared_ptr<const ConstantFile> constant_file() {
  const std::lock_guard<std::mutex> lock(opening);
  if (const std::shared_ptr<const ConstantFile> found = opened.lock()) {
    found->check();
    return found;
  }
  const auto made = std::make_shared<ConstantFile>();
  const uint64_t wanted = all_bytes();
  {
    Opening file{*made};
    if (&wir_constants_begin[0] != nullptr) {
      file.from_library(wanted);
    } else if (wanted != 0 || !is_code_checked) {
      file.from_file(wanted);
    }
  }
  opened = made;
  return made;
}

}  // namespace wir

extern "C" {

/// Sets the library's file, `nbytes` bytes from `begin` on, for loaders that open a checked copy of its code.
__attribute__((visibility("default"))) void wir_file(const char* name, uint64_t begin, uint64_t nbytes) {
  const std::lock_guard<std::mutex> lock(wir::opening);
  wir::file_name = name;
  wir::file_begin = begin;
  wir::file_nbytes = nbytes;
  wir::is_code_checked = true;
}

/// Sets whether constants are compared with their checksums when the file is opened; by default they are.
__attribute__((visibility("default"))) void wir_check_constants(int32_t checks) {
  const std::lock_guard<std::mutex> lock(wir::opening);
  wir::are_constants_checked = checks != 0;
}

/// The bytes of all constants in the file.
uint64_t wir_constants_nbytes() { return wir::all_bytes(); }
}
