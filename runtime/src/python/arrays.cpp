#include "python/arrays.hpp"

#include <cstring>

namespace numc {
namespace {

struct Memory {
  void *owner, *data;
  intptr_t bytes;
};

size_t header_of_objects = 0;  // the same for all interpreters of a process

Memory &memory_in(PyObject *object) {
  return *reinterpret_cast<Memory *>(reinterpret_cast<char *>(object) + header_of_objects);
}

int fill_buffer(PyObject *self, Py_buffer *view, int flags) {
  const Memory &memory = memory_in(self);
  return PyBuffer_FillInfo(view, self, memory.data, memory.bytes, 0, flags);
}

void end(PyObject *self) {
  numc_free(memory_in(self).owner);
  PyObject *const type = PyObject_Type(self);
  reinterpret_cast<void (*)(PyObject *)>(PyType_GetSlot(type, kSlotFree))(self);
  Py_DecRef(type);
  Py_DecRef(type);  // the one that the object had
}

PyObject *shape_of(const numc_tensor &tensor) {
  PyObject *const shape = PyTuple_New(tensor.rank);
  for (int32_t d = 0; shape != nullptr && d < tensor.rank; ++d) {
    PyObject *const size = PyLong_FromLongLong(tensor.dims[d]);
    if (size == nullptr || PyTuple_SetItem(shape, d, size) != 0) {
      Py_DecRef(shape);
      return nullptr;
    }
  }
  return shape;
}

}  // namespace

Buffers::~Buffers() {
  for (Py_buffer &view : views_) PyBuffer_Release(&view);
}

bool Buffers::bind(PyObject *array, const Value &want, char format, bool updated, numc_tensor &to) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, kDense | (updated ? kWritable : 0)) != 0) return false;
  views_.push_back(view);
  const size_t rank = want.dims.size(), item = item_size(want.dtype);
  if (view.rank != static_cast<int>(rank) || view.item != static_cast<intptr_t>(item) || view.format[0] != format ||
      view.format[1] != '\0')
    return false;
  to.data = view.data;
  to.dtype = want.dtype;
  to.rank = view.rank;
  for (size_t d = 0; d < rank; ++d) {
    to.dims[d] = view.shape[d];
    if (want.dims[d] >= 0 && to.dims[d] != want.dims[d]) return false;
  }
  return view.bytes == 0 || reinterpret_cast<uintptr_t>(view.data) % item == 0;
}

PyObject *new_memory_type(size_t header) {
  header_of_objects = header;
  static PyType_Slot slots[] = {{kSlotBuffer, reinterpret_cast<void *>(fill_buffer)},
                                {kSlotDealloc, reinterpret_cast<void *>(end)},
                                {0, nullptr}};
  PyType_Spec spec{"numc.runtime.Memory", static_cast<int>(header + sizeof(Memory)), 0, 0, slots};
  return PyType_FromSpec(&spec);
}

PyObject *array_of(PyObject *ndarray, PyObject *memory, PyObject *dtype, numc_tensor &from) {
  PyObject *const owner = PyType_GenericAlloc(memory, 0);
  if (owner == nullptr) {
    numc_tensor_release(&from);
    return nullptr;
  }
  memory_in(owner) = {from.owner, from.data, static_cast<intptr_t>(bytes_of(from))};
  PyObject *const shape = shape_of(from);
  PyObject *const array =
      shape != nullptr ? PyObject_CallFunctionObjArgs(ndarray, shape, dtype, owner, nullptr) : nullptr;
  if (shape != nullptr) Py_DecRef(shape);
  Py_DecRef(owner);
  return array;
}

}  // namespace numc
