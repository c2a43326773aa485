// The largest magnitude of every row or lane of an operand, for formats that are scaled by channel.
#pragma once

#include <cstdint>

namespace numc {

// An operand: the element of batch b, row or lane p and step k is data[batch[b] + place[p] + k_offset[k]].
struct ChannelOperand {
  const float *data;
  const int64_t *batch, *place, *k_offset;
  int64_t batches, places, depth;  // the lengths of the tables
};

// The magnitudes as the bits of float32 numbers: for each batch those of all rows or lanes, then zeros up to a multiple
// of `extent`, the rows or lanes of a panel. To be released with numc_free. Ends the run if memory is short.
int32_t *channel_magnitudes(const ChannelOperand &operand, int64_t extent);

}  // namespace numc
