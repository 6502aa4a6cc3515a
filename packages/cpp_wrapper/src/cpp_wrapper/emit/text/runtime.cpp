// The helpers of runtime.h, and AOTInductor's container interface over one program.
#include "runtime.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
extern const unsigned char wir_constants_begin[];
// Torch has these from 2.13 on.
__attribute__((weak)) const char* torch_exception_get_what_without_backtrace();
__attribute__((weak)) int32_t torch_new_stable_ivalue(uint64_t** ret_value);
}

namespace wir {
namespace {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string number_list(const int64_t* values, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += (i != 0 ? ", " : "") + (values[i] == any ? std::string("?") : std::to_string(values[i]));
  }
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

std::string dtype_name(int32_t code) {
  for (const DTypeName& known : kDTypes) {
    if (known.code() == code) return known.name;
  }
  return "dtype " + std::to_string(code);
}

int32_t dtype_of(Tensor given) {
  int32_t found = 0;
  ok(aoti_torch_get_dtype(given, &found), "dtype");
  return found;
}

struct Layout {
  int64_t rank = 0;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
};

Layout layout_of(Tensor given) {
  Layout found;
  ok(aoti_torch_get_dim(given, &found.rank), "dim");
  ok(aoti_torch_get_sizes(given, &found.sizes), "sizes");
  ok(aoti_torch_get_strides(given, &found.strides), "strides");
  return found;
}

/// As programs write types: `f32[2, 4]{1, 2}`, strides only where they are not those of a contiguous tensor.
std::string tensor_text(Tensor given) {
  int32_t device = 0, layout = 0;
  ok(aoti_torch_get_device_type(given, &device), "device");
  ok(aoti_torch_get_layout(given, &layout), "layout");
  const std::string where = device == aoti_torch_device_type_cpu() ? "cpu" : "another device";
  if (layout != aoti_torch_layout_strided()) return "a tensor that is not strided on " + where;
  const Layout found = layout_of(given);
  std::string text = dtype_name(dtype_of(given)) + "[" + number_list(found.sizes, found.rank) + "]";
  int64_t running = 1;
  bool plain = true;
  for (int64_t i = found.rank - 1; i >= 0; --i) {
    plain = plain && found.strides[i] == running;
    running *= found.sizes[i] > 1 ? found.sizes[i] : 1;
  }
  if (!plain) text += "{" + number_list(found.strides, found.rank) + "}";
  return text + " on " + where;
}

bool has_layout(const Layout& found, Ints sizes, Ints strides) {
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

[[noreturn]] void fail_text(const char* code, const std::string& text) {
  throw Failure("[" + std::string(code) + "] " + text);
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

void fail(const char* code, const char* message) { fail_text(code, message); }
void fail_call(const char* what) {
  const bool known = &torch_exception_get_what_without_backtrace != nullptr;
  const char* cause = known ? torch_exception_get_what_without_backtrace() : nullptr;
  fail_text("WIR927", std::string(what) + " failed" + (cause != nullptr ? std::string(": ") + cause : ""));
}
void fail_overflow() { fail("WIR404", "a size or an argument does not fit in 64 bits"); }
void fail_division() { fail("WIR402", "a division by zero in a size or an argument"); }

void release(Tensor* handles, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (handles[i] != nullptr) aoti_torch_delete_tensor_object(handles[i]);
  }
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

double item_float(Tensor given) {
  int64_t count = 0;
  ok(aoti_torch_get_numel(given, &count), "numel");
  if (count != 1) fail("WIR927", "a tensor whose number is read has not one element");
  const int32_t dtype = dtype_of(given);
  if (dtype == f64()) return element<double>(given);
  if (dtype == f32()) return element<float>(given);
  if (dtype == f16()) return half(element<uint16_t>(given));
  if (dtype == bf16()) return brain(element<uint16_t>(given));
  return static_cast<double>(item_int(given));
}

Int item_int(Tensor given) {
  int64_t count = 0;
  ok(aoti_torch_get_numel(given, &count), "numel");
  if (count != 1) fail("WIR927", "a tensor whose number is read has not one element");
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
  fail_text("WIR927", "no whole number can be read from " + tensor_text(given));
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

void expect_tensor(Tensor given, const char* name, const char* text, int32_t dtype, Ints sizes, Ints strides) {
  bool defined = false;
  if (given != nullptr) ok(aoti_torch_is_defined(given, &defined), "is_defined");
  const std::string head = std::string("argument ") + name + ": expected " + text + " on cpu, got ";
  if (!defined) fail_text("WIR926", head + "no tensor");
  int32_t device = 0, layout = 0;
  ok(aoti_torch_get_device_type(given, &device), "device");
  ok(aoti_torch_get_layout(given, &layout), "layout");
  if (device != aoti_torch_device_type_cpu() || layout != aoti_torch_layout_strided() || dtype_of(given) != dtype) {
    fail_text("WIR926", head + tensor_text(given));
  }
  if (!has_layout(layout_of(given), sizes, strides)) fail_text("WIR921", head + tensor_text(given));
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
    fail_text("WIR926", std::string("argument ") + name + ": expected " + kind + ", as a tensor " +
                            dtype_name(dtype) + "[] on cpu, got " + (defined ? tensor_text(given) : "no tensor"));
  }
}

void check_layout(Tensor given, Ints sizes, Ints strides, const char* name, const char* message) {
  if (has_layout(layout_of(given), sizes, strides)) [[likely]] return;
  fail_text("WIR921", std::string(name) + ": expected sizes [" + number_list(ints(sizes), sizes.size()) +
                          "] and strides [" + number_list(ints(strides), strides.size()) + "], got " +
                          tensor_text(given) + (*message ? std::string(" (") + message + ")" : ""));
}

void check_alignment(Tensor given, int64_t alignment, const char* name, const char* message) {
  if (reinterpret_cast<uintptr_t>(data(given)) % alignment == 0) [[likely]] return;
  fail_text("WIR921", std::string(name) + " is not aligned to " + std::to_string(alignment) + " bytes" +
                          (*message ? std::string(" (") + message + ")" : ""));
}

// --- the dispatcher

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
    } else if (one.kind == Returned::kTensor) {
      Tensor made = reinterpret_cast<Tensor>(found);
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
  if (!whole) fail_text("WIR927", std::string(name) + " returned too few tensors");
}

// --- constants

void constant(Tensor& made, size_t offset, size_t nbytes, bool is_owned, int32_t dtype, Ints sizes, Ints strides) {
  const unsigned char* bytes = wir_constants_begin + offset;
  if (!is_owned) {
    ok(aoti_torch_create_tensor_from_blob(const_cast<unsigned char*>(bytes), static_cast<int64_t>(sizes.size()),
                                          ints(sizes), ints(strides), 0, dtype, aoti_torch_device_type_cpu(), 0, &made),
       "a constant");
    return;
  }
  Tensor copy = nullptr;
  allocate(copy, {static_cast<int64_t>(nbytes)}, {1}, u8());
  try {
    std::memcpy(data(copy), bytes, nbytes);
    byte_window(made, copy, dtype, sizes, strides, 0);
  } catch (...) {
    drop(copy);
    throw;
  }
  drop(copy);
}

namespace {

thread_local std::string last_error;

struct Container {
  std::vector<Tensor> handles;
  explicit Container(size_t count) : handles(count, nullptr) {}
  ~Container() { release(handles.data(), handles.size()); }
};

struct NoGrad {
  bool before = aoti_torch_grad_mode_is_enabled();
  NoGrad() { if (before) aoti_torch_grad_mode_set_enabled(false); }
  ~NoGrad() { if (before) aoti_torch_grad_mode_set_enabled(true); }
};

/// Runs `body`; no exception leaves it.
template <class Body> int32_t guarded(const Run& run, Body body) noexcept {
  try {
    body();
    last_error.clear();
    return 0;
  } catch (const Failure& error) {
    last_error = error.what();
  } catch (const std::exception& error) {
    last_error = std::string("[CPP406] ") + error.what();
  } catch (...) {
    last_error = "[CPP406] an error that is not a std::exception";
  }
  if (*run.at) last_error += std::string("\n  at ") + run.at;
  // Runners of torch before 2.13 do not ask for the text.
  if (&torch_exception_get_what_without_backtrace == nullptr) std::fprintf(stderr, "%s\n", last_error.c_str());
  return 1;
}

int32_t unsupported(const char* what) noexcept {
  return guarded(Run{}, [&] {
    fail_text("CPP508", std::string(what) + " is not part of this edition: build the library again with other constants");
  });
}

/// What the processor lacks of the instructions (flags of /proc/cpuinfo) that the kernels were compiled for.
std::string missing_instructions(const char* needed) {
  if (!*needed) return "";
  std::string flags;
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
    std::string line;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      if (c != '\n') {
        line += static_cast<char>(c);
      } else if (line.rfind("flags", 0) == 0) {
        flags = line + " ";
        break;
      } else {
        line.clear();
      }
    }
    std::fclose(file);
  }
  std::string missing, word;
  for (const char* c = needed;; ++c) {
    if (*c != ' ' && *c) {
      word += *c;
      continue;
    }
    if (!word.empty() && flags.find(" " + word + " ") == std::string::npos) missing += " " + word;
    word.clear();
    if (!*c) return missing;
  }
}

int32_t run_program(Container* container, Tensor* inputs, size_t num_inputs, Tensor* outputs, size_t num_outputs) {
  struct Given {  // handles of inputs are ours, also where they are too many
    Tensor* handles;
    size_t count;
    ~Given() { release(handles, count); }
  };
  Run run;
  return guarded(run, [&] {
    const Given given{inputs, num_inputs};
    const NoGrad no_grad;
    if (num_inputs != wir_program.inputs) {
      fail_text("WIR926", "expected " + std::to_string(wir_program.inputs) + " inputs, got " + std::to_string(num_inputs));
    }
    if (num_outputs != wir_program.outputs) {
      fail_text("WIR926", "expected room for " + std::to_string(wir_program.outputs) + " outputs, got " +
                              std::to_string(num_outputs));
    }
    wir_program.run(container->handles.data(), inputs, outputs, run);
  });
}

}  // namespace
}  // namespace wir

// --- AOTInductor's container interface (torch/csrc/inductor/aoti_runtime/interface.h)

#define WIR_API __attribute__((visibility("default"))) int32_t
using wir::Container;
using wir::guarded;
using wir::Run;

extern "C" {

__attribute__((visibility("default"))) const char* wir_metadata() { return wir_program.metadata; }

WIR_API AOTInductorModelContainerCreateWithDevice(Container** made, size_t, const char* device, const char*) {
  return guarded(Run{}, [&] {
    if (device == nullptr || std::strncmp(device, "cpu", 3) != 0) {
      wir::fail_text("WIR926", std::string("this library runs on cpu, not on ") + (device ? device : "no device"));
    }
    const std::string missing = wir::missing_instructions(wir_program.instructions);
    if (!missing.empty()) wir::fail_text("CPP201", "the kernels need instructions that this host lacks:" + missing);
    auto* container = new Container(wir_program.handles);
    try {
      wir_program.load(container->handles.data());
    } catch (...) {
      delete container;
      throw;
    }
    *made = container;
  });
}
WIR_API AOTInductorModelContainerCreate(Container** made, size_t count, bool is_cpu, const char* folder) {
  return AOTInductorModelContainerCreateWithDevice(made, count, is_cpu ? "cpu" : "cuda", folder);
}
WIR_API AOTInductorModelContainerDelete(Container* container) {
  return guarded(Run{}, [&] { delete container; });
}
WIR_API AOTInductorModelContainerRun(Container* container, Tensor* inputs, size_t num_inputs, Tensor* outputs,
                                     size_t num_outputs, void*, void*) {
  return wir::run_program(container, inputs, num_inputs, outputs, num_outputs);
}
WIR_API AOTInductorModelContainerRunSingleThreaded(Container* container, Tensor* inputs, size_t num_inputs,
                                                   Tensor* outputs, size_t num_outputs, void*, void*) {
  return wir::run_program(container, inputs, num_inputs, outputs, num_outputs);
}
WIR_API AOTInductorGetLastError(const char** message) {
  *message = wir::last_error.c_str();
  return 0;
}
WIR_API AOTInductorModelContainerGetNumInputs(Container*, size_t* count) { return *count = wir_program.inputs, 0; }
WIR_API AOTInductorModelContainerGetNumOutputs(Container*, size_t* count) { return *count = wir_program.outputs, 0; }
WIR_API AOTInductorModelContainerGetInputName(Container*, size_t index, const char** name) {
  return guarded(Run{}, [&] {
    if (index >= wir_program.inputs) wir::fail("WIR926", "there is no input of this number");
    *name = wir_program.input_names[index];
  });
}
WIR_API AOTInductorModelContainerGetOutputName(Container*, size_t index, const char** name) {
  return guarded(Run{}, [&] {
    if (index >= wir_program.outputs) wir::fail("WIR926", "there is no output of this number");
    *name = wir_program.output_names[index];
  });
}
WIR_API AOTInductorModelContainerGetNumConstants(Container*, size_t* count) {
  return *count = wir_program.constants, 0;
}
static const wir::Constant& constant_at(size_t index) {
  if (index >= wir_program.constants) wir::fail("WIR926", "there is no constant of this number");
  return wir_program.constant_table[index];
}
WIR_API AOTInductorModelContainerGetConstantName(Container*, size_t index, const char** name) {
  return guarded(Run{}, [&] { *name = constant_at(index).name; });
}
WIR_API AOTInductorModelContainerGetConstantOriginalFQN(Container*, size_t index, const char** name) {
  return guarded(Run{}, [&] { *name = constant_at(index).full_name; });
}
WIR_API AOTInductorModelContainerGetConstantFromFolded(Container*, size_t, bool* folded) { return *folded = false, 0; }
WIR_API AOTInductorModelContainerGetConstantType(Container*, size_t, int32_t* type) { return *type = 0, 0; }
WIR_API AOTInductorModelContainerGetConstantDtype(Container*, size_t index, int32_t* dtype) {
  return guarded(Run{}, [&] { *dtype = constant_at(index).dtype(); });
}
WIR_API AOTInductorModelContainerGetConstantDataSize(Container*, size_t index, size_t* nbytes) {
  return guarded(Run{}, [&] { *nbytes = constant_at(index).nbytes; });
}
WIR_API AOTInductorModelContainerGetCallSpec(Container*, const char** in_spec, const char** out_spec) {
  *in_spec = *out_spec = "";  // the library takes and returns flat values
  return 0;
}
WIR_API AOTInductorModelContainerRunConstantFolding(Container*, bool, void*, void*) { return 0; }
WIR_API AOTInductorModelContainerGetConstantsBlobSize(Container*, uint64_t* nbytes) { return *nbytes = 0, 0; }
WIR_API AOTInductorModelContainerExtractConstantsMap(Container*, void*, bool) {
  return wir::unsupported("extracting constants");
}
WIR_API AOTInductorModelContainerUpdateUserManagedConstantBuffer(Container*, void*, bool, bool) {
  return wir::unsupported("updating constants");
}
WIR_API AOTInductorModelContainerUpdateConstantBuffer(Container*, void*, bool, bool) {
  return wir::unsupported("updating constants");
}
WIR_API AOTInductorModelContainerUpdateConstantBufferFromCpu(Container*, void*, bool, bool) {
  return wir::unsupported("updating constants");
}
WIR_API AOTInductorModelContainerUpdateInactiveConstantBuffer(Container*, void*) {
  return wir::unsupported("updating constants");
}
WIR_API AOTInductorModelContainerFreeInactiveConstantBuffer(Container*) {
  return wir::unsupported("a second set of constants");
}
WIR_API AOTInductorModelContainerSwapConstantBuffer(Container*) { return wir::unsupported("swapping constants"); }
WIR_API AOTInductorModelUpdateConstantsFromBlob(Container*, const uint8_t*) {
  return wir::unsupported("updating constants");
}
}
