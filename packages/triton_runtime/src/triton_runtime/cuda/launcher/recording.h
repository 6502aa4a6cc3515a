// The work that an operator of a library queues on a captured stream: kernels, fills and copies, copied from
// the captured graph and launched later.
#pragma once

#include "driver.h"

namespace {

// In the order of `GRAPH_FUNCTIONS` in `functions.py`.
struct GraphApi {
  Result (*GraphGetRootNodes)(void*, void**, std::size_t*);
  Result (*GraphNodeGetDependentNodes)(void*, void**, void*, std::size_t*);
  Result (*GraphNodeGetType)(void*, int*);
  Result (*GraphKernelNodeGetParams)(void*, void*);
  Result (*GraphKernelNodeGetAttribute)(void*, int, void*);
  Result (*GraphMemsetNodeGetParams)(void*, void*);
  Result (*GraphMemcpyNodeGetParams)(void*, void*);
  Result (*KernelGetFunction)(void**, void*);
  Result (*FuncGetParamInfo)(void*, std::size_t, std::size_t*, std::size_t*);
  Result (*MemsetD8Async)(std::uint64_t, unsigned char, std::size_t, void*);
  Result (*MemsetD16Async)(std::uint64_t, unsigned short, std::size_t, void*);
  Result (*MemsetD32Async)(std::uint64_t, unsigned, std::size_t, void*);
  Result (*MemcpyDtoDAsync)(std::uint64_t, std::uint64_t, std::size_t, void*);
  Result (*StreamIsCapturing)(void*, int*);
  Result (*StreamCreate)(void**, unsigned);
  Result (*StreamBeginCapture)(void*, int);
  Result (*StreamEndCapture)(void*, void**);
  Result (*GraphDestroy)(void*);
};

// `CUDA_KERNEL_NODE_PARAMS_v2`, `CUDA_MEMSET_NODE_PARAMS_v1`, `CUDA_MEMCPY3D_v2` and `CUgraphEdgeData` of
// cuda.h.
struct KernelNode {
  void* function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;
};
struct MemsetNode {
  std::uint64_t to;
  std::size_t pitch;
  unsigned value, element_size;
  std::size_t width, height;
};
struct CopyEnd {
  std::size_t x, y, z, level;
  int memory;
  void* host;
  std::uint64_t device;
  void *array, *reserved;
  std::size_t pitch, height;
};
struct MemcpyNode {
  CopyEnd from, to;
  std::size_t width, height, depth;
};
struct Edge {
  unsigned char from_port, to_port, type, reserved[5];
};
constexpr int kKernelNode = 0, kMemcpyNode = 1, kMemsetNode = 2;
constexpr int kDeviceMemory = 2;
constexpr int kProgrammaticPort = 1, kProgrammaticEdge = 1;
constexpr unsigned kNonBlocking = 1;
constexpr int kRelaxed = 2;  // a capture does not restrict other threads

// --- recorded work

enum class Queued : std::uint8_t { Kernel, Fill, Copy };

struct QueuedLaunch {
  Queued kind;
  MemsetNode fill;
  struct {
    std::uint64_t to, from;
    std::size_t bytes;
  } copy;
  void* function;
  Config config;  // without the stream
  Attribute attributes[4];
  void** params;  // into `bytes`
  char* bytes;
  std::size_t param_count, byte_count;
};

// An address in recorded work that points into a result, `delta` bytes after its start.
struct Moved {
  std::int32_t item, storage;
  std::size_t offset;  // among the words of the item, see `address_at`
  std::uint64_t delta;
};

// Kernels, fills and copies on the device in the order in which they run.
struct Launches {
  PyObject_HEAD
  const Api* api;
  GraphApi graphs;
  void* context;
  QueuedLaunch* items;
  std::int32_t count;
  // For an operator that allocates its results: the function that allocates them, the number of storages, and
  // the addresses to relocate, ordered by item.
  PyObject* make;
  std::int32_t storage_count, moved_count;
  Moved* moved;
};

// The reason why a graph cannot be launched again: a driver status, or kOther for its contents.
constexpr Result kOther = -1;

Result copy_params(const GraphApi& api, const KernelNode& node, QueuedLaunch* item) {
  if (node.extra != nullptr) return kOther;
  std::size_t count = 0, bytes = 0, offset = 0, size = 0;
  while (api.FuncGetParamInfo(item->function, count, &offset, &size) == 0) {
    bytes = offset + size;
    ++count;
  }
  if (count != 0 && node.params == nullptr) return kOther;
  item->bytes = static_cast<char*>(PyMem_Calloc(bytes + 1, 1));
  item->params = static_cast<void**>(PyMem_Calloc(count + 1, sizeof(void*)));
  if (item->bytes == nullptr || item->params == nullptr) return kOther;
  item->param_count = count;
  item->byte_count = bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (const Result status = api.FuncGetParamInfo(item->function, i, &offset, &size)) return status;
    std::memcpy(item->bytes + offset, node.params[i], size);
    item->params[i] = item->bytes + offset;
  }
  return 0;
}

// Copies the attributes that change how a kernel runs.
Result copy_attributes(const GraphApi& api, void* node, QueuedLaunch* item) {
  constexpr int kRelevant[] = {kCooperative, kClusterDimension, kClusterPolicy};
  for (const int id : kRelevant) {
    Attribute attribute{};
    if (const Result status = api.GraphKernelNodeGetAttribute(node, id, &attribute.value)) return status;
    const bool is_set =
        id == kClusterDimension ? attribute.value.cluster[0] != 0 : attribute.value.number != 0;
    if (!is_set) continue;
    attribute.id = id;
    item->attributes[item->config.count++] = attribute;
  }
  return 0;
}

Result copy_kernel(const GraphApi& api, void* node, bool is_programmatic, QueuedLaunch* item) {
  KernelNode launch{};
  if (const Result status = api.GraphKernelNodeGetParams(node, &launch)) return status;
  item->function = launch.function;
  if (launch.function == nullptr) {
    if (const Result status = api.KernelGetFunction(&item->function, launch.kernel)) return status;
  }
  for (int i = 0; i < 3; ++i) {
    item->config.grid[i] = launch.grid[i];
    item->config.block[i] = launch.block[i];
  }
  item->config.shared = launch.shared;
  if (is_programmatic) {
    Attribute one{};
    one.id = kProgrammaticSerialization;
    one.value.number = 1;
    item->attributes[item->config.count++] = one;
  }
  if (const Result status = copy_attributes(api, node, item)) return status;
  return copy_params(api, launch, item);
}

Result copy_fill(const GraphApi& api, void* node, QueuedLaunch* item) {
  item->kind = Queued::Fill;
  if (const Result status = api.GraphMemsetNodeGetParams(node, &item->fill)) return status;
  const unsigned size = item->fill.element_size;
  return item->fill.height > 1 || (size != 1 && size != 2 && size != 4) ? kOther : 0;
}

Result copy_copy(const GraphApi& api, void* node, QueuedLaunch* item) {
  item->kind = Queued::Copy;
  MemcpyNode copy{};
  if (const Result status = api.GraphMemcpyNodeGetParams(node, &copy)) return status;
  const bool is_line =
      copy.height <= 1 && copy.depth <= 1 && copy.from.y + copy.from.z + copy.to.y + copy.to.z == 0;
  if (!is_line || copy.from.memory != kDeviceMemory || copy.to.memory != kDeviceMemory) return kOther;
  item->copy = {copy.to.device + copy.to.x, copy.from.device + copy.from.x, copy.width};
  return 0;
}

Result copy_node(const GraphApi& api, void* node, bool is_programmatic, QueuedLaunch* item) {
  int type = 0;
  if (const Result status = api.GraphNodeGetType(node, &type)) return status;
  if (type == kKernelNode) return copy_kernel(api, node, is_programmatic, item);
  if (is_programmatic) return kOther;
  return type == kMemsetNode   ? copy_fill(api, node, item)
         : type == kMemcpyNode ? copy_copy(api, node, item)
                               : kOther;
}

bool add_item(Launches* l) {
  void* grown = PyMem_Realloc(l->items, (static_cast<std::size_t>(l->count) + 1) * sizeof(QueuedLaunch));
  if (grown == nullptr) return false;
  l->items = static_cast<QueuedLaunch*>(grown);
  std::memset(&l->items[l->count++], 0, sizeof(QueuedLaunch));
  return true;
}

// Copies a linear graph: one root, and at most one dependent per node.
Result copy_chain(Launches* l, void* graph) {
  const GraphApi& api = l->graphs;
  std::size_t count = 0;
  if (const Result status = api.GraphGetRootNodes(graph, nullptr, &count)) return status;
  if (count != 1) return kOther;
  void* node = nullptr;
  if (const Result status = api.GraphGetRootNodes(graph, &node, &count)) return status;
  bool is_programmatic = false;
  for (;;) {
    if (!add_item(l)) return kOther;
    if (const Result status = copy_node(api, node, is_programmatic, &l->items[l->count - 1])) return status;
    if (const Result status = api.GraphNodeGetDependentNodes(node, nullptr, nullptr, &count)) return status;
    if (count == 0) break;
    if (count != 1) return kOther;
    Edge edge{};
    void* next = nullptr;
    if (const Result status = api.GraphNodeGetDependentNodes(node, &next, &edge, &count)) return status;
    is_programmatic = edge.type == kProgrammaticEdge && edge.from_port == kProgrammaticPort;
    node = next;
  }
  for (std::int32_t i = 0; i < l->count; ++i) l->items[i].config.attributes = l->items[i].attributes;
  return 0;
}

Result launch_one(const Launches& l, QueuedLaunch& item, void* stream) {
  if (item.kind == Queued::Copy)
    return l.graphs.MemcpyDtoDAsync(item.copy.to, item.copy.from, item.copy.bytes, stream);
  if (item.kind == Queued::Fill) {
    const MemsetNode& m = item.fill;
    if (m.element_size == 1)
      return l.graphs.MemsetD8Async(m.to, static_cast<unsigned char>(m.value), m.width, stream);
    if (m.element_size == 2)
      return l.graphs.MemsetD16Async(m.to, static_cast<unsigned short>(m.value), m.width, stream);
    return l.graphs.MemsetD32Async(m.to, m.value, m.width, stream);
  }
  Config config = item.config;
  config.stream = stream;
  return l.api->LaunchKernelEx(&config, item.function, item.params, nullptr);
}

// The word of an item that may be an address: the target, then the source, of a fill or a copy; 8 bytes of a
// kernel's parameters.
std::uint64_t* address_at(QueuedLaunch* item, char* bytes, std::size_t offset) {
  if (item->kind == Queued::Fill) return &item->fill.to;
  if (item->kind == Queued::Copy) return offset == 0 ? &item->copy.to : &item->copy.from;
  return reinterpret_cast<std::uint64_t*>(bytes) + offset;
}

constexpr std::size_t kMostBytes = 4096, kMostParams = 64, kMostStorages = 8;

// Launches a copy of an item with the addresses of new results: another thread may use the item itself.
Result launch_moved(const Launches& l, const Moved** next, std::int32_t index, const std::uint64_t* begins,
                    void* stream) {
  alignas(16) char bytes[kMostBytes];
  void* params[kMostParams];
  QueuedLaunch item = l.items[index];
  if (item.byte_count != 0) std::memcpy(bytes, item.bytes, item.byte_count);
  for (std::size_t i = 0; i < item.param_count; ++i)
    params[i] = bytes + (static_cast<char*>(item.params[i]) - item.bytes);
  item.params = params;
  for (const Moved* end = l.moved + l.moved_count; *next != end && (*next)->item == index; ++*next) {
    *address_at(&item, bytes, (*next)->offset) = begins[(*next)->storage] + (*next)->delta;
  }
  return launch_anywhere(*l.api, l.context, [&] { return launch_one(l, item, stream); });
}

// Must be called without the interpreter's lock. `begins` has the start addresses of the storages of results.
Result launch_queued(const Launches& l, const std::uint64_t* begins, void* stream) {
  Result status = 0;
  const Moved* next = l.moved;
  for (std::int32_t i = 0; status == 0 && i < l.count; ++i) {
    const bool is_moved = next != l.moved + l.moved_count && next->item == i;
    status = is_moved ? launch_moved(l, &next, i, begins, stream)
                      : launch_anywhere(*l.api, l.context, [&] { return launch_one(l, l.items[i], stream); });
  }
  return status;
}

void launches_dealloc(PyObject* self) {
  Launches* l = reinterpret_cast<Launches*>(self);
  for (std::int32_t i = 0; i < l->count; ++i) {
    PyMem_Free(l->items[i].bytes);
    PyMem_Free(l->items[i].params);
  }
  PyMem_Free(l->items);
  PyMem_Free(l->moved);
  Py_XDECREF(l->make);
  free_object(self);
}

PyTypeObject* launches_type;

}  // namespace
