// Copies of elements of any strides on a device, by a kernel in PTX, which the driver compiles for its device.
#include <algorithm>
#include <mutex>

#include "cuda_memory.h"
#include "operator.h"

namespace wir {
namespace {

constexpr int kDims = 8, kThreads = 256, kMaxBlocks = 1 << 20;

/// The parameters after the addresses of target and source: the number of elements, then sizes, the innermost dimension
/// first, and strides in bytes. Unused dimensions have size 1.
struct Elements {
  int64_t count;
  int64_t sizes[kDims], to[kDims], from[kDims];
};

/// Appends a kernel that copies elements of `nbytes` bytes, one a thread and step.
void append_kernel(std::string& text, int nbytes, const char* type, const char* value) {
  text += join({".visible .entry wir_copy_", nbytes, "(.param .u64 to, .param .u64 from, .param .align 8 .b8 how[", sizeof(Elements),
                "]) {\n.reg .pred %p;\n.reg .b16 %h;\n.reg .b32 %r<6>;\n.reg .b64 %d<14>;\n"
                "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, %nctaid.x;\n"
                "mul.wide.u32 %d1, %r1, %r2;\ncvt.u64.u32 %d2, %r3;\nadd.u64 %d1, %d1, %d2;\nmul.wide.u32 %d2, %r4, %r2;\n"
                "ld.param.u64 %d3, [how];\nnext:\nsetp.ge.u64 %p, %d1, %d3;\n@%p bra done;\n"
                "ld.param.u64 %d4, [to];\nld.param.u64 %d5, [from];\nmov.u64 %d6, %d1;\n"});
  for (int dim = 0; dim < kDims; ++dim) {
    const int size = 8 + 8 * dim, to = size + 8 * kDims, from = to + 8 * kDims;
    text += join({"ld.param.u64 %d8, [how+", size, "];\nld.param.u64 %d9, [how+", to, "];\nld.param.u64 %d10, [how+", from,
                  "];\nrem.u64 %d7, %d6, %d8;\ndiv.u64 %d6, %d6, %d8;\nmad.lo.u64 %d4, %d7, %d9, %d4;\nmad.lo.u64 %d5, %d7, %d10, %d5;\n"});
  }
  text += join({"ld.global.", type, " ", value, ", [%d5];\nst.global.", type, " [%d4], ", value,
                ";\nadd.u64 %d1, %d1, %d2;\nbra next;\ndone:\nret;\n}\n"});
}

std::string module_text() {
  std::string text = ".version 6.4\n.target sm_70\n.address_size 64\n";
  append_kernel(text, 1, "u8", "%h");
  append_kernel(text, 2, "u16", "%h");
  append_kernel(text, 4, "u32", "%r5");
  append_kernel(text, 8, "u64", "%d11");
  return text;
}

/// The kernels of one device, for elements of 1, 2, 4 and 8 bytes.
struct Kernels {
  std::once_flag loads;
  void* functions[4] = {};
};

void load_kernels(Kernels& kernels) {
  void* module = nullptr;  // it stays loaded as long as the context
  check(driver().ModuleLoadData(&module, module_text().c_str()), "load the kernels of copies");
  for (int i = 0; i < 4; ++i) {
    check(driver().ModuleGetFunction(&kernels.functions[i], module, join({"wir_copy_", 1 << i}).c_str()), "find a kernel of copies");
  }
}

void launch_copy(uint64_t to, uint64_t from, Elements& how, int power, int32_t gpu) {
  static Kernels kernels[kMaxDevices];
  Kernels& own = kernels[gpu];
  std::call_once(own.loads, load_kernels, own);
  void* params[] = {&to, &from, &how};
  const int64_t blocks = std::min<int64_t>((how.count + kThreads - 1) / kThreads, kMaxBlocks);
  check(driver().LaunchKernel(own.functions[power], static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0, current_device.stream,
                              params, nullptr), "copy elements");
}

}  // namespace

void copy_on_device(Tensor target, Tensor source) {
  if (target->count == 0) return;
  StridedCopy loops = strided_copy(target, source);
  const int32_t gpu = target->storage->gpu;
  const DeviceContext context(gpu);
  int64_t size = element_size(target->dtype);
  if (size == 16) {  // as pairs of 8 bytes
    if (loops.rank == kMaxRank) fail_text("WIR927", {"copy_ failed: tensors have at most ", kMaxRank - 1, " dimensions"});
    std::copy_backward(loops.sizes, loops.sizes + loops.rank, loops.sizes + loops.rank + 1);
    std::copy_backward(loops.to, loops.to + loops.rank, loops.to + loops.rank + 1);
    std::copy_backward(loops.from, loops.from + loops.rank, loops.from + loops.rank + 1);
    size = 8;
    loops.sizes[0] = 2, loops.to[0] = size, loops.from[0] = size, ++loops.rank;
  }
  const int power = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
  Elements how{1, {}, {}, {}};
  for (int dim = 0; dim < kDims; ++dim) {
    const bool is_used = dim < loops.rank;
    how.sizes[dim] = is_used ? loops.sizes[dim] : 1;
    how.to[dim] = is_used ? loops.to[dim] : 0;
    how.from[dim] = is_used ? loops.from[dim] : 0;
    how.count *= how.sizes[dim];
  }
  int64_t index[kMaxRank] = {};  // of the dimensions beyond those of the kernel
  uint64_t to = device_address(target), from = device_address(source);
  for (;;) {
    launch_copy(to, from, how, power, gpu);
    int64_t dim = kDims;
    for (; dim < loops.rank; ++dim) {
      to += static_cast<uint64_t>(loops.to[dim]), from += static_cast<uint64_t>(loops.from[dim]);
      if (++index[dim] < loops.sizes[dim]) break;
      to -= static_cast<uint64_t>(loops.to[dim] * loops.sizes[dim]), from -= static_cast<uint64_t>(loops.from[dim] * loops.sizes[dim]);
      index[dim] = 0;
    }
    if (dim >= loops.rank) return;
  }
}

}  // namespace wir
