// run_native LIBRARY OUTPUT [INPUT SIZE...]...
//
// Runs a native library on int64 inputs, each a file of raw bytes followed by its sizes, and writes the first result, which is
// float32, as raw bytes. The program and the library need the C++ standard library alone.
#include <dlfcn.h>
#include <wrapper_ir/model.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// An input: bytes of int64, and sizes.
struct Input {
  std::vector<char> bytes;
  std::vector<int64_t> sizes;
};

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

const wir_api& open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, "wir_get_api");
  if (function == nullptr) throw std::runtime_error(path + ": " + dlerror());
  const wir_api* api = reinterpret_cast<wir_get_api_function>(function)(WIR_ABI);
  if (api == nullptr) throw std::runtime_error(path + " has another interface");
  return *api;
}

void check(const wir_api& api, int32_t failed) {
  if (failed != 0) throw std::runtime_error(api.last_error());
}

std::list<Input> read_inputs(const std::vector<std::string>& args) {
  std::list<Input> inputs;
  for (size_t i = 2; i < args.size();) {
    std::ifstream file(args[i++], std::ios::binary);
    Input& input = inputs.emplace_back();
    input.bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    while (i < args.size() && is_number(args[i])) input.sizes.push_back(std::atoll(args[i++].c_str()));
  }
  return inputs;
}

void write_result(const DLTensor& tensor, const std::string& path) {
  int64_t count = 1;
  for (int32_t dim = 0; dim < tensor.ndim; ++dim) count *= tensor.shape[dim];
  std::ofstream file(path, std::ios::binary);
  const char* begin = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  if (!file.write(begin, count * static_cast<int64_t>(sizeof(float)))) throw std::runtime_error(path + " cannot be written");
}

void run(const std::vector<std::string>& args) {
  const auto begin = std::chrono::steady_clock::now();
  const wir_api& api = open_library(args[0]);
  wir_model* model = nullptr;
  check(api, api.open(nullptr, &model));
  const double opened = milliseconds_since(begin);
  std::list<Input> inputs = read_inputs(args);
  std::list<DLTensor> tensors;
  std::vector<const DLTensor*> given;
  for (Input& input : inputs) {
    const auto rank = static_cast<int32_t>(input.sizes.size());
    tensors.push_back(wir_tensor(input.bytes.data(), wir_int64(), rank, input.sizes.data()));
    given.push_back(&tensors.back());
  }
  std::vector<DLManagedTensorVersioned*> results(api.description()->num_results);
  const auto called = std::chrono::steady_clock::now();
  check(api, api.run(model, given.data(), given.size(), results.data(), results.size()));
  std::printf("opened in %.1f ms, first call %.1f ms\n", opened, milliseconds_since(called));
  write_result(results.at(0)->dl_tensor, args[1]);
  for (DLManagedTensorVersioned* result : results) {
    if (result != nullptr) result->deleter(result);
  }
  api.close(model);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> args(words + 1, words + count);
  if (args.size() < 2) return std::fprintf(stderr, "run_native LIBRARY OUTPUT [INPUT SIZE...]...\n"), 2;
  try {
    run(args);
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
