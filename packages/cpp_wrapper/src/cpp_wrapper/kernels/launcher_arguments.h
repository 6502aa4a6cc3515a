// Arguments of a launch: checks them against the kernel's parameters and converts them to slots.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <c10/core/TensorImpl.h>

#include <cstdint>
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
  PyObject* kernel_failure;  // creates the error of a failed kernel
  std::size_t impl_offset;  // of the TensorImpl pointer in a Python tensor object
} g;

struct Param {
  std::string name;
  const DTypeRow* dtype;
};

// The part of a parameter that every launch reads, packed.
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

// `make`: the class of the error, or a function that creates it.
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

// isinstance does not suffice for a subclass: Parameter's metaclass checks attributes, and wrappers that dispatch to
// Python have no memory.
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

// Accepts an int, or an object with `__index__`. A tensor is an error in the order of arguments, not a number.
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

}  // namespace
