// Checks that storages hold all elements of their tensors.
#pragma once

#include "tensors.h"

namespace {

// Whether all elements of a tensor are in its storage; true for objects that torch's functions cannot read.
bool is_within_storage(PyObject* o) {
  if (!PyType_IsSubtype(Py_TYPE(o), torch.tensor)) return true;
  void* handle = handle_of(o);
  std::int64_t rank = 0, last = 0, bytes = 0, step = 0, *sizes = nullptr, *strides = nullptr;
  std::int32_t dtype = 0;
  if (torch.storage_size(handle, &bytes) != 0 || torch.storage_offset(handle, &last) != 0 ||
      torch.dim(handle, &rank) != 0 || torch.sizes(handle, &sizes) != 0 ||
      torch.strides(handle, &strides) != 0 || torch.dtype(handle, &dtype) != 0) {
    return true;
  }
  for (std::int64_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return true;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return last >= 0 && last < bytes / static_cast<std::int64_t>(torch.element_size(dtype));
}

// holds(tensor, ...) -> bool: whether each storage holds all elements of its tensor
PyObject* holds(PyObject*, PyObject* const* args, Py_ssize_t count) {
  bool all = true;
  for (Py_ssize_t i = 0; i < count && all; ++i) all = is_within_storage(args[i]);
  return PyBool_FromLong(all);
}

PyMethodDef kHolds = {"holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(holds)), METH_FASTCALL,
                      "Whether the storage of each of these tensors holds all of its elements."};

// storage_check() -> `holds`, or None if tensors can be read only by calls of Python
PyObject* storage_check(PyObject*, PyObject*) {
  return torch.offset == 0 ? Py_NewRef(Py_None) : PyCFunction_NewEx(&kHolds, nullptr, nullptr);
}

PyObject* get_holds(PyObject*, void*) { return storage_check(nullptr, nullptr); }

}  // namespace
