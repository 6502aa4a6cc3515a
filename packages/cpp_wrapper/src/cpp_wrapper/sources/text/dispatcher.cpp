// Calls through torch's stable dispatcher. Arguments and results are 64-bit words on a stack.
#include "container.h"
#include "steps.h"

#include <cstring>
#include <vector>

namespace wir {

uint64_t some(uint64_t value) {
  uint64_t* held = nullptr;
  if (&torch_new_stable_ivalue != nullptr) {
    ok(torch_new_stable_ivalue(&held), "an optional argument");
  } else {
    held = new uint64_t;  // before 2.13 torch deletes what callers made with `new`
  }
  *held = value;
  return reinterpret_cast<uintptr_t>(held);
}
uint64_t tensor(Tensor handle) { return reinterpret_cast<uintptr_t>(same(handle)); }
uint64_t number(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
uint64_t string(const char* text, size_t length) {
  StringOpaque* made = nullptr;
  ok(torch_new_string_handle(text, length, &made), "a text argument");
  return reinterpret_cast<uintptr_t>(made);
}
uint64_t list(std::initializer_list<uint64_t> values) {
  StableListOpaque* made = nullptr;
  ok(torch_new_list_reserve_size(values.size(), &made), "a list argument");
  for (const uint64_t value : values) ok(torch_list_push_back(made, value), "a list argument");
  return reinterpret_cast<uintptr_t>(made);
}

namespace {
std::vector<uint64_t> called(const char* name, const char* overload, std::initializer_list<uint64_t> arguments,
                             size_t returns) {
  std::vector<uint64_t> stack(arguments);
  if (stack.size() < returns) stack.resize(returns);
  ok(torch_call_dispatcher(name, overload, stack.data(), aoti_torch_abi_version()), name);
  return stack;
}
}  // namespace

void call(const char* name, const char* overload, std::initializer_list<uint64_t> arguments, Tensor* results,
          size_t count) {
  const std::vector<uint64_t> stack = called(name, overload, arguments, count);
  for (size_t i = 0; i < count; ++i) {
    Tensor made = reinterpret_cast<Tensor>(stack[i]);
    if (results != nullptr) {
      results[i] = made;
    } else {
      drop(made);
    }
  }
}

namespace {
/// Frees the list; the first `count` of its tensors go to `results`. False: there are fewer, or torch failed.
bool take_list(StableListOpaque* list, Tensor* results, size_t count) {
  size_t length = 0;
  int32_t error = torch_list_size(list, &length);
  for (size_t i = 0; i < length && error == 0; ++i) {
    uint64_t item = 0;
    error = torch_list_get_item(list, i, &item);
    Tensor part = reinterpret_cast<Tensor>(item);
    if (i < count) {
      results[i] = part;
    } else {
      drop(part);
    }
  }
  torch_delete_list(list);
  return error == 0 && length >= count;
}
/// What an optional value holds, which is freed; 0 for none.
uint64_t value_of(uint64_t optional) {
  uint64_t* held = reinterpret_cast<uint64_t*>(optional);
  if (held == nullptr) return 0;
  const uint64_t value = *held;
  if (&torch_delete_stable_ivalue != nullptr) {
    ok(torch_delete_stable_ivalue(held), "an optional result");
  } else {
    delete held;  // as `some`
  }
  return value;
}
}  // namespace

void call_mixed(const char* name, const char* overload, std::initializer_list<uint64_t> arguments,
                std::initializer_list<Returned> returned) {
  const std::vector<uint64_t> stack = called(name, overload, arguments, returned.size());
  bool whole = true;
  const uint64_t* value = stack.data();
  for (const Returned& one : returned) {
    const uint64_t found = *value++;
    if (one.kind == Returned::kList) {
      whole &= take_list(reinterpret_cast<StableListOpaque*>(found), static_cast<Tensor*>(one.to),
                         one.to == nullptr ? 0 : one.count);
    } else if (one.kind == Returned::kTensor || one.kind == Returned::kOptional) {
      Tensor made = reinterpret_cast<Tensor>(one.kind == Returned::kOptional ? value_of(found) : found);
      whole &= made != nullptr || one.to == nullptr;
      if (one.to != nullptr) {
        *static_cast<Tensor*>(one.to) = made;
      } else {
        drop(made);
      }
    } else if (one.to != nullptr) {
      if (one.kind == Returned::kInt) *static_cast<Int*>(one.to) = static_cast<int64_t>(found);
      if (one.kind == Returned::kFloat) std::memcpy(one.to, &found, sizeof found);
      if (one.kind == Returned::kBool) *static_cast<bool*>(one.to) = (found & 1) != 0;
    }
  }
  if (!whole) fail_text("WIR927", {name, " returned too few tensors"});
}

// --- what the shim does not express

void resize(Tensor target, Int nbytes) {
  call("inductor::resize_storage_bytes_", "", {tensor(target), integer(nbytes)}, nullptr, 0);
}

void set_storage(Tensor target, Tensor source) {
  call("aten::set_", "source_Tensor", {tensor(target), tensor(source)}, nullptr, 1);
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

void stack_tensors(Tensor& made, const Tensor* parts, size_t count) {
  StableListOpaque* made_list = nullptr;
  ok(torch_new_list_reserve_size(count, &made_list), "a list argument");
  for (size_t i = 0; i < count; ++i) ok(torch_list_push_back(made_list, tensor(parts[i])), "a list argument");
  call("aten::stack", "", {reinterpret_cast<uintptr_t>(made_list), integer(0)}, &made, 1);
}

bool is_finite(Tensor given) {
  Handles found(2, nullptr);
  call("aten::isfinite", "", {tensor(given)}, &found[0], 1);
  call("aten::all", "", {tensor(found[0])}, &found[1], 1);
  return item_bool(found[1]);
}

bool lay_out(Tensor&, Ints, Ints) { return false; }

bool is_negated(Tensor given) {
  uint64_t stack[] = {tensor(given)};
  ok(torch_call_dispatcher("aten::is_neg", "", stack, aoti_torch_abi_version()), "is_neg");
  return (stack[0] & 1) != 0;
}

bool makes_inference_tensors() {
  Handles made(1, nullptr);
  allocate(made[0], {}, {}, boolean());
  bool found = false;
  call_mixed("aten::is_inference", "", {tensor(made[0])}, {{Returned::kBool, &found}});
  return found;
}

void make_dense(Tensor& made, Tensor source) {
  Handles found(2, nullptr);
  call("aten::resolve_conj", "", {tensor(source)}, &found[0], 1);
  call("aten::resolve_neg", "", {tensor(found[0])}, &found[1], 1);
  call("aten::contiguous", "", {tensor(found[1]), code(aoti_torch_memory_format_contiguous_format())}, &made, 1);
}

const char* failure_cause() {
  const bool known = &torch_exception_get_what_without_backtrace != nullptr;
  return known ? torch_exception_get_what_without_backtrace() : nullptr;
}

namespace {
std::string& thread_error() {
  thread_local std::string text;
  return text;
}
}  // namespace

const char* last_error() { return thread_error().c_str(); }
void store_error(const char* text) { thread_error() = text; }

void report_failure(const char* text) {
  if (&torch_exception_get_what_without_backtrace == nullptr) std::fprintf(stderr, "%s\n", text);
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
