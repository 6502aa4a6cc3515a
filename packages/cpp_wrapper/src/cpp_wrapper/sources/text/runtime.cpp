// Functions of runtime.h for memory, numbers and checks.
#include "container.h"

#include <cstring>

namespace wir {
namespace {

std::string number_list(const int64_t* values, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += join({i != 0 ? ", " : "", values[i] == any ? Part("?") : Part(values[i])});
  return text;
}

struct DTypeName {
  int32_t (*code)();
  const char* name;
};
constexpr DTypeName kDTypes[] = {
    {f64, "f64"}, {f32, "f32"}, {f16, "f16"}, {bf16, "bf16"}, {f8e4m3fn, "f8e4m3fn"}, {f8e5m2, "f8e5m2"},
    {f8e4m3fnuz, "f8e4m3fnuz"}, {f8e5m2fnuz, "f8e5m2fnuz"}, {f8e8m0fnu, "f8e8m0fnu"},
    {f4e2m1fnx2, "f4e2m1fnx2"}, {i64, "i64"}, {i32, "i32"}, {i16, "i16"}, {i8, "i8"}, {u64, "u64"}, {u32, "u32"},
    {u16, "u16"}, {u8, "u8"}, {boolean, "bool"}, {c32, "c32"}, {c64, "c64"}, {c128, "c128"},
};

std::string device_name(Gpu gpu) { return join({"cuda:", gpu.index}); }

}  // namespace

std::string dtype_name(int32_t code) {
  for (const DTypeName& known : kDTypes) {
    if (known.code() == code) return known.name;
  }
  return join({"dtype ", code});
}

Dims::Dims(Tensor tensor) {
  ok(aoti_torch_get_dim(tensor, &rank), "dim");
  ok(aoti_torch_get_sizes(tensor, &sizes), "sizes");
  ok(aoti_torch_get_strides(tensor, &strides), "strides");
}

int32_t dtype_of(Tensor tensor) {
  int32_t dtype = 0;
  ok(aoti_torch_get_dtype(tensor, &dtype), "dtype");
  return dtype;
}

std::string device_text(Tensor tensor) {
  int32_t type = 0;
  ok(aoti_torch_get_device_type(tensor, &type), "device");
  if (type == aoti_torch_device_type_cpu()) return "cpu";
  Gpu gpu;
  ok(aoti_torch_get_device_index(tensor, &gpu.index), "device");
  return type == aoti_torch_device_type_cuda() ? device_name(gpu) : "another device";
}

std::string tensor_text(Tensor given) {
  int32_t layout = 0;
  ok(aoti_torch_get_layout(given, &layout), "layout");
  const std::string where = device_text(given);
  if (layout != aoti_torch_layout_strided()) return join({"a tensor that is not strided on ", where});
  const Dims found(given);
  int64_t running = 1;
  bool plain = true;
  for (int64_t i = found.rank - 1; i >= 0; --i) {
    plain = plain && found.strides[i] == running;
    running *= found.sizes[i] > 1 ? found.sizes[i] : 1;
  }
  const std::string sizes = number_list(found.sizes, found.rank);
  const std::string strides = plain ? "" : join({"{", number_list(found.strides, found.rank), "}"});
  return join({dtype_name(dtype_of(given)), "[", sizes, "]", strides, " on ", where});
}

std::string without_strides(const std::string& type) {
  std::string text = type;
  const size_t strides = text.find('{');
  if (strides != std::string::npos) text.erase(strides, text.find('}') + 1 - strides);
  return text;
}

namespace {

bool has_layout(const Dims& found, Ints sizes, Ints strides) {
  const auto rank = static_cast<int64_t>(sizes.size());
  if (found.rank != rank) return false;
  const int64_t *want = ints(sizes), *steps = ints(strides);
  bool empty = false;
  for (int64_t i = 0; i < rank; ++i) {
    if (want[i] != any && want[i] != found.sizes[i]) return false;
    empty = empty || found.sizes[i] == 0;
  }
  if (empty) return true;
  for (int64_t i = 0; i < rank; ++i) {
    if (found.sizes[i] != 1 && steps[i] != any && steps[i] != found.strides[i]) return false;
  }
  return true;
}

template <class T> T element(Tensor given) {
  T value;
  std::memcpy(&value, data(given), sizeof value);
  return value;
}

double half(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

double brain(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace

void fail(const char* code, const char* message) { fail_text(code, {message}); }
void fail_call(const char* what) {
  const char* cause = failure_cause();
  fail_text("WIR927", {what, " failed", cause != nullptr ? ": " : "", cause != nullptr ? cause : ""});
}
void fail_overflow() { fail("WIR408", "a size or an argument is not an int64"); }

void release(Tensor* handles, size_t count) {
  for (size_t i = 0; i < count; ++i) drop(handles[i]);
}

void byte_window(Tensor& made, Tensor source, int32_t dtype, Ints sizes, Ints strides, Int offset) {
  const Int start = storage_offset(source);
  const Int bytes = start * Int(aoti_torch_dtype_element_size(dtype_of(source))) + offset;
  Tensor base = source;
  if (start != 0) window(base, source, {1}, {1}, -start);  // the shim counts bytes from the storage's begin
  const int32_t error = aoti_torch__alloc_from_pool(base, raw(bytes), dtype, static_cast<int64_t>(sizes.size()),
                                                    ints(sizes), ints(strides), &made);
  if (base != source) aoti_torch_delete_tensor_object(base);
  ok(error, "a view of bytes");
}

void align(Tensor& made, Tensor source, int64_t alignment) {
  if (reinterpret_cast<uintptr_t>(data(source)) % alignment == 0) {
    made = same(source);
  } else {
    ok(aoti_torch_clone_preserve_strides(source, &made), "an aligned copy");
  }
}

namespace {
/// The only element of a tensor in memory of the host. Waits for a device.
class OneElement {
 public:
  explicit OneElement(Tensor given) : tensor_(given) {
    int64_t count = 0;
    ok(aoti_torch_get_numel(given, &count), "numel");
    if (count != 1) fail("WIR927", "a tensor whose number is read has not one element");
    int32_t device = 0;
    ok(aoti_torch_get_device_type(given, &device), "device");
    if (device == aoti_torch_device_type_cpu()) return;
    window(held_[0], given, {}, {}, 0);
    try {
      allocate(held_[1], {}, {}, dtype_of(given));
      copy(held_[1], held_[0]);
    } catch (...) {
      release(held_, 2);
      throw;
    }
    tensor_ = held_[1];
  }
  OneElement(const OneElement&) = delete;
  ~OneElement() { release(held_, 2); }
  operator Tensor() const { return tensor_; }

 private:
  Tensor tensor_, held_[2] = {};
};
}  // namespace

double item_float(Tensor tensor) {
  const OneElement given(tensor);
  const int32_t dtype = dtype_of(given);
  if (dtype == f64()) return element<double>(given);
  if (dtype == f32()) return element<float>(given);
  if (dtype == f16()) return half(element<uint16_t>(given));
  if (dtype == bf16()) return brain(element<uint16_t>(given));
  return static_cast<double>(item_int(given));
}

Int item_int(Tensor tensor) {
  const OneElement given(tensor);
  const int32_t dtype = dtype_of(given);
  if (dtype == i64()) return element<int64_t>(given);
  if (dtype == i32()) return element<int32_t>(given);
  if (dtype == i16()) return element<int16_t>(given);
  if (dtype == i8()) return element<int8_t>(given);
  if (dtype == u32()) return element<uint32_t>(given);
  if (dtype == u16()) return element<uint16_t>(given);
  if (dtype == u8() || dtype == boolean()) return element<uint8_t>(given);
  if (dtype == u64()) {
    const uint64_t value = element<uint64_t>(given);
    if (value > INT64_MAX) fail_overflow();
    return static_cast<int64_t>(value);
  }
  fail_text("WIR927", {"no whole number can be read from ", tensor_text(given)});
}

void result(Tensor& made, Int value) {
  allocate(made, {}, {}, i64());
  *static_cast<int64_t*>(data(made)) = raw(value);
}
void result(Tensor& made, double value) {
  allocate(made, {}, {}, f64());
  *static_cast<double*>(data(made)) = value;
}
void result(Tensor& made, bool value) {
  allocate(made, {}, {}, boolean());
  *static_cast<bool*>(data(made)) = value;
}

bool item_bool(Tensor given) { return item_int(given) != 0; }

namespace {
/// Returns whether a tensor is on the CPU (`gpu`: null), on a device, or on either.
bool is_placed(Tensor given, const Gpu* gpu, bool or_cpu) {
  int32_t type = 0, index = 0;
  ok(aoti_torch_get_device_type(given, &type), "device");
  if (type == aoti_torch_device_type_cpu() && (gpu == nullptr || or_cpu)) return true;
  if (gpu == nullptr || type != aoti_torch_device_type_cuda()) return false;
  ok(aoti_torch_get_device_index(given, &index), "device");
  return index == gpu->index;
}

struct Expected {
  const char *name, *text;
  const Gpu* gpu;
  bool or_cpu;
};

[[noreturn, gnu::cold]] void fail_argument(const char* code, const Expected& want, Tensor given) {
  bool is_defined = false;
  if (given != nullptr) ok(aoti_torch_is_defined(given, &is_defined), "is_defined");
  const std::string where = want.gpu == nullptr ? "cpu" : device_name(*want.gpu);
  fail_text(code, {"argument ", want.name, ": expected ", want.text, " on ", where, want.or_cpu ? " or cpu" : "", ", got ",
                   is_defined ? tensor_text(given) : "no tensor"});
}

void expect(Tensor given, const Expected& want, int32_t dtype, Ints sizes, Ints strides) {
  bool defined = false;
  if (given != nullptr) ok(aoti_torch_is_defined(given, &defined), "is_defined");
  if (!defined) [[unlikely]] fail_argument("WIR926", want, given);
  int32_t layout = 0;
  ok(aoti_torch_get_layout(given, &layout), "layout");
  if (layout != aoti_torch_layout_strided() || dtype_of(given) != dtype || !is_placed(given, want.gpu, want.or_cpu)) {
    fail_argument("WIR926", want, given);
  }
  if (!has_layout(Dims(given), sizes, strides)) [[unlikely]] fail_argument("WIR921", want, given);
}
}  // namespace

void expect_tensor(Tensor given, const char* name, const char* text, int32_t dtype, Ints sizes, Ints strides) {
  expect(given, {name, text, nullptr, false}, dtype, sizes, strides);
}
void expect_tensor(Tensor given, const char* name, const char* text, int32_t dtype, Ints sizes, Ints strides, Gpu gpu,
                   bool or_cpu) {
  expect(given, {name, text, &gpu, or_cpu}, dtype, sizes, strides);
}

void expect_number(Tensor given, const char* name, const char* kind, int32_t dtype) {
  bool defined = false;
  if (given != nullptr) ok(aoti_torch_is_defined(given, &defined), "is_defined");
  int32_t device = 0, layout = 0;
  int64_t rank = -1;
  if (defined) {
    ok(aoti_torch_get_device_type(given, &device), "device");
    ok(aoti_torch_get_layout(given, &layout), "layout");
    if (layout == aoti_torch_layout_strided()) ok(aoti_torch_get_dim(given, &rank), "dim");
  }
  if (rank != 0 || device != aoti_torch_device_type_cpu() || dtype_of(given) != dtype) {
    fail_text("WIR926", {"argument ", name, ": expected ", kind, ", as a tensor ", dtype_name(dtype), "[] on cpu, got ",
                         defined ? tensor_text(given) : "no tensor"});
  }
}

void check_layout(Tensor& given, Ints sizes, Ints strides, const char* name, const char* message) {
  if (has_layout(Dims(given), sizes, strides)) [[likely]] return;
  if (lay_out(given, sizes, strides)) return;
  fail_text("WIR921", {name, ": expected sizes [", number_list(ints(sizes), sizes.size()), "] and strides [",
                       number_list(ints(strides), strides.size()), "], got ", tensor_text(given), note(message)});
}

namespace {
/// The bytes that a tensor's elements need in its storage, and the storage's size.
struct Room {
  int64_t needed = 0, held = 0;
};

Room room_of(Tensor given) {
  Room found;
  ok(aoti_torch_get_storage_size(given, &found.held), "storage_size");
  const Dims layout(given);
  Int last = storage_offset(given);
  for (int64_t i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] == 0) return found;
    last = last + Int(layout.sizes[i] - 1) * Int(layout.strides[i]);
  }
  found.needed = raw((last + 1) * Int(aoti_torch_dtype_element_size(dtype_of(given))));
  return found;
}

[[noreturn, gnu::cold]] void fail_result(const char* name, Parts declared, Parts got, bool written) {
  const char* how = written ? "an operator that wrote its storage left " : "the operator returned ";
  const char* hint = written ? "resize and replace storages with the ops resize_storage and set_storage"
                             : "correct the call's arguments, or the type of its result";
  fail_text("WIR927", {"%", name, " is declared as ", join(declared), ", but ", how, join(got), "\n  hint: ", hint});
}

/// Returns whether a real tensor has the negative bit: its memory then contains the negated elements.
bool is_negated_real(Tensor given, int32_t dtype) {
  const bool may_be = dtype == f32() || dtype == f64() || dtype == f16();  // complex types have parts of these types only
  return may_be && is_negated(given);
}

void check_tensor(Tensor given, int32_t dtype, const char* name, const Gpu* gpu, bool written, Int storage) {
  bool defined = false;
  if (given != nullptr) ok(aoti_torch_is_defined(given, &defined), "is_defined");
  if (!defined) [[unlikely]] fail_result(name, {"a tensor"}, {"nothing"}, written);
  if (dtype_of(given) != dtype) [[unlikely]] fail_result(name, {dtype_name(dtype)}, {dtype_name(dtype_of(given))}, written);
  int32_t layout = 0;
  ok(aoti_torch_get_layout(given, &layout), "layout");
  if (layout != aoti_torch_layout_strided()) [[unlikely]] fail_result(name, {"strided"}, {tensor_text(given)}, written);
  if (is_negated_real(given, dtype)) [[unlikely]] {
    fail_result(name, {"plain"}, {"negated: have the operator return x.resolve_neg()"}, written);
  }
  int64_t rank = 0;
  ok(aoti_torch_get_dim(given, &rank), "dim");
  if (!is_placed(given, gpu, rank == 0)) [[unlikely]] {
    fail_result(name, {"on ", gpu == nullptr ? "cpu" : device_name(*gpu)}, {tensor_text(given)}, written);
  }
  const Room room = room_of(given);
  if (room.needed > room.held) [[unlikely]] {
    fail_result(name, {"within its storage"}, {tensor_text(given), ", ", room.needed, " bytes of ", room.held}, written);
  }
  if (Int(room.held) < storage) [[unlikely]] {
    fail_result(name, {"in a storage of ", raw(storage), " bytes"}, {"one of ", room.held}, written);
  }
}
}  // namespace

void check_result(Tensor given, int32_t dtype, const char* name) { check_tensor(given, dtype, name, nullptr, false, 0); }
void check_result(Tensor given, int32_t dtype, const char* name, Gpu gpu) {
  check_tensor(given, dtype, name, &gpu, false, 0);
}
void check_written(Tensor given, int32_t dtype, const char* name, Int storage) {
  check_tensor(given, dtype, name, nullptr, true, storage);
}
void check_written(Tensor given, int32_t dtype, const char* name, Int storage, Gpu gpu) {
  check_tensor(given, dtype, name, &gpu, true, storage);
}

void expect_storage(Tensor given, const char* name) {
  const Room room = room_of(given);
  if (room.needed <= room.held) [[likely]] return;
  fail_text("WIR926", {"argument ", name, ": expected a storage of at least ", room.needed, " bytes, got one of ", room.held});
}

void check_alignment(Tensor given, int64_t alignment, const char* name, const char* message) {
  if (reinterpret_cast<uintptr_t>(data(given)) % alignment == 0) [[likely]] return;
  fail_text("WIR921", {name, " is not aligned to ", alignment, " bytes", note(message)});
}

void constant(Tensor& made, const Bytes& bytes, int32_t dtype, Ints sizes, Ints strides) {
  if (bytes.holder != nullptr) return byte_window(made, bytes.holder, dtype, sizes, strides, 0);
  ok(aoti_torch_create_tensor_from_blob(const_cast<unsigned char*>(bytes.data), static_cast<int64_t>(sizes.size()),
                                        ints(sizes), ints(strides), 0, dtype, aoti_torch_device_type_cpu(), 0, &made),
     "a constant");
}

}  // namespace wir
