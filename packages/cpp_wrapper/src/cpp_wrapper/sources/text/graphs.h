// Functions that are captured as CUDA graphs, and functions that they call.
#pragma once
#include "gpu_matmuls.h"

namespace wir {

inline int64_t graph_key(Int value) { return raw(value); }
inline int64_t graph_key(bool value) { return value ? 1 : 0; }
inline int64_t graph_key(double value) {
  int64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Calls replayable function `number`, by a graph if one exists for this `key`, the function's numeric arguments.
/// Takes ownership of the handles in `inputs`, as the function does.
using GraphBody = void (*)(void* function, Tensor* inputs, Tensor* outputs);
void call_graph(Run& run, int number, std::initializer_list<int64_t> key, Tensor* inputs, Tensor* outputs, GraphBody body,
                   void* function);
template <class Function>
void graphed(Run& run, int number, std::initializer_list<int64_t> key, Tensor* inputs, Tensor* outputs, Function function) {
  if (run.graphs == nullptr) return function(inputs, outputs);
  const GraphBody body = [](void* one, Tensor* given, Tensor* made) { (*static_cast<Function*>(one))(given, made); };
  call_graph(run, number, key, inputs, outputs, body, &function);
}
std::shared_ptr<Graphs> make_graphs(const GpuProgram& program);

// --- matmuls on the device: as torch's `out=` operators, except for their workspace

void mm(const Run& run, Tensor out, Tensor mat1, Tensor mat2);
void addmm(const Run& run, Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha);
void bmm(const Run& run, Tensor out, Tensor mat1, Tensor mat2);
void baddbmm(const Run& run, Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha);

}  // namespace wir
