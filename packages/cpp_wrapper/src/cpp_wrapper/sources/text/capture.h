// Capture of graphs: dedicated memory, and a stream that the driver captures.
#pragma once
#include <algorithm>

#include "container.h"
#include "driver.h"
#include "gpu.h"

extern "C" {
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index, wir::CudaStreamGuardOpaque** ret_guard);
int32_t aoti_torch_delete_cuda_stream_guard(wir::CudaStreamGuardOpaque* guard);
}

namespace wir {
namespace {  // of the one file that includes this

void use_stream(void* stream, int32_t index, CudaStreamGuardOpaque** guard) {
  ok(aoti_torch_create_cuda_stream_guard(stream, index, guard), "making a stream current");
}

// --- layouts

/// The bytes from a tensor's first element to its last one, and whether each belongs to exactly one element.
struct Extent {
  size_t nbytes = 0;
  bool is_dense = false, overlaps = false;
};

Extent extent(size_t element, int64_t rank, const int64_t* sizes, const int64_t* strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  int64_t count = 1, last = 0;
  for (int64_t i = 0; i < rank; ++i) {
    count = raw(Int(count) * Int(sizes[i]));
    if (sizes[i] > 1) dims.emplace_back(strides[i], sizes[i]);
    if (sizes[i] > 1) last = raw(Int(last) + Int(sizes[i] - 1) * Int(strides[i]));
  }
  if (count == 0) return {0, true, false};
  std::sort(dims.begin(), dims.end());
  bool overlaps = false;
  int64_t covered = 1;  // elements up to the end of the preceding dimensions
  for (const auto& [stride, size] : dims) {
    overlaps = overlaps || stride < covered;
    covered = raw(Int(size - 1) * Int(stride) + Int(covered));
  }
  return {static_cast<size_t>(raw(Int(last + 1) * Int(element))), !overlaps && last + 1 == count, overlaps};
}

struct Layout : Dims {
  int32_t dtype;
  explicit Layout(Tensor tensor) : Dims(tensor), dtype(dtype_of(tensor)) {}
  Extent extent() const { return wir::extent(aoti_torch_dtype_element_size(dtype), rank, sizes, strides); }
};
uint64_t address(Tensor tensor) { return reinterpret_cast<uint64_t>(data(tensor)); }

// --- memory

/// Memory of the device that graphs write in each replay.
struct Block {
  Tensor handle = nullptr;
  uint64_t begin = 0;
  size_t nbytes = 0;
  Block(size_t nbytes, Gpu gpu) : nbytes(nbytes) {
    wir::allocate(handle, {Int(nbytes)}, {1}, u8(), gpu);
    begin = address(handle);
  }
  Block(const Block&) = delete;
  ~Block() { drop(handle); }
  bool has(uint64_t at) const { return at >= begin && at < begin + nbytes; }
};
using Blocks = std::vector<std::shared_ptr<Block>>;

/// Allocations of a function during its capture. Other graphs may use blocks of `shared`, whose contents do not
/// survive a replay. The allocations whose numbers are in `apart` get separate blocks.
class Memory final : public GraphMemory {
 public:
  Memory(const Run& run, void* stream, const Blocks& shared, const std::vector<size_t>& apart)
      : run_(run), stream_(stream), free_(shared), apart_(apart) {}
  void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype) override {
    const auto rank = static_cast<int64_t>(sizes.size());
    const size_t nbytes = std::max<size_t>(extent(aoti_torch_dtype_element_size(dtype), rank, ints(sizes), ints(strides)).nbytes, 1);
    used.push_back(block(nbytes));
    byte_window(made, used.back()->handle, dtype, sizes, strides, 0);
  }
  /// Returns the number of the allocation that contains a result; the size of `used` for none.
  size_t find(uint64_t at) const {
    size_t number = 0;
    while (number < used.size() && !used[number]->has(at)) ++number;
    return number;
  }
  Blocks used;

 private:
  std::shared_ptr<Block> block(size_t nbytes) {
    auto best = free_.end();
    const bool is_apart = std::find(apart_.begin(), apart_.end(), used.size()) != apart_.end();
    for (auto one = free_.begin(); one != free_.end() && !is_apart; ++one) {
      if ((*one)->nbytes >= nbytes && (best == free_.end() || (*one)->nbytes < (*best)->nbytes)) best = one;
    }
    if (best != free_.end()) {
      std::shared_ptr<Block> found = *best;
      free_.erase(best);
      return found;
    }
    // of the stream that replays are queued on: torch's allocator gives freed memory to that again, in order
    CudaStreamGuardOpaque* guard = nullptr;
    use_stream(stream_, run_.gpu.index, &guard);
    struct Back {
      CudaStreamGuardOpaque* guard;
      ~Back() { aoti_torch_delete_cuda_stream_guard(guard); }
    } const back{guard};
    return std::make_shared<Block>(nbytes, run_.gpu);
  }

  const Run& run_;
  void* stream_;
  Blocks free_;
  const std::vector<size_t>& apart_;
};

// --- capture

/// Captures the run's work during its lifetime, on a separate stream.
class Capture {
 public:
  Capture(Run& run, Memory& memory, Matmuls& matmuls) : run_(run), before_(run.stream) {
    check(driver().StreamCreate(&stream_, kNonBlocking), "make a stream");
    try {
      use_stream(stream_, run.gpu.index, &guard_);
      check(driver().StreamBeginCapture(stream_, kRelaxedCapture), "begin to capture");
    } catch (...) {
      leave();
      throw;
    }
    run.stream = stream_;
    run.graph_memory = &memory;
    run.matmuls = &matmuls;
    is_open_ = true;
  }
  Capture(const Capture&) = delete;
  ~Capture() {
    void* graph = nullptr;
    if (is_open_ && driver().StreamEndCapture(stream_, &graph) == 0 && graph != nullptr) driver().GraphDestroy(graph);
    leave();
  }
  /// Returns the executable graph.
  void* end() {
    void *graph = nullptr, *made = nullptr;
    is_open_ = false;
    check(driver().StreamEndCapture(stream_, &graph), "capture");
    const int status = driver().GraphInstantiate(&made, graph, 0);
    driver().GraphDestroy(graph);
    check(status, "make a graph of the capture");
    return made;
  }

 private:
  void leave() noexcept {
    run_.stream = before_;
    run_.graph_memory = nullptr;
    run_.matmuls = nullptr;
    if (guard_ != nullptr) aoti_torch_delete_cuda_stream_guard(guard_);
    if (stream_ != nullptr) driver().StreamDestroy(stream_);
  }

  Run& run_;
  void *before_, *stream_ = nullptr;
  CudaStreamGuardOpaque* guard_ = nullptr;
  bool is_open_ = false;
};

}  // namespace
}  // namespace wir
