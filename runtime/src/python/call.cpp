// numc_caller: a function of Python that runs a program on arrays and tensors as they are. A call of a small program
// takes a microsecond, of which nothing is left for what ctypes or Python code would do.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "execution/thread_exit.hpp"
#include "numc.h"
#include "numc/host.h"
#include "program/program.hpp"
#include "python/arrays.hpp"
#include "python/dlpack.hpp"
#include "python/stable_abi.hpp"

namespace numc {
namespace {

constexpr char kName[] = "numc_caller";

// What the calls of one program need. Objects are borrowed from the tuple `given`, which it owns.
struct Caller {
  numc_program *program;
  PyObject *given;
  PyObject *ndarray, *memory, *dtypes;
  const char *formats;                   // of the inputs
  std::vector<bool> updated;             // of the inputs: whether the program updates it
  const DLExchange *exchange = nullptr;  // of torch, if it is loaded
  PyObject *tensor = nullptr, *parameter = nullptr, *is_neg = nullptr, *tensor_dtypes = nullptr;

  Caller(numc_program *of, PyObject *from) : program(of), given(from), updated(of->inputs.size()) {
    ndarray = PyTuple_GetItem(given, 0);
    memory = PyTuple_GetItem(given, 1);
    formats = PyBytes_AsString(PyTuple_GetItem(given, 2));
    dtypes = PyTuple_GetItem(given, 3);
    for (const int64_t input : of->abi.updated)
      if (input >= 0) updated[static_cast<size_t>(input)] = true;
    if (PyTuple_Size(given) > 4) {
      tensor = PyTuple_GetItem(given, 4);
      parameter = PyTuple_GetItem(given, 5);
      is_neg = PyTuple_GetItem(given, 6);
      tensor_dtypes = PyTuple_GetItem(given, 7);
      exchange = exchange_at(PyLong_AsVoidPtr(PyTuple_GetItem(given, 8)));
    }
    Py_IncRef(given);
  }
  ~Caller() { Py_DecRef(given); }
  Caller(const Caller &) = delete;
  Caller &operator=(const Caller &) = delete;
};

PyObject *none() { return Py_BuildValue(""); }

// The exact type of an object.
const PyObject *type_of(PyObject *object) {
  PyObject *const type = PyObject_Type(object);
  Py_DecRef(type);  // the object has one, too
  return type;
}

// Whether the memory of a tensor holds its values, and not their negatives.
bool is_plain(PyObject *is_neg, PyObject *value) {
  PyObject *const found = PyObject_CallFunctionObjArgs(is_neg, value, nullptr);
  if (found == nullptr) return false;
  const int truth = PyObject_IsTrue(found);
  Py_DecRef(found);
  return truth == 0;
}

// Whether a tensor has the dtype that an input needs, if DLPack cannot tell it from others of torch.
bool has_dtype(PyObject *value, PyObject *want) {
  if (PyObject_IsTrue(want) == 0) return true;
  PyObject *const dtype = PyObject_GetAttrString(value, "dtype");
  if (dtype != nullptr) Py_DecRef(dtype);
  return dtype == want;
}

// Whether no input that the program updates shares memory with another one.
bool apart(const std::vector<bool> &updated, const numc_tensor *inputs) {
  struct Extent {
    uintptr_t begin, end;
    bool updated;
  };
  if (std::find(updated.begin(), updated.end(), true) == updated.end()) return true;
  std::vector<Extent> extents;
  for (size_t i = 0; i < updated.size(); ++i) {
    const auto begin = reinterpret_cast<uintptr_t>(inputs[i].data);
    if (const size_t bytes = bytes_of(inputs[i])) extents.push_back({begin, begin + bytes, updated[i]});
  }
  std::sort(extents.begin(), extents.end(), [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  uintptr_t furthest = 0, furthest_updated = 0;
  for (const Extent &extent : extents) {
    if (extent.begin < (extent.updated ? furthest : furthest_updated)) return false;
    furthest = std::max(furthest, extent.end);
    if (extent.updated) furthest_updated = std::max(furthest_updated, extent.end);
  }
  return true;
}

// Makes the values of a tuple the inputs of a run, without a copy; false if one of them is not as it has to be. `tensors`
// is set if one is a tensor.
bool bind(const Caller &caller, PyObject *values, Buffers &buffers, numc_tensor *inputs, bool &tensors) {
  if (PyTuple_Size(values) != static_cast<intptr_t>(caller.updated.size())) return false;
  for (size_t i = 0; i < caller.updated.size(); ++i) {
    const auto place = static_cast<intptr_t>(i);
    PyObject *const value = PyTuple_GetItem(values, place);
    const Value &want = *caller.program->inputs[i];
    const PyObject *const type = type_of(value);
    if (type == caller.ndarray) {
      if (!buffers.bind(value, want, caller.formats[i], caller.updated[i], inputs[i])) return false;
      continue;
    }
    if (caller.exchange == nullptr || (type != caller.tensor && type != caller.parameter)) return false;
    if (!has_dtype(value, PyTuple_GetItem(caller.tensor_dtypes, place)) ||
        !is_plain(caller.is_neg, value) || !bind_tensor(*caller.exchange, value, want, inputs[i]))
      return false;
    tensors = true;
  }
  return apart(caller.updated, inputs);
}

// Runs the program while other threads of Python may run. Inputs that it updates have their new values afterwards.
int32_t run(const Caller &caller, const numc_tensor *inputs, numc_tensor *outputs, const numc_run_options *options,
            char **error) {
  PyThreadState *const state = PyEval_SaveThread();
  const int32_t code = numc_run_with(caller.program, inputs, outputs, options, error);
  const auto &updated = caller.program->abi.updated;
  for (size_t i = 0; code == NUMC_OK && i < updated.size(); ++i) {
    if (updated[i] < 0) continue;
    const numc_tensor &input = inputs[updated[i]];
    if (outputs[i].data != input.data) std::memcpy(input.data, outputs[i].data, bytes_of(input));
    numc_tensor_release(&outputs[i]);
  }
  call_to_the_end([](void *mine) { PyEval_RestoreThread(static_cast<PyThreadState *>(mine)); }, state);
  return code;
}

// The results of a run as a list: arrays or tensors, and for one that updates an input the value that was given.
PyObject *results_of(const Caller &caller, PyObject *values, numc_tensor *outputs, bool tensors, const char *orders) {
  const auto &updated = caller.program->abi.updated;
  PyObject *const list = PyList_New(static_cast<intptr_t>(updated.size()));
  bool good = list != nullptr;
  for (size_t i = 0; i < updated.size(); ++i) {
    const auto place = static_cast<intptr_t>(i);
    PyObject *found = nullptr;
    if (updated[i] >= 0) {
      found = PyTuple_GetItem(values, static_cast<intptr_t>(updated[i]));
      Py_IncRef(found);
    } else if (!good) {
      numc_tensor_release(&outputs[i]);
    } else if (tensors) {
      found = tensor_of(*caller.exchange, outputs[i], orders != nullptr ? orders + i * NUMC_MAX_RANK : nullptr);
    } else {
      found = array_of(caller.ndarray, caller.memory, PyTuple_GetItem(caller.dtypes, place), outputs[i]);
    }
    good = good && found != nullptr && PyList_SetItem(list, place, found) == 0;
  }
  if (good) return list;
  if (list != nullptr) Py_DecRef(list);
  return nullptr;
}

PyObject *failure(int32_t code, char *text) {
  const char *const known = text != nullptr ? text : "unknown error";
  PyObject *const decoded = PyUnicode_DecodeUTF8(known, static_cast<intptr_t>(std::strlen(known)), "replace");
  numc_string_free(text);
  return decoded != nullptr ? Py_BuildValue("(iN)", code, decoded) : nullptr;
}

// (values, address of a numc_run_options, whether results are tensors in any case, orders): see numc.h.
PyObject *call(PyObject *self, PyObject *const *arguments, intptr_t) try {
  const auto &caller = *static_cast<const Caller *>(PyCapsule_GetPointer(self, kName));
  PyObject *const values = arguments[0];
  const auto *const options = static_cast<const numc_run_options *>(PyLong_AsVoidPtr(arguments[1]));
  bool tensors = PyObject_IsTrue(arguments[2]) == 1;
  const char *const orders = PyObject_IsTrue(arguments[3]) == 1 ? PyBytes_AsString(arguments[3]) : nullptr;
  const size_t count = caller.updated.size();
  std::vector<numc_tensor> given(count + caller.program->abi.results.size());
  Buffers buffers{count};
  if (!bind(caller, values, buffers, given.data(), tensors) || (tensors && caller.exchange == nullptr)) {
    PyErr_Clear();
    return none();
  }
  char *error = nullptr;
  const int32_t code = run(caller, given.data(), given.data() + count, options, &error);
  if (code != NUMC_OK) return failure(code, error);
  return results_of(caller, values, given.data() + count, tensors, orders);
} catch (const std::bad_alloc &) {
  return PyErr_NoMemory();
}

PyMethodDef method{kName, call, kFastCall, nullptr};

void free_caller(PyObject *capsule) { delete static_cast<Caller *>(PyCapsule_GetPointer(capsule, kName)); }

}  // namespace
}  // namespace numc

using namespace numc;

extern "C" {

void *numc_memory_type(size_t header) { return new_memory_type(header); }

void *numc_caller(numc_program *program, void *given) try {
  auto caller = std::make_unique<Caller>(program, static_cast<PyObject *>(given));
  PyObject *const capsule = PyCapsule_New(caller.get(), kName, free_caller);
  if (capsule == nullptr) return nullptr;
  caller.release();
  PyObject *const function = PyCFunction_NewEx(&method, capsule, nullptr);
  Py_DecRef(capsule);
  return function;
} catch (const std::bad_alloc &) {
  return PyErr_NoMemory();
}
}
