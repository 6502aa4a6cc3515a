// Programs on CUDA devices: their kernels and constants there, launches, streams and events.
#include "gpu.h"

#include <alloca.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "driver.h"
#include "page_reader.h"

extern "C" {
int32_t aoti_torch_get_current_device_index(int32_t* ret_device_index);
int32_t aoti_torch_create_cuda_guard(int32_t device_index, wir::CudaGuardOpaque** ret_guard);
int32_t aoti_torch_delete_cuda_guard(wir::CudaGuardOpaque* guard);
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index, wir::CudaStreamGuardOpaque** ret_guard);
int32_t aoti_torch_delete_cuda_stream_guard(wir::CudaStreamGuardOpaque* guard);
int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);
}

namespace wir {
namespace {

// --- devices

/// A kernel on a device.
struct Loaded {
  const char* name = nullptr;
  const Compiled* compiled = nullptr;
  void* function = nullptr;
  Attribute attributes[4] = {};
  unsigned attribute_count = 0;
};

/// Makes a context current during its lifetime.
struct Current {
  explicit Current(void* context) { check(driver().CtxPushCurrent(context), "use the device"); }
  Current(const Current&) = delete;
  ~Current() {
    void* popped = nullptr;
    driver().CtxPopCurrent(&popped);
  }
};

class CudaDevice : public Device {
 public:
  CudaDevice(const GpuProgram& program, Gpu gpu);
  ~CudaDevice() override;
  void enter(Run& run) override;
  void leave(Run& run) noexcept override;
  void* stream(const Run& run, int number) const override {
    return number == 0 ? run.stream : streams_[static_cast<size_t>(number) - 1];
  }
  bool is_captured(const Run& run) const override {
    int status = 0;
    check(driver().StreamIsCapturing(run.stream, &status), "ask about a stream");
    return status != 0;
  }
  void synchronize() noexcept override;
  Bytes constant(const Blob& blob) override;
  std::shared_ptr<Graphs> graphs() const override { return program_.graphs == nullptr ? nullptr : program_.graphs(program_); }
  const Loaded& kernel(int number) const { return kernels_[static_cast<size_t>(number)]; }

 private:
  void load(const GpuKernel& kernel, const unsigned char* file);
  void find_constants();
  void copy_constants(const unsigned char* file);
  void free() noexcept;

  const GpuProgram& program_;
  void* context_ = nullptr;
  int arch_ = 0;
  std::vector<Loaded> kernels_;
  std::map<int, void*> modules_;  // by blob
  std::vector<void*> streams_;
  Tensor constants_ = nullptr;  // the bytes of all constants of the device
  size_t begin_ = 0, end_ = 0;  // of the device's constants in the file
};

/// Code for an architecture runs on later ones of the same major version; from 9 on it runs on exactly one.
const Compiled* choose(const GpuKernel& kernel, int arch) {
  const Compiled* best = nullptr;
  for (int i = 0; i < kernel.count; ++i) {
    const Compiled& one = kernel.compiled[i];
    const bool runs = one.arch == arch || (one.arch < 90 && one.arch / 10 == arch / 10 && one.arch < arch);
    if (runs && (best == nullptr || one.arch > best->arch)) best = &one;
  }
  return best;
}

void add_attribute(Loaded& kernel, int id, int number) {
  Attribute& added = kernel.attributes[kernel.attribute_count++];
  added.id = id;
  added.value.number = number;
}

CudaDevice::CudaDevice(const GpuProgram& program, Gpu gpu) : Device(gpu), program_(program) {
  const std::shared_ptr<const ConstantFile> opened = constant_file();
  const unsigned char* file = opened->bytes();
  find_constants();
  const PageReader pages(file + begin_, end_ - begin_);
  const Driver& api = driver();
  int device = 0, major = 0, minor = 0;
  check(api.DeviceGet(&device, gpu.index), "find the device");
  check(api.DeviceGetAttribute(&major, kCapabilityMajor, device), "ask for the device's architecture");
  check(api.DeviceGetAttribute(&minor, kCapabilityMinor, device), "ask for the device's architecture");
  arch_ = 10 * major + minor;
  check(api.DevicePrimaryCtxRetain(&context_, device), "use the device");
  const Current current(context_);
  try {
    for (int i = 0; i < program.kernels; ++i) load(program.kernel_table[i], file);
    streams_.resize(static_cast<size_t>(program.streams));
    for (void*& stream : streams_) check(api.StreamCreate(&stream, kNonBlocking), "make a stream");
    copy_constants(file);
  } catch (...) {
    free();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  synchronize();
  void* popped = nullptr;
  const bool is_current = driver().CtxPushCurrent(context_) == 0;
  free();
  if (is_current) driver().CtxPopCurrent(&popped);
}

void CudaDevice::free() noexcept {
  drop(constants_);
  for (void* stream : streams_) {
    if (stream != nullptr) driver().StreamDestroy(stream);
  }
  for (const auto& [blob, module] : modules_) {
    if (module != nullptr) driver().ModuleUnload(module);
  }
}

void CudaDevice::load(const GpuKernel& kernel, const unsigned char* file) {
  const Driver& api = driver();
  const Compiled* compiled = choose(kernel, arch_);
  if (compiled == nullptr) {
    std::string known;
    for (int i = 0; i < kernel.count; ++i) known += join({i != 0 ? ", sm_" : "sm_", kernel.compiled[i].arch});
    fail_text("CPP592", {"the device is sm_", arch_, ", and kernel ", kernel.name, " was compiled for ", known});
  }
  void*& module = modules_[compiled->blob];
  if (module == nullptr) {
    check(api.ModuleLoadData(&module, file + wir_program.blob_table[compiled->blob].offset), "load a kernel");
  }
  Loaded made{kernel.name, compiled};
  check(api.ModuleGetFunction(&made.function, module, compiled->symbol), "find a kernel's function");
  if (compiled->shared > kDefaultShared) {
    check(api.FuncSetCacheConfig(made.function, kPreferShared), "reserve shared memory");
    check(api.FuncSetAttribute(made.function, kFunctionMaxShared, static_cast<int>(compiled->shared)), "reserve shared memory");
  }
  if (compiled->cluster > kPortableCluster) check(api.FuncSetAttribute(made.function, kFunctionAnyCluster, 1), "allow large clusters");
  if (compiled->dependent) add_attribute(made, kDependent, 1);
  if (compiled->cooperative) add_attribute(made, kCooperative, 1);
  if (compiled->cluster > 1) {
    add_attribute(made, kClusterDimension, 0);
    unsigned* cluster = made.attributes[made.attribute_count - 1].value.cluster;
    cluster[0] = compiled->cluster;
    cluster[1] = cluster[2] = 1;
    add_attribute(made, kClusterPolicy, kPolicySpread);
  }
  kernels_.push_back(made);
}

/// Finds the bytes from the device's first constant to its last one.
void CudaDevice::find_constants() {
  for (size_t i = 0; i < wir_program.blobs; ++i) {
    const Blob& blob = wir_program.blob_table[i];
    if (blob.kind != Blob::kDevice) continue;
    begin_ = end_ == 0 ? blob.offset : std::min(begin_, blob.offset);
    end_ = std::max(end_, blob.offset + blob.nbytes);
  }
}

/// Copies them at once.
void CudaDevice::copy_constants(const unsigned char* file) {
  if (end_ == 0) return;
  const auto nbytes = static_cast<int64_t>(end_ - begin_);
  const int64_t one = 1;
  Tensor host = nullptr;
  allocate(constants_, {nbytes}, {1}, u8(), gpu);
  ok(aoti_torch_create_tensor_from_blob(const_cast<unsigned char*>(file + begin_), 1, &nbytes, &one, 0, u8(),
                                        aoti_torch_device_type_cpu(), 0, &host), "constants");
  const int32_t failed = aoti_torch_copy_(constants_, host, 0);
  drop(host);
  ok(failed, "copying constants");
}

Bytes CudaDevice::constant(const Blob& blob) {
  Bytes made;
  made.gpu = gpu;
  if (constants_ == nullptr) {
    allocate(made.holder, {0}, {1}, u8(), gpu);
  } else {
    window(made.holder, constants_, {static_cast<int64_t>(blob.nbytes)}, {1}, static_cast<int64_t>(blob.offset - begin_));
  }
  return made;
}

void CudaDevice::enter(Run& run) {
  int32_t device = -1;
  void *stream = nullptr, *context = nullptr;
  run.gpu = gpu;
  run.device = this;
  ok(aoti_torch_get_current_device_index(&device), "the current device");
  if (device != gpu.index) ok(aoti_torch_create_cuda_guard(gpu.index, &run.guard), "making the device current");
  ok(aoti_torch_get_current_cuda_stream(gpu.index, &stream), "the current stream");
  if (run.stream == nullptr) {
    run.stream = stream;
  } else if (run.stream != stream) {
    ok(aoti_torch_create_cuda_stream_guard(run.stream, gpu.index, &run.stream_guard), "making the stream current");
  }
  // A thread that has not used the device has no context.
  if (driver().CtxGetCurrent(&context) != 0 || context != context_) {
    check(driver().CtxPushCurrent(context_), "use the device");
    run.has_context = true;
  }
}

void CudaDevice::leave(Run& run) noexcept {
  void* popped = nullptr;
  if (run.has_context) driver().CtxPopCurrent(&popped);
  if (run.stream_guard != nullptr) aoti_torch_delete_cuda_stream_guard(run.stream_guard);
  if (run.guard != nullptr) aoti_torch_delete_cuda_guard(run.guard);
}

void CudaDevice::synchronize() noexcept {
  void* popped = nullptr;
  if (driver().CtxPushCurrent(context_) != 0) return;
  driver().CtxSynchronize();
  driver().CtxPopCurrent(&popped);
}

}  // namespace

std::shared_ptr<Device> open_cuda(const GpuProgram& program, int32_t index) {
  static std::mutex opening;
  static std::map<int32_t, std::weak_ptr<Device>> opened;
  if (index < 0) ok(aoti_torch_get_current_device_index(&index), "the current device");
  const std::lock_guard<std::mutex> lock(opening);
  std::shared_ptr<Device> found = opened[index].lock();
  if (found == nullptr) {
    found = std::make_shared<CudaDevice>(program, Gpu{index});
    opened[index] = found;
  }
  return found;
}

void align(Tensor& made, Tensor source, int64_t alignment, const Run& run) {
  if (run.graph_memory != nullptr && reinterpret_cast<uintptr_t>(data(source)) % static_cast<uintptr_t>(alignment) != 0) {
    fail("CPP595", "it copies a tensor that is not aligned");
  }
  align(made, source, alignment);
}

// --- launches

void fail_multiple(const char* name) {
  fail_text("CPP593", {"the argument for ", name, " is not a multiple of 16, as the kernel was compiled for"});
}

Slot brain(double value) {
  const float single = static_cast<float>(value);
  uint32_t word = 0;
  std::memcpy(&word, &single, sizeof word);
  // to nearest, ties to even
  const uint32_t found = single != single ? (word >> 16) | 0x40 : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  return Slot{.i = static_cast<int64_t>(found)};
}

namespace {

/// Returns a size of the grid. Fails with CPP593 if it exceeds the driver's limit.
unsigned axis(Int size, int64_t most, const char* name) {
  const int64_t value = raw(size);
  if (value < 0 || value > most) [[unlikely]] {
    fail_text("CPP593", {"kernel ", name, ": the grid has a size of ", value, ", and the device takes 0 to ", most});
  }
  return static_cast<unsigned>(value);
}

/// Allocates scratch memory of a kernel. It is freed after the launch is queued, and reused later on the same stream.
void* scratch(Tensor& made, const KernelScratch& wanted, int64_t blocks, const Run& run) {
  if (wanted.nbytes == 0) return nullptr;
  allocate(made, {Int(wanted.nbytes) * Int(blocks)}, {1}, u8(), run);
  return data(made);
}

}  // namespace

Described described(Tensor tensor, int rank, const char* name) {
  const auto [dims, sizes, strides] = Dims(tensor);
  if (dims != rank || strides[rank - 1] != 1) [[unlikely]] {
    fail_text("CPP593", {"the kernel takes a descriptor of ", name, " with ", rank,
                         " dimensions, the last of stride 1, and was given ", tensor_text(tensor)});
  }
  return {data(tensor), sizes, strides};
}

TensorMap tensor_map(const Described& tensor, const MapKind& kind) {
  TensorMap made{};
  uint64_t shape[5], bytes[5];
  const unsigned ones[5] = {1, 1, 1, 1, 1};
  const auto element = static_cast<uint64_t>(kind.element_size);
  uint64_t last = 0;  // byte offset of the last element
  for (int i = 0; i < kind.rank; ++i) {
    const int from = kind.rank - 1 - i;  // the engine counts dimensions from the innermost
    shape[i] = static_cast<uint64_t>(tensor.sizes[from]) * (kind.is_padded && i == 0 ? 2 : 1);
    if (shape[i] == 0) return made;  // nothing can be read through it
    if (i > 0) bytes[i - 1] = static_cast<uint64_t>(tensor.strides[from]) * element;
    last += (shape[i] - 1) * (i == 0 ? element : bytes[i - 1]);
  }
  bytes[kind.rank - 1] = shape[kind.rank - 1] * (kind.rank == 1 ? element : bytes[kind.rank - 2]);
  constexpr int kNoInterleave = 0, kPromote128 = 2, kFillZero = 0;
  check(driver().TensorMapEncodeTiled(made.words, kind.element_type, static_cast<unsigned>(kind.rank), tensor.address, shape, bytes,
                                      kind.box, ones, kNoInterleave, kind.swizzle, kPromote128, kFillZero), "describe a tensor");
  int version = 0;
  // Drivers up to 13.1 set a wrong bit for tensors below 128 KiB; CUTLASS and Triton have the same workaround.
  if (driver().DriverGetVersion(&version) == 0 && version <= 13010 && last + 1 < 128 * 1024) made.words[1] &= ~(uint64_t{1} << 21);
  return made;
}

double distance(std::initializer_list<SizeAndHint> pairs) {
  const auto log2 = [](Int value) { return raw(value) >= 1 ? std::log2(static_cast<double>(raw(value))) : -1.0; };
  double sum = 0;
  for (const SizeAndHint& pair : pairs) sum += std::abs(log2(pair.size) - log2(pair.hint));
  return sum;
}
int nearest(std::initializer_list<double> distances) {
  return static_cast<int>(std::min_element(distances.begin(), distances.end()) - distances.begin());
}

void launch(const Run& run, int number, Int x, Int y, Int z, const Slot* slots, int count, uint64_t maps) {
  const Loaded& kernel = static_cast<const CudaDevice*>(run.device)->kernel(number);
  const Compiled& compiled = *kernel.compiled;
  const unsigned grid[3] = {axis(x, INT32_MAX / compiled.cluster, kernel.name) * compiled.cluster,
                            axis(y, 65535, kernel.name), axis(z, 65535, kernel.name)};
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
  struct Held {
    Tensor handles[2] = {};
    ~Held() { release(handles, 2); }
  } held;
  const int64_t blocks = raw(Int(grid[0]) * Int(grid[1]) * Int(grid[2]));
  void* memory[2] = {scratch(held.handles[0], compiled.scratch, blocks, run),
                     scratch(held.handles[1], compiled.profile, blocks, run)};
  auto** params = static_cast<void**>(alloca((static_cast<size_t>(count) + 2) * sizeof(void*)));
  for (int i = 0; i < count; ++i) params[i] = (maps >> i) & 1 ? slots[i].p : const_cast<Slot*>(&slots[i]);
  params[count] = &memory[0];
  params[count + 1] = &memory[1];
  int status = 0;
  if (kernel.attribute_count == 0) {
    status = driver().LaunchKernel(kernel.function, grid[0], grid[1], grid[2], compiled.threads, 1, 1, compiled.shared,
                                   run.stream, params, nullptr);
  } else {
    Config config{{grid[0], grid[1], grid[2]}, {compiled.threads, 1, 1}, compiled.shared, run.stream,
                  const_cast<Attribute*>(kernel.attributes), kernel.attribute_count};
    status = driver().LaunchKernelEx(&config, kernel.function, params, nullptr);
  }
  if (status != 0) [[unlikely]] driver_failed(status, join({"launch kernel ", kernel.name}).c_str());
}

// --- streams and events

OnStream::OnStream(Run& run, int number) : run_(run), before_(run.stream) {
  void* stream = run.device->stream(run, number);
  ok(aoti_torch_create_cuda_stream_guard(stream, run.gpu.index, &guard_), "making a stream current");
  run.stream = stream;
}
OnStream::~OnStream() {
  run_.stream = before_;
  aoti_torch_delete_cuda_stream_guard(guard_);
}

Event::~Event() {
  if (event_ != nullptr) driver().EventDestroy(event_);
}
void Event::record(const Run& run, int stream) {
  if (event_ == nullptr) check(driver().EventCreate(&event_, kWithoutTiming), "make an event");
  check(driver().EventRecord(event_, run.device->stream(run, stream)), "record an event");
}
void Event::wait(const Run& run, int stream) const {
  check(driver().StreamWaitEvent(run.device->stream(run, stream), event_, 0), "wait for an event");
}
void Event::synchronize() const { check(driver().EventSynchronize(event_), "wait for an event"); }

}  // namespace wir
