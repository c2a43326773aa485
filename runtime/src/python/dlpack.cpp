#include "python/dlpack.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace numc {

struct DLTensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  uint32_t major, minor;
  void *context;
  void (*deleter)(DLManagedTensor *);
  uint64_t flags;
  DLTensor tensor;
};

struct DLExchange {
  uint32_t major, minor;
  DLExchange *previous;
  void *allocate, *managed_from_object;
  int (*to_object)(DLManagedTensor *tensor, void **object);
  int (*from_object)(void *object, DLTensor *tensor);
};

namespace {

constexpr int32_t kCpu = 1;

struct Kind {
  uint8_t code, bits;
};

// The type of a numc_dtype in DLPack. Results of types that not every library has are uint8, as the bits of values.
Kind kind_of(int32_t dtype) {
  enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
  switch (dtype) {
    case NUMC_F32: return {kFloat, 32};
    case NUMC_F64: return {kFloat, 64};
    case NUMC_F16: return {kFloat, 16};
    case NUMC_BF16: return {kBfloat, 16};
    case NUMC_I1: return {kBool, 8};
    case NUMC_I8: return {kInt, 8};
    case NUMC_I16: return {kInt, 16};
    case NUMC_I32: return {kInt, 32};
    case NUMC_I64: return {kInt, 64};
    case NUMC_U16: return {kUInt, 16};
    case NUMC_U32: return {kUInt, 32};
    case NUMC_U64: return {kUInt, 64};
    default: return {kUInt, 8};
  }
}

bool has_kind(int32_t dtype) { return dtype == NUMC_U8 || kind_of(dtype).code != 1 || kind_of(dtype).bits != 8; }

// Whether `from` is a dense, aligned tensor in memory of the dtype and shape of an input. If so, it becomes `to`.
bool bind(const Value &want, const DLTensor &from, numc_tensor &to) {
  const Kind kind = kind_of(want.dtype);
  const size_t rank = want.dims.size();
  if (!has_kind(want.dtype) || from.code != kind.code || from.bits != kind.bits || from.lanes != 1 ||
      from.device_type != kCpu || from.rank != static_cast<int32_t>(rank))
    return false;
  to.data = static_cast<char *>(from.data) + from.byte_offset;
  to.dtype = want.dtype;
  to.rank = from.rank;
  bool dense = true, empty = false;
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    const int64_t size = from.shape[d];
    if (want.dims[d] >= 0 && size != want.dims[d]) return false;
    dense &= size == 1 || from.strides == nullptr || from.strides[d] == stride;
    empty |= size == 0;
    stride *= size;
    to.dims[d] = size;
  }
  return empty || (dense && from.data != nullptr && reinterpret_cast<uintptr_t>(to.data) % (kind.bits / 8) == 0);
}

// What a tensor that numc makes consists of: its shape and strides lie behind it.
void free_managed(DLManagedTensor *managed) {
  numc_free(managed->context);
  std::free(managed);
}

// Returns null if memory is short. order: which dimension of `from` is dimension d of the tensor, or null.
DLManagedTensor *managed_of(const numc_tensor &from, const char *order) {
  const auto rank = static_cast<size_t>(from.rank);
  void *const memory = std::malloc(sizeof(DLManagedTensor) + 2 * rank * sizeof(int64_t));
  if (memory == nullptr) return nullptr;
  auto *const shape = reinterpret_cast<int64_t *>(static_cast<char *>(memory) + sizeof(DLManagedTensor));
  int64_t *const strides = shape + rank, dense[NUMC_MAX_RANK];
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0; stride *= std::max<int64_t>(from.dims[d], 1)) dense[d] = stride;
  for (size_t d = 0; d < rank; ++d) {
    const size_t place = order != nullptr ? static_cast<size_t>(order[d]) : d;
    shape[d] = from.dims[place];
    strides[d] = dense[place];
  }
  const Kind kind = kind_of(from.dtype);
  return new (memory) DLManagedTensor{
      1, 0, from.owner, free_managed, 0,
      {from.data, kCpu, 0, from.rank, kind.code, kind.bits, 1, shape, strides, 0}};
}

}  // namespace

const DLExchange *exchange_at(const void *address) {
  const auto *found = static_cast<const DLExchange *>(address);
  while (found != nullptr && (found->major != 1 || found->from_object == nullptr)) found = found->previous;
  return found;
}

bool bind_tensor(const DLExchange &exchange, PyObject *object, const Value &want, numc_tensor &to) {
  DLTensor tensor;
  return exchange.from_object(object, &tensor) == 0 && bind(want, tensor, to);
}

PyObject *tensor_of(const DLExchange &exchange, numc_tensor &from, const char *order) {
  DLManagedTensor *const managed = managed_of(from, order);
  if (managed == nullptr) {
    numc_tensor_release(&from);
    return PyErr_NoMemory();
  }
  void *object = nullptr;
  // Whether a library that fails has freed the tensor is not defined.
  if (exchange.to_object(managed, &object) == 0) return static_cast<PyObject *>(object);
  return PyErr_Occurred() != nullptr ? nullptr : PyErr_NoMemory();
}

}  // namespace numc
