// ExecuTorch with the delegate XNNPACK: the shared libraries and headers of its wheel.
#include "side.h"

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <mutex>

// Declared by a header that the wheel does not ship.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace {

using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

void check(Error error, const char* what) {
  if (error != Error::Ok) throw std::runtime_error(std::string(what) + ": error " + std::to_string(static_cast<int>(error)));
}

class EtCall final : public side::Call {
 public:
  EtCall(Module& module, std::mutex& turn, side::Case& given) : module_(module), turn_(turn) {
    for (side::Value& value : given.inputs) {
      const auto dtype = value.dtype == "i64" ? executorch::aten::ScalarType::Long : executorch::aten::ScalarType::Float;
      const std::vector<executorch::aten::SizesType> sizes(value.sizes.begin(), value.sizes.end());
      tensors_.push_back(executorch::extension::make_tensor_ptr(sizes, value.bytes.data(), dtype));
    }
  }
  void run() override {
    const std::lock_guard<std::mutex> alone(turn_);  // a method is for one thread at a time
    const std::vector<EValue> inputs(tensors_.begin(), tensors_.end());
    auto found = module_.execute("forward", inputs);
    check(found.error(), "execute");
    outputs_ = std::move(*found);
  }
  const float* output(size_t index) override { return outputs_.at(index).toTensor().const_data_ptr<float>(); }

 private:
  Module& module_;
  std::mutex& turn_;
  std::vector<TensorPtr> tensors_;
  std::vector<EValue> outputs_;
};

class EtModel final : public side::Model {
 public:
  explicit EtModel(const std::string& path) : module_(path, Module::LoadMode::Mmap) {
    check(module_.load_method("forward"), "load");
  }
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<EtCall>(module_, turn_, given); }

 private:
  Module module_;
  std::mutex turn_;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int threads, side::Case&) {
  executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(static_cast<uint32_t>(threads));
  return std::make_unique<EtModel>(path);
}
