#include "execution/pieces.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

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
  const auto [whole, begin] = *found;
  const size_t rest = whole - size;
  const Place place = pieces_.find(begin);
  drop_free(place);
  if (rest > 0) add_free(begin, rest);  // the lower end, below which memory is added
  pieces_.insert_or_assign(begin + rest, Piece{size, false});
  return begin + rest;
}

bool Pieces::grow(size_t size) {
  char *memory = nullptr;
  if (!pieces_.empty()) {
    // Below the lowest piece, which then need not be mapped again if it is free.
    const auto &[lowest, piece] = *pieces_.begin();
    const size_t missing = rounded(piece.free && piece.size < size ? size - piece.size : size);
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
  total_ += size;
  pieces_.emplace(memory, Piece{size, false});
  give(memory);
  return true;
}

void Pieces::give(char *piece) {
  const Place place = pieces_.find(piece), after = std::next(place);
  size_t size = place->second.size;
  if (after != pieces_.end() && after->second.free && piece + size == after->first) {
    size += after->second.size;
    drop_free(after);
  }
  if (place != pieces_.begin()) {
    const Place before = std::prev(place);
    if (before->second.free && before->first + before->second.size == piece) {
      size += before->second.size;
      pieces_.erase(place);
      piece = before->first;
      drop_free(before);
    }
  }
  add_free(piece, size);
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
    munmap(end - given, given);
    total_ -= given;
    drop_free(pieces_.find(begin));
    if (end - given > begin) add_free(begin, static_cast<size_t>(end - given - begin));
    if (begin + size > end) add_free(end, static_cast<size_t>(begin + size - end));
    next = by_size_.lower_bound({size, begin});
  }
}

void Pieces::add_free(char *begin, size_t size) {
  pieces_.insert_or_assign(begin, Piece{size, true});
  by_size_.insert({size, begin});
  free_ += size;
}

void Pieces::drop_free(Place place) {
  by_size_.erase({place->second.size, place->first});
  free_ -= place->second.size;
  pieces_.erase(place);
}

}  // namespace numc
