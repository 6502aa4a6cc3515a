// A CUDA driver that runs nothing and records its calls.
//
// An image is text: "symbol=add sizes=8,8,4 registers=20"; `sizes` are those of the kernel's parameters, in bytes,
// as in a cubin. It has devices 0 to 3, each with a primary context.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_RECORDS 4096
#define MAX_PARAMS 64

typedef struct {
  char symbol[64];
  int sizes[MAX_PARAMS];
  int count;
  int registers, local_bytes, shared_static;
  int attributes[16];
  int cache_config;
  void* context;
  int unloaded;
} Kernel;

typedef struct {
  unsigned grid[3], block[3], shared, attribute_count;
  uint64_t stream, function, context;
  int ids[8];
  unsigned values[8][3];
  int param_count;
  uint64_t params[MAX_PARAMS];
  int extended;
  uint64_t maps[4][16];
  int map_count;
} Record;

typedef struct {
  int id;
  char pad[4];
  union {
    char bytes[64];
    unsigned words[16];
  } value;
} Attribute;

typedef struct {
  unsigned grid[3], block[3], shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
} Config;

typedef void (*Host)(const unsigned* grid, void** params);
static struct {
  char symbol[64];
  Host run;
} hosts[16];
static int host_count, arch = 90;
static char log_text[1 << 16];

static Record records[MAX_RECORDS];
static int record_count, contexts[4], fail_status, fail_count, init_status;
static __thread void* stack[16];
static __thread int depth;
static char fail_function[64];

EXPORT int fake_count(void) { return record_count; }
EXPORT Record* fake_record(int i) { return &records[i]; }
EXPORT void fake_reset(void) { record_count = fail_count = 0; }
EXPORT int fake_depth(void) { return depth; }
EXPORT Kernel* fake_kernel(uint64_t function) { return (Kernel*)function; }
EXPORT void fake_enter(int device) { stack[depth++] = &contexts[device]; }
EXPORT void fake_leave(void) { --depth; }

EXPORT void fake_arch(int capability) { arch = capability; }
// Launches of the kernel `symbol` call a function of the host.
EXPORT void fake_host(const char* symbol, Host run) {
  snprintf(hosts[host_count].symbol, sizeof hosts[0].symbol, "%s", symbol);
  hosts[host_count++].run = run;
}
// Operations on streams and events, and launches, one a line, in order.
EXPORT const char* fake_log(void) { return log_text; }
EXPORT void fake_forget(void) { log_text[0] = 0; }
static void note(const char* what, const void* first, const void* second) {
  size_t length = strlen(log_text);
  snprintf(log_text + length, sizeof log_text - length, "%s %lx %lx\n", what, (unsigned long)first, (unsigned long)second);
}

// The next `times` calls of a function return this status.
EXPORT void fake_fail(const char* function, int status, int times) {
  snprintf(fail_function, sizeof fail_function, "%s", function);
  fail_status = status;
  fail_count = times;
}

static int failing(const char* function) {
  if (fail_count > 0 && strcmp(function, fail_function) == 0) {
    --fail_count;
    return fail_status;
  }
  return 0;
}

#define MAY_FAIL \
  do { int s = failing(__func__); if (s) return s; } while (0)

EXPORT int cuInit(unsigned flags) { return flags ? 1 : getenv("FAKE_CUDA_NO_DEVICE") ? 100 : 0; }

EXPORT int cuGetErrorName(int status, const char** name) {
  *name = status == 1 ? "CUDA_ERROR_INVALID_VALUE" : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
  return 0;
}

EXPORT int cuGetErrorString(int status, const char** text) {
  *text = status == 100 ? "no CUDA-capable device is detected" : "said the fake driver";
  return 0;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  MAY_FAIL;
  *device = ordinal;
  return ordinal < 0 || ordinal > 3 ? 101 : 0;
}

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? arch / 10 : attribute == 76 ? arch % 10 : attribute == 115 ? !getenv("FAKE_CUDA_NO_POOLS") : 0;
  return device < 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[device];
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  stack[depth++] = context;
  return 0;
}

EXPORT int cuCtxPopCurrent_v2(void** context) {
  *context = stack[--depth];
  return 0;
}

EXPORT int cuCtxGetCurrent(void** context) {
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return 0;
}

EXPORT int cuCtxSynchronize(void) { return depth == 0 ? 201 : 0; }

EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  MAY_FAIL;
  static char streams[64];
  static int count;
  *stream = &streams[count++ % 64];
  return depth == 0 ? 201 : flags != 1;
}

// --- graphs: calls of a thread that captures a stream are recorded, and performed when the graph is launched

typedef struct Node {
  void (*run)(void* data, void* stream);
  void* data;
  struct Node* next;
} Node;
typedef struct {
  Node *first, **end;
} Graph;
static int is_capturing;
static __thread void* captured_stream;
static __thread Graph* captured;
EXPORT void fake_capture(int on) { is_capturing = on; }
// Whether this thread captures a stream; if so, records `run`.
EXPORT int fake_note(void (*run)(void* data, void* stream), void* data) {
  if (!captured) return 0;
  Node* made = calloc(1, sizeof(Node));
  *made = (Node){run, data, NULL};
  *captured->end = made;
  captured->end = &made->next;
  return 1;
}
EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  *status = is_capturing || (captured && stream == captured_stream);
  return 0;
}
EXPORT int cuStreamBeginCapture_v2(void* stream, int mode) {
  MAY_FAIL;
  if (!stream || captured || mode != 2) return 900;
  captured = calloc(1, sizeof(Graph));
  captured->end = &captured->first;
  captured_stream = stream;
  note("begin_capture", NULL, NULL);
  return 0;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  if (!captured || stream != captured_stream) return 901;
  *graph = captured;
  captured = NULL;
  note("end_capture", NULL, NULL);
  int status = failing(__func__);
  if (status) *graph = NULL;
  return status;
}
EXPORT int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long flags) {
  MAY_FAIL;
  *made = calloc(1, sizeof(Graph));
  *(Graph*)*made = *(Graph*)graph;
  return flags != 0;
}
EXPORT int cuGraphDestroy(void* graph) {
  free(graph);
  return 0;
}
EXPORT int cuGraphLaunch(void* graph, void* stream) {
  MAY_FAIL;
  note("replay", stream, NULL);
  for (Node* one = ((Graph*)graph)->first; one; one = one->next) one->run(one->data, stream);
  return 0;
}
EXPORT int cuGraphExecDestroy(void* graph) {
  note("destroy_graph", NULL, NULL);
  ((Graph*)graph)->first = NULL;
  return 0;
}
typedef struct {
  uint64_t to, from;
  size_t nbytes;
} Bytes;
static void copy_bytes(void* data, void* stream) {
  (void)stream;
  Bytes* b = data;
  memcpy((void*)b->to, (void*)b->from, b->nbytes);
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t nbytes, void* stream) {
  MAY_FAIL;
  Bytes* made = calloc(1, sizeof(Bytes));
  *made = (Bytes){to, from, nbytes};
  if (fake_note(copy_bytes, made)) return 0;
  note("copy", stream, NULL);
  copy_bytes(made, stream);
  free(made);
  return 0;
}
EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t nbytes, void* stream) {
  return cuMemcpyDtoDAsync_v2(to, from, nbytes, stream);
}
EXPORT int cuStreamSynchronize(void* stream) {
  note("synchronize_stream", stream, NULL);
  return 0;
}

// Memory of devices is the host's. Allocations are counted, as are the pool's and the stream's frees.
static int live_allocations;
static uint64_t last_freed_on;
EXPORT int fake_allocations(void) { return live_allocations; }
EXPORT uint64_t fake_freed_on(void) { return last_freed_on; }
EXPORT int cuMemPoolCreate(void** pool, const void* facts) {
  MAY_FAIL;
  *pool = calloc(1, 8);
  return *(const int*)facts != 1;
}
EXPORT int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  return pool == NULL || attribute != 4 || *(uint64_t*)value != UINT64_MAX;
}
static int trims;
EXPORT int fake_trims(void) { return trims; }
EXPORT int cuMemPoolTrimTo(void* pool, size_t kept) {
  ++trims;
  return pool == NULL || kept != 0;
}
EXPORT int cuMemAlloc_v2(uint64_t* made, size_t nbytes) {
  MAY_FAIL;
  if (depth == 0) return 201;
  void* found = NULL;
  if (posix_memalign(&found, 256, nbytes)) return 2;
  memset(found, 0xA5, nbytes);
  __atomic_fetch_add(&live_allocations, 1, __ATOMIC_RELAXED);
  *made = (uint64_t)found;
  return 0;
}
EXPORT int cuMemAllocFromPoolAsync(uint64_t* made, size_t nbytes, void* pool, void* stream) {
  MAY_FAIL;
  (void)stream;
  return pool == NULL ? 1 : cuMemAlloc_v2(made, nbytes);
}
EXPORT int cuMemFree_v2(uint64_t address) {
  if (depth == 0) return 201;
  __atomic_fetch_sub(&live_allocations, 1, __ATOMIC_RELAXED);
  free((void*)address);
  return 0;
}
EXPORT int cuMemFreeAsync(uint64_t address, void* stream) {
  MAY_FAIL;
  last_freed_on = (uint64_t)stream;
  return cuMemFree_v2(address);
}
EXPORT int cuMemHostAlloc(void** made, size_t nbytes, unsigned flags) {
  MAY_FAIL;
  return flags != 1 || posix_memalign(made, 64, nbytes);
}
EXPORT int cuMemFreeHost(void* address) {
  free(address);
  return 0;
}

EXPORT int cuStreamDestroy_v2(void* stream) {
  note("destroy_stream", stream, NULL);
  return 0;
}
EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  note("wait", stream, event);
  return (int)flags;
}
EXPORT int cuEventCreate(void** event, unsigned flags) {
  MAY_FAIL;
  *event = calloc(1, 8);
  return flags != 2;
}
EXPORT int cuEventRecord(void* event, void* stream) {
  note("record", event, stream);
  return 0;
}
EXPORT int cuEventSynchronize(void* event) {
  note("synchronize", event, NULL);
  return 0;
}
EXPORT int cuEventDestroy_v2(void* event) {
  note("destroy_event", event, NULL);
  free(event);
  return 0;
}

EXPORT int cuModuleLoadData(void** module, const void* image) {
  MAY_FAIL;
  if (depth == 0) return 201;
  Kernel* k = calloc(1, sizeof(Kernel));
  k->context = stack[depth - 1];
  *module = k;
  if (strncmp(image, ".version", 8) == 0) return 0;  // PTX, of the kernels that copy elements
  char text[1024];
  snprintf(text, sizeof text, "%s", (const char*)image);
  for (char* word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    if (strncmp(word, "symbol=", 7) == 0) snprintf(k->symbol, sizeof k->symbol, "%s", word + 7);
    if (strncmp(word, "registers=", 10) == 0) k->registers = atoi(word + 10);
    if (strncmp(word, "local=", 6) == 0) k->local_bytes = atoi(word + 6);
    if (strncmp(word, "sizes=", 6) == 0) {
      for (char* at = word + 6; *at; at += *at == ',') k->sizes[k->count++] = (int)strtol(at, &at, 10);
    }
  }
  return k->symbol[0] ? 0 : (free(k), 200);
}

EXPORT int cuModuleUnload(void* module) {
  ((Kernel*)module)->unloaded = 1;
  return 0;
}

EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  MAY_FAIL;
  *function = module;
  if (strncmp(name, "wir_copy_", 9) == 0) {
    Kernel* made = calloc(1, sizeof(Kernel));
    snprintf(made->symbol, sizeof made->symbol, "%s", name);
    made->context = ((Kernel*)module)->context;
    *function = made;
    return 0;
  }
  return strcmp(((Kernel*)module)->symbol, name) ? 500 : 0;
}

EXPORT int cuFuncGetAttribute(int* value, int attribute, void* function) {
  Kernel* k = function;
  *value = attribute == 1 ? k->shared_static : attribute == 3 ? k->local_bytes : k->registers;
  return 0;
}

EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  MAY_FAIL;
  ((Kernel*)function)->attributes[attribute] = value;
  return 0;
}

EXPORT int cuFuncSetCacheConfig(void* function, int config) {
  ((Kernel*)function)->cache_config = config;
  return 0;
}

// Memory whose address is odd to 4096 is pinned, and mapped 1 TiB higher.
EXPORT int cuPointerGetAttribute(void* value, int attribute, uint64_t pointer) {
  *(uint64_t*)value = pointer + (1ull << 40);
  return getenv("FAKE_CUDA_PINNED") && attribute == 3 ? 0 : 1;
}

EXPORT int cuDriverGetVersion(int* version) {
  *version = getenv("FAKE_CUDA_NEW") ? 13020 : 13000;
  return 0;
}

// A "map": its arguments, in words of 8 bytes, with the bit that old drivers set wrongly.
EXPORT int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const uint64_t* shape,
                                  const uint64_t* bytes, const unsigned* box, const unsigned* steps, int interleave,
                                  int swizzle, int promotion, int fill) {
  MAY_FAIL;
  uint64_t* words = map;
  if ((uintptr_t)map % 64 || interleave || fill || promotion != 2 || steps[rank - 1] != 1) return 1;
  memset(map, 0, 128);
  words[0] = (uint64_t)base;
  words[1] = 1ull << 21 | (unsigned)type << 8 | rank | (uint64_t)swizzle << 32;
  for (unsigned i = 0; i < rank; ++i) {
    words[2 + i] = shape[i];
    words[7 + i] = bytes[i];
    words[12] |= (uint64_t)box[i] << 12 * i;
  }
  return 0;
}

static int record(const Config* c, void* function, void** params, int extended);
typedef struct {
  Config config;
  void *function, *params[MAX_PARAMS];
  int extended;
  Attribute attributes[8];
} Noted;
static void launch_noted(void* data, void* stream) {
  Noted* noted = data;
  noted->config.stream = stream;
  record(&noted->config, noted->function, noted->params, noted->extended);
}
static int note_launch(const Config* c, Kernel* k, void** params, int extended) {
  Noted* made = calloc(1, sizeof(Noted));
  made->config = *c;
  made->config.attributes = made->attributes;
  if (c->count) memcpy(made->attributes, c->attributes, c->count * sizeof(Attribute));
  made->function = k;
  made->extended = extended;
  for (int i = 0; i < k->count; ++i) {
    made->params[i] = aligned_alloc(64, ((size_t)k->sizes[i] + 63) / 64 * 64);
    memcpy(made->params[i], params[i], (size_t)k->sizes[i]);
  }
  return fake_note(launch_noted, made);
}

// --- nodes of a graph, one after the other; `fake_fork` makes two roots of them

static int is_forked;
EXPORT void fake_fork(int on) { is_forked = on; }
typedef struct {
  uint64_t to;
  size_t pitch;
  unsigned value, element_size;
  size_t width, height;
} Fill;
static void fill(void* data, void* stream) {
  Fill* f = data;
  note("fill", stream, NULL);
  for (size_t i = 0; i < f->width * f->element_size; ++i) ((char*)f->to)[i] = (char)(f->value >> 8 * (i % f->element_size));
}
static int fill_later(uint64_t to, unsigned value, unsigned element_size, size_t width, void* stream) {
  Fill* made = calloc(1, sizeof(Fill));
  *made = (Fill){to, 0, value, element_size, width, 1};
  if (!fake_note(fill, made)) fill(made, stream);
  return 0;
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* stream) { return fill_later(to, value, 1, n, stream); }
EXPORT int cuMemsetD16Async(uint64_t to, unsigned short value, size_t n, void* stream) { return fill_later(to, value, 2, n, stream); }
EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t n, void* stream) { return fill_later(to, value, 4, n, stream); }
EXPORT int cuGraphGetRootNodes(void* graph, void** nodes, size_t* count) {
  Node* first = ((Graph*)graph)->first;
  *count = !first ? 0 : is_forked ? 2 : 1;
  if (nodes) *nodes = first;
  return 0;
}
static int is_programmatic(Node* node) {
  Noted* noted = node->data;
  if (node->run != launch_noted) return 0;
  for (unsigned i = 0; i < noted->config.count; ++i) {
    if (noted->config.attributes[i].id == 6) return 1;
  }
  return 0;
}
EXPORT int cuGraphNodeGetDependentNodes_v2(void* node, void** nodes, unsigned char* edge, size_t* count) {
  Node* next = ((Node*)node)->next;
  *count = next != NULL;
  if (!next || !nodes) return 0;
  *nodes = next;
  memset(edge, 0, 8);
  edge[0] = edge[2] = (unsigned char)is_programmatic(next);
  return 0;
}
EXPORT int cuGraphNodeGetType(void* node, int* type) {
  MAY_FAIL;
  void (*run)(void*, void*) = ((Node*)node)->run;
  *type = run == launch_noted ? 0 : run == fill ? 2 : run == copy_bytes ? 1 : 3;
  return 0;
}
typedef struct {
  void* function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;
} KernelNode;
// A function of a library loaded in parts is returned as a kernel only.
EXPORT int cuGraphKernelNodeGetParams_v2(void* node, KernelNode* found) {
  Noted* noted = ((Node*)node)->data;
  memset(found, 0, sizeof *found);
  found->kernel = noted->function;
  memcpy(found->grid, noted->config.grid, sizeof found->grid);
  memcpy(found->block, noted->config.block, sizeof found->block);
  found->shared = noted->config.shared;
  found->params = noted->params;
  return 0;
}
EXPORT int cuKernelGetFunction(void** function, void* kernel) {
  MAY_FAIL;
  *function = kernel;
  return 0;
}
EXPORT int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* size) {
  Kernel* k = function;
  if (index >= (size_t)k->count) return 1;
  *offset = 0;
  for (size_t i = 0; i <= index; ++i) {
    size_t align = k->sizes[i] < 8 ? (size_t)k->sizes[i] : 8;
    *offset = (*offset + align - 1) / align * align + (i < index ? (size_t)k->sizes[i] : 0);
  }
  *size = (size_t)k->sizes[index];
  return 0;
}
EXPORT int cuGraphKernelNodeGetAttribute(void* node, int id, void* value) {
  Noted* noted = ((Node*)node)->data;
  memset(value, 0, 64);
  for (unsigned i = 0; i < noted->config.count; ++i) {
    if (noted->config.attributes[i].id == id) memcpy(value, &noted->config.attributes[i].value, 64);
  }
  return 0;
}
EXPORT int cuGraphMemsetNodeGetParams(void* node, Fill* found) {
  *found = *(Fill*)((Node*)node)->data;
  return 0;
}
typedef struct {
  size_t x, y, z, level;
  int memory;
  void* host;
  uint64_t device;
  void *array, *reserved;
  size_t pitch, height;
} CopyEnd;
typedef struct {
  CopyEnd from, to;
  size_t width, height, depth;
} Copied;
static int host_copies;
EXPORT void fake_host_copies(int on) { host_copies = on; }
EXPORT int cuGraphMemcpyNodeGetParams(void* node, Copied* found) {
  Bytes* bytes = ((Node*)node)->data;
  memset(found, 0, sizeof *found);
  found->from.device = bytes->from;
  found->to.device = bytes->to - 4;
  found->to.x = 4;
  found->from.memory = host_copies ? 1 : 2;
  found->to.memory = 2;
  found->width = bytes->nbytes;
  found->height = found->depth = 1;
  return 0;
}

static int record(const Config* c, void* function, void** params, int extended) {
  Kernel* k = function;
  if (depth == 0 || stack[depth - 1] != k->context) return depth == 0 ? 201 : 400;
  if (captured) return !note_launch(c, k, params, extended);
  Record* r = &records[__atomic_fetch_add(&record_count, 1, __ATOMIC_RELAXED) % MAX_RECORDS];
  memset(r, 0, sizeof *r);
  memcpy(r->grid, c->grid, sizeof r->grid);
  memcpy(r->block, c->block, sizeof r->block);
  r->shared = c->shared;
  r->stream = (uint64_t)c->stream;
  r->function = (uint64_t)function;
  r->context = (uint64_t)stack[depth - 1];
  r->extended = extended;
  r->attribute_count = c->count;
  for (unsigned i = 0; i < c->count; ++i) {
    r->ids[i] = c->attributes[i].id;
    memcpy(r->values[i], c->attributes[i].value.words, sizeof r->values[i]);
  }
  r->param_count = k->count;
  for (int i = 0; i < k->count; ++i) {
    int is_map = k->sizes[i] == 128 && r->map_count < 4;
    memcpy(is_map ? (void*)r->maps[r->map_count++] : (void*)&r->params[i], params[i], (size_t)k->sizes[i]);
  }
  note("launch", c->stream, NULL);
  for (int i = 0; i < host_count; ++i) {
    if (strcmp(hosts[i].symbol, k->symbol) == 0) hosts[i].run(c->grid, params);
  }
  return 0;
}

typedef struct {
  int64_t count, sizes[8], to[8], from[8];
} Elements;
typedef struct {
  uint64_t to, from;
  size_t nbytes;
  Elements how;
} ElementCopy;
static void copy_elements(void* data, void* stream) {
  ElementCopy* c = data;
  note("copy_elements", stream, NULL);
  for (int64_t i = 0; i < c->how.count; ++i) {
    uint64_t to = c->to, from = c->from;
    int64_t rest = i;
    for (int d = 0; d < 8; ++d) {
      to += (uint64_t)(rest % c->how.sizes[d] * c->how.to[d]);
      from += (uint64_t)(rest % c->how.sizes[d] * c->how.from[d]);
      rest /= c->how.sizes[d];
    }
    memcpy((void*)to, (void*)from, c->nbytes);
  }
}
static int launch_copy(const Kernel* kernel, void** params, void* stream) {
  if (depth == 0 || stack[depth - 1] != kernel->context) return 400;
  ElementCopy* made = calloc(1, sizeof(ElementCopy));
  made->nbytes = (size_t)atoi(kernel->symbol + 9);
  memcpy(&made->to, params[0], 8);
  memcpy(&made->from, params[1], 8);
  memcpy(&made->how, params[2], sizeof made->how);
  if (!fake_note(copy_elements, made)) copy_elements(made, stream), free(made);
  return 0;
}

EXPORT int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* stream, void** params, void** extra) {
  MAY_FAIL;
  if (strncmp(((Kernel*)function)->symbol, "wir_copy_", 9) == 0) return launch_copy(function, params, stream);
  Config c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
  return extra ? 1 : record(&c, function, params, 0);
}

EXPORT int cuLaunchKernelEx(const Config* config, void* function, void** params, void** extra) {
  MAY_FAIL;
  return extra ? 1 : record(config, function, params, 1);
}
