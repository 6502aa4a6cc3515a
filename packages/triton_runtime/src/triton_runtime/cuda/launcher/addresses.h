// Compares the addresses of many tensors.
#pragma once

#include "tensors.h"

namespace {

// Checks that tensors of a list have the expected addresses.
struct Addresses {
  PyObject_HEAD
  Vectorcall call;
  std::int32_t* positions;
  std::uint64_t* expected;
  std::int32_t count, expected_count;
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
    return PyErr_Format(PyExc_TypeError, "expected one list of tensors");
  }
  for (std::int32_t i = 0; i < a.count; ++i) {
    PyObject* o = PyList_GetItem(args[0], a.positions[i]);
    std::uint64_t current = 0;
    if (o == nullptr || !any_address(o, &current)) [[unlikely]] {
      return nullptr;
    }
    if (current != a.expected[i]) {
      return PyBool_FromLong(0);
    }
  }
  return PyBool_FromLong(1);
}

void addresses_dealloc(PyObject* self) {
  Addresses* a = reinterpret_cast<Addresses*>(self);
  PyMem_Free(a->positions);
  PyMem_Free(a->expected);
  free_object(self);
}

PyTypeObject* addresses_type;

// addresses(positions, addresses) -> callable: 4 bytes a position, 8 an address
PyObject* addresses(PyObject*, PyObject* args) {
  PyObject *positions, *expected;
  if (!PyArg_ParseTuple(args, "SS", &positions, &expected)) {
    return nullptr;
  }
  PyObject* self = PyType_GenericAlloc(addresses_type, 0);
  if (self == nullptr) {
    return nullptr;
  }
  Addresses& a = *reinterpret_cast<Addresses*>(self);
  a.call = addresses_call;
  if (!copy_records(positions, &a.positions, &a.count) ||
      !copy_records(expected, &a.expected, &a.expected_count)) {
    Py_DECREF(self);
    return nullptr;
  }
  if (a.count != a.expected_count) {
    Py_DECREF(self);
    return PyErr_Format(PyExc_ValueError, "expected as many positions as addresses");
  }
  return self;
}

}  // namespace
