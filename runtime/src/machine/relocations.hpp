// The relocations of an architecture's objects (ELF), and its code that jumps to a far address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc::machine {

// The machine of the objects that this runtime loads, and its name for messages.
extern const uint16_t kElfMachine;
extern const char *const kName;
// Flags of mmap with which an image comes to lie in the low 2 GiB of the address space; 0 if there is no such flag.
extern const int kLowMemory;
// The size of a stub, and its alignment.
constexpr size_t kStubSize = 16;

// What a relocation asks of the image: its symbol has a slot in the global offset table, or a stub, or the image lies low.
bool needs_got(uint32_t type);
bool needs_stub(uint32_t type);
bool needs_low(uint32_t type);

// Writes code that jumps to `address`: kStubSize bytes.
void write_stub(uint8_t *stub, uint64_t address);

// What a relocation is computed from, in the letters of the ABI's supplement: the symbol, the addend, the place; the
// global offset table and the symbol's slot in it; `near` is the symbol, or the stub that reaches it.
struct Operands {
  uint64_t s, a, p, got, g, near;
};

// The bytes that a relocation writes, and whether they hold its value. known: whether the type is supported; a type
// that writes nothing has 0 bytes. mask: the bits of these bytes that are written, where others are an instruction's.
struct Patch {
  uint64_t value = 0;
  unsigned bytes = 4;
  bool fits = true, known = true;
  uint64_t mask = ~uint64_t{0};
};
Patch patch_of(uint32_t type, const Operands &operands);

}  // namespace numc::machine
