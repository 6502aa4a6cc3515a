// Functions of Python that the library calls.
//
// Python's headers are not included: these functions belong to its stable ABI, except `PyObject_Vectorcall`, which has
// not changed since 3.9. They are weak, so that programs without Python can load the library.
#pragma once
#include <cstddef>
#include <utility>

struct PyObject {
  ptrdiff_t references;
  PyObject* type;
};
using Py_ssize_t = ptrdiff_t;
struct PyMethodDef {
  const char* name;
  void* function;
  int flags;
  const char* doc;
};

extern "C" {
#define WIR_PYTHON __attribute__((weak))
WIR_PYTHON void Py_IncRef(PyObject*);
WIR_PYTHON void Py_DecRef(PyObject*);
WIR_PYTHON PyObject* PyTuple_New(Py_ssize_t);
WIR_PYTHON Py_ssize_t PyTuple_Size(PyObject*);
WIR_PYTHON PyObject* PyTuple_GetItem(PyObject*, Py_ssize_t);
WIR_PYTHON int PyTuple_SetItem(PyObject*, Py_ssize_t, PyObject*);
WIR_PYTHON PyObject* PyList_New(Py_ssize_t);
WIR_PYTHON Py_ssize_t PyList_Size(PyObject*);
WIR_PYTHON PyObject* PyList_GetItem(PyObject*, Py_ssize_t);
WIR_PYTHON int PyList_SetItem(PyObject*, Py_ssize_t, PyObject*);
WIR_PYTHON PyObject* PyDict_New();
WIR_PYTHON int PyDict_SetItem(PyObject*, PyObject*, PyObject*);
WIR_PYTHON PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*);
WIR_PYTHON PyObject* PyObject_GetAttr(PyObject*, PyObject*);
WIR_PYTHON int PyObject_IsTrue(PyObject*);
WIR_PYTHON int PyObject_RichCompareBool(PyObject*, PyObject*, int);
WIR_PYTHON long long PyLong_AsLongLong(PyObject*);
WIR_PYTHON long long PyLong_AsLongLongAndOverflow(PyObject*, int*);
WIR_PYTHON PyObject* PyLong_FromLongLong(long long);
WIR_PYTHON PyObject* PyUnicode_FromString(const char*);
WIR_PYTHON double PyFloat_AsDouble(PyObject*);
WIR_PYTHON PyObject* PyFloat_FromDouble(double);
WIR_PYTHON PyObject* PyBool_FromLong(long);
WIR_PYTHON void PyErr_SetObject(PyObject*, PyObject*);
WIR_PYTHON PyObject* PyErr_Occurred();
WIR_PYTHON void PyErr_Clear();
WIR_PYTHON PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
WIR_PYTHON void* PyCapsule_GetPointer(PyObject*, const char*);
WIR_PYTHON PyObject* PyCFunction_NewEx(PyMethodDef*, PyObject*, PyObject*);
WIR_PYTHON void* PyEval_SaveThread();
WIR_PYTHON void PyEval_RestoreThread(void*);
}

namespace wir {

/// An owned reference to an object.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { if (object_ != nullptr) Py_DecRef(object_); }
  PyObject* get() const { return object_; }
  PyObject* give() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* another(PyObject* object) {
  Py_IncRef(object);
  return object;
}

}  // namespace wir
