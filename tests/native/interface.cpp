// Opens a native library by the class Model, and calls it.
#include <cstdio>
#include <wrapper_ir/model.hpp>

int main(int argc, char** argv) {
  using wrapper_ir::Tensor;
  std::vector<float> x(20), k(4, 2.0f);
  for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i - 10);
  std::vector<Tensor> outputs;
  {
    wrapper_ir::Options options;
    options.threads = 1;
    wrapper_ir::Model model(argv[argc - 1], options);
    const std::vector<Tensor> inputs = {Tensor::of(static_cast<const float*>(x.data()), {5, 4}), Tensor::of(k.data(), {4})};
    outputs = model.run(inputs);
    try {
      model.run({inputs[0]});
    } catch (const wrapper_ir::Error& error) {
      std::puts(error.code().c_str());
    }
    const std::vector<float> ones(4, 1.0f);
    model.update_constants({{"weight", Tensor::of(ones.data(), {4})}}, true);
    model.swap_constants();
    std::printf("%g\n", model.run(inputs)[0].data<float>()[19]);
    std::printf("%g\n", model.extract_constant("weight").data<float>()[3]);
    model.free_inactive_constants();
  }
  std::printf("%g %d %d\n", outputs[0].data<float>()[19], static_cast<int>(outputs[2].item<int64_t>()), bool(outputs[3]));
  try {
    const wrapper_ir::Model foreign(argv[0]);
  } catch (const wrapper_ir::Error& error) {
    std::puts(error.code().c_str());
  }
  return 0;
}
