// The launcher: turns Python arguments into a flat array of slots and calls a compiled kernel with it.
//
// One extension module serves all kernels. Kernel libraries know nothing of Python: each exports, for each kernel,
// `void symbol(const Slot*)`. The module is built once for a compiler, a Python and a torch.
//
// The GIL stays held during a kernel. Kernels of Inductor are not reentrant: they keep reduction helpers in function
// statics and report integer division by zero through one global pointer, so two threads may not run them at once.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <alloca.h>
#include <c10/core/TensorImpl.h>
#include <dlfcn.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <vector>

namespace {

using c10::ScalarType;

union Slot {
  void* p;
  std::int64_t i;
  double d;
};

using Entry = void (*)(const Slot*);

enum class Kind : unsigned char { Pointer, Signed, Unsigned, Bool, Float };

struct DTypeRow {
  const char* name;
  ScalarType type;
  Kind scalar;  // how a scalar of this type is passed; Pointer: only tensors have it
  unsigned bits;
};

constexpr DTypeRow kDTypes[] = {
    {"f64", ScalarType::Double, Kind::Float, 64},
    {"f32", ScalarType::Float, Kind::Float, 32},
    {"f16", ScalarType::Half, Kind::Pointer, 16},
    {"bf16", ScalarType::BFloat16, Kind::Pointer, 16},
    {"f8e4m3fn", ScalarType::Float8_e4m3fn, Kind::Pointer, 8},
    {"f8e5m2", ScalarType::Float8_e5m2, Kind::Pointer, 8},
    {"f8e4m3fnuz", ScalarType::Float8_e4m3fnuz, Kind::Pointer, 8},
    {"f8e5m2fnuz", ScalarType::Float8_e5m2fnuz, Kind::Pointer, 8},
    {"f8e8m0fnu", ScalarType::Float8_e8m0fnu, Kind::Pointer, 8},
    {"f4e2m1fnx2", ScalarType::Float4_e2m1fn_x2, Kind::Pointer, 8},
    {"i64", ScalarType::Long, Kind::Signed, 64},
    {"i32", ScalarType::Int, Kind::Signed, 32},
    {"i16", ScalarType::Short, Kind::Signed, 16},
    {"i8", ScalarType::Char, Kind::Signed, 8},
    {"u64", ScalarType::UInt64, Kind::Unsigned, 64},
    {"u32", ScalarType::UInt32, Kind::Unsigned, 32},
    {"u16", ScalarType::UInt16, Kind::Unsigned, 16},
    {"u8", ScalarType::Byte, Kind::Unsigned, 8},
    {"bool", ScalarType::Bool, Kind::Bool, 8},
    {"c32", ScalarType::ComplexHalf, Kind::Pointer, 32},
    {"c64", ScalarType::ComplexFloat, Kind::Pointer, 64},
    {"c128", ScalarType::ComplexDouble, Kind::Pointer, 128},
};

const DTypeRow* find_dtype(const char* name) {
  for (const DTypeRow& row : kDTypes) {
    if (std::string(name) == row.name) {
      return &row;
    }
  }
  return nullptr;
}

const char* dtype_name(ScalarType type) {
  for (const DTypeRow& row : kDTypes) {
    if (row.type == type) {
      return row.name;
    }
  }
  return "other";
}

// Set while the module is initialised, read-only afterwards.
struct {
  PyTypeObject* tensor;
  PyTypeObject* parameter;
  PyObject* launch_error;
  PyObject* kernel_failure;  // makes the error of a kernel that failed
  std::size_t impl_offset;  // of the TensorImpl pointer in a Python tensor object
} g;

struct Param {
  std::string name;
  const DTypeRow* dtype;
};

// What a launch reads of a parameter, packed.
struct alignas(8) Slim {
  caffe2::TypeMeta dtype;
  Kind kind;
  bool writes;
  std::uint8_t itemsize;
};

struct Kernel {
  PyObject_HEAD
  Entry entry;
  std::vector<Slim> slim;
  std::vector<Param> params;
  std::string name;
  std::string doc;
  PyMethodDef method;
};

struct Error {};  // a Python exception is set

// `make`: the class of the error, or a function that makes it.
[[noreturn]] void fail(PyObject* make, const char* code, const std::string& message) {
  if (PyObject* error = PyObject_CallFunction(make, "ss", code, message.c_str())) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  throw Error{};
}

[[noreturn]] void fail(const char* code, const std::string& message) {
  fail(g.launch_error, code, message);
}

std::string place(const Kernel& k, std::size_t i) {
  return "kernel '" + k.name + "', argument " + std::to_string(i) + " '" + k.params[i].name + "': ";
}

[[noreturn]] [[gnu::cold]] void wrong_type(const Kernel& k, std::size_t i, const char* expected, PyObject* got) {
  PyErr_Clear();
  fail("CPP403", place(k, i) + "expected " + expected + ", got " + Py_TYPE(got)->tp_name);
}

[[noreturn]] [[gnu::cold]] void out_of_range(const Kernel& k, std::size_t i) {
  PyErr_Clear();
  fail("CPP405", place(k, i) + "the value does not fit " + k.params[i].dtype->name);
}

bool is_tensor(PyObject* o) {
  if (Py_TYPE(o) == g.tensor || Py_TYPE(o) == g.parameter) {
    return true;
  }
  const int answer = PyObject_IsInstance(o, reinterpret_cast<PyObject*>(g.tensor));
  if (answer < 0) {
    throw Error{};
  }
  return answer != 0;
}

c10::TensorImpl* impl_of(PyObject* o) {
  return *reinterpret_cast<c10::TensorImpl**>(reinterpret_cast<char*>(o) + g.impl_offset);
}

[[noreturn]] [[gnu::cold]] void wrong_tensor(const Kernel& k, std::size_t i, const c10::TensorImpl* t) {
  fail("CPP404",
       place(k, i) + "expected a " + k.params[i].dtype->name + " tensor on cpu, got " +
           dtype_name(c10::typeMetaToScalarType(t->dtype())) + " on " + t->device().str() +
           (t->key_set().has(c10::DispatchKey::CPU) || !t->is_cpu() ? "" : ", which is not dense"));
}

// isinstance is not enough for a subclass: Parameter's metaclass answers by attribute, and wrappers that dispatch
// to Python hold no memory of their own.
[[gnu::noinline]] c10::TensorImpl* subclass_impl(const Kernel& k, std::size_t i, PyObject* o) {
  if (!PyType_IsSubtype(Py_TYPE(o), g.tensor)) {
    wrong_type(k, i, "a tensor", o);
  }
  c10::TensorImpl* t = impl_of(o);
  if (t->is_python_dispatch()) {
    fail("CPP404", place(k, i) + "a " + Py_TYPE(o)->tp_name + " dispatches to Python and has no memory of its own");
  }
  return t;
}

[[gnu::noinline]] [[gnu::cold]] void no_memory(const Kernel& k, std::size_t i, const c10::TensorImpl* t) {
  const void* data = t->data();  // throws with torch's own explanation for a tensor without plain memory
  if (data == nullptr && t->numel() != 0) {
    fail("CPP404", place(k, i) + "the tensor has no memory");
  }
}

template <bool kCheck>
void* address(const Kernel& k, const Slim& param, std::size_t i, PyObject* o) {
  const bool exact = Py_TYPE(o) == g.tensor || Py_TYPE(o) == g.parameter;
  c10::TensorImpl* t = exact ? impl_of(o) : subclass_impl(k, i, o);
  if constexpr (kCheck) {
    if (!t->key_set().has(c10::DispatchKey::CPU) || t->dtype() != param.dtype) [[unlikely]] {
      wrong_tensor(k, i, t);
    }
  }
  c10::StorageImpl* storage = t->unsafe_storage().unsafeGetStorageImpl();
  char* base = nullptr;
  if (storage != nullptr) [[likely]] {
    // Reading through the const accessor leaves copy-on-write storage shared.
    base = static_cast<char*>(param.writes ? storage->mutable_data() : const_cast<void*>(storage->data()));
  }
  if (base == nullptr) [[unlikely]] {
    no_memory(k, i, t);
  }
  return base + t->storage_offset() * param.itemsize;
}

std::int64_t signed_value(const Kernel& k, std::size_t i, PyObject* o) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  const unsigned bits = k.params[i].dtype->bits;
  if (overflow != 0) {
    out_of_range(k, i);
  }
  if (value == -1 && PyErr_Occurred()) {
    wrong_type(k, i, "an int", o);
  }
  if (bits < 64 && (value < -(1LL << (bits - 1)) || value >= (1LL << (bits - 1)))) {
    out_of_range(k, i);
  }
  return value;
}

std::int64_t unsigned_value(const Kernel& k, std::size_t i, PyObject* o) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(o);
  if (PyErr_Occurred()) {
    out_of_range(k, i);
  }
  const unsigned bits = k.params[i].dtype->bits;
  if (bits < 64 && value >= (1ULL << bits)) {
    out_of_range(k, i);
  }
  return static_cast<std::int64_t>(value);
}

// An int, or what says that it is one (`__index__`); a tensor is a mistake in the argument order, not a number.
template <class Convert>
std::int64_t integer(const Kernel& k, std::size_t i, PyObject* o, Convert convert) {
  if (PyLong_Check(o)) [[likely]] {
    return convert(k, i, o);
  }
  if (is_tensor(o) || !PyIndex_Check(o)) {
    wrong_type(k, i, "an int", o);
  }
  PyObject* index = PyNumber_Index(o);
  if (index == nullptr) {
    throw Error{};
  }
  try {
    const std::int64_t value = convert(k, i, index);
    Py_DECREF(index);
    return value;
  } catch (...) {
    Py_DECREF(index);
    throw;
  }
}

double real(const Kernel& k, std::size_t i, PyObject* o) {
  if (PyFloat_CheckExact(o)) [[likely]] {
    return PyFloat_AS_DOUBLE(o);
  }
  if (is_tensor(o)) {
    wrong_type(k, i, "a float", o);
  }
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) {
    wrong_type(k, i, "a float", o);
  }
  return value;
}

[[gnu::noinline]] Slot scalar(const Kernel& k, Kind kind, std::size_t i, PyObject* o) {
  Slot slot{};
  switch (kind) {
    case Kind::Pointer:
      break;
    case Kind::Signed:
      slot.i = integer(k, i, o, signed_value);
      break;
    case Kind::Unsigned:
      slot.i = integer(k, i, o, unsigned_value);
      break;
    case Kind::Bool:
      slot.i = integer(k, i, o, signed_value) != 0;
      break;
    case Kind::Float:
      slot.d = real(k, i, o);
      break;
  }
  return slot;
}

[[gnu::cold]] void wrong_count(const Kernel& k, Py_ssize_t count) {
  std::string names;
  for (const Param& param : k.params) {
    names += (names.empty() ? "" : ", ") + param.name;
  }
  fail("CPP402",
       "kernel '" + k.name + "' takes " + std::to_string(k.params.size()) + " arguments (" + names + "), got " +
           std::to_string(count));
}

// An exception of torch's, while argument `i` was read, or of the kernel's own.
[[gnu::cold]] PyObject* failed(const Kernel& k, std::size_t i, const std::exception& e) {
  try {
    if (i < k.params.size()) {
      fail("CPP404", place(k, i) + "the tensor has no plain memory: " + e.what());
    }
    fail(g.kernel_failure, "CPP406", "kernel '" + k.name + "' failed: " + e.what());
  } catch (const Error&) {
    return nullptr;
  }
}

template <bool kCheck>
PyObject* launch(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  const Kernel& k = *reinterpret_cast<Kernel*>(self);
  const Slim* const slim = k.slim.data();
  const std::size_t n = k.slim.size();
  std::size_t i = 0;
  try {
    if (static_cast<std::size_t>(count) != n) [[unlikely]] {
      wrong_count(k, count);
    }
    Slot* slots = static_cast<Slot*>(alloca((n + 1) * sizeof(Slot)));
    for (; i < n; ++i) {
      const Slim& param = slim[i];
      if (param.kind == Kind::Pointer) [[likely]] {
        slots[i].p = address<kCheck>(k, param, i, args[i]);
      } else {
        slots[i] = scalar(k, param.kind, i, args[i]);
      }
    }
    k.entry(slots);
  } catch (const Error&) {
    return nullptr;
  } catch (const std::exception& e) {
    return failed(k, i, e);
  }
  Py_RETURN_NONE;
}

void kernel_dealloc(PyObject* self) {
  Kernel* k = reinterpret_cast<Kernel*>(self);
  k->~Kernel();
  Py_TYPE(self)->tp_free(self);
}

// Whether the storage under a tensor holds all of its elements. What has no storage of its own is not judged.
bool is_within_storage(PyObject* o) {
  if (!PyType_IsSubtype(Py_TYPE(o), g.tensor)) {
    return true;
  }
  const c10::TensorImpl* t = impl_of(o);
  if (t->is_python_dispatch() || !t->has_storage() || t->layout() != c10::kStrided) {
    return true;
  }
  const c10::StorageImpl* storage = t->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) {
    return t->numel() == 0;
  }
  const auto sizes = t->sizes();
  const auto strides = t->strides();
  std::int64_t last = t->storage_offset(), step = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return true;
    }
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) || __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  const std::size_t room = storage->nbytes() / t->itemsize();
  return last >= 0 && static_cast<std::size_t>(last) < room;
}

// holds(tensor, ...) -> bool, of the module and of kernels: whether each storage holds all elements of its tensor
PyObject* holds(PyObject*, PyObject* const* args, Py_ssize_t count) {
  try {
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!is_within_storage(args[i])) [[unlikely]] {
        Py_RETURN_FALSE;
      }
    }
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
  Py_RETURN_TRUE;
}

PyMethodDef kKernelMethods[] = {
    {"holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(holds)), METH_FASTCALL | METH_STATIC,
     "Whether the storage under each of these tensors holds all of its elements."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject KernelType = {PyVarObject_HEAD_INIT(nullptr, 0)};

void add_param(Kernel& k, PyObject* item) {
  const char* name = nullptr;
  const char* dtype = nullptr;
  int pointer = 0;
  int writes = 0;
  if (!PyArg_ParseTuple(item, "sspp", &name, &dtype, &pointer, &writes)) {
    throw Error{};
  }
  const DTypeRow* row = find_dtype(dtype);
  if (row == nullptr || (!pointer && row->scalar == Kind::Pointer)) {
    PyErr_Format(PyExc_ValueError, "a %s cannot be passed as a %s", dtype, pointer ? "tensor" : "scalar");
    throw Error{};
  }
  k.params.push_back({name, row});
  k.slim.push_back({c10::scalarTypeToTypeMeta(row->type), pointer ? Kind::Pointer : row->scalar, writes != 0,
                    static_cast<std::uint8_t>(row->bits / 8)});
}

// The library stays open for the life of the process: OpenMP's threads may still stand in its code.
Entry open_entry(const char* path, const char* symbol) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* entry = library == nullptr ? nullptr : dlsym(library, symbol);
  if (entry == nullptr) {
    PyErr_SetString(PyExc_OSError, dlerror());
    throw Error{};
  }
  return reinterpret_cast<Entry>(entry);
}

// bind(path, symbol, name, doc, ((name, dtype, is_pointer, writes), ...), check) -> builtin function
PyObject* bind(PyObject*, PyObject* args) {
  const char *path = nullptr, *symbol = nullptr, *name = nullptr, *doc = nullptr;
  PyObject* params = nullptr;
  int check = 0;
  if (!PyArg_ParseTuple(args, "ssssO!p", &path, &symbol, &name, &doc, &PyTuple_Type, &params, &check)) {
    return nullptr;
  }
  PyObject* self = nullptr;
  PyObject* result = nullptr;
  try {
    const Entry entry = open_entry(path, symbol);
    self = KernelType.tp_alloc(&KernelType, 0);
    if (self == nullptr) {
      return nullptr;
    }
    Kernel& k = *reinterpret_cast<Kernel*>(self);
    new (&k.slim) std::vector<Slim>();
    new (&k.params) std::vector<Param>();
    new (&k.name) std::string(name);
    new (&k.doc) std::string(doc);
    k.entry = entry;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(params); ++i) {
      add_param(k, PyTuple_GET_ITEM(params, i));
    }
    const auto function = check ? &launch<true> : &launch<false>;
    k.method = {k.name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL,
                k.doc.c_str()};
    result = PyCFunction_NewEx(&k.method, self, nullptr);
  } catch (const Error&) {
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  Py_XDECREF(self);
  return result;
}

// dtypes() -> names of the dtypes that tensors may have, in the table's order
PyObject* dtypes(PyObject*, PyObject*) {
  PyObject* names = PyList_New(0);
  for (const DTypeRow& row : kDTypes) {
    PyObject* name = PyUnicode_FromString(row.name);
    if (name == nullptr || PyList_Append(names, name) < 0) {
      Py_XDECREF(name);
      Py_DECREF(names);
      return nullptr;
    }
    Py_DECREF(name);
  }
  return names;
}

PyObject* attribute(const char* module, const char* name) {
  PyObject* owner = PyImport_ImportModule(module);
  PyObject* value = owner == nullptr ? nullptr : PyObject_GetAttrString(owner, name);
  Py_XDECREF(owner);
  if (value == nullptr) {
    throw Error{};
  }
  return value;
}

// Where a Python tensor keeps its TensorImpl is torch's own affair and has changed between versions. `_cdata` says
// the pointer's value, so we look where it stands.
std::size_t find_impl_offset() {
  PyObject* empty = attribute("torch", "empty");
  PyObject* tensor = PyObject_CallFunction(empty, "i", 1);
  Py_DECREF(empty);
  PyObject* cdata = tensor == nullptr ? nullptr : PyObject_GetAttrString(tensor, "_cdata");
  void* wanted = cdata == nullptr ? nullptr : PyLong_AsVoidPtr(cdata);
  Py_XDECREF(cdata);
  std::size_t found = 0;
  const std::size_t size = tensor == nullptr ? 0 : static_cast<std::size_t>(Py_TYPE(tensor)->tp_basicsize);
  for (std::size_t at = sizeof(PyObject); at + sizeof(void*) <= size && wanted != nullptr; at += sizeof(void*)) {
    if (*reinterpret_cast<void**>(reinterpret_cast<char*>(tensor) + at) == wanted) {
      found = at;
      break;
    }
  }
  Py_XDECREF(tensor);
  if (found == 0) {
    if (!PyErr_Occurred()) {
      fail(attribute("cpp_wrapper.errors", "KernelError"), "CPP407",
           "the running torch keeps no TensorImpl pointer in its Python tensor objects");
    }
    throw Error{};
  }
  return found;
}

PyMethodDef kMethods[] = {
    {"bind", bind, METH_VARARGS, "Opens a library and makes a callable of one of its kernels."},
    {"holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(holds)), METH_FASTCALL,
     "Whether the storage under each of these tensors holds all of its elements."},
    {"dtypes", dtypes, METH_NOARGS, "Names of the dtypes that tensors may have."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "wrapper_ir_launcher", nullptr, -1, kMethods};

}  // namespace

PyMODINIT_FUNC PyInit_wrapper_ir_launcher() {
  try {
    g.tensor = reinterpret_cast<PyTypeObject*>(attribute("torch", "Tensor"));
    g.parameter = reinterpret_cast<PyTypeObject*>(attribute("torch.nn", "Parameter"));
    g.launch_error = attribute("cpp_wrapper.errors", "LaunchError");
    g.kernel_failure = attribute("cpp_wrapper.errors", "kernel_failure");
    g.impl_offset = find_impl_offset();
  } catch (const Error&) {
    return nullptr;
  }
  KernelType.tp_name = "cpp_wrapper.Kernel";
  KernelType.tp_basicsize = sizeof(Kernel);
  KernelType.tp_dealloc = kernel_dealloc;
  KernelType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  KernelType.tp_methods = kKernelMethods;
  KernelType.tp_doc = "A loaded kernel: what a launch function keeps alive.";
  if (PyType_Ready(&KernelType) < 0) {
    return nullptr;
  }
  return PyModule_Create(&kModule);
}
