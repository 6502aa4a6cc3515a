// Runs a model of one input and one result, linked to the program, on numbers of a file; checks its metadata.
#include <fstream>
#include <iostream>
#include <wrapper_ir/model.hpp>

extern "C" const wir_api* wir_get_api(uint32_t abi);

int main(int, char** words) {
  wrapper_ir::Model model(wir_get_api);
  if (model.metadata().find("\"runtime\": \"native\"") == std::string::npos) return 3;
  std::ifstream file(words[1]);
  std::vector<float> numbers;
  for (float number; file >> number;) numbers.push_back(number);
  auto outputs = model.run({wrapper_ir::Tensor::of(numbers.data(), {7, 24})});
  for (int i = 0; i < 7 * 16; ++i) std::cout << outputs[0].data<float>()[i] << "\n";
}
