// run_package [--device NAME] PACKAGE OUTPUT [INPUT SIZE...]...
//
// Runs a package on int64 inputs, each a file of raw bytes followed by its sizes, and writes the first output, which is float32, as
// raw bytes. NAME is as `cuda:0`, for a package for CUDA devices. No Python is linked or started.
#include <wrapper_ir/runner.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <list>
#include <string>
#include <vector>

namespace {

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const std::vector<std::string>& args, const std::string& device) {
  const size_t colon = device.find(':');
  const int index = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
  const auto begin = std::chrono::steady_clock::now();
  const wrapper_ir::Model model(args[0], device);
  const double loaded = seconds_since(begin);
  std::list<std::vector<char>> files;
  std::vector<wrapper_ir::Tensor> inputs;
  for (size_t i = 2; i < args.size();) {
    std::ifstream file(args[i++], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::vector<int64_t> sizes;
    while (i < args.size() && is_number(args[i])) sizes.push_back(std::atoll(args[i++].c_str()));
    inputs.push_back(wrapper_ir::Tensor::of(reinterpret_cast<const int64_t*>(files.back().data()), sizes));
  }
  for (auto& input : inputs) {
    if (!device.empty()) input = input.to(wrapper_ir::Device::cuda(index));
  }
  const auto called = std::chrono::steady_clock::now();
  const auto outputs = model.run(inputs);
  std::printf("loaded in %.1f ms, first call %.1f ms\n", loaded * 1e3, seconds_since(called) * 1e3);
  std::vector<wrapper_ir::Tensor> targets;  // the second call writes to tensors that are there
  for (const auto& output : outputs) targets.push_back(output ? output.to(output.device()) : wrapper_ir::Tensor());
  model.run_into(inputs, targets);
  const auto result = targets.at(0).to(wrapper_ir::Device::cpu());
  std::ofstream target(args[1], std::ios::binary);
  const auto* values = result.data<const float>();
  target.write(reinterpret_cast<const char*>(values), result.numel() * static_cast<int64_t>(sizeof(float)));
  return target ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> args{words + 1, words + count};
  std::string device;
  if (args.size() > 1 && args[0] == "--device") {
    device = args[1];
    args.erase(args.begin(), args.begin() + 2);
  }
  if (args.size() < 2) return std::fprintf(stderr, "run_package [--device NAME] PACKAGE OUTPUT [INPUT SIZE...]...\n"), 2;
  try {
    return run(args, device);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
