// Tensors, read through torch's stable C functions.
#pragma once

#include "python.h"

namespace {

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

// Set once by set_torch; read-only afterwards.
struct : TensorFunctions {
  PyTypeObject* tensor;
  PyTypeObject* parameter;
  PyObject* method;    // torch.Tensor.data_ptr
  std::size_t offset;  // of the at::Tensor in a Python tensor object; 0: unknown
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

// The offset of the at::Tensor (a pointer to the TensorImpl) in a Python tensor is private to torch and has
// changed between versions. `_cdata` is the value of that pointer, so the object is searched for it.
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

// set_torch(Tensor, Parameter, Tensor.data_ptr, tensor, tensor._cdata, addresses or None) -> bool: true if
// tensors can be read without a call of Python
PyObject* set_torch(PyObject*, PyObject* args) {
  PyObject *tensor = nullptr, *parameter = nullptr, *method = nullptr, *sample = nullptr,
           *addresses = nullptr;
  unsigned long long impl = 0;
  if (!PyArg_ParseTuple(args, "O!O!OOKO", &PyType_Type, &tensor, &PyType_Type, &parameter, &method, &sample,
                        &impl, &addresses)) {
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

// facts(tensor) -> (address, dtype, device type, device index), numbered as in torch's C functions
PyObject* facts(PyObject*, PyObject* o) {
  if (torch.offset == 0 || !PyObject_TypeCheck(o, torch.tensor)) {
    return PyErr_Format(PyExc_TypeError, "not a tensor that can be read: %R", Py_TYPE(o));
  }
  Facts f{};
  if (!read_facts(o, &f) || torch.data_ptr(handle_of(o), &f.data) != 0) {
    return PyErr_Format(PyExc_RuntimeError, "torch's C functions refused the tensor");
  }
  return Py_BuildValue("Kiii", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(f.data)),
                       f.dtype, f.device_type, f.device_index);
}

}  // namespace
