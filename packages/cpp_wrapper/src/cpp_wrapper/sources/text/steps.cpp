// The functions of steps.h.
#include "steps.h"

#include <cstdio>
#include <string>
#include <utility>

namespace wir {

namespace {
/// `made` gets the element type `dtype`.
void convert(Tensor& made, int32_t dtype) {
  int32_t own = 0;
  ok(aoti_torch_get_dtype(made, &own), "dtype");
  if (own == dtype) return;
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
  const std::string text = "a switch over " + std::to_string(count) + " branches is given index " + std::to_string(raw(index));
  fail("WIR932", text.c_str());
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
/// The address of the first byte of the storage.
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
  fail("WIR931", (std::string("argument ") + name + ": its storage is resized, and argument " + other_name +
                  " lies in it").c_str());
}

void check_finite(Tensor tensor, const char* name, const char* message) {
  Tensor found[2] = {};
  call("aten::isfinite", "", {wir::tensor(tensor)}, &found[0], 1);
  try {
    call("aten::all", "", {wir::tensor(found[0])}, &found[1], 1);
    if (item_bool(found[1])) return release(found, 2);
    const std::string note = *message ? std::string(" (") + message + ")" : "";
    fail("WIR922", (std::string(name) + " holds a NaN or an infinity" + note).c_str());
  } catch (...) {
    release(found, 2);
    throw;
  }
}

namespace {

std::string sizes_text(Tensor tensor, bool strides) {
  int64_t rank = 0, *values = nullptr;
  ok(aoti_torch_get_dim(tensor, &rank), "dim");
  ok(strides ? aoti_torch_get_strides(tensor, &values) : aoti_torch_get_sizes(tensor, &values), "a layout");
  std::string text = "[";
  for (int64_t i = 0; i < rank; ++i) text += (i != 0 ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

void show_line(const char* place, const std::string& text) {
  std::printf("%s%s\n", place, text.c_str());
  std::fflush(stdout);
}

/// Moves a tensor of a device to the host, and waits.
void move_to_host(Tensor& tensor) {
  int32_t device = 0, dtype = 0;
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  ok(aoti_torch_get_device_type(tensor, &device), "device");
  if (device == aoti_torch_device_type_cpu()) return;
  ok(aoti_torch_get_dtype(tensor, &dtype), "dtype");
  ok(aoti_torch_get_dim(tensor, &rank), "dim");
  ok(aoti_torch_get_sizes(tensor, &sizes), "sizes");
  ok(aoti_torch_get_strides(tensor, &strides), "strides");
  Tensor host = nullptr;
  ok(aoti_torch_empty_strided(rank, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &host), "allocation");
  const int32_t failed = aoti_torch_copy_(host, tensor, 0);
  std::swap(host, tensor);
  drop(host);
  ok(failed, "copy_");
}

struct Open {
  std::FILE* file;
  ~Open() {
    if (file != nullptr) std::fclose(file);
  }
};

}  // namespace

void show(Tensor tensor, const char* place, bool content) {
  show_line(place, sizes_text(tensor, false) + " strides " + sizes_text(tensor, true));
  if (content) aoti_torch_print_tensor_handle(tensor, place);
}
void show(Int value, const char* place, bool content) {
  show_line(place, content ? "\n" + std::to_string(raw(value)) : "");
}
void show(double value, const char* place, bool content) {
  char text[32];
  std::snprintf(text, sizeof text, "\n%.17g", value);
  show_line(place, content ? text : "");
}
void show(bool value, const char* place, bool content) {
  show_line(place, !content ? "" : value ? "\nTrue" : "\nFalse");
}

void save(Tensor tensor, const char* place, const char* file, const char* name, const char* dtype) {
  Tensor dense = nullptr;
  call("aten::contiguous", "", {wir::tensor(tensor), code(aoti_torch_memory_format_contiguous_format())}, &dense, 1);
  struct Held {
    Tensor* handle;
    ~Held() { release(handle, 1); }
  } const held{&dense};
  move_to_host(dense);
  int64_t count = 0;
  int32_t element = 0;
  ok(aoti_torch_get_numel(dense, &count), "numel");
  ok(aoti_torch_get_dtype(dense, &element), "dtype");
  const size_t nbytes = static_cast<size_t>(count) * aoti_torch_dtype_element_size(element);
  const bool bytes = std::string(dtype) == "U8";
  std::string head = std::string("{\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" +
                     std::to_string(bytes ? nbytes : static_cast<size_t>(count)) + "],\"data_offsets\":[0," +
                     std::to_string(nbytes) + "]}}";
  head.resize((head.size() + 7) / 8 * 8, ' ');
  std::string path;
  Open out{nullptr};
  for (int number = 0; out.file == nullptr && number < 100000; ++number) {
    path = std::string(file) + "_" + std::to_string(number) + ".safetensors";
    out.file = std::fopen(path.c_str(), "wbx");
  }
  const uint64_t length = head.size();
  const bool whole = out.file != nullptr && std::fwrite(&length, sizeof length, 1, out.file) == 1 &&
                     std::fwrite(head.data(), head.size(), 1, out.file) == 1 &&
                     (nbytes == 0 || std::fwrite(data(dense), nbytes, 1, out.file) == 1);
  if (!whole) fail("WIR927", ("a value cannot be saved to " + path).c_str());
  show_line(place, sizes_text(tensor, false) + " strides " + sizes_text(tensor, true) + " -> " + path);
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
