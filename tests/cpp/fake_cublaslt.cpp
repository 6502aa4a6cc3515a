// cuBLAS's matmuls of float32 on a CPU, as `gpu_matmuls.cpp` asks for them; a thread that captures a stream has them noted.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>

namespace {
struct Matmul {
  int compute, transposed[2], epilogue;
  const float* bias;
};
struct Matrix {
  uint64_t rows, columns;
  int64_t leading, step;
  int32_t count;
};
struct Call {
  Matmul matmul;
  Matrix a, b, c, d;
  float alpha, beta;
  const float *from_a, *from_b, *from_c;
  float* to;
};
int matmuls, last_compute;
uint64_t last_workspace;

void compute(void* data, void*) {
  const Call& call = *static_cast<Call*>(data);
  const auto at = [](const float* from, const Matrix& m, bool transposed, int64_t batch, uint64_t i, uint64_t j) {
    return from[batch * m.step + static_cast<int64_t>(transposed ? j : i) + static_cast<int64_t>(transposed ? i : j) * m.leading];
  };
  const uint64_t depth = call.matmul.transposed[0] ? call.a.rows : call.a.columns;
  for (int64_t batch = 0; batch < call.d.count; ++batch) {
    for (uint64_t j = 0; j < call.d.columns; ++j) {
      for (uint64_t i = 0; i < call.d.rows; ++i) {
        float sum = 0;
        for (uint64_t k = 0; k < depth; ++k) {
          sum += at(call.from_a, call.a, call.matmul.transposed[0], batch, i, k) *
                 at(call.from_b, call.b, call.matmul.transposed[1], batch, k, j);
        }
        sum *= call.alpha;
        if (call.beta != 0) sum += call.beta * at(call.from_c, call.c, false, batch, i, j);
        if (call.matmul.epilogue == 4) sum += call.matmul.bias[i];
        call.to[batch * call.d.step + static_cast<int64_t>(i + j * static_cast<uint64_t>(call.d.leading))] = sum;
      }
    }
  }
}
}  // namespace

extern "C" {
int fake_matmuls() { return matmuls; }
int fake_compute() { return last_compute; }
uint64_t fake_workspace() { return last_workspace; }

int cublasLtCreate(void** made) { return *made = new int, 0; }
int cublasLtDestroy(void* made) { return delete static_cast<int*>(made), 0; }
int cublasLtMatmulDescCreate(void** made, int compute, int) { return *made = new Matmul{compute, {0, 0}, 1, nullptr}, 0; }
int cublasLtMatmulDescSetAttribute(void* made, int attribute, const void* value, size_t nbytes) {
  auto* matmul = static_cast<Matmul*>(made);
  void* to = attribute == 3   ? static_cast<void*>(&matmul->transposed[0])
             : attribute == 4 ? &matmul->transposed[1]
             : attribute == 7 ? static_cast<void*>(&matmul->epilogue)
                              : &matmul->bias;
  return std::memcpy(to, value, nbytes), 0;
}
int cublasLtMatmulDescDestroy(void* made) { return delete static_cast<Matmul*>(made), 0; }
int cublasLtMatrixLayoutCreate(void** made, int, uint64_t rows, uint64_t columns, int64_t leading) {
  return *made = new Matrix{rows, columns, leading, 0, 1}, leading < static_cast<int64_t>(rows);
}
int cublasLtMatrixLayoutSetAttribute(void* made, int attribute, const void* value, size_t nbytes) {
  auto* matrix = static_cast<Matrix*>(made);
  return std::memcpy(attribute == 5 ? static_cast<void*>(&matrix->count) : &matrix->step, value, nbytes), 0;
}
int cublasLtMatrixLayoutDestroy(void* made) { return delete static_cast<Matrix*>(made), 0; }
int cublasLtMatmulPreferenceCreate(void** made) { return *made = new int, 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceDestroy(void* made) { return delete static_cast<int*>(made), 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*, int* count) { return *count = 1, 0; }
int cublasLtMatmul(void*, void* matmul, const void* alpha, const void* from_a, void* a, const void* from_b, void* b, const void* beta,
                   const void* from_c, void* c, void* to, void* d, const void*, void* workspace, size_t, void*) {
  const auto matrix = [](void* one) { return *static_cast<Matrix*>(one); };
  auto* call = new Call{*static_cast<Matmul*>(matmul), matrix(a), matrix(b), matrix(c), matrix(d),
                        *static_cast<const float*>(alpha), *static_cast<const float*>(beta), static_cast<const float*>(from_a),
                        static_cast<const float*>(from_b), static_cast<const float*>(from_c), static_cast<float*>(to)};
  ++matmuls;
  last_compute = call->matmul.compute;
  last_workspace = reinterpret_cast<uint64_t>(workspace);
  using Note = int(void (*)(void*, void*), void*);
  static const auto note = reinterpret_cast<Note*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_note"));
  if (note(compute, call)) return 0;
  compute(call, nullptr);
  delete call;
  return 0;
}
}
