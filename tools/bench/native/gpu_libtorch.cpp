// Opens a package over libtorch, runs it on token ids of the host, and prints the first result's first element.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <wrapper_ir/runner.hpp>

int main(int, char** words) {
  wrapper_ir::Model model(words[1], "cuda:0", false);
  std::vector<int64_t> ids(std::strtoul(words[2], nullptr, 10), 1);
  const auto host = wrapper_ir::Tensor::of(ids.data(), {1, static_cast<int64_t>(ids.size())});
  const auto made = model.run({host.to(wrapper_ir::Device::cuda())});
  std::printf("%g\n", *made.at(0).to(wrapper_ir::Device::cpu()).data<float>());
  std::fflush(stdout);
  return 0;
}
