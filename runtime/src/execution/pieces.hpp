// Memory of the system, handed out in pieces of any size. Free pieces that touch each other are one, so that what was
// freed serves requests of other sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace numc {

// Sizes are multiples of 64 bytes. It is not safe for threads. Giving a piece back needs no memory: every piece in use
// has the node that it will have among those that are free.
class Pieces {
 public:
  // The smallest free piece that is large enough, cut to `size`; null if there is none. Throws std::bad_alloc.
  char *take(size_t size);
  // Takes memory from the system, so that `take(size)` finds a piece. Returns false if there is not enough.
  bool grow(size_t size);
  void give(char *piece);
  // Gives the largest free pieces back to the system, until at most `limit` bytes are free.
  void shrink(uint64_t limit);
  // The bytes of free pieces.
  uint64_t free() const { return free_; }

 private:
  using BySize = std::set<std::pair<size_t, char *>>;
  struct Piece {
    size_t size;
    BySize::node_type node;  // empty while the piece is free
  };
  using Place = std::map<char *, Piece>::iterator;

  static bool is_free(Place place) { return place->second.node.empty(); }
  // A new piece in use. Throws std::bad_alloc.
  Place add(char *begin, size_t size);
  // Between these two, the size of a piece may change.
  void leave(Place place);
  void enter(Place place);

  std::map<char *, Piece> pieces_;  // by address
  BySize by_size_;  // those that are free
  uint64_t free_ = 0, total_ = 0;
};

}  // namespace numc
