// What an operator of a library queues on a stream that is recorded: kernels, fills and copies, read out of the graph and launched later.
//
// Included by `launcher.cpp`, into its namespace.

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

// `CUDA_KERNEL_NODE_PARAMS_v2`, `CUDA_MEMSET_NODE_PARAMS_v1`, `CUDA_MEMCPY3D_v2` and `CUgraphEdgeData` of cuda.h.
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
constexpr int kRelaxed = 2;  // a recording forbids no thread anything

// --- what an operator queued

enum class Queued : std::uint8_t { Kernel, Fill, Copy };

struct QueuedLaunch {
  Queued kind;
  MemsetNode fill;
  struct {
    std::uint64_t to, from;
    std::size_t bytes;
  } copy;
  void* function;
  Config config;  // but for the stream
  Attribute attributes[4];
  void** params;  // into `bytes`
  char* bytes;
  std::size_t param_count, byte_count;
};

// An address in what was queued that lies in the memory of a result, `delta` bytes from where that begins.
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
  // Of an operator that makes its results: what makes them, from how many storages, and which addresses are theirs, by item.
  PyObject* make;
  std::int32_t storage_count, moved_count;
  Moved* moved;
};

// Why a graph cannot be repeated: a status of the driver, or kOther for what is in it.
constexpr Result kOther = -1;

Result copy_params(const GraphApi& api, const KernelNode& node, QueuedLaunch* made) {
  if (node.extra != nullptr) return kOther;
  std::size_t count = 0, bytes = 0, offset = 0, size = 0;
  while (api.FuncGetParamInfo(made->function, count, &offset, &size) == 0) {
    bytes = offset + size;
    ++count;
  }
  if (count != 0 && node.params == nullptr) return kOther;
  made->bytes = static_cast<char*>(PyMem_Calloc(bytes + 1, 1));
  made->params = static_cast<void**>(PyMem_Calloc(count + 1, sizeof(void*)));
  if (made->bytes == nullptr || made->params == nullptr) return kOther;
  made->param_count = count;
  made->byte_count = bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (const Result status = api.FuncGetParamInfo(made->function, i, &offset, &size)) return status;
    std::memcpy(made->bytes + offset, node.params[i], size);
    made->params[i] = made->bytes + offset;
  }
  return 0;
}

// Attributes without which a kernel does not run as it was queued.
Result copy_attributes(const GraphApi& api, void* node, QueuedLaunch* made) {
  constexpr int kKept[] = {kCooperative, kClusterDimension, kClusterPolicy};
  for (const int id : kKept) {
    Attribute found{};
    if (const Result status = api.GraphKernelNodeGetAttribute(node, id, &found.value)) return status;
    const bool is_set = id == kClusterDimension ? found.value.cluster[0] != 0 : found.value.number != 0;
    if (!is_set) continue;
    found.id = id;
    made->attributes[made->config.count++] = found;
  }
  return 0;
}

Result copy_kernel(const GraphApi& api, void* node, bool is_programmatic, QueuedLaunch* made) {
  KernelNode found{};
  if (const Result status = api.GraphKernelNodeGetParams(node, &found)) return status;
  made->function = found.function;
  if (found.function == nullptr) {
    if (const Result status = api.KernelGetFunction(&made->function, found.kernel)) return status;
  }
  for (int i = 0; i < 3; ++i) {
    made->config.grid[i] = found.grid[i];
    made->config.block[i] = found.block[i];
  }
  made->config.shared = found.shared;
  if (is_programmatic) {
    Attribute one{};
    one.id = kProgrammaticSerialization;
    one.value.number = 1;
    made->attributes[made->config.count++] = one;
  }
  if (const Result status = copy_attributes(api, node, made)) return status;
  return copy_params(api, found, made);
}

Result copy_fill(const GraphApi& api, void* node, QueuedLaunch* made) {
  made->kind = Queued::Fill;
  if (const Result status = api.GraphMemsetNodeGetParams(node, &made->fill)) return status;
  const unsigned size = made->fill.element_size;
  return made->fill.height > 1 || (size != 1 && size != 2 && size != 4) ? kOther : 0;
}

Result copy_copy(const GraphApi& api, void* node, QueuedLaunch* made) {
  made->kind = Queued::Copy;
  MemcpyNode found{};
  if (const Result status = api.GraphMemcpyNodeGetParams(node, &found)) return status;
  const bool is_line = found.height <= 1 && found.depth <= 1 && found.from.y + found.from.z + found.to.y + found.to.z == 0;
  if (!is_line || found.from.memory != kDeviceMemory || found.to.memory != kDeviceMemory) return kOther;
  made->copy = {found.to.device + found.to.x, found.from.device + found.from.x, found.width};
  return 0;
}

Result copy_node(const GraphApi& api, void* node, bool is_programmatic, QueuedLaunch* made) {
  int type = 0;
  if (const Result status = api.GraphNodeGetType(node, &type)) return status;
  if (type == kKernelNode) return copy_kernel(api, node, is_programmatic, made);
  if (is_programmatic) return kOther;
  return type == kMemsetNode ? copy_fill(api, node, made) : type == kMemcpyNode ? copy_copy(api, node, made) : kOther;
}

bool add_item(Launches* l) {
  void* grown = PyMem_Realloc(l->items, (static_cast<std::size_t>(l->count) + 1) * sizeof(QueuedLaunch));
  if (grown == nullptr) return false;
  l->items = static_cast<QueuedLaunch*>(grown);
  std::memset(&l->items[l->count++], 0, sizeof(QueuedLaunch));
  return true;
}

// Follows the graph from its one root, each node with at most one that waits for it.
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
  if (item.kind == Queued::Copy) return l.graphs.MemcpyDtoDAsync(item.copy.to, item.copy.from, item.copy.bytes, stream);
  if (item.kind == Queued::Fill) {
    const MemsetNode& m = item.fill;
    if (m.element_size == 1) return l.graphs.MemsetD8Async(m.to, static_cast<unsigned char>(m.value), m.width, stream);
    if (m.element_size == 2) return l.graphs.MemsetD16Async(m.to, static_cast<unsigned short>(m.value), m.width, stream);
    return l.graphs.MemsetD32Async(m.to, m.value, m.width, stream);
  }
  Config config = item.config;
  config.stream = stream;
  return l.api->LaunchKernelEx(&config, item.function, item.params, nullptr);
}

// The word of an item that may be an address: of a fill or a copy to where, then from where; of a kernel its parameters, 8 bytes each.
std::uint64_t* address_at(QueuedLaunch* item, char* bytes, std::size_t offset) {
  if (item->kind == Queued::Fill) return &item->fill.to;
  if (item->kind == Queued::Copy) return offset == 0 ? &item->copy.to : &item->copy.from;
  return reinterpret_cast<std::uint64_t*>(bytes) + offset;
}

constexpr std::size_t kMostBytes = 4096, kMostParams = 64, kMostStorages = 8;

// Launches a copy of an item with the addresses of other results: the item itself may be in use by another thread.
Result launch_moved(const Launches& l, const Moved** next, std::int32_t index, const std::uint64_t* begins, void* stream) {
  alignas(16) char bytes[kMostBytes];
  void* params[kMostParams];
  QueuedLaunch item = l.items[index];
  if (item.byte_count != 0) std::memcpy(bytes, item.bytes, item.byte_count);
  for (std::size_t i = 0; i < item.param_count; ++i) params[i] = bytes + (static_cast<char*>(item.params[i]) - item.bytes);
  item.params = params;
  for (const Moved* end = l.moved + l.moved_count; *next != end && (*next)->item == index; ++*next) {
    *address_at(&item, bytes, (*next)->offset) = begins[(*next)->storage] + (*next)->delta;
  }
  return launch_anywhere(*l.api, l.context, [&] { return launch_one(l, item, stream); });
}

// Called without the lock of the interpreter. `begins`: where the storages of results begin.
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
