// The part of Python's stable ABI (PEP 384) that numc uses, declared here so that one library serves every version of
// Python, and programs without one. The symbols are weak: they are those of the process, where it is Python.
#pragma once

#include <cstdint>

extern "C" {

struct PyObject;  // opaque
struct PyThreadState;

struct PyMethodDef {
  const char *name;
  PyObject *(*function)(PyObject *self, PyObject *const *arguments, intptr_t count);
  int flags;
  const char *text;
};

struct Py_buffer {
  void *data;
  PyObject *owner;
  intptr_t bytes, item;
  int read_only, rank;
  char *format;
  intptr_t *shape, *strides, *suboffsets;
  void *internal;
};

struct PyType_Slot {
  int slot;
  void *function;
};

struct PyType_Spec {
  const char *name;
  int size, item;
  unsigned flags;
  PyType_Slot *slots;
};

#define NUMC_OF_PYTHON __attribute__((weak, visibility("default")))
NUMC_OF_PYTHON void Py_IncRef(PyObject *object);
NUMC_OF_PYTHON void Py_DecRef(PyObject *object);
NUMC_OF_PYTHON PyObject *Py_BuildValue(const char *format, ...);
NUMC_OF_PYTHON PyObject *PyObject_Type(PyObject *object);
NUMC_OF_PYTHON PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
NUMC_OF_PYTHON int PyObject_IsTrue(PyObject *object);
NUMC_OF_PYTHON PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
NUMC_OF_PYTHON int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
NUMC_OF_PYTHON int PyBuffer_FillInfo(Py_buffer *view, PyObject *owner, void *data, intptr_t bytes, int read_only,
                                     int flags);
NUMC_OF_PYTHON void PyBuffer_Release(Py_buffer *view);
NUMC_OF_PYTHON intptr_t PyTuple_Size(PyObject *tuple);
NUMC_OF_PYTHON PyObject *PyTuple_New(intptr_t size);
NUMC_OF_PYTHON PyObject *PyTuple_GetItem(PyObject *tuple, intptr_t place);
NUMC_OF_PYTHON int PyTuple_SetItem(PyObject *tuple, intptr_t place, PyObject *object);
NUMC_OF_PYTHON PyObject *PyList_New(intptr_t size);
NUMC_OF_PYTHON int PyList_SetItem(PyObject *list, intptr_t place, PyObject *object);
NUMC_OF_PYTHON PyObject *PyLong_FromLongLong(long long value);
NUMC_OF_PYTHON void *PyLong_AsVoidPtr(PyObject *number);
NUMC_OF_PYTHON PyObject *PyUnicode_DecodeUTF8(const char *text, intptr_t bytes, const char *errors);
NUMC_OF_PYTHON char *PyBytes_AsString(PyObject *bytes);
NUMC_OF_PYTHON PyObject *PyCapsule_New(void *pointer, const char *name, void (*destructor)(PyObject *));
NUMC_OF_PYTHON void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
NUMC_OF_PYTHON PyObject *PyCFunction_NewEx(PyMethodDef *method, PyObject *self, PyObject *module);
NUMC_OF_PYTHON PyObject *PyType_FromSpec(PyType_Spec *spec);
NUMC_OF_PYTHON void *PyType_GetSlot(PyObject *type, int slot);
NUMC_OF_PYTHON PyObject *PyType_GenericAlloc(PyObject *type, intptr_t items);
NUMC_OF_PYTHON PyObject *PyErr_Occurred(void);
NUMC_OF_PYTHON void PyErr_Clear(void);
NUMC_OF_PYTHON PyObject *PyErr_NoMemory(void);
NUMC_OF_PYTHON PyThreadState *PyEval_SaveThread(void);
NUMC_OF_PYTHON void PyEval_RestoreThread(PyThreadState *state);
#undef NUMC_OF_PYTHON
}

namespace numc {

// METH_FASTCALL, PyBUF_WRITABLE, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS.
constexpr int kFastCall = 0x80, kWritable = 1, kDense = 0x4 | 0x8 | 0x10 | 0x20;
// Py_bf_getbuffer, Py_tp_dealloc, Py_tp_free.
constexpr int kSlotBuffer = 1, kSlotDealloc = 52, kSlotFree = 74;

}  // namespace numc
