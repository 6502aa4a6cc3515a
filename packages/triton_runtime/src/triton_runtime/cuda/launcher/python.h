// Python's stable ABI of 3.11, and helpers for extension types.
#pragma once

#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>

#include <cstdint>
#include <cstring>

// Vectorcall is in the stable ABI from 3.12 on. 3.11 is frozen and has the same functions.
extern "C" PyObject* PyVectorcall_Call(PyObject*, PyObject*, PyObject*);
extern "C" PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, std::size_t, PyObject*);

namespace {

using Vectorcall = PyObject* (*)(PyObject*, PyObject* const*, std::size_t, PyObject*);
constexpr unsigned kHaveVectorcall = 1U << 11;

Py_ssize_t count_of(std::size_t flags) { return static_cast<Py_ssize_t>(flags & (~std::size_t{0} >> 1)); }

PyObject* call_with(PyObject* function, PyObject* argument) {
  return PyObject_CallFunctionObjArgs(function, argument, nullptr);
}

// Copies the addresses of a library's functions, packed in order. Returns false with ValueError set if the
// number of addresses differs.
template <class Functions>
bool copy_functions(PyObject* addresses, Functions* functions) {
  if (!PyBytes_Check(addresses) || PyBytes_Size(addresses) != static_cast<Py_ssize_t>(sizeof(Functions))) {
    PyErr_SetString(PyExc_ValueError, "addresses of other functions");
    return false;
  }
  std::memcpy(functions, PyBytes_AsString(addresses), sizeof(Functions));
  return true;
}

template <class Object>
void replace(Object** place, PyObject* object) {
  PyObject* before = reinterpret_cast<PyObject*>(*place);
  *place = reinterpret_cast<Object*>(Py_NewRef(object));
  Py_XDECREF(before);
}

// Each object owns a reference to its heap type.
void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

// Copies a bytes object of packed records; null for an empty one.
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

// Borrowed items of a tuple; null with MemoryError set if the allocation fails.
template <class Object>
Object** items_of(PyObject* tuple, std::int32_t* count) {
  *count = static_cast<std::int32_t>(PyTuple_Size(tuple));
  Object** items =
      static_cast<Object**>(PyMem_Malloc((static_cast<std::size_t>(*count) + 1) * sizeof(Object*)));
  if (items == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  for (std::int32_t i = 0; i < *count; ++i) {
    items[i] = reinterpret_cast<Object*>(PyTuple_GetItem(tuple, i));
  }
  return items;
}

}  // namespace
