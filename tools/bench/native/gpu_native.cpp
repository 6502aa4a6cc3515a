// Opens a native library, runs it on token ids of the host, and prints the first result's first element. With TIMES it
// prints the seconds of each part.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <wrapper_ir/model.h>

namespace {
using Clock = std::chrono::steady_clock;
const wir_api* api = nullptr;
void require(int32_t status) {
  if (status == 0) return;
  std::fprintf(stderr, "%s\n", api->last_error());
  std::exit(1);
}
}  // namespace

int main(int, char** words) {
  auto report = [last = Clock::now()](const char* what) mutable {
    const auto now = Clock::now();
    if (std::getenv("TIMES") != nullptr) std::fprintf(stderr, "%s %.3f\n", what, std::chrono::duration<double>(now - last).count());
    last = now;
  };
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  api = reinterpret_cast<wir_get_api_function>(dlsym(library, "wir_get_api"))(WIR_ABI);
  report("dlopen");
  wir_options options{};
  options.size = sizeof options;
  options.unchecked_constants = 1;
  wir_model* model = nullptr;
  require(api->open(&options, &model));
  report("open");
  std::vector<int64_t> ids(std::strtoul(words[2], nullptr, 10), 1), shape = {1, static_cast<int64_t>(ids.size())};
  const DLTensor host = wir_tensor(ids.data(), wir_int64(), 2, shape.data());
  DLManagedTensorVersioned *given = nullptr, *made = nullptr, *back = nullptr;
  require(api->copy_to(model, kDLCUDA, &host, &given));
  report("copy_to");
  const DLTensor* inputs[] = {&given->dl_tensor};
  require(api->run(model, inputs, 1, &made, 1));
  report("run");
  require(api->copy_to(model, kDLCPU, &made->dl_tensor, &back));
  report("result");
  std::printf("%g\n", *static_cast<float*>(back->dl_tensor.data));
  std::fflush(stdout);
  for (DLManagedTensorVersioned* one : {given, made, back}) one->deleter(one);
  api->close(model);
  report("close");
  return 0;
}
