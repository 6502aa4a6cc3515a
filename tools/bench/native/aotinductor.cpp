// AOTInductor's package through torch's own C++ loader.
#include "side.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

namespace {

using torch::inductor::AOTIModelPackageLoader;

class AotiCall final : public side::Call {
 public:
  AotiCall(AOTIModelPackageLoader& loader, side::Case& given) : loader_(loader) {
    for (side::Value& value : given.inputs) {
      inputs_.push_back(at::from_blob(value.bytes.data(), value.sizes, at::dtype(value.dtype == "i64" ? at::kLong : at::kFloat)));
    }
  }
  void run() override { outputs_ = loader_.run(inputs_); }
  const float* output(size_t index) override { return outputs_.at(index).const_data_ptr<float>(); }

 private:
  AOTIModelPackageLoader& loader_;
  std::vector<at::Tensor> inputs_, outputs_;
};

class AotiModel final : public side::Model {
 public:
  explicit AotiModel(const std::string& path) : loader_(path) {}
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<AotiCall>(loader_, given); }

 private:
  AOTIModelPackageLoader loader_;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int threads, side::Case&) {
  at::set_num_threads(threads);
  return std::make_unique<AotiModel>(path);
}
