// A loaded program as a function of Python, of torch's tensors.
//
// The loader passes what torch's Python binding does not export: the offset of the `at::Tensor` in a tensor object (an
// `AtenTensorHandle` is its address), and the function that creates an object from one.
#include "container.h"
#include "python.h"

#include <alloca.h>

namespace wir {
namespace {

constexpr int kFast = 0x80, kKeywords = 0x2, kEqual = 2;
constexpr const char* kCall = "wir.call";

enum Kind { kLeaf, kTuple, kList, kDict, kOther };
/// A tree of arguments or outputs; `keys` are those of a dict. `make` creates a container of another class from a list.
struct Tree {
  Kind kind = kLeaf;
  std::vector<Tree> children;
  std::vector<Ref> keys;
  Ref make;
};
enum class Value : char { kTensor = 't', kInt = 'i', kFloat = 'f', kBool = 'b', kNone = 'n' };
/// An output leaf: a result, an input leaf, or an object.
struct Leaf {
  char kind;
  size_t index;
  Ref object;
};

/// A program in Python. `slow` runs calls that the library does not bind, and reports their errors. `finish` builds
/// outputs from leaves and results; None if the library builds them.
struct Call {
  Container* container = nullptr;
  size_t offset = 0;  // of the `at::Tensor` in a tensor object
  PyObject* (*wrap)(Tensor) = nullptr;
  bool (*has_modes)(bool without_torchs_own) = nullptr;  // whether modes see the operators of this thread
  Ref slow, finish, guard, match, fail, autocast, requires_grad, integer, real, truth, tuple, list, none;
  bool is_plain = false;  // whether `call` binds arguments
  size_t leaves = 0, positional = 0;
  std::vector<Tree> inputs;  // positional arguments, then keywords
  std::vector<Ref> keywords;
  std::vector<std::pair<size_t, Ref>> statics;
  std::vector<size_t> params, gradients;
  std::vector<Value> param_values, result_values;
  Tree outputs;
  std::vector<Leaf> bindings;
  PyMethodDef call_method{}, run_method{};
  ~Call() { delete container; }
};

// --- data of the loader

PyObject* field(PyObject* record, Py_ssize_t index) { return PyTuple_GetItem(record, index); }
size_t number(PyObject* object) { return static_cast<size_t>(PyLong_AsLongLong(object)); }
Ref held(PyObject* object) { return Ref(another(object)); }

template <class F> void each(PyObject* tuple, F f) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) f(PyTuple_GetItem(tuple, i));
}
std::vector<size_t> numbers_of(PyObject* tuple) {
  std::vector<size_t> found;
  each(tuple, [&](PyObject* item) { found.push_back(number(item)); });
  return found;
}
std::vector<Value> values_of(PyObject* tuple) {
  std::vector<Value> found;
  each(tuple, [&](PyObject* item) { found.push_back(static_cast<Value>(number(item))); });
  return found;
}
[[gnu::cold]] Tree tree_of(PyObject* record) {
  Tree made;
  made.kind = static_cast<Kind>(number(field(record, 0)));
  each(field(record, 1), [&](PyObject* child) { made.children.push_back(tree_of(child)); });
  each(field(record, 2), [&](PyObject* key) { made.keys.push_back(held(key)); });
  made.make = held(field(record, 3));
  return made;
}

// --- arguments

/// Reads the leaves of one argument. Returns false for another structure, or a class that `slow` must handle.
bool flatten(const Call& call, const Tree& tree, PyObject* given, PyObject**& leaves) {
  if (tree.kind == kLeaf) return *leaves++ = given, true;
  const bool is_tuple = tree.kind == kTuple;
  if (tree.kind >= kDict || given->type != (is_tuple ? call.tuple : call.list).get()) return false;
  const auto count = static_cast<Py_ssize_t>(tree.children.size());
  if ((is_tuple ? PyTuple_Size(given) : PyList_Size(given)) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* child = is_tuple ? PyTuple_GetItem(given, i) : PyList_GetItem(given, i);
    if (!flatten(call, tree.children[static_cast<size_t>(i)], child, leaves)) return false;
  }
  return true;
}

/// Reads the leaves of a call with the same structure of arguments as the capture.
bool arrange(const Call& call, PyObject* const* args, size_t count, PyObject* names, PyObject** leaves) {
  const size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_Size(names));
  if (count != call.positional || named != call.keywords.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!flatten(call, call.inputs[i], args[i], leaves)) return false;
  }
  for (size_t i = 0; i < named; ++i) {
    size_t at = 0;
    while (at < named) {
      PyObject* name = PyTuple_GetItem(names, static_cast<Py_ssize_t>(at));
      if (name == call.keywords[i].get() || PyObject_RichCompareBool(name, call.keywords[i].get(), kEqual) == 1) break;
      ++at;
    }
    if (at == named || !flatten(call, call.inputs[count + i], args[count + at], leaves)) return false;
  }
  return true;
}

/// Returns whether an argument equals the value that the capture specialized on.
bool is_same(PyObject* given, PyObject* want) {
  return given == want || (given->type == want->type && PyObject_RichCompareBool(given, want, kEqual) == 1);
}

bool is_true(Ref object) { return object && PyObject_IsTrue(object.get()) == 1; }
bool asks(PyObject* function) { return is_true(Ref(PyObject_Vectorcall(function, nullptr, 0, nullptr))); }

/// Returns whether an argument is a number of the program's class, or a tensor, which the guard checks.
bool has_class(const Call& call, Value want, PyObject* given) {
  int overflow = 0;
  switch (want) {
    case Value::kTensor: return true;
    case Value::kInt:
      if (given->type != call.integer.get()) return false;
      PyLong_AsLongLongAndOverflow(given, &overflow);
      return overflow == 0;
    case Value::kFloat: return given->type == call.real.get();
    case Value::kBool: return given->type == call.truth.get();
    case Value::kNone: break;
  }
  return false;
}

/// Returns whether the guard accepts the arguments; otherwise, or after an error, `slow` checks them in detail.
bool passes(const Call& call, PyObject* const* args) {
  if (call.has_modes(false)) return false;
  auto** tensors = static_cast<PyObject**>(alloca((call.params.size() + 1) * sizeof(PyObject*)));
  size_t count = 0;
  for (size_t i = 0; i < call.params.size(); ++i) {
    if (!has_class(call, call.param_values[i], args[i])) return false;
    if (call.param_values[i] == Value::kTensor) tensors[count++] = args[i];
  }
  const Ref match(PyObject_GetAttr(call.guard.get(), call.match.get()));
  return match && is_true(Ref(PyObject_Vectorcall(match.get(), tensors, count, nullptr))) && !asks(call.autocast.get());
}

bool needs_gradient(const Call& call, PyObject* const* leaves) {
  if (call.gradients.empty() || !aoti_torch_grad_mode_is_enabled()) return false;
  for (const size_t leaf : call.gradients) {
    if (is_true(Ref(PyObject_GetAttr(leaves[leaf], call.requires_grad.get())))) return true;
  }
  return false;
}

// --- running

Tensor handle_of(const Call& call, Value want, PyObject* given) {
  Tensor made = nullptr;
  switch (want) {
    case Value::kTensor: return same(reinterpret_cast<Tensor>(reinterpret_cast<char*>(given) + call.offset));
    case Value::kInt: result(made, Int(PyLong_AsLongLong(given))); break;
    case Value::kFloat: result(made, PyFloat_AsDouble(given)); break;
    case Value::kBool: result(made, PyObject_IsTrue(given) == 1); break;
    case Value::kNone: break;
  }
  return made;
}

PyObject* object_of(const Call& call, Value kind, Tensor found) {
  switch (kind) {
    case Value::kNone: return another(call.none.get());
    case Value::kTensor: return call.wrap(found);
    case Value::kInt: return PyLong_FromLongLong(raw(item_int(found)));
    case Value::kFloat: return PyFloat_FromDouble(item_float(found));
    case Value::kBool: return PyBool_FromLong(item_bool(found));
  }
  return nullptr;
}

[[gnu::cold]] void raise(const Call& call) {
  const Ref text(PyUnicode_FromString(last_error()));
  PyObject* const args[] = {text.get()};
  const Ref error(PyObject_Vectorcall(call.fail.get(), args, 1, nullptr));
  if (error) PyErr_SetObject(error.get()->type, error.get());
}

/// Frees the handles and ignores an exception.
bool run(const Call& call, PyObject* const* args, Ref* results) {
  Run run;
  const int32_t failed = guarded(run, [&] {
    Handles inputs(call.params.size(), nullptr), outputs(call.result_values.size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = handle_of(call, call.param_values[i], args[i]);
    struct Unlocked {  // releases the GIL
      void* state = PyEval_SaveThread();
      ~Unlocked() { PyEval_RestoreThread(state); }
    };
    {
      const Unlocked unlocked;
      struct Taken {
        Handles& handles;
        ~Taken() { handles.clear(); }
      } const taken{inputs};
      call.container->run(inputs.data(), outputs.data(), run);
    }
    for (size_t i = 0; i < outputs.size(); ++i) results[i] = Ref(object_of(call, call.result_values[i], outputs[i]));
  });
  if (failed != 0) raise(call);
  return failed == 0 && PyErr_Occurred() == nullptr;
}

/// Takes ownership of the leaves from `next` on.
PyObject* build(const Tree& tree, Ref*& next) {
  if (tree.kind == kLeaf) return (next++)->give();
  const auto count = static_cast<Py_ssize_t>(tree.children.size());
  Ref made(tree.kind == kTuple ? PyTuple_New(count) : tree.kind == kDict ? PyDict_New() : PyList_New(count));
  for (Py_ssize_t i = 0; made && i < count; ++i) {
    Ref child(build(tree.children[static_cast<size_t>(i)], next));
    if (!child) return nullptr;
    if (tree.kind == kTuple) {
      PyTuple_SetItem(made.get(), i, child.give());
    } else if (tree.kind != kDict) {
      PyList_SetItem(made.get(), i, child.give());
    } else if (PyDict_SetItem(made.get(), tree.keys[static_cast<size_t>(i)].get(), child.get()) != 0) {
      return nullptr;
    }
  }
  if (!made || tree.kind != kOther) return made.give();
  PyObject* const args[] = {made.get()};
  return PyObject_Vectorcall(tree.make.get(), args, 1, nullptr);
}

/// Takes ownership of the objects.
PyObject* tuple_of(std::vector<Ref>& objects) {
  Ref made(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (size_t i = 0; made && i < objects.size(); ++i) {
    PyTuple_SetItem(made.get(), static_cast<Py_ssize_t>(i), objects[i].give());
  }
  return made.give();
}

/// Returns the model's output. Python finishes outputs other than unchanged results, arguments and constants.
PyObject* finish(const Call& call, PyObject* const* leaves, std::vector<Ref>& results) {
  std::vector<Ref> outputs;
  if (call.finish.get() != call.none.get()) {
    for (size_t i = 0; i < call.leaves; ++i) outputs.push_back(held(leaves[i]));
    const Ref given(tuple_of(outputs)), found(tuple_of(results));
    PyObject* const args[] = {given.get(), found.get()};
    return given && found ? PyObject_Vectorcall(call.finish.get(), args, 2, nullptr) : nullptr;
  }
  outputs.reserve(call.bindings.size());
  for (const Leaf& leaf : call.bindings) {
    PyObject* found = leaf.kind == 'r'   ? results[leaf.index].get()
                      : leaf.kind == 'i' ? leaves[leaf.index]
                                         : leaf.object.get();
    outputs.push_back(held(found));
  }
  Ref* next = outputs.data();
  return build(call.outputs, next);
}

// --- functions that Python calls

const Call& call_of(PyObject* self) { return *static_cast<Call*>(PyCapsule_GetPointer(self, kCall)); }

/// Calls the program with the model's arguments and returns the model's output.
PyObject* call_model(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Call& bound = call_of(self);
  auto** leaves = static_cast<PyObject**>(alloca((bound.leaves + 1) * sizeof(PyObject*)));
  auto** given = static_cast<PyObject**>(alloca((bound.params.size() + 1) * sizeof(PyObject*)));
  bool is_plain = bound.is_plain && arrange(bound, args, static_cast<size_t>(count), names, leaves);
  for (size_t i = 0; is_plain && i < bound.statics.size(); ++i) {
    is_plain = is_same(leaves[bound.statics[i].first], bound.statics[i].second.get());
  }
  for (size_t i = 0; is_plain && i < bound.params.size(); ++i) given[i] = leaves[bound.params[i]];
  if (!is_plain || !passes(bound, given) || needs_gradient(bound, leaves)) {
    PyErr_Clear();  // a check failed with an error
    return PyObject_Vectorcall(bound.slow.get(), args, static_cast<size_t>(count), names);
  }
  std::vector<Ref> results(bound.result_values.size());
  return run(bound, given, results.data()) ? finish(bound, leaves, results) : nullptr;
}

/// Calls `main` with checked arguments and returns a tuple of its results.
PyObject* run_checked(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  const Call& call = call_of(self);
  std::vector<Ref> results(call.result_values.size());
  if (static_cast<size_t>(count) != call.params.size() || !run(call, args, results.data())) return nullptr;
  return tuple_of(results);
}

void free_call(PyObject* self) { delete static_cast<Call*>(PyCapsule_GetPointer(self, kCall)); }

PyObject* function(PyMethodDef& method, const char* name, void* code, int flags, const Ref& self) {
  method = {name, code, flags, nullptr};
  return PyCFunction_NewEx(&method, self.get(), nullptr);
}

}  // namespace
}  // namespace wir

extern "C" {

/// Returns (call, run) over a new container, as `cpp_wrapper.library.python` describes it; an error text if the
/// container cannot be created.
__attribute__((visibility("default"), cold)) PyObject* wir_python(PyObject* facts) {
  using namespace wir;
  auto made = std::make_unique<Call>();
  Call& call = *made;
  Py_ssize_t at = 0;
  const auto next = [&] { return field(facts, at++); };
  const auto device = static_cast<int32_t>(PyLong_AsLongLong(next()));
  if (guarded([&] { call.container = new Container(device); }) != 0) {
    return PyUnicode_FromString(last_error());
  }
  call.offset = number(next());
  call.wrap = reinterpret_cast<PyObject* (*)(Tensor)>(number(next()));
  call.has_modes = reinterpret_cast<bool (*)(bool)>(number(next()));
  for (Ref* part : {&call.slow, &call.finish, &call.guard, &call.match, &call.fail, &call.autocast, &call.requires_grad,
                    &call.integer, &call.real, &call.truth, &call.tuple, &call.list, &call.none}) {
    *part = held(next());
  }
  call.is_plain = PyObject_IsTrue(next()) == 1;
  call.leaves = number(next());
  call.positional = number(next());
  each(next(), [&](PyObject* tree) { call.inputs.push_back(tree_of(tree)); });
  each(next(), [&](PyObject* name) { call.keywords.push_back(held(name)); });
  each(next(), [&](PyObject* item) { call.statics.emplace_back(number(field(item, 0)), held(field(item, 1))); });
  call.params = numbers_of(next());
  call.gradients = numbers_of(next());
  call.param_values = values_of(next());
  call.result_values = values_of(next());
  call.outputs = tree_of(next());
  each(next(), [&](PyObject* item) {
    call.bindings.push_back({static_cast<char>(number(field(item, 0))), number(field(item, 1)), held(field(item, 2))});
  });
  const Ref self(PyCapsule_New(made.release(), kCall, free_call));
  Ref first(function(call.call_method, "call", reinterpret_cast<void*>(&call_model), kFast | kKeywords, self));
  Ref second(function(call.run_method, "run", reinterpret_cast<void*>(&run_checked), kFast, self));
  Ref pair(PyTuple_New(3));
  PyTuple_SetItem(pair.get(), 0, first.give());
  PyTuple_SetItem(pair.get(), 1, second.give());
  PyTuple_SetItem(pair.get(), 2, PyLong_FromLongLong(static_cast<long long>(reinterpret_cast<uintptr_t>(call.container))));
  return pair.give();
}
}
