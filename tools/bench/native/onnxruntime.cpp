// ONNX Runtime through its C interface. Its wheel ships the library without headers: the part of the table of functions that is
// used here is declared below. The places in the table are fixed by ONNX Runtime's promise of a stable interface.
#include "side.h"

namespace {

using Handle = void*;
using Status = void*;

struct Base {
  void* const* (*table)(uint32_t version);
  const char* (*version)();
};
extern "C" const Base* OrtGetApiBase();

enum Place : size_t {
  kErrorMessage = 2, kCreateEnv = 3, kCreateSession = 7, kRun = 9, kCreateSessionOptions = 10, kOptimizationLevel = 23,
  kIntraThreads = 24, kInterThreads = 25, kTensorWithData = 49, kMutableData = 51, kCpuMemory = 69, kReleaseEnv = 92,
  kReleaseSession = 95, kReleaseValue = 96, kReleaseOptions = 100,
};

void* const* table() {
  constexpr uint32_t kVersion = 16;
  static void* const* const found = OrtGetApiBase()->table(kVersion);
  return found;
}

/// Calls a function of the table that returns a status.
template <class... Args> void call(Place place, Args... args) {
  const Status status = reinterpret_cast<Status (*)(Args...)>(table()[place])(args...);
  if (status != nullptr) throw std::runtime_error(reinterpret_cast<const char* (*)(Status)>(table()[kErrorMessage])(status));
}
void release(Place place, Handle handle) { reinterpret_cast<void (*)(Handle)>(table()[place])(handle); }

constexpr int kFloat = 1, kInt64 = 7, kAllOptimizations = 99, kWarnings = 2, kArena = 1, kDefaultMemory = 0;

class OrtCall final : public side::Call {
 public:
  OrtCall(Handle session, side::Case& given) : session_(session) {
    Handle memory = nullptr;
    call(kCpuMemory, kArena, kDefaultMemory, &memory);
    for (side::Value& value : given.inputs) {
      inputs_.push_back(over(memory, value, value.bytes.data()));
      in_.push_back(value.name.c_str());
    }
    targets_.reserve(given.outputs.size());
    for (side::Value& value : given.outputs) {
      targets_.emplace_back(static_cast<size_t>(value.count()));
      outputs_.push_back(over(memory, value, targets_.back().data()));
      out_.push_back(value.name.c_str());
    }
  }
  ~OrtCall() override {
    for (const Handle value : inputs_) release(kReleaseValue, value);
    for (const Handle value : outputs_) release(kReleaseValue, value);
  }
  void run() override {
    call(kRun, session_, Handle{nullptr}, in_.data(), static_cast<const Handle*>(inputs_.data()), inputs_.size(), out_.data(),
         out_.size(), outputs_.data());
  }
  const float* output(size_t index) override { return targets_[index].data(); }

 private:
  static Handle over(Handle memory, const side::Value& value, void* data) {
    Handle made = nullptr;
    const int dtype = value.dtype == "i64" ? kInt64 : kFloat;
    call(kTensorWithData, memory, data, value.bytes.size(), value.sizes.data(), value.sizes.size(), dtype, &made);
    return made;
  }
  Handle session_;
  std::vector<std::vector<float>> targets_;
  std::vector<Handle> inputs_, outputs_;
  std::vector<const char*> in_, out_;
};

class OrtModel final : public side::Model {
 public:
  OrtModel(const std::string& path, int threads) {
    call(kCreateEnv, kWarnings, "side", &env_);
    Handle options = nullptr;
    call(kCreateSessionOptions, &options);
    call(kOptimizationLevel, options, kAllOptimizations);
    call(kIntraThreads, options, threads);
    call(kInterThreads, options, 1);
    call(kCreateSession, env_, path.c_str(), options, &session_);
    release(kReleaseOptions, options);
  }
  ~OrtModel() override {
    release(kReleaseSession, session_);
    release(kReleaseEnv, env_);
  }
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<OrtCall>(session_, given); }

 private:
  template <class... Args> static void call(Place place, Args... args) { ::call(place, args...); }
  Handle env_ = nullptr, session_ = nullptr;
};

}  // namespace

std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int threads, side::Case&) {
  return std::make_unique<OrtModel>(path, threads);
}
