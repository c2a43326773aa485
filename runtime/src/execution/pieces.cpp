#include "execution/pieces.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace numc {
namespace {

// Memory comes and goes in huge pages: one that is given back in part stays as a whole.
constexpr size_t kHugePage = size_t{2} << 20, kUseHuge = size_t{4} << 20;

size_t rounded(size_t size) { return (size + kHugePage - 1) / kHugePage * kHugePage; }

char *up(char *place) { return reinterpret_cast<char *>(rounded(reinterpret_cast<uintptr_t>(place))); }

char *map(char *hint, size_t size) {
  void *const memory = mmap(hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

}  // namespace

char *Pieces::take(size_t size) {
  const auto found = by_size_.lower_bound({size, nullptr});
  if (found == by_size_.end()) return nullptr;
  const Place place = pieces_.find(found->second);
  const size_t rest = found->first - size;
  if (rest == 0) {
    leave(place);
    return place->first;
  }
  add(place->first + rest, size);  // the lower end stays free, below which memory is added
  leave(place);
  place->second.size = rest;
  enter(place);
  return place->first + rest;
}

bool Pieces::grow(size_t size) {
  char *memory = nullptr;
  if (!pieces_.empty()) {
    // Below the lowest piece, which then need not be mapped again if it is free.
    char *const lowest = pieces_.begin()->first;
    const size_t there = is_free(pieces_.begin()) ? pieces_.begin()->second.size : 0;
    const size_t missing = rounded(there < size ? size - there : size);
    memory = map(lowest - missing, missing);
    if (memory == lowest - missing)
      size = missing;
    else if (memory != nullptr)
      munmap(memory, missing), memory = nullptr;
  }
  if (memory == nullptr) {
    size = rounded(size);
    char *const wide = map(nullptr, size + kHugePage);
    if (wide == nullptr) return false;
    memory = up(wide);
    if (memory > wide) munmap(wide, static_cast<size_t>(memory - wide));
    munmap(memory + size, static_cast<size_t>(wide + kHugePage - memory));
  }
  if (size >= kUseHuge || total_ >= 4 * kUseHuge) madvise(memory, size, MADV_HUGEPAGE);
  try {
    add(memory, size);
  } catch (const std::bad_alloc &) {
    munmap(memory, size);
    return false;
  }
  total_ += size;
  give(memory);
  return true;
}

void Pieces::give(char *piece) {
  Place place = pieces_.find(piece);
  if (place != pieces_.begin()) {
    const Place before = std::prev(place);
    if (is_free(before) && before->first + before->second.size == piece) {
      leave(before);
      before->second.size += place->second.size;
      pieces_.erase(place);
      place = before;
    }
  }
  const Place after = std::next(place);
  if (after != pieces_.end() && is_free(after) && place->first + place->second.size == after->first) {
    place->second.size += after->second.size;
    leave(after);
    pieces_.erase(after);
  }
  enter(place);
}

void Pieces::shrink(uint64_t limit) {
  auto next = by_size_.end();
  while (free_ > limit && next != by_size_.begin()) {
    const auto [size, begin] = *--next;
    if (size < kHugePage) return;
    // What is needed of it, from its upper end.
    char *const end = up(begin + size + 1) - kHugePage;
    const size_t whole = end > up(begin) ? static_cast<size_t>(end - up(begin)) : 0;
    const size_t given = std::min(whole, rounded(free_ - limit));
    if (given == 0) continue;
    const Place place = pieces_.find(begin);
    if (begin + size > end) {
      try {
        enter(add(end, static_cast<size_t>(begin + size - end)));
      } catch (const std::bad_alloc &) {
        return;
      }
    }
    leave(place);
    munmap(end - given, given);
    total_ -= given;
    place->second.size = static_cast<size_t>(end - given - begin);
    if (place->second.size > 0)
      enter(place);
    else
      pieces_.erase(place);
    next = by_size_.lower_bound({size, begin});
  }
}

Pieces::Place Pieces::add(char *begin, size_t size) {
  BySize single{{size, begin}};
  return pieces_.emplace(begin, Piece{size, single.extract(single.begin())}).first;
}

void Pieces::leave(Place place) {
  place->second.node = by_size_.extract({place->second.size, place->first});
  free_ -= place->second.size;
}

void Pieces::enter(Place place) {
  place->second.node.value() = {place->second.size, place->first};
  by_size_.insert(std::move(place->second.node));
  free_ += place->second.size;
}

}  // namespace numc
