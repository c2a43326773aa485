// Arrays of numpy as inputs and results of programs, by Python's buffer protocol. All functions are called with
// Python's global lock.
#pragma once

#include <vector>

#include "numc.h"
#include "numc/host.h"
#include "program/container.hpp"
#include "python/stable_abi.hpp"

namespace numc {

// The buffers of the arrays of one run. Nobody can give the memory of an array back before they are released.
class Buffers {
 public:
  explicit Buffers(size_t most) { views_.reserve(most); }
  ~Buffers();
  Buffers(const Buffers &) = delete;
  Buffers &operator=(const Buffers &) = delete;

  // Whether an array is dense, aligned and of the dtype and shape of an input, and can be written to if the program
  // updates it. If so, it becomes `to`. format: of its elements, in the letters of Python's module struct. A Python
  // exception may be set where it is not.
  bool bind(PyObject *array, const Value &want, char format, bool updated, numc_tensor &to);

 private:
  std::vector<Py_buffer> views_;
};

// A new type whose objects own the memory of one result each. header: the bytes of an object without content, which
// differ from one build of Python to another. Null with an exception if there is not enough memory.
PyObject *new_memory_type(size_t header);

// A new array, an object of the type `ndarray`, that takes over the memory of a result; null with an exception if that
// fails. memory: what new_memory_type returned.
PyObject *array_of(PyObject *ndarray, PyObject *memory, PyObject *dtype, numc_tensor &from);

}  // namespace numc
