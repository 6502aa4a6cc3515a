// The launcher: turns Python arguments into a kernel's parameters and calls the CUDA driver with them.
//
// One extension module serves all kernels and, since it keeps to Python's stable ABI of 3.11, every Python from there on. It
// links nothing and needs no CUDA toolkit and no headers of torch: Python hands over the addresses of the driver's functions,
// whose few types are declared here as its public interface fixes them, and those of torch's stable C functions, through
// which tensors are read.
//
// What goes wrong is explained by Python: a kernel has a callable `explain(reason, position, value)` that raises.
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>

#include <alloca.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

// Vectorcall is of the stable ABI from 3.12 on; 3.11, which changes no more, has it in the same form.
extern "C" PyObject* PyVectorcall_Call(PyObject*, PyObject*, PyObject*);
extern "C" PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, std::size_t, PyObject*);

namespace {

using Vectorcall = PyObject* (*)(PyObject*, PyObject* const*, std::size_t, PyObject*);
constexpr unsigned kHaveVectorcall = 1U << 11;

Py_ssize_t count_of(std::size_t flags) { return static_cast<Py_ssize_t>(flags & (~std::size_t{0} >> 1)); }

PyObject* call_with(PyObject* function, PyObject* argument) {
  return PyObject_CallFunctionObjArgs(function, argument, nullptr);
}

// --- the driver ---------------------------------------------------------------------------------------------------

using Result = int;
constexpr Result kInvalidContext = 201, kInvalidHandle = 400;

enum AttributeId { kCooperative = 2, kClusterDimension = 4, kClusterPolicy = 5, kProgrammaticSerialization = 6 };
constexpr int kPolicySpread = 1;
constexpr int kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4, kFunctionMaxShared = 8;
constexpr int kFunctionAnyCluster = 14, kPreferShared = 1, kPointerDevice = 3;
constexpr int kDefaultShared = 48 * 1024;
constexpr int kPortableCluster = 8;

struct Attribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int number;
  } value;
};

struct Config {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
};

// In the order of `DRIVER_FUNCTIONS` in `functions.py`.
struct Api {
  Result (*Init)(unsigned);
  Result (*GetErrorName)(Result, const char**);
  Result (*GetErrorString)(Result, const char**);
  Result (*DeviceGet)(int*, int);
  Result (*DevicePrimaryCtxRetain)(void**, int);
  Result (*CtxPushCurrent)(void*);
  Result (*CtxPopCurrent)(void**);
  Result (*ModuleLoadData)(void**, const void*);
  Result (*ModuleUnload)(void*);
  Result (*ModuleGetFunction)(void**, void*, const char*);
  Result (*FuncGetAttribute)(int*, int, void*);
  Result (*FuncSetAttribute)(void*, int, int);
  Result (*FuncSetCacheConfig)(void*, int);
  Result (*PointerGetAttribute)(void*, int, std::uint64_t);
  Result (*LaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
  Result (*LaunchKernelEx)(const Config*, void*, void**, void**);
  Result (*DriverGetVersion)(int*);
  Result (*TensorMapEncodeTiled)(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*,
                                 const unsigned*, int, int, int, int);
};

constexpr const char* kCapsule = "wrapper_ir_cuda_launcher.driver";

void free_api(PyObject* capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, kCapsule)); }

// Functions of a library as Python gives them: their addresses, in order, as bytes. Gives false with ValueError set for
// another number of them.
template <class Functions>
bool copy_functions(PyObject* addresses, Functions* functions) {
  if (!PyBytes_Check(addresses) || PyBytes_Size(addresses) != static_cast<Py_ssize_t>(sizeof(Functions))) {
    PyErr_SetString(PyExc_ValueError, "addresses of other functions");
    return false;
  }
  std::memcpy(functions, PyBytes_AsString(addresses), sizeof(Functions));
  return true;
}

// open_driver(addresses) -> capsule; raises OSError. The library stays open for the life of the process.
PyObject* open_driver(PyObject*, PyObject* addresses) {
  Api* api = static_cast<Api*>(PyMem_Malloc(sizeof(Api)));
  if (api == nullptr) {
    return PyErr_NoMemory();
  }
  if (!copy_functions(addresses, api)) {
    PyMem_Free(api);
    return nullptr;
  }
  if (const Result status = api->Init(0)) {
    const char* text = nullptr;
    api->GetErrorString(status, &text);
    PyMem_Free(api);
    return PyErr_Format(PyExc_OSError, "cuInit failed with %d (%s)", status, text ? text : "unknown");
  }
  return PyCapsule_New(api, kCapsule, free_api);
}

// --- tensors ------------------------------------------------------------------------------------------------------

// In the order of `TENSOR_FUNCTIONS` in `functions.py`.
struct TensorFunctions {
  std::int32_t (*data_ptr)(void*, void**);
  std::int32_t (*dtype)(void*, std::int32_t*);
  std::int32_t (*device_type)(void*, std::int32_t*);
  std::int32_t (*device_index)(void*, std::int32_t*);
  std::int32_t (*dim)(void*, std::int64_t*);
  std::int32_t (*sizes)(void*, std::int64_t**);
  std::int32_t (*strides)(void*, std::int64_t**);
  std::int32_t (*storage_offset)(void*, std::int64_t*);
  std::int32_t (*storage_size)(void*, std::int64_t*);
  std::size_t (*element_size)(std::int32_t);
};

// Set once, by set_torch; read-only afterwards.
struct : TensorFunctions {
  PyTypeObject* tensor;
  PyTypeObject* parameter;
  PyObject* method;    // torch.Tensor.data_ptr, unbound
  std::size_t offset;  // of the at::Tensor in a Python tensor object; 0: not known
} torch;

struct Facts {
  void* data;
  std::int32_t dtype, device_type, device_index;
};

void* handle_of(PyObject* tensor) { return reinterpret_cast<char*>(tensor) + torch.offset; }

bool read_facts(PyObject* tensor, Facts* facts) {
  void* handle = handle_of(tensor);
  return torch.dtype(handle, &facts->dtype) == 0 && torch.device_type(handle, &facts->device_type) == 0 &&
         torch.device_index(handle, &facts->device_index) == 0;
}

// Where a Python tensor keeps its at::Tensor, a pointer to the TensorImpl, is torch's own affair and has changed
// between versions. `_cdata` says the pointer's value, so we look where it stands.
std::size_t find_offset(PyObject* tensor, void* impl) {
  PyObject* basic = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(tensor)), "__basicsize__");
  const std::size_t size = basic == nullptr ? 0 : PyLong_AsSize_t(basic);
  Py_XDECREF(basic);
  for (std::size_t at = sizeof(PyObject); at + sizeof(void*) <= size; at += sizeof(void*)) {
    if (*reinterpret_cast<void**>(reinterpret_cast<char*>(tensor) + at) == impl) {
      return at;
    }
  }
  return 0;
}

template <class Object>
void replace(Object** place, PyObject* object) {
  PyObject* before = reinterpret_cast<PyObject*>(*place);
  *place = reinterpret_cast<Object*>(Py_NewRef(object));
  Py_XDECREF(before);
}

// set_torch(Tensor, Parameter, Tensor.data_ptr, tensor, tensor._cdata, addresses or None) -> bool: whether tensors can be read
// without calling Python
PyObject* set_torch(PyObject*, PyObject* args) {
  PyObject *tensor = nullptr, *parameter = nullptr, *method = nullptr, *sample = nullptr, *addresses = nullptr;
  unsigned long long impl = 0;
  if (!PyArg_ParseTuple(args, "O!O!OOKO", &PyType_Type, &tensor, &PyType_Type, &parameter, &method, &sample, &impl,
                        &addresses)) {
    return nullptr;
  }
  TensorFunctions functions{};
  if (addresses != Py_None && !copy_functions(addresses, &functions)) {
    return nullptr;
  }
  replace(&torch.tensor, tensor);
  replace(&torch.parameter, parameter);
  replace(&torch.method, method);
  static_cast<TensorFunctions&>(torch) = functions;
  torch.offset = addresses == Py_None ? 0 : find_offset(sample, reinterpret_cast<void*>(impl));
  return PyErr_Occurred() != nullptr ? nullptr : PyBool_FromLong(torch.offset != 0);
}

// facts(tensor) -> (address, dtype, device type, device index), as torch's C functions number them
PyObject* facts(PyObject*, PyObject* o) {
  if (torch.offset == 0 || !PyObject_TypeCheck(o, torch.tensor)) {
    return PyErr_Format(PyExc_TypeError, "not a tensor that can be read: %R", Py_TYPE(o));
  }
  Facts f{};
  if (!read_facts(o, &f) || torch.data_ptr(handle_of(o), &f.data) != 0) {
    return PyErr_Format(PyExc_RuntimeError, "torch's C functions refused the tensor");
  }
  return Py_BuildValue("Kiii", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(f.data)), f.dtype,
                       f.device_type, f.device_index);
}

// Whether the storage under a tensor holds all of its elements. What torch's functions do not read is not judged.
bool is_within_storage(PyObject* o) {
  if (!PyType_IsSubtype(Py_TYPE(o), torch.tensor)) {
    return true;
  }
  void* handle = handle_of(o);
  std::int64_t rank = 0, last = 0, held = 0, step = 0, *sizes = nullptr, *strides = nullptr;
  std::int32_t dtype = 0;
  if (torch.storage_size(handle, &held) != 0 || torch.storage_offset(handle, &last) != 0 || torch.dim(handle, &rank) != 0 ||
      torch.sizes(handle, &sizes) != 0 || torch.strides(handle, &strides) != 0 || torch.dtype(handle, &dtype) != 0) {
    return true;
  }
  for (std::int64_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0) {
      return true;
    }
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) || __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return last >= 0 && last < held / static_cast<std::int64_t>(torch.element_size(dtype));
}

// holds(tensor, ...) -> bool: whether each storage holds all elements of its tensor
PyObject* holds(PyObject*, PyObject* const* args, Py_ssize_t count) {
  bool all = true;
  for (Py_ssize_t i = 0; i < count && all; ++i) {
    all = is_within_storage(args[i]);
  }
  return PyBool_FromLong(all);
}

PyMethodDef kHolds = {"holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(holds)), METH_FASTCALL,
                      "Whether the storage under each of these tensors holds all of its elements."};

// `holds` where tensors can be read without calling Python, else None.
PyObject* storage_check(PyObject*, PyObject*) {
  return torch.offset == 0 ? Py_NewRef(Py_None) : PyCFunction_NewEx(&kHolds, nullptr, nullptr);
}

PyObject* get_holds(PyObject*, void*) { return storage_check(nullptr, nullptr); }

// --- kernels ------------------------------------------------------------------------------------------------------

enum class Kind : std::uint8_t { Pointer, Signed, Unsigned, F16, BF16, F32, F64, Descriptor };

constexpr int kMaxRank = 5, kMapWords = 16, kMapAlign = 8;  // words of 8 bytes

// How a tensor descriptor is passed: a map for the copy engine, or address, sizes and strides; then sizes and strides.
struct Descriptor {
  std::int32_t rank, with_map, flags, swizzle, element_size, element_type, padded;
  unsigned box[kMaxRank];  // innermost first
};

struct Slot {
  std::int32_t position;  // among the arguments of a launch
  std::int32_t dtype;     // of a tensor, as torch numbers it; -1: not compared
  std::int32_t value;     // where its (first) value is among a launch's values
  Kind kind;
  std::uint8_t bits;
  bool divisible;  // a multiple of 16, which the compiled code relies on
  Descriptor descriptor;
};

enum class Op : std::int64_t {
  Const, Number, Add, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Where, Eq, Ne, Lt, Le, Gt, Ge, And, Or, Not, Axis
};

struct Step {
  Op op;
  std::int64_t operand;
};

constexpr int kStack = 32;
constexpr std::int32_t kAnyDtype = -1;
constexpr long long kAlign = 16;

struct Hooks {
  PyObject_HEAD
  PyObject* enter;
  PyObject* exit;
};

// Where a device's current stream comes from: torch's C function, else a Python function, else there is the default one only.
struct StreamSource {
  std::int32_t (*native)(std::int32_t, void**);
  std::int32_t index;
  PyObject *function, *argument;

  bool set(unsigned long long address, PyObject* python, std::int32_t device) {
    native = reinterpret_cast<std::int32_t (*)(std::int32_t, void**)>(static_cast<std::uintptr_t>(address));
    index = device;
    function = Py_NewRef(python);
    argument = PyLong_FromLong(device);
    return argument != nullptr;
  }
  bool current(void** stream) const {
    if (native != nullptr) [[likely]] {
      if (native(index, stream) == 0) [[likely]] {
        return true;
      }
      PyErr_SetString(PyExc_RuntimeError, "torch gives no current stream");
      return false;
    }
    if (function == Py_None) {
      *stream = nullptr;
      return true;
    }
    PyObject* number = call_with(function, argument);
    *stream = number == nullptr ? nullptr : PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    return PyErr_Occurred() == nullptr;
  }
  bool is(const StreamSource& other) const {
    return native == other.native && function == other.function && index == other.index;
  }
};

struct Kernel {
  PyObject_HEAD
  Vectorcall call;
  const Api* api;
  void* function;
  void* context;
  Slot* slots;
  Step* steps;           // null: the grid is a Python function
  std::int32_t* extras;  // positions of the numbers that only the grid needs
  std::int32_t* params;  // for each of the kernel's own parameters, two for scratch memory among them: its value
  std::int32_t param_count, value_count;
  std::int32_t slot_count, step_count, extra_count, argument_count;
  std::int32_t device_type, device_index;
  std::int32_t num_ctas;  // blocks of a program: its cluster
  bool check;
  Config config;
  Attribute attributes[4];
  std::int64_t scratch[2], profile[2];  // bytes for a program of the grid, alignment
  StreamSource stream;
  PyObject *name, *explain, *grid, *allocate, *driver;
  Hooks* hooks;
  void* module;
  int registers, local_bytes, shared_static;
};

[[gnu::cold]] bool explain(const Kernel& k, const char* reason, Py_ssize_t position, PyObject* value) {
  PyErr_Clear();
  PyObject* done = PyObject_CallFunction(k.explain, "snO", reason, position, value);
  if (done != nullptr) {
    Py_DECREF(done);
    PyErr_Format(PyExc_SystemError, "nobody explained '%s'", reason);
  }
  return false;
}

[[gnu::cold]] bool driver_failed(const Kernel& k, const char* what, Result status) {
  const char *name = nullptr, *text = nullptr;
  k.api->GetErrorName(status, &name);
  k.api->GetErrorString(status, &text);
  PyObject* value = Py_BuildValue("siss", what, status, name ? name : "unknown", text ? text : "");
  if (value != nullptr) {
    explain(k, "driver", status, value);
    Py_DECREF(value);
  }
  return false;
}

// A null pointer is right for a tensor without elements only.
[[gnu::cold]] bool is_empty(PyObject* tensor) {
  PyObject* count = PyObject_CallMethod(tensor, "numel", nullptr);
  const bool empty = count != nullptr && PyObject_IsTrue(count) == 0;
  Py_XDECREF(count);
  return empty;
}

// A tensor of a subclass, of another device, without memory, or no tensor at all.
[[gnu::noinline]] bool slow_address(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* out) {
  if (!PyObject_TypeCheck(o, torch.tensor)) {
    return explain(k, "tensor", slot.position, o);
  }
  PyObject* number = call_with(torch.method, o);
  if (number == nullptr) {
    return explain(k, "memory", slot.position, o);
  }
  *out = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  if (PyErr_Occurred() != nullptr) {
    return false;
  }
  Facts f{};
  if (torch.offset == 0 || !k.check) {
    return true;
  }
  if (!read_facts(o, &f)) {
    return explain(k, "memory", slot.position, o);
  }
  if (slot.dtype != kAnyDtype && f.dtype != slot.dtype) {
    return explain(k, "dtype", slot.position, o);
  }
  if (f.device_type == k.device_type && f.device_index == k.device_index) {
    return *out != 0 || is_empty(o) || explain(k, "memory", slot.position, o);
  }
  // Pinned memory of the host has an address on the device.
  std::uint64_t mapped = 0;
  if (f.device_type == 0 && *out != 0 && k.api->PointerGetAttribute(&mapped, kPointerDevice, *out) == 0 && mapped != 0) {
    *out = mapped;
    return true;
  }
  return explain(k, "device", slot.position, o);
}

inline bool fits(const Kernel& k, const Slot& slot, const Facts& f) {
  return (f.dtype == slot.dtype || slot.dtype == kAnyDtype) && f.device_type == k.device_type &&
         f.device_index == k.device_index;
}

// `known`: where a call that makes several launches keeps what it has read of this tensor; null: nowhere.
inline bool address(const Kernel& k, const Slot& slot, PyObject* o, Facts* known, std::uint64_t* out) {
  if (known != nullptr && known->data != nullptr && fits(k, slot, *known)) {
    *out = reinterpret_cast<std::uintptr_t>(known->data);
    return true;
  }
  const bool exact = Py_TYPE(o) == torch.tensor || Py_TYPE(o) == torch.parameter;
  if (!exact || torch.offset == 0) [[unlikely]] {
    return slow_address(k, slot, o, out);
  }
  Facts f;
  if (torch.data_ptr(handle_of(o), &f.data) != 0 || f.data == nullptr) [[unlikely]] {
    return slow_address(k, slot, o, out);
  }
  if (k.check || known != nullptr) {
    if (!read_facts(o, &f) || (k.check && !fits(k, slot, f))) [[unlikely]] {
      return slow_address(k, slot, o, out);
    }
    if (known != nullptr) {
      *known = f;
    }
  }
  *out = reinterpret_cast<std::uintptr_t>(f.data);
  return true;
}

// The copy engine's own description of a tensor, in place.
bool encode_map(const Kernel& k, const Descriptor& d, std::uint64_t base, const std::int64_t* sizes,
                const std::int64_t* strides, std::uint64_t* map) {
  std::uint64_t shape[kMaxRank], bytes[kMaxRank];
  const unsigned ones[kMaxRank] = {1, 1, 1, 1, 1};
  const int rank = d.rank;
  std::uint64_t last = 0;  // byte offset of the last element
  for (int i = 0; i < rank; ++i) {
    const int from = rank - 1 - i;  // the engine counts dimensions from the innermost
    shape[i] = static_cast<std::uint64_t>(sizes[from]) * (d.padded != 0 && i == 0 ? 2 : 1);
    if (i > 0) {
      bytes[i - 1] = static_cast<std::uint64_t>(strides[from]) * static_cast<std::uint64_t>(d.element_size);
    }
    if (shape[i] == 0) {  // nothing can be read through it
      std::memset(map, 0, kMapWords * sizeof(*map));
      return true;
    }
    last += (shape[i] - 1) * (i == 0 ? static_cast<std::uint64_t>(d.element_size) : bytes[i - 1]);
  }
  bytes[rank - 1] = shape[rank - 1] * (rank == 1 ? static_cast<std::uint64_t>(d.element_size) : bytes[rank - 2]);
  constexpr int kNoInterleave = 0, kPromote128 = 2, kFillZero = 0;
  if (const Result status =
          k.api->TensorMapEncodeTiled(map, d.element_type, static_cast<unsigned>(rank), reinterpret_cast<void*>(base), shape,
                                      bytes, d.box, ones, kNoInterleave, d.swizzle, kPromote128, kFillZero)) {
    return driver_failed(k, "describe a tensor", status);
  }
  int version = 0;
  // Drivers up to 13.1 set a bit that is wrong for tensors below 128 KiB, as CUTLASS and Triton know.
  if (k.api->DriverGetVersion(&version) == 0 && version <= 13010 && last + 1 < 128 * 1024) {
    map[1] &= ~(std::uint64_t{1} << 21);
  }
  return true;
}

bool describe_tensor(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* value) {
  const Descriptor& d = slot.descriptor;
  std::uint64_t base = 0;
  if (!address(k, slot, o, nullptr, &base)) {
    return false;
  }
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (torch.offset == 0 || torch.dim(handle_of(o), &rank) != 0 || torch.sizes(handle_of(o), &sizes) != 0 ||
      torch.strides(handle_of(o), &strides) != 0) {
    return explain(k, "memory", slot.position, o);
  }
  if (rank != d.rank || strides[rank - 1] != 1) {
    return explain(k, "layout", slot.position, o);
  }
  if (d.with_map != 0) {
    if (!encode_map(k, d, base, sizes, strides, value)) {
      return false;
    }
    value += kMapWords;
  } else {
    *value++ = base;
    for (int i = 0; i < 2 * rank; ++i) {
      *value++ = static_cast<std::uint64_t>(i < rank ? sizes[i] : strides[i - rank]);
    }
    for (int i = 0; i < d.flags; ++i) {
      *value++ = 0;  // padding with zeros, no rounding
    }
  }
  for (int i = 0; i < 2 * rank; ++i) {
    *value++ = static_cast<std::uint64_t>(i < rank ? sizes[i] : strides[i - rank]);
  }
  return true;
}

// An int, or what says that it is one; a tensor is a mistake in the order of arguments, not a number.
bool whole(const Kernel& k, Py_ssize_t position, PyObject* o, int bits, bool is_signed, std::int64_t* out) {
  if (Py_TYPE(o) != &PyLong_Type && !PyLong_Check(o)) [[unlikely]] {
    if (PyObject_TypeCheck(o, torch.tensor) || !PyIndex_Check(o)) {
      return explain(k, "int", position, o);
    }
    PyObject* number = PyNumber_Index(o);
    const bool fine = number != nullptr && whole(k, position, number, bits, is_signed, out);
    Py_XDECREF(number);
    return fine;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow > 0 && !is_signed && bits == 64) {
    *out = static_cast<std::int64_t>(PyLong_AsUnsignedLongLong(o));
    return PyErr_Occurred() == nullptr || explain(k, "range", position, o);
  }
  *out = value;
  const long long top = bits == 64 ? INT64_MAX : (1LL << (is_signed ? bits - 1 : bits)) - 1;
  const long long bottom = !is_signed ? 0 : -top - 1;
  if (overflow != 0 || value < bottom || value > top) [[unlikely]] {
    return explain(k, "range", position, o);
  }
  return true;
}

std::uint64_t bfloat16(double value) {
  const float single = static_cast<float>(value);
  std::uint32_t word = 0;
  std::memcpy(&word, &single, sizeof(word));
  if (single != single) {
    return (word >> 16) | 0x40;
  }
  return (word + 0x7fff + ((word >> 16) & 1)) >> 16;  // to nearest, ties to even
}

// An IEEE 754 binary16, rounded to nearest, ties to even; false where it would be infinite and the value is not.
bool half(double value, std::uint64_t* out) {
  constexpr int kDropped = 52 - 10;  // bits of the fraction that it has no room for
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  const std::uint64_t sign = word >> 63 << 15, fraction = word & ((std::uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(word >> 52 & 0x7ff) - 1023;
  if (exponent == 1024) {
    *out = sign | (fraction != 0 ? 0x7e00 : 0x7c00);
    return true;
  }
  if (exponent < -25) {
    *out = sign;
    return true;
  }
  // Below 2**-14 the implicit one is shifted into the fraction.
  const int shift = kDropped + (exponent < -14 ? -14 - exponent : 0);
  const std::uint64_t whole = exponent < -14 ? fraction | std::uint64_t{1} << 52
                                             : fraction + (static_cast<std::uint64_t>(exponent + 15) << 52);
  const std::uint64_t rest = whole & ((std::uint64_t{1} << shift) - 1), middle = std::uint64_t{1} << (shift - 1);
  const std::uint64_t kept = whole >> shift;
  const std::uint64_t rounded = kept + (rest > middle || (rest == middle && (kept & 1) != 0) ? 1 : 0);
  *out = sign | rounded;
  return rounded < 0x7c00;
}

bool real(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* out) {
  if (!PyFloat_CheckExact(o) && PyObject_TypeCheck(o, torch.tensor)) [[unlikely]] {
    return explain(k, "float", slot.position, o);
  }
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred() != nullptr) [[unlikely]] {
    return explain(k, "float", slot.position, o);
  }
  *out = 0;
  const float single = static_cast<float>(value);
  switch (slot.kind) {
    case Kind::F64:
      std::memcpy(out, &value, sizeof(value));
      return true;
    case Kind::F32:
      std::memcpy(out, &single, sizeof(single));
      return true;
    case Kind::BF16:
      *out = bfloat16(value);
      return true;
    default:
      return half(value, out) || explain(k, "range", slot.position, o);
  }
}

// --- grids --------------------------------------------------------------------------------------------------------

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Gives false where int64 does not suffice or something is divided by zero: Python then computes it, or says why not.
bool run_steps(const Kernel& k, const std::int64_t* numbers, std::int64_t* axes) {
  std::int64_t stack[kStack];
  int top = 0, axis = 0;
  for (std::int32_t i = 0; i < k.step_count; ++i) {
    const Step step = k.steps[i];
    if (step.op == Op::Const || step.op == Op::Number) {
      stack[top++] = step.op == Op::Const ? step.operand : numbers[step.operand];
      continue;
    }
    if (step.op == Op::Axis) {
      axes[axis++] = stack[--top];
      continue;
    }
    if (step.op == Op::Not) {
      stack[top - 1] = stack[top - 1] == 0;
      continue;
    }
    if (step.op == Op::Where) {
      top -= 2;
      stack[top - 1] = stack[top - 1] != 0 ? stack[top] : stack[top + 1];
      continue;
    }
    const std::int64_t b = stack[--top];
    std::int64_t& a = stack[top - 1];
    switch (step.op) {
      case Op::Add: if (__builtin_add_overflow(a, b, &a)) return false; break;
      case Op::Mul: if (__builtin_mul_overflow(a, b, &a)) return false; break;
      case Op::FloorDiv:
      case Op::CeilDiv:
      case Op::Mod:
        if (b == 0 || b == -1 || a == INT64_MIN) return false;
        a = step.op == Op::FloorDiv ? floor_div(a, b)
            : step.op == Op::Mod    ? a - b * floor_div(a, b)
                                    : -floor_div(-a, b);
        break;
      case Op::Min: a = b < a ? b : a; break;
      case Op::Max: a = b > a ? b : a; break;
      case Op::Eq: a = a == b; break;
      case Op::Ne: a = a != b; break;
      case Op::Lt: a = a < b; break;
      case Op::Le: a = a <= b; break;
      case Op::Gt: a = a > b; break;
      case Op::Ge: a = a >= b; break;
      case Op::And: a = a != 0 && b != 0; break;
      case Op::Or: a = a != 0 || b != 0; break;
      default: return false;
    }
  }
  return true;
}

[[gnu::noinline]] bool python_grid(const Kernel& k, PyObject* const* args, std::int64_t* axes) {
  PyObject* given = PyTuple_New(k.argument_count);
  for (Py_ssize_t i = 0; given != nullptr && i < k.argument_count; ++i) {
    PyTuple_SetItem(given, i, Py_NewRef(args[i]));
  }
  PyObject* sizes = given == nullptr ? nullptr : PyObject_CallObject(k.grid, given);
  Py_XDECREF(given);
  long long size[3] = {0, 0, 0};
  const bool fine = sizes != nullptr && PyArg_ParseTuple(sizes, "LLL", &size[0], &size[1], &size[2]);
  Py_XDECREF(sizes);
  for (int i = 0; i < 3; ++i) {
    axes[i] = size[i];
  }
  return fine;
}

bool make_grid(const Kernel& k, PyObject* const* args, const std::int64_t* numbers, unsigned* grid) {
  std::int64_t axes[3];
  if (k.steps == nullptr || !run_steps(k, numbers, axes)) [[unlikely]] {
    if (!python_grid(k, args, axes)) {
      return false;
    }
  }
  if (axes[0] < 0 || axes[0] > INT32_MAX / k.num_ctas || axes[1] < 0 || axes[1] > 65535 || axes[2] < 0 || axes[2] > 65535) {
    PyObject* sizes = Py_BuildValue("LLL", static_cast<long long>(axes[0]), static_cast<long long>(axes[1]),
                                    static_cast<long long>(axes[2]));
    if (sizes != nullptr) {
      explain(k, "grid", 0, sizes);
      Py_DECREF(sizes);
    }
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    grid[i] = static_cast<unsigned>(axes[i]);
  }
  return true;
}

// --- launching ----------------------------------------------------------------------------------------------------

// Memory for the kernel's own use; it may be given back once the launch is on its stream.
[[gnu::noinline]] bool scratch(const Kernel& k, const unsigned* grid, const std::int64_t* wanted, void* stream,
                               PyObject** owner, std::uint64_t* out) {
  const long long programs = static_cast<long long>(grid[0]) * grid[1] * grid[2];
  *owner = PyObject_CallFunction(k.allocate, "LLK", static_cast<long long>(wanted[0]) * programs,
                                 static_cast<long long>(wanted[1]),
                                 static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(stream)));
  PyObject* number = *owner == nullptr ? nullptr : call_with(torch.method, *owner);
  *out = number == nullptr ? 0 : PyLong_AsUnsignedLongLong(number);
  Py_XDECREF(number);
  return PyErr_Occurred() == nullptr;
}

bool call_hook(const Kernel& k, PyObject* hook, const unsigned* grid, void* stream) {
  if (hook == nullptr || hook == Py_None) {
    return true;
  }
  PyObject* done = PyObject_CallFunction(
      hook, "O(III)K", &k, grid[0], grid[1], grid[2],
      static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(stream)));
  Py_XDECREF(done);
  return done != nullptr;
}

inline Result raw_launch(const Kernel& k, const Config& c, void** params) {
  return c.count == 0 ? k.api->LaunchKernel(k.function, c.grid[0], c.grid[1], c.grid[2], c.block[0], 1, 1, c.shared,
                                            c.stream, params, nullptr)
                      : k.api->LaunchKernelEx(&c, k.function, params, nullptr);
}

// What `run` gives with a context that is current meanwhile, or why that cannot be.
template <class Run>
Result in_context(const Api& api, void* context, Run run) {
  Result status = api.CtxPushCurrent(context);
  if (status == 0) {
    status = run();
    void* popped = nullptr;
    api.CtxPopCurrent(&popped);
  }
  return status;
}

// Launches, and again in the context where a thread has not used the device yet, or is busy with another one. Called without the lock of
// the interpreter: the driver waits while its queue is full, and what it waits for may need Python.
template <class Launch>
Result launch_anywhere(const Api& api, void* context, Launch launch) {
  const Result status = launch();
  if (status != kInvalidContext && status != kInvalidHandle) [[likely]] {
    return status;
  }
  Result again = status;
  in_context(api, context, [&] { return again = launch(); });
  return again;
}

Result launch_anywhere(const Kernel& k, const Config& config, void** params) {
  return launch_anywhere(*k.api, k.context, [&] { return raw_launch(k, config, params); });
}

// A launch whose arguments are read: its grid, its stream, and room for its values and for pointers to its parameters.
struct Ready {
  unsigned grid[3];
  void* stream;
  std::uint64_t* values;
  void** params;

  bool is_empty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};

// Where a launch's values begin: maps stand at multiples of 64 bytes.
constexpr std::size_t kLine = 64;

std::size_t room_of(const Kernel& k) {
  const std::size_t words = static_cast<std::size_t>(k.value_count) + static_cast<std::size_t>(k.param_count);
  return (words * sizeof(std::uint64_t) + kLine - 1) & ~(kLine - 1);
}

void* aligned(void* room) {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(room) + kLine - 1) & ~(kLine - 1));
}

void place(const Kernel& k, void* room, Ready* ready) {
  ready->values = static_cast<std::uint64_t*>(room);
  ready->params = reinterpret_cast<void**>(ready->values + k.value_count);
  for (int i = 0; i < k.param_count; ++i) {
    ready->params[i] = &ready->values[k.params[i]];
  }
  ready->values[k.value_count - 2] = ready->values[k.value_count - 1] = 0;
}

Config config_of(const Kernel& k, const Ready& ready) {
  Config config = k.config;
  config.grid[0] = ready.grid[0] * static_cast<unsigned>(k.num_ctas);
  config.grid[1] = ready.grid[1];
  config.grid[2] = ready.grid[2];
  config.stream = ready.stream;
  return config;
}

bool launch_ready(const Kernel& k, const Ready& ready) {
  PyObject* owners[2] = {nullptr, nullptr};
  std::uint64_t* own = ready.values + k.value_count - 2;
  bool fine = (k.scratch[0] == 0 || scratch(k, ready.grid, k.scratch, ready.stream, &owners[0], &own[0])) &&
              (k.profile[0] == 0 || scratch(k, ready.grid, k.profile, ready.stream, &owners[1], &own[1]));
  fine = fine && call_hook(k, k.hooks->enter, ready.grid, ready.stream);
  if (fine) {
    const Config config = config_of(k, ready);
    Result status = 0;
    Py_BEGIN_ALLOW_THREADS
    status = launch_anywhere(k, config, ready.params);
    Py_END_ALLOW_THREADS
    fine = status == 0 ? call_hook(k, k.hooks->exit, ready.grid, ready.stream) : driver_failed(k, "launch", status);
  }
  Py_XDECREF(owners[0]);
  Py_XDECREF(owners[1]);
  return fine;
}

// Reads the arguments of a launch. `known`: for each of them where `address` keeps what it reads; null: nowhere. Not inlined: it
// takes memory of the stack, and a sequence calls it in a loop.
[[gnu::noinline]] bool read_arguments(const Kernel& k, PyObject* const* args, Facts* const* known, Ready* ready) {
  if (k.function == nullptr) [[unlikely]] {
    return explain(k, "unloaded", 0, Py_None);
  }
  const int n = k.slot_count;
  std::int64_t* numbers =
      static_cast<std::int64_t*>(alloca(static_cast<std::size_t>(k.argument_count + 1) * sizeof(std::int64_t)));
  for (int i = 0; i < n; ++i) {
    const Slot& slot = k.slots[i];
    PyObject* o = args[slot.position];
    std::uint64_t* value = &ready->values[slot.value];
    if (slot.kind == Kind::Pointer) [[likely]] {
      if (!address(k, slot, o, known == nullptr ? nullptr : known[slot.position], value)) [[unlikely]] {
        return false;
      }
    } else if (slot.kind == Kind::Descriptor) {
      if (!describe_tensor(k, slot, o, value)) [[unlikely]] {
        return false;
      }
    } else if (slot.kind <= Kind::Unsigned) {
      std::int64_t& number = numbers[slot.position];
      if (!whole(k, slot.position, o, slot.bits, slot.kind == Kind::Signed, &number)) [[unlikely]] {
        return false;
      }
      *value = static_cast<std::uint64_t>(number);
    } else if (!real(k, slot, o, value)) [[unlikely]] {
      return false;
    }
    if (slot.divisible && *value % kAlign != 0 && k.check) [[unlikely]] {
      return explain(k, "divisible", slot.position, o);
    }
  }
  for (int i = 0; i < k.extra_count; ++i) {
    if (!whole(k, k.extras[i], args[k.extras[i]], 64, true, &numbers[k.extras[i]])) [[unlikely]] {
      return false;
    }
  }
  return make_grid(k, args, numbers, ready->grid);
}

// `stream`: null looks the current one up.
bool launch(const Kernel& k, PyObject* const* args, void* const* stream) {
  Ready ready;
  place(k, aligned(alloca(room_of(k) + kLine)), &ready);
  if (!read_arguments(k, args, nullptr, &ready)) [[unlikely]] {
    return false;
  }
  if (ready.is_empty()) [[unlikely]] {
    return true;
  }
  if (stream != nullptr) {
    ready.stream = *stream;
  } else if (!k.stream.current(&ready.stream)) [[unlikely]] {
    return false;
  }
  return launch_ready(k, ready);
}

// The one keyword: `stream`, a raw stream as an int.
bool given_stream(PyObject* kwnames, PyObject* const* values, void** stream) {
  if (PyTuple_Size(kwnames) != 1 ||
      PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, 0), "stream") != 0) {
    PyErr_SetString(PyExc_TypeError, "the only keyword of a launch is `stream`");
    return false;
  }
  *stream = PyLong_AsVoidPtr(values[0]);
  return PyErr_Occurred() == nullptr;
}

PyObject* kernel_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* kwnames) {
  const Kernel& k = *reinterpret_cast<Kernel*>(self);
  const Py_ssize_t count = count_of(flags);
  void* stream = nullptr;
  const bool given = kwnames != nullptr && PyTuple_Size(kwnames) != 0;
  if (given && !given_stream(kwnames, args + count, &stream)) [[unlikely]] {
    return nullptr;
  }
  if (count != k.argument_count) [[unlikely]] {
    explain(k, "count", count, Py_None);
    return nullptr;
  }
  if (!launch(k, args, given ? &stream : nullptr)) [[unlikely]] {
    return nullptr;
  }
  Py_RETURN_NONE;
}

// --- loading ------------------------------------------------------------------------------------------------------

// Types that are made at run time are counted by their objects.
void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

void kernel_dealloc(PyObject* self) {
  Kernel* k = reinterpret_cast<Kernel*>(self);
  // The module stays loaded: work that is on a stream may still run it.
  PyMem_Free(k->slots);
  PyMem_Free(k->params);
  PyMem_Free(k->steps);
  PyMem_Free(k->extras);
  PyObject* const owned[] = {k->stream.function, k->stream.argument, k->name,   k->explain,
                             k->grid,            k->allocate,        k->driver, reinterpret_cast<PyObject*>(k->hooks)};
  for (PyObject* o : owned) {
    Py_XDECREF(o);
  }
  free_object(self);
}

// unload(): takes the kernel's code off the device. Its launches must have finished.
PyObject* kernel_unload(PyObject* self, PyObject*) {
  Kernel& k = *reinterpret_cast<Kernel*>(self);
  if (k.module != nullptr && k.api->CtxPushCurrent(k.context) == 0) {
    const Result status = k.api->ModuleUnload(k.module);
    void* popped = nullptr;
    k.api->CtxPopCurrent(&popped);
    k.module = k.function = nullptr;
    if (status != 0) {
      driver_failed(k, "unload", status);
      return nullptr;
    }
  }
  Py_RETURN_NONE;
}

// Copies a bytes object of packed records; an empty one gives null.
template <class Record>
bool copy_records(PyObject* bytes, Record** records, std::int32_t* count) {
  const Py_ssize_t size = PyBytes_Size(bytes);
  *count = static_cast<std::int32_t>(size / static_cast<Py_ssize_t>(sizeof(Record)));
  *records = nullptr;
  if (size == 0) {
    return true;
  }
  *records = static_cast<Record*>(PyMem_Malloc(static_cast<std::size_t>(size)));
  if (*records == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  std::memcpy(*records, PyBytes_AsString(bytes), static_cast<std::size_t>(size));
  return true;
}

bool parse_descriptor(PyObject* item, Descriptor& d) {
  PyObject* box = nullptr;
  if (!PyArg_ParseTuple(item, "iiiiiiiO!", &d.rank, &d.with_map, &d.flags, &d.swizzle, &d.element_size, &d.element_type,
                        &d.padded, &PyTuple_Type, &box)) {
    return false;
  }
  if (d.rank < 1 || d.rank > kMaxRank || (d.with_map != 0 && PyTuple_Size(box) != d.rank)) {
    PyErr_SetString(PyExc_ValueError, "a descriptor of a rank that devices do not have");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(box); ++i) {
    d.box[PyTuple_Size(box) - 1 - i] = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GetItem(box, i)));
  }
  return PyErr_Occurred() == nullptr;
}

// Gives a slot its values, and the kernel the parameters that are made of them.
void place_slot(Kernel& k, Slot& slot) {
  const Descriptor& d = slot.descriptor;
  int parts = 1;
  if (slot.kind == Kind::Descriptor) {
    parts = d.with_map != 0 ? 2 * d.rank : 1 + 4 * d.rank + d.flags;
    if (d.with_map != 0) {
      k.value_count = (k.value_count + kMapAlign - 1) / kMapAlign * kMapAlign;
      slot.value = k.params[k.param_count++] = k.value_count;
      k.value_count += kMapWords;
    }
  }
  if (slot.kind != Kind::Descriptor || d.with_map == 0) {
    slot.value = k.value_count;
  }
  for (int i = 0; i < parts; ++i) {
    k.params[k.param_count++] = k.value_count++;
  }
}

bool add_slots(Kernel& k, PyObject* slots) {
  constexpr std::size_t kMostParams = 1 + 4 * kMaxRank + 8;
  k.slot_count = static_cast<std::int32_t>(PyTuple_Size(slots));
  const std::size_t count = static_cast<std::size_t>(k.slot_count) + 1;
  k.slots = static_cast<Slot*>(PyMem_Calloc(count, sizeof(Slot)));
  k.params = static_cast<std::int32_t*>(PyMem_Calloc(count * kMostParams, sizeof(std::int32_t)));
  if (k.slots == nullptr || k.params == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  for (std::int32_t i = 0; i < k.slot_count; ++i) {
    Slot& slot = k.slots[i];
    int kind = 0, bits = 0, divisible = 0;
    PyObject* descriptor = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GetItem(slots, i), "iiiipO", &slot.position, &kind, &bits, &slot.dtype, &divisible,
                          &descriptor)) {
      return false;
    }
    slot.kind = static_cast<Kind>(kind);
    slot.bits = static_cast<std::uint8_t>(bits);
    slot.divisible = divisible != 0;
    if (slot.position < 0 || slot.position >= k.argument_count || kind < 0 || kind > static_cast<int>(Kind::Descriptor)) {
      PyErr_SetString(PyExc_ValueError, "a slot of no argument");
      return false;
    }
    if (slot.kind == Kind::Descriptor && !parse_descriptor(descriptor, slot.descriptor)) {
      return false;
    }
    place_slot(k, slot);
  }
  for (int i = 0; i < 2; ++i) {  // scratch memory
    k.params[k.param_count++] = k.value_count++;
  }
  return true;
}

void add_attribute(Kernel& k, int id, const Attribute& attribute) {
  Attribute& added = k.attributes[k.config.count++];
  added = attribute;
  added.id = id;
}

void add_attributes(Kernel& k, unsigned num_ctas, bool cooperative, bool dependent) {
  Attribute one{};
  one.value.number = 1;
  if (dependent) {
    add_attribute(k, kProgrammaticSerialization, one);
  }
  if (cooperative) {
    add_attribute(k, kCooperative, one);
  }
  if (num_ctas > 1) {
    Attribute cluster{}, policy{};
    cluster.value.cluster[0] = num_ctas;
    cluster.value.cluster[1] = cluster.value.cluster[2] = 1;
    policy.value.number = kPolicySpread;
    add_attribute(k, kClusterDimension, cluster);
    add_attribute(k, kClusterPolicy, policy);
  }
  k.config.attributes = k.attributes;
}

// Loads the image in the primary context of the device, which torch uses, too.
Result load_module(Kernel& k, const char* image, const char* symbol, unsigned num_ctas, const char** what) {
  const Api& api = *k.api;
  Result status = 0;
  *what = "load";
  if ((status = api.ModuleLoadData(&k.module, image)) != 0) return status;
  *what = "find the function";
  if ((status = api.ModuleGetFunction(&k.function, k.module, symbol)) != 0) return status;
  *what = "ask for attributes";
  if ((status = api.FuncGetAttribute(&k.registers, kFunctionRegisters, k.function)) != 0) return status;
  if ((status = api.FuncGetAttribute(&k.local_bytes, kFunctionLocal, k.function)) != 0) return status;
  if ((status = api.FuncGetAttribute(&k.shared_static, kFunctionShared, k.function)) != 0) return status;
  *what = "reserve shared memory";
  if (k.config.shared > kDefaultShared) {
    if ((status = api.FuncSetCacheConfig(k.function, kPreferShared)) != 0) return status;
    if ((status = api.FuncSetAttribute(k.function, kFunctionMaxShared, static_cast<int>(k.config.shared))) != 0) {
      return status;
    }
  }
  *what = "allow large clusters";
  return num_ctas > kPortableCluster ? api.FuncSetAttribute(k.function, kFunctionAnyCluster, 1) : 0;
}

bool load_image(Kernel& k, int ordinal, const char* image, const char* symbol, unsigned num_ctas) {
  const char* what = "use the device";
  int device = 0;
  Result status = 0;
  Py_BEGIN_ALLOW_THREADS
  status = k.api->DeviceGet(&device, ordinal);
  if (status == 0) status = k.api->DevicePrimaryCtxRetain(&k.context, device);
  if (status == 0) status = k.api->CtxPushCurrent(k.context);
  if (status == 0) {
    status = load_module(k, image, symbol, num_ctas, &what);
    if (status != 0 && k.module != nullptr) {
      k.api->ModuleUnload(k.module);
      k.module = k.function = nullptr;
    }
    void* popped = nullptr;
    k.api->CtxPopCurrent(&popped);
  }
  Py_END_ALLOW_THREADS
  return status == 0 || driver_failed(k, what, status);
}

// Made when the module is.
PyTypeObject *kernel_type, *hooks_type, *sequence_type, *addresses_type, *launches_type, *repeated_type;

// load(driver, image, symbol, name, explain, (ordinal, device type, device index, check),
//      (threads, ctas, shared, cooperative, dependent), ((bytes, align) scratch, (bytes, align) profile),
//      argument count, slots, steps, extras, grid, (address, function) stream, allocate, hooks) -> kernel
PyObject* load(PyObject*, PyObject* args) {
  PyObject *driver, *image, *name, *explain, *slots, *steps, *extras, *grid, *function, *allocate, *hooks;
  const char* symbol;
  unsigned long long current;
  int ordinal, device_type, device_index, check, cooperative, dependent, count;
  unsigned threads, num_ctas, shared;
  long long bytes[2], align[2];
  if (!PyArg_ParseTuple(args, "OSsUO(iiip)(IIIpp)(LLLL)iO!SSO(KO)OO!", &driver, &image, &symbol, &name, &explain,
                        &ordinal, &device_type, &device_index, &check, &threads, &num_ctas, &shared, &cooperative,
                        &dependent, &bytes[0], &align[0], &bytes[1], &align[1], &count, &PyTuple_Type, &slots, &steps,
                        &extras, &grid, &current, &function, &allocate, hooks_type, &hooks)) {
    return nullptr;
  }
  const Api* api = static_cast<const Api*>(PyCapsule_GetPointer(driver, kCapsule));
  PyObject* self = api == nullptr ? nullptr : PyType_GenericAlloc(kernel_type, 0);
  if (self == nullptr) {
    return nullptr;
  }
  Kernel& k = *reinterpret_cast<Kernel*>(self);
  k.call = kernel_call;
  k.api = api;
  k.driver = Py_NewRef(driver);
  k.name = Py_NewRef(name);
  k.explain = Py_NewRef(explain);
  k.grid = Py_NewRef(grid);
  k.allocate = Py_NewRef(allocate);
  k.hooks = reinterpret_cast<Hooks*>(Py_NewRef(hooks));
  k.argument_count = count;
  k.device_type = device_type;
  k.device_index = device_index;
  k.check = check != 0;
  k.num_ctas = static_cast<std::int32_t>(num_ctas);
  k.config.block[0] = threads;
  k.config.block[1] = k.config.block[2] = 1;
  k.config.shared = shared;
  for (int i = 0; i < 2; ++i) {
    (i == 0 ? k.scratch : k.profile)[0] = bytes[i] * num_ctas;
    (i == 0 ? k.scratch : k.profile)[1] = align[i];
  }
  add_attributes(k, num_ctas, cooperative != 0, dependent != 0);
  if (!add_slots(k, slots) || !copy_records(steps, &k.steps, &k.step_count) ||
      !copy_records(extras, &k.extras, &k.extra_count) || !k.stream.set(current, function, k.device_index) ||
      !load_image(k, ordinal, PyBytes_AsString(image), symbol, num_ctas)) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

// --- several launches in one call ---------------------------------------------------------------------------------

struct Sequence {
  PyObject_HEAD
  Vectorcall call;
  PyObject* kernel_tuple;
  PyObject* constant_tuple;
  const Kernel** kernels;
  PyObject** constants;   // values that calls do not give
  std::int32_t* indices;  // for each argument of each kernel in turn: its place among a call's values, then constants
  std::int32_t kernel_count, index_count, value_count;
  std::int32_t widest;
  std::size_t room;  // bytes for the values and parameters of all launches
  bool is_plain;     // no kernel wants scratch memory
};

constexpr std::size_t kStackRoom = 16 * 1024;

// What a call of a sequence works on.
struct Work {
  Ready* ready;
  Facts* facts;          // of each of the call's values, as far as they are tensors that were read
  PyObject** arguments;  // of one launch
  Facts** known;         // of those
};

// The current stream of each kernel's device, looked up once for those that follow one another.
bool streams_of(const Sequence& s, void* const* given, Ready* ready) {
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    const Kernel &k = *s.kernels[i], &before = *s.kernels[i == 0 ? 0 : i - 1];
    const bool same = i > 0 && k.stream.is(before.stream);
    if (given != nullptr || same) {
      ready[i].stream = given != nullptr ? *given : ready[i - 1].stream;
    } else if (!k.stream.current(&ready[i].stream)) [[unlikely]] {
      return false;
    }
  }
  return true;
}

bool read_launches(const Sequence& s, PyObject* const* args, char* room, const Work& work) {
  const std::int32_t* index = s.indices;
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    const Kernel& k = *s.kernels[i];
    for (int j = 0; j < k.argument_count; ++j, ++index) {
      const bool is_given = *index < s.value_count;
      work.arguments[j] = is_given ? args[*index] : s.constants[*index - s.value_count];
      work.known[j] = is_given ? &work.facts[*index] : nullptr;
    }
    place(k, room, &work.ready[i]);
    room += room_of(k);
    if (!read_arguments(k, work.arguments, work.known, &work.ready[i])) [[unlikely]] {
      return false;
    }
  }
  return true;
}

// Neither hooks nor scratch memory, both of which are Python's.
bool is_native(const Sequence& s) {
  bool native = s.is_plain;
  for (std::int32_t i = 0; native && i < s.kernel_count; ++i) {
    const Hooks& h = *s.kernels[i]->hooks;
    native = (h.enter == nullptr || h.enter == Py_None) && (h.exit == nullptr || h.exit == Py_None);
  }
  return native;
}

bool launch_all(const Sequence& s, const Ready* ready) {
  if (!is_native(s)) {
    bool fine = true;
    for (std::int32_t i = 0; fine && i < s.kernel_count; ++i) {
      fine = ready[i].is_empty() || launch_ready(*s.kernels[i], ready[i]);
    }
    return fine;
  }
  Result status = 0;
  std::int32_t i = 0;
  Py_BEGIN_ALLOW_THREADS
  for (; i < s.kernel_count; ++i) {
    const Kernel& k = *s.kernels[i];
    if (!ready[i].is_empty() && (status = launch_anywhere(k, config_of(k, ready[i]), ready[i].params)) != 0) [[unlikely]] {
      break;
    }
  }
  Py_END_ALLOW_THREADS
  return status == 0 || driver_failed(*s.kernels[i], "launch", status);
}

bool run_sequence(const Sequence& s, PyObject* const* args, void* const* stream, char* room) {
  Work work;
  char* at = room + s.room;
  const auto take = [&at](auto** part, std::int32_t count) {
    *part = reinterpret_cast<std::remove_pointer_t<decltype(part)>>(at);
    at += static_cast<std::size_t>(count) * sizeof(**part);
  };
  take(&work.ready, s.kernel_count);
  take(&work.facts, s.value_count);
  take(&work.arguments, s.widest);
  take(&work.known, s.widest);
  std::memset(work.facts, 0, static_cast<std::size_t>(s.value_count) * sizeof(Facts));
  return read_launches(s, args, room, work) && streams_of(s, stream, work.ready) && launch_all(s, work.ready);
}

std::size_t work_of(const Sequence& s) {
  return s.room + static_cast<std::size_t>(s.kernel_count) * sizeof(Ready) +
         static_cast<std::size_t>(s.value_count) * sizeof(Facts) + static_cast<std::size_t>(s.widest) * 2 * sizeof(void*);
}

// All arguments are read before the first launch is made.
PyObject* sequence_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* kwnames) {
  const Sequence& s = *reinterpret_cast<Sequence*>(self);
  const Py_ssize_t count = count_of(flags);
  void* stream = nullptr;
  const bool given = kwnames != nullptr && PyTuple_Size(kwnames) != 0;
  if (given && !given_stream(kwnames, args + count, &stream)) [[unlikely]] {
    return nullptr;
  }
  if (count != s.value_count) [[unlikely]] {
    return PyErr_Format(PyExc_TypeError, "a sequence of launches takes %d values, got %zd", s.value_count, count);
  }
  const std::size_t bytes = work_of(s) + kLine;
  void* heap = bytes <= kStackRoom ? nullptr : PyMem_Malloc(bytes);
  if (heap == nullptr && bytes > kStackRoom) {
    return PyErr_NoMemory();
  }
  char* room = static_cast<char*>(aligned(heap == nullptr ? alloca(bytes) : heap));
  const bool fine = run_sequence(s, args, given ? &stream : nullptr, room);
  PyMem_Free(heap);
  return fine ? Py_NewRef(Py_None) : nullptr;
}

void sequence_dealloc(PyObject* self) {
  Sequence* s = reinterpret_cast<Sequence*>(self);
  PyMem_Free(s->kernels);
  PyMem_Free(s->constants);
  PyMem_Free(s->indices);
  Py_XDECREF(s->kernel_tuple);
  Py_XDECREF(s->constant_tuple);
  free_object(self);
}

// The items of a tuple, which keeps them; null with MemoryError set where there is no memory.
template <class Object>
Object** items_of(PyObject* tuple, std::int32_t* count) {
  *count = static_cast<std::int32_t>(PyTuple_Size(tuple));
  Object** items = static_cast<Object**>(PyMem_Malloc((static_cast<std::size_t>(*count) + 1) * sizeof(Object*)));
  if (items == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  for (std::int32_t i = 0; i < *count; ++i) {
    items[i] = reinterpret_cast<Object*>(PyTuple_GetItem(tuple, i));
  }
  return items;
}

bool check_sequence(Sequence& s) {
  std::int64_t needed = 0;
  s.is_plain = true;
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    PyObject* kernel = PyTuple_GetItem(s.kernel_tuple, i);
    if (Py_TYPE(kernel) != kernel_type) {
      PyErr_Format(PyExc_TypeError, "not a loaded kernel: %R", Py_TYPE(kernel));
      return false;
    }
    const Kernel& k = *s.kernels[i];
    needed += k.argument_count;
    s.widest = k.argument_count > s.widest ? k.argument_count : s.widest;
    s.room += room_of(k);
    s.is_plain = s.is_plain && k.scratch[0] == 0 && k.profile[0] == 0;
  }
  const Py_ssize_t known = s.value_count + PyTuple_Size(s.constant_tuple);
  bool fine = needed == s.index_count;
  for (std::int32_t i = 0; fine && i < s.index_count; ++i) {
    fine = s.indices[i] >= 0 && s.indices[i] < known;
  }
  if (!fine) {
    PyErr_SetString(PyExc_ValueError, "the indices do not fit the kernels' arguments");
  }
  return fine;
}

// sequence(kernels, value count, constants, indices) -> callable
PyObject* sequence(PyObject*, PyObject* args) {
  PyObject *kernels, *constants, *indices;
  int values;
  if (!PyArg_ParseTuple(args, "O!iO!S", &PyTuple_Type, &kernels, &values, &PyTuple_Type, &constants, &indices)) {
    return nullptr;
  }
  PyObject* self = PyType_GenericAlloc(sequence_type, 0);
  if (self == nullptr) {
    return nullptr;
  }
  Sequence& s = *reinterpret_cast<Sequence*>(self);
  s.call = sequence_call;
  s.kernel_tuple = Py_NewRef(kernels);
  s.constant_tuple = Py_NewRef(constants);
  s.value_count = values;
  std::int32_t constant_count = 0;
  s.kernels = items_of<const Kernel>(kernels, &s.kernel_count);
  s.constants = items_of<PyObject>(constants, &constant_count);
  if (s.kernels == nullptr || s.constants == nullptr || !copy_records(indices, &s.indices, &s.index_count) ||
      !check_sequence(s)) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

// --- addresses of many tensors ------------------------------------------------------------------------------------

// Says whether tensors of a list lie at these addresses.
struct Addresses {
  PyObject_HEAD
  Vectorcall call;
  std::int32_t* positions;
  std::uint64_t* wanted;
  std::int32_t count, wanted_count;
};

bool is_plain_tensor(PyObject* o) {
  return (Py_TYPE(o) == torch.tensor || Py_TYPE(o) == torch.parameter) && torch.offset != 0;
}

bool any_address(PyObject* o, std::uint64_t* out) {
  void* data = nullptr;
  if (is_plain_tensor(o) && torch.data_ptr(handle_of(o), &data) == 0) [[likely]] {
    *out = reinterpret_cast<std::uintptr_t>(data);
    return true;
  }
  PyObject* number = call_with(torch.method, o);
  *out = number == nullptr ? 0 : PyLong_AsUnsignedLongLong(number);
  Py_XDECREF(number);
  return PyErr_Occurred() == nullptr;
}

PyObject* addresses_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject*) {
  const Addresses& a = *reinterpret_cast<Addresses*>(self);
  if (count_of(flags) != 1 || !PyList_Check(args[0])) {
    return PyErr_Format(PyExc_TypeError, "one list of tensors is wanted");
  }
  for (std::int32_t i = 0; i < a.count; ++i) {
    PyObject* o = PyList_GetItem(args[0], a.positions[i]);
    std::uint64_t found = 0;
    if (o == nullptr || !any_address(o, &found)) [[unlikely]] {
      return nullptr;
    }
    if (found != a.wanted[i]) {
      return PyBool_FromLong(0);
    }
  }
  return PyBool_FromLong(1);
}

void addresses_dealloc(PyObject* self) {
  Addresses* a = reinterpret_cast<Addresses*>(self);
  PyMem_Free(a->positions);
  PyMem_Free(a->wanted);
  free_object(self);
}

// addresses(positions, addresses) -> callable: 4 bytes a position, 8 an address
PyObject* addresses(PyObject*, PyObject* args) {
  PyObject *positions, *wanted;
  if (!PyArg_ParseTuple(args, "SS", &positions, &wanted)) {
    return nullptr;
  }
  PyObject* self = PyType_GenericAlloc(addresses_type, 0);
  if (self == nullptr) {
    return nullptr;
  }
  Addresses& a = *reinterpret_cast<Addresses*>(self);
  a.call = addresses_call;
  if (!copy_records(positions, &a.positions, &a.count) || !copy_records(wanted, &a.wanted, &a.wanted_count)) {
    Py_DECREF(self);
    return nullptr;
  }
  if (a.count != a.wanted_count) {
    Py_DECREF(self);
    return PyErr_Format(PyExc_ValueError, "as many positions as addresses are wanted");
  }
  return self;
}

#include "queued.h"

#include "moved.h"

#include "repeated.h"

// --- the module ---------------------------------------------------------------------------------------------------

void hooks_dealloc(PyObject* self) {
  Hooks* h = reinterpret_cast<Hooks*>(self);
  Py_XDECREF(h->enter);
  Py_XDECREF(h->exit);
  free_object(self);
}

PyMemberDef kHooksMembers[] = {
    {"enter", T_OBJECT, offsetof(Hooks, enter), 0, "Called before a launch: (kernel, (x, y, z), raw stream)."},
    {"exit", T_OBJECT, offsetof(Hooks, exit), 0, "Called after a launch, with the same."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kKernelMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, call), READONLY, nullptr},
    {"name", T_OBJECT, offsetof(Kernel, name), READONLY, "The kernel's name."},
    {"registers", T_INT, offsetof(Kernel, registers), READONLY, "Registers of a thread, as the driver says."},
    {"local_bytes", T_INT, offsetof(Kernel, local_bytes), READONLY, "Bytes of local memory of a thread (spills)."},
    {"shared_static", T_INT, offsetof(Kernel, shared_static), READONLY, "Bytes of static shared memory of a block."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kSequenceMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Sequence, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kAddressesMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Addresses, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kLaunchesMembers[] = {
    {"count", T_INT, offsetof(Launches, count), READONLY, "How many kernels, fills and copies."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kRepeatedMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Repeated, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef kKernelMethods[] = {
    {"unload", kernel_unload, METH_NOARGS, "Takes the kernel's code off the device; its launches must have finished."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kHoldsMember[] = {
    {"holds", get_holds, nullptr, "What checks the storages of tensors; None where tensors cannot be read.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kRepeatedMethods[] = {
    {"begin", repeated_begin, METH_O, "Records what is queued on a stream."},
    {"end", repeated_end, METH_O, "Ends that and gives what was queued."},
    {"movable", repeated_movable, METH_VARARGS, "What was queued, to be launched for other results."},
    {nullptr, nullptr, 0, nullptr},
};

template <class Function>
void* slot_of(Function* function) { return reinterpret_cast<void*>(function); }

PyType_Slot kHooksSlots[] = {
    {Py_tp_doc, const_cast<char*>("What is called around launches.")},
    {Py_tp_dealloc, slot_of(hooks_dealloc)},
    {Py_tp_new, slot_of(PyType_GenericNew)},
    {Py_tp_members, kHooksMembers},
    {0, nullptr},
};

PyType_Slot kKernelSlots[] = {
    {Py_tp_doc, const_cast<char*>("A kernel on a device, ready to launch.")},
    {Py_tp_dealloc, slot_of(kernel_dealloc)},
    {Py_tp_call, slot_of(PyVectorcall_Call)},
    {Py_tp_members, kKernelMembers},
    {Py_tp_methods, kKernelMethods},
    {Py_tp_getset, kHoldsMember},
    {0, nullptr},
};

PyType_Slot kSequenceSlots[] = {
    {Py_tp_doc, const_cast<char*>("Several launches in one call.")},
    {Py_tp_dealloc, slot_of(sequence_dealloc)},
    {Py_tp_call, slot_of(PyVectorcall_Call)},
    {Py_tp_members, kSequenceMembers},
    {0, nullptr},
};

PyType_Slot kAddressesSlots[] = {
    {Py_tp_doc, const_cast<char*>("Whether tensors of a list lie where they lay.")},
    {Py_tp_dealloc, slot_of(addresses_dealloc)},
    {Py_tp_call, slot_of(PyVectorcall_Call)},
    {Py_tp_members, kAddressesMembers},
    {0, nullptr},
};

PyType_Slot kLaunchesSlots[] = {
    {Py_tp_doc, const_cast<char*>("What a call of an operator queued.")},
    {Py_tp_dealloc, slot_of(launches_dealloc)},
    {Py_tp_members, kLaunchesMembers},
    {0, nullptr},
};

PyType_Slot kRepeatedSlots[] = {
    {Py_tp_doc, const_cast<char*>("An operator whose launches are repeated.")},
    {Py_tp_dealloc, slot_of(repeated_dealloc)},
    {Py_tp_call, slot_of(PyVectorcall_Call)},
    {Py_tp_members, kRepeatedMembers},
    {Py_tp_methods, kRepeatedMethods},
    {0, nullptr},
};

constexpr unsigned kCallable = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | kHaveVectorcall;

PyType_Spec kHooksSpec = {"triton_runtime.Hooks", sizeof(Hooks), 0, Py_TPFLAGS_DEFAULT, kHooksSlots};
PyType_Spec kKernelSpec = {"triton_runtime.Kernel", sizeof(Kernel), 0, kCallable, kKernelSlots};
PyType_Spec kSequenceSpec = {"triton_runtime.Sequence", sizeof(Sequence), 0, kCallable, kSequenceSlots};
PyType_Spec kAddressesSpec = {"triton_runtime.Addresses", sizeof(Addresses), 0, kCallable, kAddressesSlots};
PyType_Spec kLaunchesSpec = {"triton_runtime.Launches", sizeof(Launches), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kLaunchesSlots};
PyType_Spec kRepeatedSpec = {"triton_runtime.RepeatedOperator", sizeof(Repeated), 0, kCallable, kRepeatedSlots};

bool make_type(PyType_Spec& spec, PyTypeObject** type) {
  *type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return *type != nullptr;
}

PyMethodDef kMethods[] = {
    {"open_driver", open_driver, METH_O, "Opens the CUDA driver's library."},
    {"set_torch", set_torch, METH_VARARGS, "Says how tensors are read."},
    {"storage_check", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(storage_check)), METH_NOARGS,
     "What checks the storages of tensors; None where tensors cannot be read."},
    {"facts", facts, METH_O, "Address, dtype, device type and device index of a tensor."},
    {"load", load, METH_VARARGS, "Loads a kernel onto a device."},
    {"sequence", sequence, METH_VARARGS, "Several launches in one call."},
    {"addresses", addresses, METH_VARARGS, "Compares the addresses of many tensors."},
    {"repeated", repeated, METH_VARARGS, "An operator whose launches are repeated."},
    {"new_stream", new_stream, METH_VARARGS, "A stream that nobody else has."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "wrapper_ir_cuda_launcher", nullptr, -1, kMethods};

}  // namespace

PyMODINIT_FUNC PyInit_wrapper_ir_cuda_launcher() {
  if (!make_type(kKernelSpec, &kernel_type) || !make_type(kHooksSpec, &hooks_type) ||
      !make_type(kSequenceSpec, &sequence_type) || !make_type(kAddressesSpec, &addresses_type) ||
      !make_type(kLaunchesSpec, &launches_type) || !make_type(kRepeatedSpec, &repeated_type)) {
    return nullptr;
  }
  PyObject* module = PyModule_Create(&kModule);
  if (module != nullptr && PyModule_AddObjectRef(module, "Hooks", reinterpret_cast<PyObject*>(hooks_type)) < 0) {
    Py_CLEAR(module);
  }
  return module;
}
