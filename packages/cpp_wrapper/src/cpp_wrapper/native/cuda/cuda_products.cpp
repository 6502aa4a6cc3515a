// Matmuls on a device by cuBLASLt, with a workspace for each stream.
#include <dlfcn.h>

#include <cstdlib>

#include "cuda_memory.h"
#include "gpu_matmuls.h"
#include "graphs.h"
#include "operator.h"
#include "per_stream.h"

namespace wir {

void* find_cublas(const char* name) {
  if (const char* path = std::getenv("WIR_CUBLASLT")) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

namespace {

bool is_float(int32_t dtype) {
  return dtype == kF32 || dtype == kF16 || dtype == kBF16 || dtype == kF64 || dtype == kC64 || dtype == kC128;
}

/// One matmul, with the parameters of `aten::baddbmm.out`. `bias` may be null.
struct Product {
  const char* name;
  Tensor out, bias, first, second;
  double beta, alpha;
};

const char* multiply(const Run& run, const Product& one, Tensor bias, Tensor first, Tensor second) {
  const std::shared_ptr<OfStream<Matmuls>> own = of_stream<Matmuls>(run.gpu.index, run.stream);
  const std::lock_guard<std::mutex> lock(own->using_it);
  return own->state.multiply(run, one.out, bias != nullptr ? &bias : nullptr, first, second, one.beta, one.alpha);
}

[[gnu::cold]] void check_operands(const Product& one) {
  const int64_t rank = one.out->rank;
  const auto refuse = [&](const char* why, Tensor tensor) {
    fail_text("WIR927", {one.name, " failed: ", why, tensor_text(tensor)});
  };
  if (!is_float(one.out->dtype)) refuse("the native runtime multiplies floats on a device, got ", one.out);
  for (const Tensor tensor : {one.out, one.first, one.second}) {
    if (tensor->storage->gpu < 0) refuse("expected tensors on a device, got ", tensor);
    if (tensor->dtype != one.out->dtype || tensor->rank != rank) refuse("the operands differ in type or rank, got ", tensor);
  }
  const int64_t *to = one.out->sizes(), *a = one.first->sizes(), *b = one.second->sizes();
  const bool fits = to[rank - 2] == a[rank - 2] && to[rank - 1] == b[rank - 1] && a[rank - 1] == b[rank - 2] &&
                    (rank == 2 || (to[0] == a[0] && to[0] == b[0]));
  if (!fits) refuse("the sizes do not fit, got ", one.second);
}

/// A matmul whose operands cuBLASLt does not take as they are: the factors, the added matrix, or the result are copied.
[[gnu::cold]] void multiply_copies(const Run& run, const Product& one) {
  check_operands(one);
  if (one.out->count == 0) return;
  const bool adds = one.bias != nullptr && one.beta != 0;
  if (one.first->sizes()[one.first->rank - 1] == 0) {
    if (!adds) return fill_zero(one.out);
    if (one.beta != 1) fail_text("WIR927", {one.name, " failed: an empty product with beta other than 0 and 1"});
    return copy_into(one.out, one.bias);
  }
  Product plain = one;
  const Owned dense(new_like(one.out, one.out->rank, one.out->sizes(), nullptr, one.out->dtype));
  plain.out = dense.get();
  if (adds) copy_into(dense.get(), one.bias);
  const Owned first = contiguous(one.first), second = contiguous(one.second);
  const char* why = multiply(run, plain, adds ? dense.get() : nullptr, first.get(), second.get());
  if (*why != '\0') {
    fail_text("WIR927", {one.name, " failed: it is ", why,
                         ": install cuBLAS, set WIR_CUBLASLT to its path, or capture with CaptureOptions(matmuls='templates')"});
  }
  copy_into(one.out, dense.get());
}

void run_product(const Product& one) {
  Run run;
  run.gpu.index = one.out->storage->gpu;
  run.stream = current_device.stream;
  const DeviceContext context(run.gpu.index);
  const char* why = multiply(run, one, one.bias, one.first, one.second);
  if (*why != '\0') [[unlikely]] multiply_copies(run, one);
}

/// Creates the result of `first @ second`.
Owned new_product(const char* name, Tensor first, Tensor second) {
  if (first->rank < 2 || second->rank != first->rank) {
    fail_text("WIR927", {name, " failed: ", tensor_text(first), " and ", tensor_text(second)});
  }
  int64_t sizes[kMaxRank];
  std::copy(first->sizes(), first->sizes() + first->rank, sizes);
  sizes[first->rank - 1] = second->sizes()[second->rank - 1];
  return Owned(new_like(first, first->rank, sizes, nullptr, first->dtype));
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_CUDA_OPERATOR(mm_out)(Tensor out, Tensor self, Tensor mat2) { return run_product({"mm", out, nullptr, self, mat2, 0, 1}), 0; }
WIR_CUDA_OPERATOR(bmm_out)(Tensor out, Tensor self, Tensor mat2) { return run_product({"bmm", out, nullptr, self, mat2, 0, 1}), 0; }
WIR_CUDA_OPERATOR(addmm_out)(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  return run_product({"addmm", out, self, mat1, mat2, beta, alpha}), 0;
}
WIR_CUDA_OPERATOR(baddbmm_out)(Tensor out, Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha) {
  return run_product({"baddbmm", out, self, batch1, batch2, beta, alpha}), 0;
}
WIR_CUDA_OPERATOR(mm)(Tensor self, Tensor mat2, Tensor* ret0) {
  Owned made = new_product("mm", self, mat2);
  run_product({"mm", made.get(), nullptr, self, mat2, 0, 1});
  return *ret0 = made.release(), 0;
}
WIR_CUDA_OPERATOR(bmm)(Tensor self, Tensor mat2, Tensor* ret0) {
  Owned made = new_product("bmm", self, mat2);
  run_product({"bmm", made.get(), nullptr, self, mat2, 0, 1});
  return *ret0 = made.release(), 0;
}
WIR_CUDA_OPERATOR(addmm)(Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha, Tensor* ret0) {
  Owned made = new_product("addmm", mat1, mat2);
  run_product({"addmm", made.get(), self, mat1, mat2, beta, alpha});
  return *ret0 = made.release(), 0;
}
WIR_CUDA_OPERATOR(baddbmm)(Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha, Tensor* ret0) {
  Owned made = new_product("baddbmm", batch1, batch2);
  run_product({"baddbmm", made.get(), self, batch1, batch2, beta, alpha});
  return *ret0 = made.release(), 0;
}

// --- as torch's C shim has them, for matmuls of graphs (gpu_matmuls.cpp)

extern "C" {
int32_t aoti_torch_cuda_mm_out(Tensor out, Tensor self, Tensor mat2) { return wir_cuda_mm_out(out, self, mat2); }
int32_t aoti_torch_cuda_bmm_out(Tensor out, Tensor self, Tensor mat2) { return wir_cuda_bmm_out(out, self, mat2); }
int32_t aoti_torch_cuda_addmm_out(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  return wir_cuda_addmm_out(out, self, mat1, mat2, beta, alpha);
}
int32_t aoti_torch_cuda_baddbmm_out(Tensor out, Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha) {
  return wir_cuda_baddbmm_out(out, self, batch1, batch2, beta, alpha);
}
}
