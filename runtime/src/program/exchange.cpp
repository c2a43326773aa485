// Tensors of a Python library, such as torch, as inputs and results of programs, by the C exchange interface of DLPack
// (https://dmlc.github.io/dlpack), of which version 1 is declared here as far as it is used.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <new>
#include <vector>

#include "numc.h"
#include "program/program.hpp"

namespace {

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

size_t memory_of(const numc_tensor &tensor) {
  size_t bytes = numc::item_size(tensor.dtype);
  for (int32_t d = 0; d < tensor.rank; ++d) bytes *= static_cast<size_t>(tensor.dims[d]);
  return bytes;
}

// Whether `from` is a dense, aligned tensor in memory of the dtype and shape of an input. If so, it becomes `to`.
bool bind(const numc::Value &want, const DLTensor &from, numc_tensor &to) {
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

// Whether no input that the program updates shares memory with another one.
bool apart(const numc_program &program, const numc_tensor *inputs) {
  struct Extent {
    uintptr_t begin, end;
    bool updated;
  };
  std::vector<Extent> extents;
  std::vector<bool> updated(program.inputs.size());
  bool any = false;
  for (const int64_t input : program.abi.updated)
    if (input >= 0) any = updated[static_cast<size_t>(input)] = true;
  if (!any) return true;
  for (size_t i = 0; i < updated.size(); ++i) {
    const auto begin = reinterpret_cast<uintptr_t>(inputs[i].data);
    if (const size_t bytes = memory_of(inputs[i])) extents.push_back({begin, begin + bytes, updated[i]});
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

// What a tensor that numc makes consists of: its shape and strides lie behind it.
void free_managed(DLManagedTensor *managed) {
  numc_free(managed->context);
  std::free(managed);
}

// Returns null if memory is short. order: which dimension of `from` is dimension d of the tensor, or null.
DLManagedTensor *managed_of(const numc_tensor &from, const int32_t *order) {
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

const DLExchange *version_1(const void *exchange) {
  const auto *found = static_cast<const DLExchange *>(exchange);
  while (found != nullptr && found->major != 1) found = found->previous;
  return found;
}

}  // namespace

extern "C" {

int32_t numc_bind(const numc_program *program, const numc_exchange *exchange, void *objects, numc_tensor *inputs) {
  const DLExchange *const dlpack = version_1(exchange->dlpack);
  if (dlpack == nullptr || dlpack->from_object == nullptr) return NUMC_BAD_INPUT;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    DLTensor tensor;
    void *const object = exchange->item(objects, static_cast<intptr_t>(i));
    if (object == nullptr || dlpack->from_object(object, &tensor) != 0 ||
        !bind(*program->inputs[i], tensor, inputs[i]))
      return NUMC_BAD_INPUT;
  }
  return apart(*program, inputs) ? NUMC_OK : NUMC_BAD_INPUT;
}

int32_t numc_wrap(const numc_program *program, const numc_exchange *exchange, const numc_tensor *inputs,
                  numc_tensor *outputs, const int32_t *const *orders, void *objects) {
  const DLExchange *const dlpack = version_1(exchange->dlpack);
  int32_t code = dlpack != nullptr ? NUMC_OK : NUMC_BAD_INPUT;
  for (size_t i = 0; i < program->abi.results.size(); ++i) {
    numc_tensor &output = outputs[i];
    if (const int64_t updated = program->abi.updated[i]; updated >= 0) {
      const numc_tensor &input = inputs[updated];
      if (output.data != input.data) std::memcpy(input.data, output.data, memory_of(output));
      numc_tensor_release(&output);
      continue;
    }
    DLManagedTensor *const managed = code == NUMC_OK ? managed_of(output, orders ? orders[i] : nullptr) : nullptr;
    if (managed == nullptr) {
      numc_tensor_release(&output);
      code = code == NUMC_OK ? NUMC_OUT_OF_MEMORY : code;
      continue;
    }
    void *object = nullptr;
    // Whether a library that fails has freed the tensor is not defined.
    if (dlpack->to_object(managed, &object) != 0 ||
        exchange->set_item(objects, static_cast<intptr_t>(i), object) != 0)
      code = NUMC_BAD_INPUT;
  }
  return code;
}
}
