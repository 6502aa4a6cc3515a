// Memory of tensors, and copies between element types.
#include "memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "operator.h"
#include "steps.h"

namespace wir {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

unsigned char* allocate_bytes(int64_t nbytes) {
  void* found = nullptr;
  const auto count = static_cast<size_t>(std::max<int64_t>(nbytes, 1));
  if (nbytes < 0 || posix_memalign(&found, kAlignment, count) != 0) {
    fail_text("WIR927", {"allocation failed: no memory for ", nbytes, " bytes"});
  }
  return static_cast<unsigned char*>(found);
}

// --- small memory

constinit thread_local SmallMemory* call_memory = nullptr;

SmallMemory::~SmallMemory() {
  for (Block* block : free_) {
    while (block != nullptr) std::free(std::exchange(block, block->next));
  }
}

void* SmallMemory::take(int size) noexcept {
  Block*& first = free_[size - kSmallest];
  if (first == nullptr) return nullptr;
  --counts_[size - kSmallest];
  return std::exchange(first, first->next);
}

bool SmallMemory::give(void* block, int size) noexcept {
  int& count = counts_[size - kSmallest];
  if (count == kMostBlocks) return false;
  ++count;
  free_[size - kSmallest] = new (block) Block{free_[size - kSmallest]};
  return true;
}

namespace {
/// Returns the power of two of a block of small memory; 0 for larger memory.
int block_size(size_t nbytes) {
  const int size = nbytes <= 1 ? 0 : 64 - __builtin_clzll(nbytes - 1);
  return size > SmallMemory::kLargest ? 0 : std::max(size, SmallMemory::kSmallest);
}
}  // namespace

void* small_memory(size_t nbytes) {
  const int size = block_size(nbytes);
  void* found = size != 0 && call_memory != nullptr ? call_memory->take(size) : nullptr;
  if (found == nullptr) found = std::malloc(size != 0 ? size_t{1} << size : nbytes);
  if (found == nullptr) fail("WIR927", "allocation failed: no memory for a tensor");
  return found;
}

void free_small_memory(void* memory, size_t nbytes) noexcept {
  const int size = block_size(nbytes);
  if (size == 0 || call_memory == nullptr || !call_memory->give(memory, size)) std::free(memory);
}

Storage* new_storage(unsigned char* data, int64_t nbytes, void (*free)(Storage*), void* owner, int32_t gpu) {
  return new (small_memory(sizeof(Storage))) Storage{data, nbytes, 1, free, owner, gpu};
}

void delete_storage(Storage* storage) noexcept { free_small_memory(storage, sizeof(Storage)); }

void free_own(Storage* storage) {
  std::free(storage->data);
  delete_storage(storage);
}

const DeviceMemory& require_device_memory() {
  if (&device_memory == nullptr) fail("WIR927", "the library has no code for tensors on a device");
  return device_memory;
}

void take_over(Storage* storage) {
  if (storage->gpu >= 0) return require_device_memory().move(storage, storage->nbytes);
  unsigned char* data = allocate_bytes(storage->nbytes);
  std::memcpy(data, storage->data, static_cast<size_t>(storage->nbytes));
  storage->data = data;
  storage->free = free_own;
  storage->owner = nullptr;
}

namespace {

void free_borrowed(Storage* storage) { delete_storage(storage); }

/// Returns the number of elements from the first to the last one of a layout, at least 0. Fails on overflow.
int64_t extent_of(int64_t rank, const int64_t* sizes, const int64_t* strides) {
  Int last = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (sizes[i] < 0) fail_text("WIR927", {"allocation failed: size ", sizes[i], " of dimension ", i});
    if (sizes[i] == 0) return 0;
    last = last + Int(sizes[i] - 1) * Int(strides[i]);
  }
  return raw(last + 1);
}

size_t tensor_nbytes(int64_t rank) { return sizeof(AtenTensorOpaque) + 2 * static_cast<size_t>(rank) * sizeof(int64_t); }

Tensor make_tensor(Storage* storage, int64_t offset, int64_t rank, const int64_t* sizes, const int64_t* strides,
                   int32_t dtype) {
  Tensor made = new (small_memory(tensor_nbytes(rank))) AtenTensorOpaque{storage, offset, rank, 1, dtype, 1};
  for (int64_t i = 0; i < rank; ++i) {
    made->sizes()[i] = sizes[i];
    made->count *= sizes[i];
  }
  int64_t running = 1;
  for (int64_t i = rank - 1; i >= 0; --i) {
    made->strides()[i] = strides != nullptr ? strides[i] : running;
    running *= std::max<int64_t>(sizes[i], 1);
  }
  return made;
}

}  // namespace

constinit thread_local ResultMemory result_memory = nullptr;

int64_t layout_bytes(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  Int count = 1;
  for (int64_t i = 0; i < rank; ++i) count = count * Int(sizes[i]);
  const int64_t elements = strides != nullptr ? extent_of(rank, sizes, strides) : raw(count);
  return raw(Int(elements) * Int(element_size(dtype)));
}

Tensor new_tensor(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  const int64_t nbytes = layout_bytes(rank, sizes, strides, dtype);
  if (result_memory != nullptr) [[unlikely]] {
    if (const Tensor made = result_memory(rank, sizes, strides, dtype, -1)) return made;
  }
  unsigned char* data = allocate_bytes(nbytes);
  std::unique_ptr<unsigned char, void (*)(void*)> owned(data, std::free);
  Storage* const storage = new_storage(data, nbytes, free_own);
  owned.release();
  return new_over(storage, rank, sizes, strides, dtype);
}

Tensor new_like(Tensor like, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  const int32_t gpu = like->storage->gpu;
  if (gpu < 0) return new_tensor(rank, sizes, strides, dtype);
  return require_device_memory().allocate(rank, sizes, strides, dtype, gpu);
}

Tensor new_over(Storage* storage, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  try {
    return make_tensor(storage, 0, rank, sizes, strides, dtype);
  } catch (...) {
    storage->free(storage);
    throw;
  }
}

Tensor new_view(Tensor base, int64_t offset, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  Tensor made = make_tensor(base->storage, offset, rank, sizes, strides, dtype);
  base->storage->users.fetch_add(1, std::memory_order_relaxed);
  return made;
}

Tensor borrow_tensor(unsigned char* data, int64_t offset, int64_t rank, const int64_t* sizes, const int64_t* strides,
                     int32_t dtype, int32_t gpu) {
  const int64_t begin = offset * element_size(dtype);
  const int64_t nbytes = raw(Int(begin) + Int(extent_of(rank, sizes, strides)) * Int(element_size(dtype)));
  const Tensor made = new_over(new_storage(data, nbytes, free_borrowed, nullptr, gpu), rank, sizes, strides, dtype);
  made->offset = begin;
  return made;
}

void free_tensor(Tensor tensor) {
  if (tensor->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Storage* storage = tensor->storage;
  free_small_memory(tensor, tensor_nbytes(tensor->rank));
  if (storage->users.fetch_sub(1, std::memory_order_acq_rel) == 1) storage->free(storage);
}

bool is_contiguous(Tensor tensor) {
  int64_t running = 1;
  for (int64_t i = tensor->rank - 1; i >= 0; --i) {
    if (tensor->sizes()[i] != 1 && tensor->strides()[i] != running) return tensor->count == 0;
    running *= tensor->sizes()[i];
  }
  return true;
}

bool has_layout(Tensor tensor, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  if (tensor->rank != rank || tensor->dtype != dtype) return false;
  int64_t running = 1;
  for (int64_t i = rank - 1; i >= 0; --i) {
    if (tensor->sizes()[i] != sizes[i]) return false;
    if (sizes[i] != 1 && tensor->strides()[i] != (strides != nullptr ? strides[i] : running)) return false;
    running *= sizes[i];
  }
  return true;
}

Owned contiguous(Tensor tensor) { return contiguous(tensor, tensor->dtype); }

Owned contiguous(Tensor tensor, int32_t dtype) {
  if (tensor->dtype == dtype && is_contiguous(tensor)) return Owned(same(tensor));
  Owned made(new_like(tensor, tensor->rank, tensor->sizes(), nullptr, dtype));
  copy_into(made.get(), tensor);
  return made;
}

Tensor clone_with_strides(Tensor source) {
  Owned made(new_like(source, source->rank, source->sizes(), source->strides(), source->dtype));
  copy_into(made.get(), source);
  return made.release();
}

int64_t wrap_dim(int64_t dim, int64_t rank, const char* name) {
  const int64_t range = std::max<int64_t>(rank, 1);
  if (dim < -range || dim >= range) {
    fail_text("WIR927", {name, " failed: dimension ", dim, " of a tensor with ", rank, " dimensions"});
  }
  return dim < 0 ? dim + range : dim;
}

void fail_dtype(const char* name, int32_t dtype) {
  fail_text("WIR927", {name, " failed: the native operator has no code for element type ", dtype_name(dtype)});
}

// --- copies

StridedCopy strided_copy(Tensor target, Tensor source) {
  StridedCopy made;
  const int64_t to_size = element_size(target->dtype), from_size = element_size(source->dtype);
  const int64_t missing = target->rank - source->rank;
  for (int64_t i = target->rank - 1; i >= 0; --i) {
    const int64_t size = target->sizes()[i], given = i < missing ? 1 : source->sizes()[i - missing];
    if (given != size && given != 1) fail_text("WIR927", {"copy_ failed: ", tensor_text(source), " to ", tensor_text(target)});
    if (size == 1) continue;
    const int64_t to = target->strides()[i] * to_size, from = given == 1 ? 0 : source->strides()[i - missing] * from_size;
    const int64_t last = made.rank - 1;
    if (made.rank > 0 && to == made.to[last] * made.sizes[last] && from == made.from[last] * made.sizes[last]) {
      made.sizes[last] *= size;
      continue;
    }
    made.sizes[made.rank] = size;
    made.to[made.rank] = to;
    made.from[made.rank++] = from;
  }
  if (missing < 0) {
    for (int64_t i = 0; i < -missing; ++i) {
      if (source->sizes()[i] != 1) fail_text("WIR927", {"copy_ failed: ", tensor_text(source), " to ", tensor_text(target)});
    }
  }
  if (made.rank == 0) {
    made.rank = 1;
    made.sizes[0] = 1, made.to[0] = to_size, made.from[0] = from_size;
  }
  return made;
}

namespace {

using Row = void (*)(unsigned char* to, int64_t to_stride, const unsigned char* from, int64_t from_stride, int64_t count);

template <int64_t kSize> void move_row(unsigned char* to, int64_t to_stride, const unsigned char* from, int64_t from_stride,
                                       int64_t count) {
  if (to_stride == kSize && from_stride == kSize) {
    std::memcpy(to, from, static_cast<size_t>(count * kSize));
    return;
  }
  for (int64_t i = 0; i < count; ++i, to += to_stride, from += from_stride) std::memcpy(to, from, kSize);
}

template <class To, class From> void convert_row(unsigned char* to, int64_t to_stride, const unsigned char* from,
                                                 int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += to_stride, from += from_stride) {
    From given;
    std::memcpy(&given, from, sizeof given);
    const To value = converted<To>(given);
    std::memcpy(to, &value, sizeof value);
  }
}

/// Converts by way of the widest types: rare pairs of types need no code each.
void convert_any(unsigned char* to, int32_t to_type, const unsigned char* from, int32_t from_type) {
  store_number(to, to_type, load_number(from, from_type));
}

template <class From> Row row_from(int32_t to) {
  switch (to) {
    case kF32: return convert_row<float, From>;
    case kF64: return convert_row<double, From>;
    case kF16: return convert_row<Half, From>;
    case kBF16: return convert_row<BFloat16, From>;
    case kI64: return convert_row<int64_t, From>;
    case kI32: return convert_row<int32_t, From>;
    case kBool: return convert_row<bool, From>;
    default: return nullptr;
  }
}

/// Returns the loop for a pair of types; null if it has none.
Row row_of(int32_t to, int32_t from) {
  if (to == from) {
    switch (element_size(to)) {
      case 1: return move_row<1>;
      case 2: return move_row<2>;
      case 4: return move_row<4>;
      case 8: return move_row<8>;
      default: return move_row<16>;
    }
  }
  switch (from) {
    case kF32: return row_from<float>(to);
    case kF64: return row_from<double>(to);
    case kF16: return row_from<Half>(to);
    case kBF16: return row_from<BFloat16>(to);
    case kI64: return row_from<int64_t>(to);
    case kI32: return row_from<int32_t>(to);
    case kBool: return row_from<bool>(to);
    default: return nullptr;
  }
}

void run_copy(const StridedCopy& loops, Tensor target, Tensor source, unsigned char* to, const unsigned char* from) {
  const Row row = row_of(target->dtype, source->dtype);
  int64_t index[kMaxRank] = {};
  for (;;) {
    if (row != nullptr) {
      row(to, loops.to[0], from, loops.from[0], loops.sizes[0]);
    } else {
      for (int64_t i = 0; i < loops.sizes[0]; ++i) {
        convert_any(to + i * loops.to[0], target->dtype, from + i * loops.from[0], source->dtype);
      }
    }
    int64_t dim = 1;
    for (; dim < loops.rank; ++dim) {
      to += loops.to[dim], from += loops.from[dim];
      if (++index[dim] < loops.sizes[dim]) break;
      to -= loops.to[dim] * loops.sizes[dim], from -= loops.from[dim] * loops.sizes[dim];
      index[dim] = 0;
    }
    if (dim == loops.rank) return;
  }
}

}  // namespace

int64_t extent_bytes(Tensor tensor) {
  return extent_of(tensor->rank, tensor->sizes(), tensor->strides()) * element_size(tensor->dtype);
}

bool may_overlap(Tensor target, Tensor source) {
  const unsigned char *to = target->data(), *from = source->data();
  return to < from + extent_bytes(source) && from < to + extent_bytes(target);
}

void copy_into(Tensor target, Tensor source, bool may_return_early) {
  if (target->storage->gpu >= 0 || source->storage->gpu >= 0) {
    return require_device_memory().copy(target, source, may_return_early);
  }
  if (target->rank > kMaxRank || source->rank > kMaxRank) {
    fail_text("WIR927", {"copy_ failed: tensors have at most ", kMaxRank, " dimensions"});
  }
  const StridedCopy loops = strided_copy(target, source);
  const bool is_itself = target->data() == source->data() &&
                         has_layout(target, source->rank, source->sizes(), source->strides(), source->dtype);
  if (target->count == 0 || is_itself) return;
  if (!may_overlap(target, source)) return run_copy(loops, target, source, target->data(), source->data());
  Owned apart(new_tensor(source->rank, source->sizes(), nullptr, source->dtype));
  run_copy(strided_copy(apart.get(), source), apart.get(), source, apart->data(), source->data());
  run_copy(strided_copy(target, apart.get()), target, apart.get(), target->data(), apart->data());
}

void fill_zero(Tensor tensor) {
  if (tensor->storage->gpu >= 0) return require_device_memory().zero(tensor);
  if (is_contiguous(tensor)) {
    std::memset(tensor->data(), 0, static_cast<size_t>(tensor->count * element_size(tensor->dtype)));
    return;
  }
  const int64_t ones[1] = {};
  Owned zero(new_tensor(0, ones, nullptr, tensor->dtype));
  std::memset(zero->data(), 0, static_cast<size_t>(element_size(tensor->dtype)));
  copy_into(tensor, zero.get());
}

}  // namespace wir
