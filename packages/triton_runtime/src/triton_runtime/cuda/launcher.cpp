// The launcher: converts Python arguments to a kernel's parameters and calls the CUDA driver with them.
//
// One extension module serves all kernels and every Python from 3.11 on, because it uses only the stable ABI.
// It links no library and needs neither the CUDA toolkit nor headers of torch: Python passes the addresses of
// the driver's functions and of torch's stable C functions. The few types of the driver's public interface
// are declared in `launcher/driver.h`.
//
// Errors are reported by Python: each kernel has a callable `explain(reason, position, value)` that raises.
//
// The parts in `launcher/` form one translation unit, so that the compiler inlines the path of a launch:
//   python.h, driver.h, tensors.h    the interfaces of Python, the CUDA driver, and torch
//   kernel.h, load.h                 a kernel, and loading its image
//   arguments.h, grids.h, launch.h   from the arguments of a call to a launch
//   sequence.h, addresses.h          several launches in one call; comparison of tensor addresses
//   storages.h                       the check that storages hold all elements of tensors
//   recording.h, relocation.h, operator_cache.h, repeated.h
//                                    operators that are recorded once and then launched again
#include "launcher/addresses.h"
#include "launcher/load.h"
#include "launcher/repeated.h"
#include "launcher/sequence.h"
#include "launcher/storages.h"

namespace {

void hooks_dealloc(PyObject* self) {
  Hooks* h = reinterpret_cast<Hooks*>(self);
  Py_XDECREF(h->enter);
  Py_XDECREF(h->exit);
  free_object(self);
}

PyMemberDef kHooksMembers[] = {
    {"enter", T_OBJECT, offsetof(Hooks, enter), 0,
     "Called before a launch: (kernel, (x, y, z), raw stream)."},
    {"exit", T_OBJECT, offsetof(Hooks, exit), 0, "Called after a launch, with the same arguments."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kKernelMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, call), READONLY, nullptr},
    {"name", T_OBJECT, offsetof(Kernel, name), READONLY, "The kernel's name."},
    {"registers", T_INT, offsetof(Kernel, registers), READONLY,
     "Registers per thread, as reported by the driver."},
    {"local_bytes", T_INT, offsetof(Kernel, local_bytes), READONLY,
     "Bytes of local memory per thread (spills)."},
    {"shared_static", T_INT, offsetof(Kernel, shared_static), READONLY,
     "Bytes of static shared memory per block."},
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
    {"count", T_INT, offsetof(Launches, count), READONLY, "Number of kernels, fills and copies."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef kRepeatedMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Repeated, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef kKernelMethods[] = {
    {"unload", kernel_unload, METH_NOARGS, "Unloads the kernel's code; its launches must have finished."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kHoldsMember[] = {
    {"holds", get_holds, nullptr, "The check of storages; None if tensors cannot be read.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kRepeatedMethods[] = {
    {"begin", repeated_begin, METH_O, "Starts recording the work queued on a stream."},
    {"end", repeated_end, METH_O, "Ends the recording and returns it."},
    {"movable", repeated_movable, METH_VARARGS,
     "Returns a recording that can be launched for other results."},
    {nullptr, nullptr, 0, nullptr},
};

template <class Function>
void* slot_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot kHooksSlots[] = {
    {Py_tp_doc, const_cast<char*>("Hooks around launches.")},
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
    {Py_tp_doc, const_cast<char*>("Checks that tensors of a list have the recorded addresses.")},
    {Py_tp_dealloc, slot_of(addresses_dealloc)},
    {Py_tp_call, slot_of(PyVectorcall_Call)},
    {Py_tp_members, kAddressesMembers},
    {0, nullptr},
};

PyType_Slot kLaunchesSlots[] = {
    {Py_tp_doc, const_cast<char*>("The work that a call of an operator queued.")},
    {Py_tp_dealloc, slot_of(launches_dealloc)},
    {Py_tp_members, kLaunchesMembers},
    {0, nullptr},
};

PyType_Slot kRepeatedSlots[] = {
    {Py_tp_doc, const_cast<char*>("An operator that launches recorded work.")},
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
PyType_Spec kRepeatedSpec = {"triton_runtime.RepeatedOperator", sizeof(Repeated), 0, kCallable,
                             kRepeatedSlots};

bool make_type(PyType_Spec& spec, PyTypeObject** type) {
  *type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return *type != nullptr;
}

PyMethodDef kMethods[] = {
    {"open_driver", open_driver, METH_O, "Opens the CUDA driver's library."},
    {"set_torch", set_torch, METH_VARARGS, "Sets the functions that read tensors."},
    {"storage_check", storage_check, METH_NOARGS, "The check of storages; None if tensors cannot be read."},
    {"facts", facts, METH_O, "Address, dtype, device type and device index of a tensor."},
    {"load", load, METH_VARARGS, "Loads a kernel onto a device."},
    {"sequence", sequence, METH_VARARGS, "Combines several launches into one call."},
    {"addresses", addresses, METH_VARARGS, "Compares the addresses of many tensors."},
    {"repeated", repeated, METH_VARARGS, "Creates an operator that launches recorded work."},
    {"new_stream", new_stream, METH_VARARGS, "Creates a stream."},
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
  if (module != nullptr &&
      PyModule_AddObjectRef(module, "Hooks", reinterpret_cast<PyObject*>(hooks_type)) < 0) {
    Py_CLEAR(module);
  }
  return module;
}
