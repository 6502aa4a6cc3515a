// Functions of steps.h.
#include "steps.h"

#include "container.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace wir {

namespace {
/// Converts `made` to the element type `dtype`.
void convert(Tensor& made, int32_t dtype) {
  if (dtype_of(made) == dtype) return;
  Tensor converted = nullptr;
  allocate(converted, {}, {}, dtype);
  try {
    copy(converted, made);
  } catch (...) {
    drop(converted);
    throw;
  }
  replace(made, converted);
}
}  // namespace

void number_tensor(Tensor& made, Int value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, double value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, bool value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, double real, double imaginary, int32_t dtype) {
  allocate(made, {}, {}, c128());
  double* parts = static_cast<double*>(data(made));
  parts[0] = real;
  parts[1] = imaginary;
  convert(made, dtype);
}

void add_whole(Tensor& made, Tensor first, Tensor second, int32_t dtype) {
  struct Held {
    Tensor parts[3] = {};
    ~Held() { release(parts, 3); }
  } held;
  Tensor* parts = held.parts;
  call_mixed("aten::broadcast_tensors", "", {list({tensor(first), tensor(second)})}, {{Returned::kList, parts, 2}});
  call("aten::stack", "", {list({tensor(parts[0]), tensor(parts[1])}), integer(0)}, &parts[2], 1);
  call("aten::sum", "dim_IntList", {tensor(parts[2]), some(list({integer(0)})), truth(false), some(code(dtype))}, &made, 1);
}

void fail_branch(Int index, int64_t count) {
  fail_text("WIR932", {"a switch over ", count, " branches is given index ", raw(index)});
}

void make_fresh(Tensor& tensor) {
  Tensor made = nullptr;
  ok(aoti_torch_clone_preserve_strides(tensor, &made), "a copy");
  replace(tensor, made);
}

void Trips::keep(Tensor tensor) {
  held_.push_back(nullptr);
  ok(aoti_torch_clone_preserve_strides(tensor, &held_.back()), "a copy");
}

void Trips::stack(Tensor& tensor) {
  if (held_.empty()) keep(tensor);
  StableListOpaque* parts = nullptr;
  ok(torch_new_list_reserve_size(held_.size(), &parts), "a list argument");
  for (const Tensor one : held_) ok(torch_list_push_back(parts, wir::tensor(one)), "a list argument");
  Tensor made = nullptr;
  call("aten::stack", "", {reinterpret_cast<uintptr_t>(parts), integer(0)}, &made, 1);
  replace(tensor, made);
}

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

namespace {
/// Returns the address of the storage's first byte.
void* storage_begin(Tensor tensor) {
  Tensor first = nullptr;
  window(first, tensor, {1}, {1}, -storage_offset(tensor));
  void* found = nullptr;
  const int32_t error = aoti_torch_get_data_ptr(first, &found);
  drop(first);
  ok(error, "data_ptr");
  return found;
}
}  // namespace

void expect_apart(Tensor tensor, Tensor other, const char* name, const char* other_name) {
  void* begin = storage_begin(tensor);
  if (begin == nullptr || begin != storage_begin(other)) return;
  fail_text("WIR931", {"argument ", name, ": its storage is resized, and argument ", other_name, " lies in it"});
}

void check_apart(Tensor result, Tensor operand, const char* name) {
  void* begin = storage_begin(result);
  if (begin == nullptr || begin != storage_begin(operand)) return;
  fail_text("WIR927", {"%", name,
                       " is declared as new memory, but the operator returned memory of its argument\n  hint: have the "
                       "operator return x.clone(), or declare the alias in its schema: `Tensor(a) x -> Tensor(a)`"});
}

void check_finite(Tensor tensor, const char* name, const char* message) {
  Tensor found[2] = {};
  call("aten::isfinite", "", {wir::tensor(tensor)}, &found[0], 1);
  try {
    call("aten::all", "", {wir::tensor(found[0])}, &found[1], 1);
    if (item_bool(found[1])) return release(found, 2);
    fail_text("WIR922", {name, " holds a NaN or an infinity", note(message)});
  } catch (...) {
    release(found, 2);
    throw;
  }
}

void enter_profile(Tensor& scope, const char* name, size_t length, const char* details, size_t details_length) {
  const uint64_t extra = details_length == 0 ? none() : some(string(details, details_length));
  call("profiler::_record_function_enter", "", {string(name, length), extra}, &scope, 1);
}
void exit_profile(Tensor& scope) {
  call("profiler::_record_function_exit", "", {tensor(scope)}, nullptr, 0);
  drop(scope);
}

}  // namespace wir

extern "C" {

/// Called by the loader after it has compared the programs of all processes that share memory.
__attribute__((visibility("default"))) void wir_agreed() { wir::agreed.store(true, std::memory_order_relaxed); }

/// Called when memory of a group ends: the next call allocates it through Python again.
__attribute__((visibility("default"))) void wir_release() { wir::release_shared(); }
}
