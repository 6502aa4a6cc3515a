// The launcher: converts Python arguments to a flat array of slots and calls a compiled kernel with it.
//
// One extension module serves all kernels. Libraries of kernels do not use Python: each exports, for each kernel,
// `void symbol(const Slot*)`. The module is built once for a compiler, a Python and a torch.
//
// A kernel runs with the GIL. Inductor's kernels are not reentrant: they keep reduction helpers in function statics and
// report integer division by zero through one global pointer, so two threads must not run them at the same time.
#include "launcher_arguments.h"

#include <alloca.h>
#include <dlfcn.h>

#include <exception>
#include <new>

namespace {

[[gnu::cold]] void wrong_count(const Kernel& k, Py_ssize_t count) {
  std::string names;
  for (const Param& param : k.params) {
    names += (names.empty() ? "" : ", ") + param.name;
  }
  fail("CPP402",
       "kernel '" + k.name + "' takes " + std::to_string(k.params.size()) + " arguments (" + names + "), got " +
           std::to_string(count));
}

// Reports an exception of torch while argument `i` was read, or of the kernel.
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

// Returns whether a tensor's storage contains all of its elements; true for tensors without a storage.
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

// The library stays open for the life of the process: OpenMP's threads may still run its code.
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

// The offset of the TensorImpl pointer in a Python tensor object is private and differs between versions of torch.
// `_cdata` has the pointer's value, so the object is searched for it.
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
