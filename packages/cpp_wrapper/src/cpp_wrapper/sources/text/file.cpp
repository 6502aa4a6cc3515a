// Reads the constants from the library's file, and checks them: once for each file that a process opens.
#include "file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "container.h"

extern "C" {
/// The constants and their checksums, if they are linked into the library.
extern const unsigned char wir_constants_begin[] __attribute__((weak, visibility("hidden")));
extern const unsigned char wir_checksums_begin[] __attribute__((weak, visibility("hidden")));
/// The metadata, if it is linked into the library: a static one has no file of its own, and the file of a project's ends
/// with its code.
extern const char wir_metadata_begin[] __attribute__((weak, visibility("hidden")));
/// Set in a project's library, whose file others may write.
extern const char wir_is_shared[] __attribute__((weak, visibility("hidden")));
/// The name and the identity of the file of constants beside the library, if they are there.
extern const char wir_weights_file[] __attribute__((weak, visibility("hidden")));
extern const char wir_weights_id[] __attribute__((weak, visibility("hidden")));
}

namespace wir {

/// A file, or a part of one. `nbytes` 0: to its end.
struct Location {
  std::string name;
  uint64_t begin = 0, nbytes = 0;
};

// --- the file

namespace {

/// The footer of a library's file, after the checksums.
struct Tail {
  char magic[8];
  uint64_t constants, constants_nbytes, metadata_nbytes;
};
constexpr char kWeights[] = "WIRWEIGHTS1 ";  // how a file of constants begins
constexpr char kMagic[8] = {'W', 'I', 'R', 'T', 'A', 'I', 'L', '2'};
constexpr uint64_t kChunk = 1 << 20, kMapFrom = 1 << 22, kThreadsFrom = 1 << 24;
constexpr uint64_t kOthers = 3;  // checksums after those of constants: code, metadata, table with tail
constexpr int kThreads = 8;

std::mutex opening;
Location library;
std::string weights_name;  // as the caller names it
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

bool is_linked() { return &wir_metadata_begin[0] != nullptr; }
bool is_static() { return is_linked() && &wir_is_shared[0] == nullptr; }
bool has_weights_file() { return &wir_weights_file[0] != nullptr; }

[[noreturn, gnu::cold]] void refuse(const std::string& name, const char* why, const char* details = "") {
  fail_text("CPP304", {name, why, details});
}

/// Finds the library's file by the address of its program.
[[gnu::cold]] void find_library() {
  if (!library.name.empty()) return;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&wir_program), &here) == 0 || here.dli_fname == nullptr) {
    fail("CPP304", "the library's own file is not known");
  }
  library.name = here.dli_fname;
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

[[gnu::cold]] void check_constants(const std::string& name, const unsigned char* bytes, uint64_t nbytes,
                                   const unsigned char* table) {
  if (!are_whole(bytes, nbytes, table)) refuse(name, " is damaged: its constants do not fit their checksums");
}

}  // namespace

[[gnu::cold]] ConstantFile::~ConstantFile() {
  if (memory_ != nullptr) munmap(memory_, nbytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

void ConstantFile::keep(int descriptor, const std::string& name) {
  name_ = name;
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0 || fstat(descriptor_, &opened_) != 0) refuse(name, " cannot be watched");
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
  fail_text("WIR713", {name_, " was written in place while its constants are in use; load it again, and replace such "
                                  "files by renaming another file to their name"});
}

/// Opens the file once a process.
struct Opening {
  ConstantFile& made;
  Location file;
  int descriptor = -1;

  ~Opening() { if (descriptor >= 0) close(descriptor); }

  [[noreturn, gnu::cold]] void refuse(const char* why, const char* details = "") const { wir::refuse(file.name, why, details); }

  [[gnu::cold]] bool opens(const Location& from) {
    file = from;
    if (descriptor >= 0) close(descriptor);
    descriptor = open(file.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0 && file.nbytes == 0) file.nbytes = static_cast<uint64_t>(lseek(descriptor, 0, SEEK_END)) - file.begin;
    return descriptor >= 0;
  }

  [[gnu::cold]] void open_library() {
    find_library();
    if (!opens(library)) refuse(" cannot be read: ", std::strerror(errno));
    library.nbytes = file.nbytes;
  }

  /// Opens the file of constants beside the library. Raises CPP306 if it is missing, or has others.
  [[gnu::cold]] void open_weights() {
    std::string name = weights_name;
    if (name.empty()) {
      find_library();
      name = library.name.substr(0, library.name.rfind('/') + 1) + wir_weights_file;
    }
    const bool is_open = opens({name});
    if (!is_open) fail_text("CPP306", {name, ", the file of this library's constants, cannot be read: ", std::strerror(errno)});
    const std::string wanted = join({kWeights, wir_weights_id});
    std::string found(wanted.size(), 0);
    const ssize_t got = pread(descriptor, found.data(), found.size(), 0);
    if (got == static_cast<ssize_t>(found.size()) && found == wanted) return;
    const bool is_weights = found.compare(0, std::strlen(kWeights), kWeights) == 0;
    fail_text("CPP306", {name, is_weights ? " has the constants of another library" : " is not a file of constants",
                         ": this one needs those of identity ", wir_weights_id});
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

  /// The tail, and the table of checksums before it. `wanted`: bytes of constants, if the program tells.
  [[gnu::cold]] Tail read_tail(uint64_t wanted) {
    Tail tail{};
    if (file.nbytes < sizeof tail) refuse(" has lost the constants that belong to its code");
    read(reinterpret_cast<unsigned char*>(&tail), file.begin + file.nbytes - sizeof tail, sizeof tail);
    const uint64_t table = 4 * (chunks(tail.constants_nbytes) + kOthers);
    const bool is_whole = std::memcmp(tail.magic, kMagic, sizeof kMagic) == 0 && tail.constants_nbytes == wanted &&
                          tail.constants + tail.constants_nbytes + tail.metadata_nbytes + table + sizeof tail == file.nbytes;
    if (!is_whole) refuse(" has lost the constants that belong to its code");
    made.owned_ = std::make_unique<unsigned char[]>(table);
    unsigned char* found = made.owned_.get();
    read(found, file.begin + file.nbytes - sizeof tail - table, table);
    const uint32_t told = checksum(reinterpret_cast<const unsigned char*>(&tail), sizeof tail, checksum(found, table - 4));
    if (told != entry(found, table / 4 - 1)) refuse(" is damaged: its checksums do not fit");
    made.table_ = found;
    return tail;
  }
  static uint64_t chunks(uint64_t nbytes) { return (nbytes + kChunk - 1) / kChunk; }

  [[gnu::cold]] void check_code(const Tail& tail) const {
    if (is_code_checked) return;
    const auto code = std::make_unique<unsigned char[]>(tail.constants);
    read(code.get(), file.begin, tail.constants);
    const uint32_t wanted = entry(made.table_, chunks(tail.constants_nbytes));
    if (checksum(code.get(), tail.constants) != wanted) refuse(" is damaged: its code");
    is_code_checked = true;
  }

  [[gnu::cold]] void from_file(uint64_t wanted) {
    Tail tail{};
    if (!is_linked()) {
      open_library();
      tail = read_tail(has_weights_file() ? 0 : wanted);
      check_code(tail);
    }
    if (wanted == 0) return;
    if (has_weights_file()) {
      open_weights();
      tail = read_tail(wanted);
    }
    const uint64_t at = file.begin + tail.constants;
    if (wanted < kMapFrom) {
      unsigned char* copy = room(wanted);
      read(copy, at, wanted);
      made.bytes_ = copy;
    } else {
      made.keep(descriptor, file.name);
      const uint64_t before = at % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
      made.bytes_ = mapping(wanted + before, 0, descriptor, at - before) + before;
    }
    if (are_constants_checked) check_constants(file.name, made.bytes_, wanted, made.table_);
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
    } else if (!is_static()) {  // the system lets no process write a program that runs
      open_library();
      made.keep(descriptor, file.name);
    }
    if (made.table_ != nullptr) check_constants(library.name, made.bytes_, wanted, made.table_);
  }

  [[gnu::cold]] std::string metadata() {
    open_library();
    const Tail tail = read_tail(has_weights_file() ? 0 : all_bytes());
    std::string text(tail.metadata_nbytes, 0);
    auto* const target = reinterpret_cast<unsigned char*>(text.data());
    read(target, file.begin + tail.constants + tail.constants_nbytes, text.size());
    const uint32_t wanted = entry(made.table_, chunks(tail.constants_nbytes) + 1);
    if (checksum(target, text.size()) != wanted) refuse(" is damaged: its metadata");
    return text;
  }
};

void set_file(const char* name, uint64_t begin, uint64_t nbytes, const char* weights, bool checks_constants) {
  const std::lock_guard<std::mutex> lock(opening);
  if (name != nullptr) {
    library = {name, begin, nbytes};
    is_code_checked = true;
  }
  weights_name = weights != nullptr ? weights : "";
  are_constants_checked = checks_constants;
}

std::string read_metadata() {
  const std::lock_guard<std::mutex> lock(opening);
  if (is_linked()) return wir_metadata_begin;
  ConstantFile none;
  return Opening{none, {}}.metadata();
}

std::shared_ptr<const ConstantFile> constant_file() {
  const std::lock_guard<std::mutex> lock(opening);
  if (const std::shared_ptr<const ConstantFile> found = opened.lock()) {
    found->check();
    return found;
  }
  const auto made = std::make_shared<ConstantFile>();
  const uint64_t wanted = all_bytes();
  {
    Opening file{*made, {}};
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
  wir::library = {name, begin, nbytes};
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
