// What the runtime needs besides the C shim, as torch's dispatcher computes it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "dlpack.h"
#include "operator.h"
#include "steps.h"

namespace wir {

const char* failure_cause() { return nullptr; }
void report_failure(const char*) {}
bool makes_inference_tensors() { return false; }
bool is_negated(Tensor) { return false; }
void make_dense(Tensor& made, Tensor source) { made = contiguous(source).release(); }
void release_shared() noexcept {}

void stack_tensors(Tensor& made, const Tensor* parts, size_t count) {
  const Tensor first = parts[0];
  if (first->rank + 1 > kMaxRank) fail_text("WIR927", {"a tensor has more than ", kMaxRank, " dimensions"});
  int64_t sizes[kMaxRank] = {static_cast<int64_t>(count)};
  std::copy(first->sizes(), first->sizes() + first->rank, sizes + 1);
  Owned stacked(new_like(first, first->rank + 1, sizes, nullptr, first->dtype));
  const int64_t nbytes = first->count * element_size(first->dtype);
  for (size_t i = 0; i < count; ++i) {
    const int64_t offset = static_cast<int64_t>(i) * nbytes;
    const Owned part(new_view(stacked.get(), offset, first->rank, sizes + 1, nullptr, first->dtype));
    copy_into(part.get(), parts[i]);
  }
  made = stacked.release();
}

bool is_finite(Tensor given) {
  Owned dense = contiguous(given);
  if (dense->storage->gpu >= 0) {
    Owned on_host(new_tensor(dense->rank, dense->sizes(), nullptr, dense->dtype));
    copy_into(on_host.get(), dense.get());
    dense = std::move(on_host);
  }
  for (int64_t i = 0; i < dense->count; ++i) {
    const Number value = load_number(dense->data() + i * element_size(dense->dtype), dense->dtype);
    if (!value.is_whole && !(std::isfinite(value.real) && std::isfinite(value.imaginary))) return false;
  }
  return true;
}

void add_whole(Tensor& made, Tensor first, Tensor second, int32_t dtype) {
  const int64_t rank = std::max(first->rank, second->rank);
  if (rank > kMaxRank) fail_text("WIR927", {"a tensor has more than ", kMaxRank, " dimensions"});
  int64_t sizes[kMaxRank];
  for (int64_t i = 1; i <= rank; ++i) {
    const int64_t a = i <= first->rank ? first->sizes()[first->rank - i] : 1;
    const int64_t b = i <= second->rank ? second->sizes()[second->rank - i] : 1;
    if (a != b && a != 1 && b != 1) fail_text("WIR927", {"add failed: ", tensor_text(first), " and ", tensor_text(second)});
    sizes[rank - i] = a == 1 ? b : a;
  }
  Owned sum(new_tensor(rank, sizes, nullptr, dtype)), other(new_tensor(rank, sizes, nullptr, dtype));
  copy_into(sum.get(), first);
  copy_into(other.get(), second);
  const int64_t size = element_size(dtype);
  for (int64_t i = 0; i < sum->count; ++i) {
    unsigned char* at = sum->data() + i * size;
    const Number a = load_number(at, dtype), b = load_number(other->data() + i * size, dtype);
    Number total = a;
    total.whole = static_cast<int64_t>(static_cast<uint64_t>(a.whole) + static_cast<uint64_t>(b.whole));
    store_number(at, dtype, total);
  }
  made = sum.release();
}

namespace {
/// Returns whether two elements of a layout may share memory.
bool may_share_elements(int64_t rank, const int64_t* sizes, const int64_t* strides) {
  for (int64_t i = 0; i < rank; ++i) {
    Int inner = 0;  // the last element of the dimensions with smaller strides
    for (int64_t j = 0; j < rank; ++j) {
      if (j != i && sizes[j] > 1 && strides[j] <= strides[i]) inner = inner + Int(sizes[j] - 1) * Int(strides[j]);
    }
    if (sizes[i] > 1 && raw(inner) >= strides[i]) return true;
  }
  return false;
}
}  // namespace

bool lay_out(Tensor& result, Ints sizes, Ints strides) {
  const int64_t *want = ints(sizes), *steps = ints(strides);
  // No view and no caller sees the memory of a fresh result: a copy means the same.
  const Storage& storage = *result->storage;
  const bool is_own = storage.free == free_own || Targets::owns(result) ||
                      (storage.gpu >= 0 && storage.free == require_device_memory().free);
  if (!is_own || result->storage->users != 1 || result->rank != static_cast<int64_t>(sizes.size())) return false;
  for (int64_t i = 0; i < result->rank; ++i) {
    if (want[i] != result->sizes()[i] || steps[i] < 0) return false;
  }
  if (may_share_elements(result->rank, want, steps)) return false;
  Owned made(new_like(result, result->rank, want, steps, result->dtype));
  copy_into(made.get(), result);
  drop(result);
  result = made.release();
  return true;
}

void resize(Tensor target, Int nbytes) {
  Storage* storage = target->storage;
  if (Targets::owns(target)) Targets::release(target);
  if (storage->gpu >= 0 && storage->free == require_device_memory().free) return device_memory.move(storage, raw(nbytes));
  if (storage->free != free_own) fail("WIR927", "resize_storage_bytes_ failed: the storage's memory belongs to the caller");
  if (raw(nbytes) == storage->nbytes) return;
  unsigned char* data = allocate_bytes(raw(nbytes));
  std::memcpy(data, storage->data, static_cast<size_t>(std::min(raw(nbytes), storage->nbytes)));
  std::free(storage->data);
  storage->data = data;
  storage->nbytes = raw(nbytes);
}

void set_storage(Tensor target, Tensor source) {
  if (target->rank != source->rank || target->dtype != source->dtype) {
    fail_text("WIR927", {"set_ failed: ", tensor_text(source), " for ", tensor_text(target)});
  }
  source->storage->users.fetch_add(1, std::memory_order_relaxed);
  Storage* old = target->storage;
  target->storage = source->storage;
  target->offset = source->offset;
  target->count = source->count;
  std::copy(source->sizes(), source->sizes() + 2 * source->rank, target->sizes());
  if (old->users.fetch_sub(1, std::memory_order_acq_rel) == 1) old->free(old);
}

void enter_profile(Tensor& scope, const char*, size_t, const char*, size_t) { scope = new_tensor(0, nullptr, nullptr, kU8); }
void exit_profile(Tensor& scope) { drop(scope); }

}  // namespace wir
