#include "kernels/channel_magnitudes.hpp"

#include <cstring>

#include "kernels/offset_tables.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"

namespace numc {
namespace {

constexpr int64_t kPlaces = 16;  // rows or lanes that one task looks at

struct Search {
  ChannelOperand operand;
  int64_t padded, pieces;  // of a batch: its words in the result, its tasks
  int32_t *out;
};

void search_channels(void *context, int64_t begin, int64_t end) {
  const Search &s = *static_cast<Search *>(context);
  const ChannelOperand &o = s.operand;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / s.pieces, first = task % s.pieces * kPlaces;
    const int64_t last = o.places - first < kPlaces ? o.places : first + kPlaces;
    int32_t most[kPlaces] = {};
    for (int64_t k = 0; k < o.depth; ++k) {
      const float *const x = o.data + o.batch[batch] + o.k_offset[k];
      for (int64_t p = first; p < last; ++p) {
        int32_t bits;
        std::memcpy(&bits, x + o.place[p], 4);
        bits &= 0x7fffffff;
        if (bits > most[p - first]) most[p - first] = bits;
      }
    }
    for (int64_t p = first; p < last; ++p) s.out[batch * s.padded + p] = most[p - first];
  }
}

}  // namespace

int32_t *channel_magnitudes(const ChannelOperand &operand, int64_t extent) {
  Search s{operand, ceil_div(operand.places, extent) * extent, ceil_div(operand.places, kPlaces), nullptr};
  const size_t size = static_cast<size_t>(operand.batches * s.padded + 1) * 4;
  s.out = static_cast<int32_t *>(numc_alloc(size));
  if (s.out == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  std::memset(s.out, 0, size);
  numc_parallel(search_channels, &s, operand.batches * s.pieces, -1);
  return s.out;
}

}  // namespace numc
