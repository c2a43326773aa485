// Tensors of a Python library, such as torch, as inputs and results of programs, by the C exchange interface of DLPack
// (https://dmlc.github.io/dlpack), of which version 1 is declared in dlpack.cpp as far as it is used. All functions are
// called with Python's global lock.
#pragma once

#include "numc.h"
#include "numc/host.h"
#include "program/container.hpp"
#include "python/stable_abi.hpp"

namespace numc {

struct DLExchange;

// The interface of version 1 among those at an address; null if there is none.
const DLExchange *exchange_at(const void *address);

// Whether an object is a dense, aligned tensor in memory of the dtype and shape of an input. If so, it becomes `to`. A
// Python exception may be set where it is not.
bool bind_tensor(const DLExchange &exchange, PyObject *object, const Value &want, numc_tensor &to);

// A new tensor that takes over the memory of a result; null with an exception if that fails. order: which dimension of
// the result is dimension d of the tensor, or null.
PyObject *tensor_of(const DLExchange &exchange, numc_tensor &from, const char *order);

}  // namespace numc
