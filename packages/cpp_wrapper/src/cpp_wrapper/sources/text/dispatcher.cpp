// Calls through torch's stable dispatcher. Arguments and results are 64-bit words on a stack.
#include "container.h"

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

void resize(Tensor target, Int nbytes) {
  call("inductor::resize_storage_bytes_", "", {tensor(target), integer(nbytes)}, nullptr, 0);
}

}  // namespace wir
