// Runs packages and libraries that `cpp_wrapper.build` wrote, from C++17 without Python and without headers of torch.
//
//   wrapper_ir::Model model("m.pt2");
//   auto outputs = model.run({wrapper_ir::Tensor::of(data, {2, 3})});
//   const float* y = outputs[0].data<float>();
//
//   wrapper_ir::Model model("m.pt2", "cuda:1");  // a program for CUDA devices; without the name on the current one
//   auto outputs = model.run({wrapper_ir::Tensor::of(data, {2, 3}).to(wrapper_ir::Device::cuda(1))});
//   const wrapper_ir::Tensor y = outputs[0].to(wrapper_ir::Device::cpu());  // waits
//
// The code of a package is opened from memory and its constants are mapped: nothing is extracted. Any number of threads may call
// `run` of one model. Errors are std::runtime_error with the library's own text, which names input, expected and found.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct AtenTensorOpaque;
extern "C" {
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_dtype_int32();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_dtype_bool();
int32_t aoti_torch_delete_tensor_object(AtenTensorOpaque* tensor);
int32_t aoti_torch_new_tensor_handle(AtenTensorOpaque* tensor, AtenTensorOpaque** made);
int32_t aoti_torch_get_data_ptr(AtenTensorOpaque* tensor, void** found);
int32_t aoti_torch_get_dim(AtenTensorOpaque* tensor, int64_t* found);
int32_t aoti_torch_get_numel(AtenTensorOpaque* tensor, int64_t* found);
int32_t aoti_torch_get_sizes(AtenTensorOpaque* tensor, int64_t** found);
int32_t aoti_torch_get_strides(AtenTensorOpaque* tensor, int64_t** found);
int32_t aoti_torch_get_dtype(AtenTensorOpaque* tensor, int32_t* found);
int32_t aoti_torch_get_device_type(AtenTensorOpaque* tensor, int32_t* found);
int32_t aoti_torch_get_device_index(AtenTensorOpaque* tensor, int32_t* found);
int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,
                                 int32_t device_index, AtenTensorOpaque** made);
int32_t aoti_torch_copy_(AtenTensorOpaque* target, AtenTensorOpaque* source, int32_t non_blocking);
int32_t aoti_torch_create_tensor_from_blob(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                                           int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                           AtenTensorOpaque** made);
}

namespace wrapper_ir {

inline void check(int32_t error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + " failed");
}

template <class T> int32_t dtype_of();
template <> inline int32_t dtype_of<double>() { return aoti_torch_dtype_float64(); }
template <> inline int32_t dtype_of<float>() { return aoti_torch_dtype_float32(); }
template <> inline int32_t dtype_of<int64_t>() { return aoti_torch_dtype_int64(); }
template <> inline int32_t dtype_of<int32_t>() { return aoti_torch_dtype_int32(); }
template <> inline int32_t dtype_of<uint8_t>() { return aoti_torch_dtype_uint8(); }
template <> inline int32_t dtype_of<bool>() { return aoti_torch_dtype_bool(); }

/// Where a tensor lies: `type` is torch's number.
struct Device {
  int32_t type, index;
  static Device cpu() { return {aoti_torch_device_type_cpu(), 0}; }
  static Device cuda(int32_t index = 0) { return {aoti_torch_device_type_cuda(), index}; }
};

/// A torch tensor. Empty where an output is None.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorOpaque* owned) : handle_(owned) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Tensor(const Tensor& other) {
    if (other.handle_ != nullptr) check(aoti_torch_new_tensor_handle(other.handle_, &handle_), "a second handle");
  }
  ~Tensor() { if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_); }

  /// A contiguous tensor over the caller's memory, which must outlive it.
  template <class T> static Tensor of(T* data, const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] > 1 ? sizes[i] : 1);
    AtenTensorOpaque* made = nullptr;
    using Element = std::remove_const_t<T>;
    check(aoti_torch_create_tensor_from_blob(const_cast<Element*>(data), static_cast<int64_t>(sizes.size()), sizes.data(),
                                             strides.data(), 0, dtype_of<Element>(), aoti_torch_device_type_cpu(), 0, &made),
          "a tensor over memory");
    return Tensor(made);
  }

  /// A copy on a device, with the same strides; to the host it waits for what is queued on the current stream.
  Tensor to(Device device) const {
    const std::vector<int64_t> sizes = this->sizes(), strides = this->strides();
    AtenTensorOpaque* made = nullptr;
    check(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype(), device.type,
                                   device.index, &made), "allocation");
    Tensor copied(made);
    check(aoti_torch_copy_(made, handle_, 0), "a copy");
    return copied;
  }

  AtenTensorOpaque* handle() const { return handle_; }
  /// The handle, which is the caller's from now on.
  AtenTensorOpaque* release() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }
  int32_t dtype() const {
    int32_t found = 0;
    check(aoti_torch_get_dtype(handle_, &found), "dtype");
    return found;
  }
  Device device() const {
    Device found{};
    check(aoti_torch_get_device_type(handle_, &found.type), "the device");
    check(aoti_torch_get_device_index(handle_, &found.index), "the device");
    return found;
  }
  std::vector<int64_t> sizes() const { return numbers(aoti_torch_get_sizes); }
  std::vector<int64_t> strides() const { return numbers(aoti_torch_get_strides); }
  int64_t numel() const {
    int64_t found = 0;
    check(aoti_torch_get_numel(handle_, &found), "numel");
    return found;
  }
  /// The first element, which may be on a device. Throws where the element type is not T.
  template <class T> T* data() const {
    if (dtype() != dtype_of<std::remove_const_t<T>>()) throw std::runtime_error("the tensor has another element type");
    void* found = nullptr;
    check(aoti_torch_get_data_ptr(handle_, &found), "data_ptr");
    return static_cast<T*>(found);
  }

 private:
  template <class F> std::vector<int64_t> numbers(F ask) const {
    int64_t rank = 0, *found = nullptr;
    check(aoti_torch_get_dim(handle_, &rank), "dim");
    check(ask(handle_, &found), "sizes or strides");
    return {found, found + rank};
  }
  AtenTensorOpaque* handle_ = nullptr;
};

namespace detail {

/// Where a library lies in a file.
struct Place {
  uint64_t begin = 0, nbytes = 0;
};

class File {
 public:
  explicit File(const std::string& path) : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat facts{};
    if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      if (descriptor_ >= 0) close(descriptor_);
      throw std::runtime_error(path + " cannot be read");
    }
    nbytes_ = static_cast<uint64_t>(facts.st_size);
  }
  File(const File&) = delete;
  ~File() { if (descriptor_ >= 0) close(descriptor_); }
  uint64_t nbytes() const { return nbytes_; }
  int descriptor() const { return descriptor_; }
  std::string read(uint64_t at, uint64_t count) const {
    std::string found(count, '\0');
    if (at + count > nbytes_ || pread(descriptor_, found.data(), count, static_cast<off_t>(at)) != static_cast<ssize_t>(count)) {
      throw std::runtime_error(path_ + " is not whole");
    }
    return found;
  }

 private:
  std::string path_;
  int descriptor_;
  uint64_t nbytes_ = 0;
};

template <class T> T number(const std::string& text, size_t at) {
  T value{};
  if (at + sizeof value > text.size()) throw std::runtime_error("a package's list of members is not whole");
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

/// The library in a package: a member of a zip archive that is stored as it is.
inline Place find_library(const File& file) {
  constexpr uint64_t kEnd = 22;
  const uint64_t size = file.nbytes() < (1 << 16) + kEnd ? file.nbytes() : (1 << 16) + kEnd;
  const std::string end = file.read(file.nbytes() - size, size);
  const size_t mark = end.rfind("PK\5\6");
  if (mark == std::string::npos) throw std::runtime_error("the file is not a package");
  uint64_t begin = number<uint32_t>(end, mark + 16), length = number<uint32_t>(end, mark + 12);
  const size_t wide = end.rfind("PK\6\7", mark);
  if (begin == 0xFFFFFFFFu && wide != std::string::npos) {
    const std::string record = file.read(number<uint64_t>(end, wide + 8), 56);
    length = number<uint64_t>(record, 40);
    begin = number<uint64_t>(record, 48);
  }
  const std::string members = file.read(begin, length);
  const std::string wanted = "data/aotinductor/model/model.wrapper.so";
  for (size_t at = 0; at + 46 <= members.size();) {
    const size_t name = number<uint16_t>(members, at + 28), extra = number<uint16_t>(members, at + 30);
    const size_t comment = number<uint16_t>(members, at + 32);
    const std::string text = members.substr(at + 46, name);
    if (text.size() >= wanted.size() && text.compare(text.size() - wanted.size(), wanted.size(), wanted) == 0) {
      uint64_t nbytes = number<uint32_t>(members, at + 24), header = number<uint32_t>(members, at + 42);
      for (size_t field = at + 46 + name; field + 4 <= at + 46 + name + extra;) {
        size_t value = field + 4;
        if (number<uint16_t>(members, field) == 1) {  // numbers that do not fit 32 bits: size, stored size, begin
          if (nbytes == 0xFFFFFFFFu) nbytes = number<uint64_t>(members, value), value += 8;
          if (number<uint32_t>(members, at + 20) == 0xFFFFFFFFu) value += 8;
          if (header == 0xFFFFFFFFu) header = number<uint64_t>(members, value);
        }
        field += 4 + number<uint16_t>(members, field + 2);
      }
      const std::string local = file.read(header, 30);
      return {header + 30 + number<uint16_t>(local, 26) + number<uint16_t>(local, 28), nbytes};
    }
    at += 46 + name + extra + comment;
  }
  throw std::runtime_error("the package has no library of cpp_wrapper");
}

/// The CRC-32 of zip archives.
inline uint32_t checksum(const std::string& bytes, uint32_t before = 0) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> made(2048);
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1u));
      made[i] = crc;
    }
    for (size_t i = 256; i < made.size(); ++i) made[i] = (made[i - 256] >> 8) ^ made[made[i - 256] & 0xFF];
    return made;
  }();
  uint32_t crc = ~before;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= table[256 * (7 - k) + ((word >> (8 * k)) & 0xFF)];
  }
  for (; at < bytes.size(); ++at) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(bytes[at])) & 0xFF];
  return ~crc;
}

/// The code of a library that is in a file, and undamaged.
inline std::string read_code(const std::string& path, const File& file, const Place& place) {
  constexpr uint64_t kFooter = 32, kChunk = 1 << 20;
  const std::string footer = place.nbytes < kFooter ? "" : file.read(place.begin + place.nbytes - kFooter, kFooter);
  if (footer.compare(0, 8, "WIRTAIL2") != 0) throw std::runtime_error(path + " is not a library of cpp_wrapper");
  const auto code = number<uint64_t>(footer, 8), constants = number<uint64_t>(footer, 16);
  const auto metadata = number<uint64_t>(footer, 24);
  const uint64_t size = place.nbytes, chunks = constants / kChunk + (constants % kChunk != 0), sums = 4 * (chunks + 3);
  const bool is_whole = code <= size && constants <= size && metadata <= size && code + constants + metadata + sums + kFooter == size;
  if (!is_whole) throw std::runtime_error(path + " is not whole");
  const std::string table = file.read(place.begin + size - kFooter - sums, sums), found = file.read(place.begin, code);
  const uint32_t told = checksum(footer, checksum(table.substr(0, sums - 4)));
  if (told != number<uint32_t>(table, sums - 4) || checksum(found) != number<uint32_t>(table, 4 * chunks)) {
    throw std::runtime_error(path + " is damaged");
  }
  return found;
}

/// Opens the code of a library, a copy in memory. It stays open: threads of OpenMP may be in it.
inline void* open_code(const std::string& path, const File& file, const Place& place) {
  const std::string read = read_code(path, file, place);
  const int code = memfd_create("wrapper_ir", MFD_CLOEXEC);
  if (code < 0) throw std::runtime_error("no memory for the code of " + path);
  size_t left = read.size();
  while (left > 0) {
    const ssize_t sent = write(code, read.data() + (read.size() - left), left);
    if (sent <= 0) break;
    left -= static_cast<size_t>(sent);
  }
  // The dynamic loader takes a name that it knows for the library that it knows: a number stands in the slashes.
  static std::atomic<uint64_t> count{0};
  std::string name = "/proc";
  for (uint64_t bits = ++count; bits != 0; bits >>= 1) name += (bits & 1) != 0 ? "/." : "//";
  void* library = left == 0 ? dlopen((name + "/self/fd/" + std::to_string(code)).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* why = library == nullptr && left == 0 ? dlerror() : "it is not whole";
  close(code);
  if (library == nullptr) throw std::runtime_error(path + " cannot be opened: " + (why == nullptr ? "" : why));
  return library;
}

}  // namespace detail

/// A loaded package or library.
class Model {
 public:
  /// `device`: `cuda:1`, for a program for CUDA devices; empty: the current one. `check_constants`: compares all constants with their
  /// checksums, which reads them; code and metadata are compared in any case.
  explicit Model(const std::string& path, const std::string& device = "", bool check_constants = true) {
    const detail::File file(path);
    const bool is_package = path.size() > 4 && path.compare(path.size() - 4, 4, ".pt2") == 0;
    const detail::Place place = is_package ? detail::find_library(file) : detail::Place{0, file.nbytes()};
    library_ = detail::open_code(path, file, place);
    bind(run_, "AOTInductorModelContainerRun");
    bind(last_error_, "AOTInductorGetLastError");
    bind(delete_, "AOTInductorModelContainerDelete");
    void (*name_file)(const char*, uint64_t, uint64_t) = nullptr;
    void (*check_all)(int32_t) = nullptr;
    int32_t (*create)(void**, size_t, const char*, const char*) = nullptr;
    int32_t (*count)(void*, size_t*) = nullptr;
    bind(name_file, "wir_file");
    if (!check_constants) bind(check_all, "wir_check_constants");
    bind(create, "AOTInductorModelContainerCreateWithDevice");
    bind(count, "AOTInductorModelContainerGetNumOutputs");
    bind(swap_, "AOTInductorModelContainerSwapConstantBuffer");
    bind(update_, "wir_update");
    bind(write_, "wir_write_outputs");
    name_file(path.c_str(), place.begin, place.nbytes);
    if (check_all != nullptr) check_all(0);
    check(create(&container_, 1, device.c_str(), nullptr));
    check(count(container_, &outputs_));
  }
  Model(const Model&) = delete;
  ~Model() { if (container_ != nullptr) delete_(container_); }

  /// The model's own tensors, flat and in order; its outputs, flat. On a CUDA device the work is queued on `stream`, a
  /// `cudaStream_t`, or on the current one where that is null, and may go on when this returns.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, void* stream = nullptr) const {
    std::vector<AtenTensorOpaque*> given(inputs.size()), found(outputs_, nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) given[i] = Tensor(inputs[i]).release();
    check(run_(container_, given.data(), given.size(), found.data(), found.size(), stream, nullptr));
    std::vector<Tensor> outputs;
    for (AtenTensorOpaque* handle : found) outputs.emplace_back(handle);
    return outputs;
  }
  /// As `run`, into tensors of the caller, one for each output, empty where an output is None. They have the outputs' element
  /// types, sizes and device, any strides, and overlap neither one another nor inputs; where one does not, nothing is written.
  void run_into(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    const std::vector<Tensor> found = run(inputs);
    std::vector<AtenTensorOpaque*> targets = handles(outputs), results = handles(found), given = handles(inputs);
    check(write_(targets.data(), targets.size(), results.data(), results.size(), given.data(), given.size()));
  }
  /// New values for constants by any of their names, copied; runs that have begun go on with the old ones.
  void update_constants(const std::vector<std::pair<std::string, Tensor>>& values, bool is_inactive = false) {
    std::vector<const char*> names;
    std::vector<AtenTensorOpaque*> handles;
    for (const auto& [name, value] : values) names.push_back(name.c_str()), handles.push_back(value.handle());
    check(update_(container_, names.data(), handles.data(), names.size(), is_inactive, false, false));
  }
  /// Makes the inactive constants active.
  void swap_constants() { check(swap_(container_)); }

 private:
  template <class F> void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the library has no ") + name);
  }
  static std::vector<AtenTensorOpaque*> handles(const std::vector<Tensor>& tensors) {
    std::vector<AtenTensorOpaque*> found;
    for (const Tensor& tensor : tensors) found.push_back(tensor.handle());
    return found;
  }
  void check(int32_t error) const {
    const char* text = "";
    if (error != 0) last_error_(&text), throw std::runtime_error(text);
  }
  void* library_ = nullptr;
  void* container_ = nullptr;
  size_t outputs_ = 0;
  int32_t (*run_)(void*, AtenTensorOpaque**, size_t, AtenTensorOpaque**, size_t, void*, void*) = nullptr;
  int32_t (*last_error_)(const char**) = nullptr;
  int32_t (*delete_)(void*) = nullptr;
  int32_t (*swap_)(void*) = nullptr;
  int32_t (*write_)(AtenTensorOpaque**, size_t, AtenTensorOpaque**, size_t, AtenTensorOpaque**, size_t) = nullptr;
  int32_t (*update_)(void*, const char* const*, AtenTensorOpaque**, size_t, bool, bool, bool) = nullptr;
};

}  // namespace wrapper_ir
