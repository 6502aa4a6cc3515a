// Runs native libraries of Wrapper IR from C++17, over the C interface (`model.h`). Needs neither torch nor Python.
//
//   wrapper_ir::Model model("m.so");
//   auto outputs = model.run({wrapper_ir::Tensor::of(data, {2, 3})});
//   const float* y = outputs[0].data<float>();
//
//   wrapper_ir::Model model(wir_m_get_api);  // a static library, with the function of its header
//
// Any number of threads may call `run` of one model. Errors are wrapper_ir::Error with the library's own text, which names
// input, expected and found. The classes are in the inline namespace `native`: a program that also includes runner.hpp, for
// libraries of torch, writes `wrapper_ir::native::Model`.
#pragma once

#include "model.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace wrapper_ir {
inline namespace native {

/// An error of a library: `what()` is its text, as `[WIR926] argument x: ...`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// The code in the text, such as `WIR926`; empty without one.
  std::string code() const {
    const std::string text = what();
    return text.empty() || text[0] != '[' ? std::string() : text.substr(1, text.find(']') - 1);
  }
};

template <class T> DLDataType dtype_of() {
  constexpr auto bits = static_cast<uint8_t>(8 * sizeof(T));
  if (std::is_same_v<T, bool>) return {kDLBool, 8, 1};
  static_assert(std::is_arithmetic_v<T>, "an element type without a DLPack code");
  if (std::is_floating_point_v<T>) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(std::is_signed_v<T> ? kDLInt : kDLUInt), bits, 1};
}

/// A tensor in memory of the CPU: of the caller, or a result. Copies share the memory. Empty if an output is None.
class Tensor {
 public:
  Tensor() = default;
  /// A contiguous tensor over the caller's memory, which must outlive it.
  template <class T> static Tensor of(T* data, const std::vector<int64_t>& sizes) {
    return of(const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>(), sizes);
  }
  /// As above, with any element type and strides; empty strides: contiguous.
  static Tensor of(void* data, DLDataType dtype, const std::vector<int64_t>& sizes, std::vector<int64_t> strides = {}) {
    if (strides.empty()) strides = contiguous(sizes);
    if (strides.size() != sizes.size()) throw Error("[WIR926] a tensor has as many strides as sizes");
    struct Layout {
      std::vector<int64_t> sizes, strides;
      DLTensor tensor;
    };
    auto layout = std::make_shared<Layout>(Layout{sizes, std::move(strides), {}});
    layout->tensor = wir_tensor(data, dtype, static_cast<int32_t>(layout->sizes.size()), layout->sizes.data());
    layout->tensor.strides = layout->strides.data();
    return Tensor(std::shared_ptr<const DLTensor>(layout, &layout->tensor));
  }
  /// Takes ownership of a tensor of DLPack. `library` stays open as long as the tensor.
  static Tensor own(DLManagedTensorVersioned* managed, std::shared_ptr<void> library = nullptr) {
    if (managed == nullptr) return {};
    std::shared_ptr<DLManagedTensorVersioned> owner(managed, [library](DLManagedTensorVersioned* one) {
      if (one->deleter != nullptr) one->deleter(one);
    });
    return Tensor(std::shared_ptr<const DLTensor>(owner, &owner->dl_tensor));
  }

  explicit operator bool() const { return tensor_ != nullptr; }
  /// The tensor of DLPack; null if empty.
  const DLTensor* get() const { return tensor_.get(); }
  DLDataType dtype() const { return checked().dtype; }
  std::vector<int64_t> sizes() const { return {checked().shape, checked().shape + checked().ndim}; }
  std::vector<int64_t> strides() const {
    if (checked().strides == nullptr) return contiguous(sizes());
    return {checked().strides, checked().strides + checked().ndim};
  }
  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t size : sizes()) count *= size;
    return count;
  }
  bool is_contiguous() const {
    const std::vector<int64_t> sizes = this->sizes(), strides = this->strides(), plain = contiguous(sizes);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != 1 && strides[i] != plain[i]) return numel() == 0;
    }
    return true;
  }
  /// The first element. Throws if the element type is not T.
  template <class T> T* data() const {
    const DLDataType found = dtype(), wanted = dtype_of<std::remove_const_t<T>>();
    if (found.code != wanted.code || found.bits != wanted.bits || found.lanes != 1) {
      throw Error("[WIR926] the tensor has another element type");
    }
    return reinterpret_cast<T*>(static_cast<unsigned char*>(checked().data) + checked().byte_offset);
  }
  /// The number of a tensor of one element, such as a result that is a number.
  template <class T> T item() const {
    if (numel() != 1) throw Error("[WIR926] the tensor does not have one element");
    return *data<T>();
  }

 private:
  explicit Tensor(std::shared_ptr<const DLTensor> tensor) : tensor_(std::move(tensor)) {}
  static std::vector<int64_t> contiguous(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] > 1 ? sizes[i] : 1);
    return strides;
  }
  const DLTensor& checked() const {
    if (tensor_ == nullptr) throw Error("[WIR926] the tensor is empty: the output is None");
    return *tensor_;
  }
  std::shared_ptr<const DLTensor> tensor_;
};

namespace detail {

/// The CRC-32 of zip archives.
inline uint32_t checksum(const unsigned char* bytes, size_t count, uint32_t before = 0) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> made(2048);  // of a byte with 0 to 7 bytes after it
    for (uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) made[i] = (made[i] >> 1) ^ (0xEDB88320u & (0u - (made[i] & 1u)));
    }
    for (size_t i = 256; i < made.size(); ++i) made[i] = (made[i - 256] >> 8) ^ made[made[i - 256] & 0xFF];
    return made;
  }();
  uint32_t crc = ~before;
  for (; count >= 8; count -= 8, bytes += 8) {
    uint32_t next = 0;
    for (unsigned k = 0; k < 8; ++k) {
      const uint32_t byte = bytes[k] ^ (k < 4 ? crc >> (8 * k) : 0);
      next ^= table[256 * (7 - k) + (byte & 0xFF)];
    }
    crc = next;
  }
  for (; count > 0; --count) crc = (crc >> 8) ^ table[(crc ^ *bytes++) & 0xFF];
  return ~crc;
}

/// A descriptor that the scope owns.
struct Descriptor {
  int number;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { if (number >= 0) ::close(number); }
};

inline std::vector<unsigned char> read(const std::string& path, const Descriptor& file, uint64_t at, uint64_t count) {
  std::vector<unsigned char> bytes(count);
  for (uint64_t done = 0; done < count;) {
    const ssize_t got = pread(file.number, bytes.data() + done, count - done, static_cast<off_t>(at + done));
    if (got <= 0) throw Error("[CPP304] " + path + " is not whole");
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

template <class T> T number(const std::vector<unsigned char>& bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The code of a library, compared with its checksum.
inline std::vector<unsigned char> read_code(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (file.number < 0 || fstat(file.number, &facts) != 0) throw Error("[CPP304] " + path + " cannot be read");
  constexpr uint64_t kFooter = 32, kChunk = 1 << 20;
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (!S_ISREG(facts.st_mode) || size < kFooter) throw Error("[CPP304] " + path + " is not a library");
  const std::vector<unsigned char> footer = read(path, file, size - kFooter, kFooter);
  const auto code = number<uint64_t>(footer, 8), constants = number<uint64_t>(footer, 16);
  const auto metadata = number<uint64_t>(footer, 24);
  const uint64_t chunks = constants / kChunk + (constants % kChunk != 0 ? 1 : 0), sums = 4 * (chunks + 3);
  const bool is_whole = std::memcmp(footer.data(), "WIRTAIL2", 8) == 0 && code <= size && constants <= size &&
                        metadata <= size && code + constants + metadata + sums + kFooter == size;
  if (!is_whole) throw Error("[CPP304] " + path + " is not a library, or not whole");
  const std::vector<unsigned char> table = read(path, file, size - kFooter - sums, sums);
  std::vector<unsigned char> bytes = read(path, file, 0, code);
  const uint32_t of_table = checksum(footer.data(), kFooter, checksum(table.data(), sums - 4));
  if (of_table != number<uint32_t>(table, sums - 4) || checksum(bytes.data(), code) != number<uint32_t>(table, 4 * chunks)) {
    throw Error("[CPP304] " + path + " is damaged");
  }
  return bytes;
}

/// Opens the code of a library: a copy in memory, which later writes to the file do not change.
inline std::shared_ptr<void> open_code(const std::string& path) {
  const std::vector<unsigned char> code = read_code(path);
  const Descriptor copy(memfd_create("wrapper_ir", MFD_CLOEXEC));
  for (size_t done = 0; done < code.size();) {
    const ssize_t sent = ::write(copy.number, code.data() + done, code.size() - done);
    if (sent <= 0) throw Error("[CPP304] there is no memory for the code of " + path);
    done += static_cast<size_t>(sent);
  }
  // The dynamic loader does not load a path twice: slashes encode a running number.
  static std::atomic<uint64_t> count{0};
  std::string name = "/proc";
  for (uint64_t bits = ++count; bits != 0; bits >>= 1) name += (bits & 1) != 0 ? "/." : "//";
  void* const library = dlopen((name + "/self/fd/" + std::to_string(copy.number)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("[CPP304] " + path + " cannot be opened: " + dlerror());
  return std::shared_ptr<void>(library, [](void* one) { dlclose(one); });
}

}  // namespace detail

/// Options of a model.
struct Options {
  int32_t threads = 0;           // maximum number of threads in a call; 0: OpenMP's setting
  bool check_constants = true;   // compares constants with their checksums, which reads all of them
  std::string weights;           // the file of constants; empty: inside the library or beside it
};

/// An open model.
class Model {
 public:
  /// Opens the library at a path. Code and metadata are compared with their checksums.
  explicit Model(const std::string& path, const Options& options = {}) : library_(detail::open_code(path)) {
    const auto get_api = reinterpret_cast<wir_get_api_function>(dlsym(library_.get(), "wir_get_api"));
    if (get_api == nullptr) throw Error("[CPP304] " + path + " is not a native library");
    open(get_api, path.c_str(), options);
  }
  /// Opens the model of a static library, with the function in its header.
  explicit Model(wir_get_api_function get_api, const Options& options = {}) { open(get_api, nullptr, options); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { if (model_ != nullptr) api_->close(model_); }

  /// Runs the model on its own tensors, flat and in order. Returns its outputs, flat; numbers are tensors without dimensions.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    std::vector<DLManagedTensorVersioned*> results(description().num_results, nullptr);
    const std::vector<const DLTensor*> given = pointers(inputs);
    check(api_->run(model_, given.data(), given.size(), results.data(), results.size()));
    std::vector<Tensor> outputs;
    outputs.reserve(results.size());
    for (DLManagedTensorVersioned* result : results) outputs.push_back(Tensor::own(result, library_));
    return outputs;
  }
  /// As `run`, into tensors of the caller, one for each output, empty where an output is None. They have the outputs' element
  /// types and sizes, any strides, and overlap neither one another nor inputs; otherwise nothing is written. Nothing is
  /// allocated if they are contiguous and aligned to 64 bytes.
  void run_into(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    const std::vector<const DLTensor*> given = pointers(inputs), targets = pointers(outputs);
    check(api_->run_into(model_, given.data(), given.size(), targets.data(), targets.size()));
  }
  /// Sets constants by any of their names, copied; runs that have begun continue with the old ones.
  void update_constants(const std::vector<std::pair<std::string, Tensor>>& values, bool is_inactive = false,
                        bool is_full = false) {
    std::vector<const char*> names;
    std::vector<const DLTensor*> given;
    for (const auto& [name, value] : values) names.push_back(name.c_str()), given.push_back(value.get());
    const uint32_t flags = (is_inactive ? WIR_INACTIVE : 0) | (is_full ? WIR_FULL : 0);
    check(api_->update_constants(model_, names.data(), given.data(), names.size(), flags));
  }
  /// Makes the inactive constants active.
  void swap_constants() { check(api_->swap_constants(model_)); }
  /// Frees the inactive constants once the calls that use them have ended.
  void free_inactive_constants() { check(api_->free_inactive_constants(model_)); }
  /// A copy of a constant.
  Tensor extract_constant(const std::string& name, bool is_inactive = false) const {
    DLManagedTensorVersioned* value = nullptr;
    check(api_->extract_constant(model_, name.c_str(), is_inactive ? WIR_INACTIVE : 0, &value));
    return Tensor::own(value, library_);
  }

  /// Names and types of inputs, results, symbols and constants.
  const wir_description& description() const { return *api_->description(); }
  /// The library's metadata as JSON.
  std::string metadata() const {
    const char* text = api_->metadata(model_);
    if (text == nullptr) throw Error(api_->last_error());
    return text;
  }

 private:
  void open(wir_get_api_function get_api, const char* path, const Options& options) {
    api_ = get_api(WIR_ABI);
    if (api_ == nullptr || api_->size < sizeof(wir_api)) throw Error("[CPP304] the library has another interface");
    wir_options given{};
    given.size = sizeof given;
    given.threads = options.threads;
    given.unchecked_constants = options.check_constants ? 0 : 1;
    given.path = path;
    given.weights = options.weights.empty() ? nullptr : options.weights.c_str();
    check(api_->open(&given, &model_));
  }
  static std::vector<const DLTensor*> pointers(const std::vector<Tensor>& tensors) {
    std::vector<const DLTensor*> found;
    found.reserve(tensors.size());
    for (const Tensor& tensor : tensors) found.push_back(tensor.get());
    return found;
  }
  void check(int32_t error) const {
    if (error != 0) throw Error(api_->last_error());
  }
  std::shared_ptr<void> library_;
  const wir_api* api_ = nullptr;
  wir_model* model_ = nullptr;
};

}  // namespace native
}  // namespace wrapper_ir
