// Our library without torch, through its C interface. With CHECK_CONSTANTS=0 the constants are not read when it is opened.
#include "side.h"

#include <dlfcn.h>
#include <wrapper_ir/model.h>

namespace {

constexpr size_t kAlignment = 64;  // the library computes results in memory of the caller that is so aligned

class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    const auto found = handle_ == nullptr ? nullptr : dlsym(handle_, "wir_get_api");
    if (found == nullptr) throw std::runtime_error(path + " cannot be opened: " + dlerror());
    api = reinterpret_cast<wir_get_api_function>(found)(WIR_ABI);
    if (api == nullptr) throw std::runtime_error(path + " has another interface");
  }
  Library(const Library&) = delete;
  ~Library() { dlclose(handle_); }
  void check(int32_t failed) const {
    if (failed != 0) throw std::runtime_error(api->last_error());
  }
  const wir_api* api = nullptr;

 private:
  void* handle_;
};

class NativeCall final : public side::Call {
 public:
  NativeCall(const Library& library, wir_model* model, side::Case& given) : library_(library), model_(model) {
    for (side::Value& value : given.inputs) add(value, value.bytes.data());
    inputs_ = tensors_.size();
    for (side::Value& value : given.outputs) {
      const size_t nbytes = (value.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
      targets_.emplace_back(static_cast<float*>(std::aligned_alloc(kAlignment, nbytes)), std::free);
      add(value, targets_.back().get());
    }
    for (const DLTensor& tensor : tensors_) pointers_.push_back(&tensor);
  }
  void run() override {
    const DLTensor* const* all = pointers_.data();
    library_.check(library_.api->run_into(model_, all, inputs_, all + inputs_, pointers_.size() - inputs_));
  }
  const float* output(size_t index) override { return targets_[index].get(); }

 private:
  void add(side::Value& value, void* data) {
    const DLDataType dtype = value.dtype == "i64" ? wir_int64() : wir_float32();
    tensors_.push_back(wir_tensor(data, dtype, static_cast<int32_t>(value.sizes.size()), value.sizes.data()));
  }
  const Library& library_;
  wir_model* model_;
  size_t inputs_ = 0;
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> pointers_;
  std::vector<std::unique_ptr<float, void (*)(void*)>> targets_;
};

class NativeModel final : public side::Model {
 public:
  NativeModel(const std::string& path, int threads) : library_(path) {
    wir_options options{};
    options.size = sizeof options;
    options.threads = threads;
    options.unchecked_constants = std::getenv("CHECK_CONSTANTS") != nullptr;
    library_.check(library_.api->open(&options, &model_));
  }
  ~NativeModel() override { library_.api->close(model_); }
  std::unique_ptr<side::Call> call(side::Case& given) override {
    return std::make_unique<NativeCall>(library_, model_, given);
  }

 private:
  Library library_;
  wir_model* model_ = nullptr;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int threads, side::Case&) {
  return std::make_unique<NativeModel>(path, threads);
}
