// OpenVINO through its C interface: the shared libraries and headers of its wheel. MODEL is its IR; the folder `cacheTHREADS` beside
// it keeps what compiling the model gave, as OpenVINO advises for short starts.
#include "side.h"

#include <openvino/c/openvino.h>

namespace {

void check(ov_status_e status) {
  if (status != OK) throw std::runtime_error(std::string(ov_get_error_info(status)) + ": " + ov_get_last_err_msg());
}

class OvCall final : public side::Call {
 public:
  OvCall(ov_compiled_model_t* model, side::Case& given) : outputs_(given.outputs.size()) {
    check(ov_compiled_model_create_infer_request(model, &request_));
    for (size_t index = 0; index < given.inputs.size(); ++index) {
      side::Value& value = given.inputs[index];
      ov_shape_t shape{};
      check(ov_shape_create(static_cast<int64_t>(value.sizes.size()), value.sizes.data(), &shape));
      ov_tensor_t* tensor = nullptr;
      check(ov_tensor_create_from_host_ptr(value.dtype == "i64" ? I64 : F32, shape, value.bytes.data(), &tensor));
      check(ov_infer_request_set_input_tensor_by_index(request_, index, tensor));
      inputs_.push_back(tensor);
      ov_shape_free(&shape);
    }
    for (size_t index = 0; index < outputs_.size(); ++index) {
      check(ov_infer_request_get_output_tensor_by_index(request_, index, &outputs_[index]));
    }
  }
  ~OvCall() override {
    for (ov_tensor_t* tensor : outputs_) ov_tensor_free(tensor);
    for (ov_tensor_t* tensor : inputs_) ov_tensor_free(tensor);
    ov_infer_request_free(request_);
  }
  void run() override { check(ov_infer_request_infer(request_)); }
  const float* output(size_t index) override {
    void* data = nullptr;
    check(ov_tensor_data(outputs_[index], &data));
    return static_cast<const float*>(data);
  }

 private:
  ov_infer_request_t* request_ = nullptr;
  std::vector<ov_tensor_t*> inputs_, outputs_;
};

class OvModel final : public side::Model {
 public:
  OvModel(const std::string& path, int threads) {
    check(ov_core_create(&core_));
    const std::string count = std::to_string(threads), cache = path.substr(0, path.rfind('/')) + "/cache" + count;
    check(ov_core_set_property(core_, "CPU", "CACHE_DIR", cache.c_str()));
    const char* precision = std::getenv("OPENVINO_PRECISION");
    check(ov_core_compile_model_from_file(core_, path.c_str(), "CPU", 8, &model_, "INFERENCE_NUM_THREADS", count.c_str(),
                                          "NUM_STREAMS", "1", "PERFORMANCE_HINT", "LATENCY", "INFERENCE_PRECISION_HINT",
                                          precision == nullptr ? "f32" : precision));
  }
  ~OvModel() override {
    ov_compiled_model_free(model_);
    ov_core_free(core_);
  }
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<OvCall>(model_, given); }

 private:
  ov_core_t* core_ = nullptr;
  ov_compiled_model_t* model_ = nullptr;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int threads, side::Case&) {
  return std::make_unique<OvModel>(path, threads);
}
