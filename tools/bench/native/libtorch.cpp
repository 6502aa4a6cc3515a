// Our library with libtorch, through the runner that cpp_wrapper ships. With CHECK_CONSTANTS=0 the constants are not read when it is
// opened.
#include "side.h"

#include <wrapper_ir/runner.hpp>

namespace {

class TorchCall final : public side::Call {
 public:
  TorchCall(const wrapper_ir::Model& model, side::Case& given) : model_(model) {
    for (side::Value& value : given.inputs) {
      inputs_.push_back(value.dtype == "i64" ? wrapper_ir::Tensor::of(reinterpret_cast<int64_t*>(value.bytes.data()), value.sizes)
                                             : wrapper_ir::Tensor::of(reinterpret_cast<float*>(value.bytes.data()), value.sizes));
    }
  }
  void run() override { outputs_ = model_.run(inputs_); }
  const float* output(size_t index) override { return outputs_.at(index).data<float>(); }

 private:
  const wrapper_ir::Model& model_;
  std::vector<wrapper_ir::Tensor> inputs_, outputs_;
};

class TorchModel final : public side::Model {
 public:
  explicit TorchModel(const std::string& path) : model_(path, "", std::getenv("CHECK_CONSTANTS") == nullptr) {}
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<TorchCall>(model_, given); }

 private:
  wrapper_ir::Model model_;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int, side::Case&) {
  return std::make_unique<TorchModel>(path);
}
