// torch's CPU allocator for soundness tests: every block ends at a page that nobody may touch.
//
//   [guard page][head: canary ... data (aligned to 64) ... tail: canary][guard page]
//
// The data's end, rounded up to 64 bytes, is the end of its last page, so that a read or write past it faults. What
// lies before the data in its first page, and the at most 63 bytes behind it, hold a canary that is checked when the
// block is freed. Freed blocks stay unreadable for a while, so that a use after the end faults as well. Fresh blocks
// hold one fixed pattern: what a program does with memory that it did not write is then the same in every engine.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace {

constexpr size_t kAlignment = 64;
constexpr uint8_t kPattern = 0x7B;

struct Block {
  char* map;
  size_t mapped;
  char* data;
  size_t size;
  uint8_t canary;
};

// Leaked on purpose: tensors are freed until the very end of the process.
struct State {
  std::mutex mutex;
  std::unordered_map<void*, Block> live;
  std::deque<Block> quarantine;
  size_t quarantined = 0;
  size_t limit = 0;
  uint64_t count = 0;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
};

State& state() {
  static State* held = new State;
  return *held;
}

constexpr size_t kQuarantineBlocks = 2048;
constexpr size_t kQuarantineBytes = size_t{1} << 32;  // of addresses: the pages themselves are given back

bool intact(const Block& block, size_t page) {
  const char* first = block.map + page;
  const char* last = block.map + block.mapped - page;
  for (const char* at = first; at < block.data; ++at)
    if (static_cast<uint8_t>(*at) != block.canary) return false;
  for (const char* at = block.data + block.size; at < last; ++at)
    if (static_cast<uint8_t>(*at) != block.canary) return false;
  return true;
}

void release(void* data) {
  if (data == nullptr) return;
  State& s = state();
  const std::lock_guard<std::mutex> guard(s.mutex);
  const auto found = s.live.find(data);
  if (found == s.live.end()) {
    std::fprintf(stderr, "guard allocator: %p is freed twice, or is not a block\n", data);
    std::abort();
  }
  const Block block = found->second;
  s.live.erase(found);
  if (!intact(block, s.page)) {
    std::fprintf(stderr, "guard allocator: bytes around a block of %zu bytes were written\n", block.size);
    std::abort();
  }
  mprotect(block.map, block.mapped, PROT_NONE);
  madvise(block.map, block.mapped, MADV_DONTNEED);
  s.quarantine.push_back(block);
  s.quarantined += block.mapped;
  while (s.quarantine.size() > kQuarantineBlocks || s.quarantined > kQuarantineBytes) {
    s.quarantined -= s.quarantine.front().mapped;
    munmap(s.quarantine.front().map, s.quarantine.front().mapped);
    s.quarantine.pop_front();
  }
}

struct GuardAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &release, cpu};
    State& s = state();
    // The words of torch's own allocator, whose limit is the machine's memory.
    TORCH_CHECK(size <= s.limit, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size, " bytes");
    const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    const size_t inner = (rounded + s.page - 1) / s.page * s.page;
    Block block;
    block.mapped = inner + 2 * s.page;
    void* map = mmap(nullptr, block.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(map != MAP_FAILED, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size, " bytes");
    block.map = static_cast<char*>(map);
    TORCH_CHECK(mprotect(block.map + s.page, inner, PROT_READ | PROT_WRITE) == 0, "DefaultCPUAllocator: mprotect failed");
    block.data = block.map + s.page + inner - rounded;
    block.size = size;
    const std::lock_guard<std::mutex> guard(s.mutex);
    // Another one for each block: who reads it finds other numbers in each engine.
    block.canary = static_cast<uint8_t>(++s.count * 37 + 11);
    std::memset(block.map + s.page, block.canary, inner);
    std::memset(block.data, kPattern, size);
    s.live.emplace(block.data, block);
    return {block.data, block.data, &release, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
};

}  // namespace

extern "C" {

// Makes it torch's CPU allocator; blocks of more than `limit` bytes are refused as where memory is short.
void guard_install(size_t limit) {
  static GuardAllocator* allocator = new GuardAllocator;
  state().limit = limit;
  c10::SetCPUAllocator(allocator, /*priority=*/255);
}

// Checks what surrounds all live blocks; how many were written outside.
size_t guard_damaged() {
  State& s = state();
  const std::lock_guard<std::mutex> guard(s.mutex);
  size_t damaged = 0;
  for (const auto& entry : s.live) damaged += !intact(entry.second, s.page);
  return damaged;
}

uint64_t guard_allocated() { return state().count; }

struct Pointer {
  uint8_t* data;
  int64_t nbytes;
  int32_t divisible;
  uint8_t reads, writes, mask;
};

// A kernel that keeps its promises and no other: reads every byte that it may read, writes every byte that it may write.
// Byte i of each result is made of byte i of each input alone, so that results may be inputs.
void guard_touch(Pointer* pointers, int32_t count, uint8_t salt) {
  int64_t longest = 0;
  for (int32_t k = 0; k < count; ++k) {
    const Pointer& p = pointers[k];
    if (p.nbytes > longest) longest = p.nbytes;
    if (p.nbytes > 0 && reinterpret_cast<uintptr_t>(p.data) % p.divisible != 0) {
      std::fprintf(stderr, "kernel: argument %d is not aligned to %d bytes\n", k, p.divisible);
      std::abort();
    }
  }
  for (int64_t i = 0; i < longest; ++i) {
    uint8_t found = static_cast<uint8_t>(salt + i);
    for (int32_t k = 0; k < count; ++k)
      if (pointers[k].reads && i < pointers[k].nbytes)
        found = static_cast<uint8_t>(found * 5 + *static_cast<volatile uint8_t*>(pointers[k].data + i));
    for (int32_t k = 0; k < count; ++k)
      if (pointers[k].writes && i < pointers[k].nbytes)
        pointers[k].data[i] = static_cast<uint8_t>(found + k) & pointers[k].mask;
  }
}
}
