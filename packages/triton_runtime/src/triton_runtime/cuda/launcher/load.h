// Loads the image of a kernel onto a device.
#pragma once

#include "launch.h"

namespace {

void kernel_dealloc(PyObject* self) {
  Kernel* k = reinterpret_cast<Kernel*>(self);
  // the module stays loaded: queued work may still use it
  PyMem_Free(k->slots);
  PyMem_Free(k->params);
  PyMem_Free(k->steps);
  PyMem_Free(k->extras);
  PyObject* const owned[] = {k->stream.function,
                             k->stream.argument,
                             k->name,
                             k->explain,
                             k->grid,
                             k->allocate,
                             k->driver,
                             reinterpret_cast<PyObject*>(k->hooks)};
  for (PyObject* o : owned) {
    Py_XDECREF(o);
  }
  free_object(self);
}

// unload(): unloads the kernel's code. Its launches must have finished.
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

bool parse_descriptor(PyObject* item, Descriptor& d) {
  PyObject* box = nullptr;
  if (!PyArg_ParseTuple(item, "iiiiiiiO!", &d.rank, &d.with_map, &d.flags, &d.swizzle, &d.element_size,
                        &d.element_type, &d.padded, &PyTuple_Type, &box)) {
    return false;
  }
  if (d.rank < 1 || d.rank > kMaxRank || (d.with_map != 0 && PyTuple_Size(box) != d.rank)) {
    PyErr_SetString(PyExc_ValueError, "unsupported rank of a tensor descriptor");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(box); ++i) {
    d.box[PyTuple_Size(box) - 1 - i] = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GetItem(box, i)));
  }
  return PyErr_Occurred() == nullptr;
}

// Assigns value indices to a slot, and appends the kernel parameters that use them.
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
    if (!PyArg_ParseTuple(PyTuple_GetItem(slots, i), "iiiipO", &slot.position, &kind, &bits, &slot.dtype,
                          &divisible, &descriptor)) {
      return false;
    }
    slot.kind = static_cast<Kind>(kind);
    slot.bits = static_cast<std::uint8_t>(bits);
    slot.divisible = divisible != 0;
    if (slot.position < 0 || slot.position >= k.argument_count || kind < 0 ||
        kind > static_cast<int>(Kind::Descriptor)) {
      PyErr_SetString(PyExc_ValueError, "invalid slot");
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

// Loads the image in the primary context of the device, which torch also uses.
Result load_module(Kernel& k, const char* image, const char* symbol, unsigned num_ctas, const char** what) {
  const Api& api = *k.api;
  Result status = 0;
  *what = "load";
  if ((status = api.ModuleLoadData(&k.module, image)) != 0) return status;
  *what = "find the function";
  if ((status = api.ModuleGetFunction(&k.function, k.module, symbol)) != 0) return status;
  *what = "read attributes";
  if ((status = api.FuncGetAttribute(&k.registers, kFunctionRegisters, k.function)) != 0) return status;
  if ((status = api.FuncGetAttribute(&k.local_bytes, kFunctionLocal, k.function)) != 0) return status;
  if ((status = api.FuncGetAttribute(&k.shared_static, kFunctionShared, k.function)) != 0) return status;
  *what = "reserve shared memory";
  if (k.config.shared > kDefaultShared) {
    if ((status = api.FuncSetCacheConfig(k.function, kPreferShared)) != 0) return status;
    if ((status = api.FuncSetAttribute(k.function, kFunctionMaxShared, static_cast<int>(k.config.shared))) !=
        0) {
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
  if (!PyArg_ParseTuple(args, "OSsUO(iiip)(IIIpp)(LLLL)iO!SSO(KO)OO!", &driver, &image, &symbol, &name,
                        &explain, &ordinal, &device_type, &device_index, &check, &threads, &num_ctas, &shared,
                        &cooperative, &dependent, &bytes[0], &align[0], &bytes[1], &align[1], &count,
                        &PyTuple_Type, &slots, &steps, &extras, &grid, &current, &function, &allocate,
                        hooks_type, &hooks)) {
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

}  // namespace
