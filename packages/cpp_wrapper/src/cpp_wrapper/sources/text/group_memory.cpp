// Memory of process groups, which Python allocates.
#include "container.h"
#include "platform.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace wir {

namespace {
std::atomic<bool> agreed{false};
}  // namespace

void require_agreement(const char* text) {
  if (!agreed.load(std::memory_order_relaxed)) fail("CPP540", text);
}

namespace {
/// The tensor that Python returned at one place of the program for one device.
struct Held {
  uint64_t device = 0;
  Tensor tensor = nullptr;
};
/// Shared by all calls in this process. Not locked while Python runs, which may wait for another thread.
struct SharedTable {
  std::mutex busy;
  std::vector<Held> places;
  uint64_t releases = 0;
};
SharedTable& shared_table() {
  static SharedTable& made = *new SharedTable;  // never freed: torch may end before this library
  return made;
}

bool is_laid_out(Tensor tensor, Ints sizes, Ints strides) {
  const Dims dims(tensor);
  return dims.rank == static_cast<int64_t>(sizes.size()) && std::equal(ints(sizes), ints(sizes) + dims.rank, dims.sizes) &&
         std::equal(ints(strides), ints(strides) + dims.rank, dims.strides);
}
uint64_t number_list(Ints values) {
  StableListOpaque* made = nullptr;
  ok(torch_new_list_reserve_size(values.size(), &made), "a list argument");
  for (const Int value : values) ok(torch_list_push_back(made, integer(value)), "a list argument");
  return reinterpret_cast<uintptr_t>(made);
}
}  // namespace

void allocate_shared(Tensor& made, size_t place, const SharedMemory& memory, Ints sizes, Ints strides, int32_t dtype) {
  SharedTable& table = shared_table();
  uint64_t releases = 0;
  {
    const std::lock_guard<std::mutex> lock(table.busy);
    if (table.places.size() <= place) table.places.resize(place + 1);
    const Held& held = table.places[place];
    if (held.tensor != nullptr && held.device == memory.device && is_laid_out(held.tensor, sizes, strides)) {
      made = same(held.tensor);
      return;
    }
    releases = table.releases;
  }
  call(memory.operation, "", {number_list(sizes), number_list(strides), code(dtype), memory.device,
                              string(memory.group, memory.group_length), memory.id}, &made, 1);
  Tensor kept = same(made);
  {
    const std::lock_guard<std::mutex> lock(table.busy);
    if (table.releases == releases && place < table.places.size()) {
      std::swap(kept, table.places[place].tensor);
      table.places[place].device = memory.device;
    }
  }
  drop(kept);
}

void release_shared() noexcept {
  SharedTable& table = shared_table();
  std::vector<Held> ended;
  {
    const std::lock_guard<std::mutex> lock(table.busy);
    ended.swap(table.places);
    ++table.releases;
  }
  for (Held& held : ended) drop(held.tensor);
}

}  // namespace wir

extern "C" {

/// Called by the loader after it has compared the programs of all processes that share memory.
__attribute__((visibility("default"))) void wir_agreed() { wir::agreed.store(true, std::memory_order_relaxed); }

/// Called when memory of a group ends: the next call allocates it through Python again.
__attribute__((visibility("default"))) void wir_release() { wir::release_shared(); }
}
