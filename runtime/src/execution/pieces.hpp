// Memory of the system, handed out in pieces of any size. Free pieces that touch each other are one, so that what was
// freed serves requests of other sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace numc {

// Sizes are multiples of 64 bytes. It is not safe for threads.
class Pieces {
 public:
  // The smallest free piece that is large enough, cut to `size`; null if there is none.
  char *take(size_t size);
  // Takes memory from the system, so that `take(size)` finds a piece. Returns false if there is not enough.
  bool grow(size_t size);
  void give(char *piece);
  // Gives the largest free pieces back to the system, until at most `limit` bytes are free.
  void shrink(uint64_t limit);
  // The bytes of free pieces.
  uint64_t free() const { return free_; }

 private:
  struct Piece {
    size_t size;
    bool free;
  };
  using Place = std::map<char *, Piece>::iterator;

  void add_free(char *begin, size_t size);
  void drop_free(Place place);

  std::map<char *, Piece> pieces_;  // by address
  std::set<std::pair<size_t, char *>> by_size_;  // those that are free
  uint64_t free_ = 0, total_ = 0;
};

}  // namespace numc
