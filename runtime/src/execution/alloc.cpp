// The allocator of generated code. A network allocates the same sizes in every run, so freed memory is kept, and runs
// after the first one take few page faults. Small blocks are kept by each thread and need no lock, and so is what a task
// of a loop takes for itself, up to a larger size: many threads would wait for each other before and after every task.
// Large blocks are shared by all threads, because a result is often freed on another thread than the one that allocated
// it. How many bytes of them are kept is bounded: before more memory is taken from the system, what is kept is given
// back, until it and the bytes in use together exceed the most that was ever in use by no more than a 32nd.
#include "execution/alloc.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>

#include "numc.h"
#include "numc/host.h"
#include "execution/check.hpp"
#include "execution/mutex.hpp"
#include "execution/pieces.hpp"
#include "execution/run.hpp"

namespace numc {

struct Block {
  uint32_t magic;
  uint32_t bin;       // or kLargeBin
  uint64_t capacity;  // bytes of the buffer behind the header
  Run *run;           // the run that owns the block while it is in use; large blocks only
  Block **list;       // the list of small blocks that it is in while it is in use, if any
  Block *previous, *next;  // of that list or of the run's large blocks while in use, of those in the bin while kept
};

namespace {

constexpr uint32_t kLive = 0x4e554d43, kFreed = 0x64656164;
constexpr size_t kHeader = 64;
// The largest small blocks have 64 KiB, and 1 MiB inside of tasks.
constexpr uint64_t kSmallUnits = 1 << 10, kTaskUnits = 1 << 14;
constexpr uint32_t kSmallBins = 97, kLargeBin = kSmallBins;  // bin 96 holds 1 MiB
constexpr uint64_t kKeepSmall = uint64_t{4} << 20, kKeepLarge = uint64_t{1} << 30, kKeepAlways = uint64_t{8} << 20;
static_assert(sizeof(Block) <= kHeader, "the header precedes a 64-byte aligned buffer");

// The bin and the capacity for a size. Capacities are the multiples of 64 up to 1024, then eight sizes for each power
// of two, and any multiple of 64 for large blocks. in_task: whether a task takes it for itself.
uint32_t bin_of(size_t size, bool in_task, uint64_t *capacity) {
  const uint64_t units = size == 0 ? 1 : (uint64_t{size} + 63) / 64;
  *capacity = units * 64;
  if (units <= 16) return static_cast<uint32_t>(units);
  if (units > (in_task ? kTaskUnits : kSmallUnits)) return kLargeBin;
  const unsigned exponent = 63u - static_cast<unsigned>(__builtin_clzll(units - 1));
  const unsigned shift = exponent - 3;
  const uint64_t steps = ((units - 1) >> shift) + 1;
  *capacity = (steps << shift) * 64;
  return 16 + (exponent - 4) * 8 + static_cast<uint32_t>(steps - 8);
}

void *data_of(Block *block) { return reinterpret_cast<char *>(block) + kHeader; }
Block *block_of(void *pointer) { return reinterpret_cast<Block *>(static_cast<char *>(pointer) - kHeader); }

Block *live(void *memory, uint32_t bin, uint64_t capacity) {
  return new (memory) Block{kLive, bin, capacity, nullptr, nullptr, nullptr, nullptr};
}

Block *small_from_system(uint64_t capacity, uint32_t bin) {
  void *memory = nullptr;
  return posix_memalign(&memory, 64, kHeader + capacity) == 0 ? live(memory, bin, capacity) : nullptr;
}

struct SmallCache {
  Block *bins[kSmallBins] = {};
  uint64_t bytes = 0;
  bool closed = false;  // the thread is ending: nothing is kept any more

  void clear() {
    for (auto *&bin : bins)
      while (bin != nullptr) {
        Block *next = bin->next;
        std::free(bin);
        bin = next;
      }
    bytes = 0;
  }
  ~SmallCache() {
    clear();
    closed = true;
  }
};

thread_local SmallCache small_cache;

struct LargeCache {
  Mutex mutex;
  Pieces pieces;
  uint64_t used = 0, most = 0;  // in use, and the most that was ever in use

  // The caller of every function below holds the mutex.
  Block *take(uint64_t capacity) try {
    char *memory = pieces.take(kHeader + capacity);
    if (memory == nullptr) {
      pieces.shrink(room(capacity));
      if (!pieces.grow(kHeader + capacity)) {
        pieces.shrink(0);
        if (!pieces.grow(kHeader + capacity)) return nullptr;
      }
      memory = pieces.take(kHeader + capacity);
    }
    used += capacity;
    if (used > most) most = used;
    return live(memory, kLargeBin, capacity);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }

  void give(Block *block) {
    block->magic = kFreed;
    used -= block->capacity;
    pieces.give(reinterpret_cast<char *>(block));
    pieces.shrink(kKeepLarge);
  }

  // How many bytes may be kept while `capacity` more are taken from the system.
  uint64_t room(uint64_t capacity) const {
    const uint64_t needed = used + capacity, peak = needed > most ? needed : most;
    const uint64_t left = peak + peak / 32 - needed;
    return left > kKeepAlways ? left : kKeepAlways;
  }
};

LargeCache &large_cache() {
  static LargeCache *const made = new LargeCache;
  return *made;
}

// The caller holds the mutex.
void own(Run *run, Block *block) {
  block->run = run;
  block->previous = nullptr;
  block->next = run != nullptr ? run->blocks : nullptr;
  if (block->next != nullptr) block->next->previous = block;
  if (run != nullptr) run->blocks = block;
}

// The caller holds the mutex.
void disown(Block *block) {
  if (block->run == nullptr) return;
  if (block->previous != nullptr) block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (block->run->blocks == block) block->run->blocks = block->next;
  block->run = nullptr;
  block->previous = block->next = nullptr;
}

// Small blocks of a run are in a list of the thread that allocates them, which frees them, too: no lock is needed.
void enlist(Block **list, Block *block) {
  block->list = list;
  block->previous = nullptr;
  block->next = *list;
  if (block->next != nullptr) block->next->previous = block;
  *list = block;
}

void delist(Block *block) {
  if (block->list == nullptr) return;
  if (block->previous != nullptr) block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (*block->list == block) *block->list = block->next;
  block->list = nullptr;
  block->previous = block->next = nullptr;
}

[[noreturn]] void bad_free() {
  if (current_escape != nullptr) numc_fail(NUMC_BAD_FREE);
  std::fputs("numc: numc_free of a pointer that numc_alloc did not give, or for the second time\n", stderr);
  std::abort();
}

}  // namespace

void free_small(Block *list) {
  while (list != nullptr) {
    Block *const next = list->next;
    numc_free(data_of(list));
    list = next;
  }
}

void move_small(Block *&from, Block *&to) {
  while (Block *const block = from) {
    delist(block);
    enlist(&to, block);
  }
}

bool release_from_run(Run &run, void *allocated) {
  if (checking()) return checked_release(run, allocated);
  for (Block *block = run.small; block != nullptr; block = block->next)
    if (data_of(block) == allocated) {
      delist(block);
      return true;
    }
  auto &cache = large_cache();
  const Lock lock(cache.mutex);
  for (Block *block = run.blocks; block != nullptr; block = block->next)
    if (data_of(block) == allocated) {
      disown(block);
      return true;
    }
  return false;
}

void release_all(Run &run) {
  if (checking()) return checked_release_all(run);
  while (run.small != nullptr) delist(run.small);
  const Lock lock(large_cache().mutex);
  while (run.blocks != nullptr) disown(run.blocks);
}

void free_run(Run &run) {
  if (checking()) return checked_free_run(run);
  free_small(run.small);
  auto &cache = large_cache();
  const Lock lock(cache.mutex);
  while (Block *const block = run.blocks) {
    disown(block);
    cache.give(block);
  }
}

}  // namespace numc

using namespace numc;

extern "C" {

void *numc_alloc(size_t size) {
  if (size > size_t{1} << 46) return nullptr;  // more than a process can address
  if (checking()) return checked_alloc(size, current_run != nullptr ? current_run->layout : Layout::kEndsAtGuard);
  uint64_t capacity;
  const uint32_t bin = bin_of(size, parallel_depth > 0, &capacity);
  if (bin < kSmallBins) {
    Block *block = small_cache.bins[bin];
    if (block != nullptr) {
      small_cache.bins[bin] = block->next;
      small_cache.bytes -= block->capacity;
      block->magic = kLive;
      block->next = nullptr;
    } else if ((block = small_from_system(capacity, bin)) == nullptr) {
      return nullptr;
    }
    if (current_escape != nullptr) enlist(&current_escape->small, block);
    return data_of(block);
  }
  auto &cache = large_cache();
  const Lock lock(cache.mutex);
  if (current_run != nullptr && cache.used + capacity > current_run->memory) return nullptr;
  Block *const block = cache.take(capacity);
  if (block == nullptr) return nullptr;
  own(current_run, block);
  return data_of(block);
}

void numc_free(void *pointer) {
  if (pointer == nullptr) return;
  if (checking()) {
    if (!checked_free(pointer)) bad_free();
    return;
  }
  Block *block = block_of(pointer);
  if (block->magic != kLive) bad_free();
  if (block->bin < kSmallBins) {
    block->magic = kFreed;
    delist(block);
    if (small_cache.closed || small_cache.bytes + block->capacity > kKeepSmall) {
      std::free(block);
      return;
    }
    block->next = small_cache.bins[block->bin];
    small_cache.bins[block->bin] = block;
    small_cache.bytes += block->capacity;
    return;
  }
  auto &cache = large_cache();
  const Lock lock(cache.mutex);
  disown(block);
  cache.give(block);
}

void numc_trim(void) {
  small_cache.clear();
  auto &cache = large_cache();
  const Lock lock(cache.mutex);
  cache.pieces.shrink(0);
}
}
