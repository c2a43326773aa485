// AArch64: the relocations of its ELF supplement (AAELF64), sections 5.7.4 to 5.7.8, for the small code model.
#include "machine/relocations.hpp"

#include <elf.h>

#include <cstring>

#ifndef R_AARCH64_PLT32
constexpr uint32_t R_AARCH64_PLT32 = 314;
#endif

namespace numc::machine {

const uint16_t kElfMachine = EM_AARCH64;
const char *const kName = "aarch64";
const int kLowMemory = 0;

bool needs_got(uint32_t type) { return type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC; }

bool needs_stub(uint32_t type) {
  return type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26 || type == R_AARCH64_PLT32;
}

bool needs_low(uint32_t) { return false; }

void write_stub(uint8_t *stub, uint64_t address) {
  const uint32_t jump[2] = {0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
  std::memcpy(stub, jump, sizeof jump);
  std::memcpy(stub + 8, &address, 8);
}

namespace {

bool is_signed(uint64_t value, int bits) {
  const auto number = static_cast<int64_t>(value), bound = int64_t{1} << (bits - 1);
  return number >= -bound && number < bound;
}

Patch word(uint64_t value, unsigned bytes, bool fits) { return {value, bytes, fits, true}; }

// The `bits` bits of an instruction from `first` on.
Patch field(uint64_t value, int first, int bits, bool fits) {
  const uint64_t ones = (uint64_t{1} << bits) - 1;
  return {(value & ones) << first, 4, fits, true, ones << first};
}

// A distance in words, of a branch.
Patch distance(uint64_t value, int first, int bits) {
  return field(value >> 2, first, bits, value % 4 == 0 && is_signed(value, bits + 2));
}

// The 21 bits of an address of ADR and ADRP: the two lowest stand apart.
Patch address(uint64_t value, bool fits) {
  Patch patch = field(value >> 2, 5, 19, fits);
  patch.value |= (value & 3) << 29;
  patch.mask |= uint64_t{3} << 29;
  return patch;
}

uint64_t page(uint64_t value) { return value & ~uint64_t{0xfff}; }

Patch page_distance(uint64_t to, uint64_t from) {
  const uint64_t pages = page(to) - page(from);
  return address(pages >> 12, is_signed(pages, 33));
}

// The offset in its page of what is loaded or stored, in units of its size, a power of two.
Patch offset(uint64_t value, int shift) {
  return field((value & 0xfff) >> shift, 10, 12, (value & ((uint64_t{1} << shift) - 1)) == 0);
}

}  // namespace

Patch patch_of(uint32_t type, const Operands &of) {
  const uint64_t absolute = of.s + of.a, relative = absolute - of.p, near = of.near + of.a - of.p;
  switch (type) {
    case R_AARCH64_NONE: return word(0, 0, true);
    case R_AARCH64_ABS64: return word(absolute, 8, true);
    case R_AARCH64_PREL64: return word(relative, 8, true);
    case R_AARCH64_ABS32: return word(absolute, 4, is_signed(absolute, 33));
    case R_AARCH64_PREL32: return word(relative, 4, is_signed(relative, 32));
    case R_AARCH64_PLT32: return word(near, 4, is_signed(near, 32));
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return distance(near, 0, 26);
    case R_AARCH64_CONDBR19:
    case R_AARCH64_LD_PREL_LO19: return distance(relative, 5, 19);
    case R_AARCH64_TSTBR14: return distance(relative, 5, 14);
    case R_AARCH64_ADR_PREL_LO21: return address(relative, is_signed(relative, 21));
    case R_AARCH64_ADR_PREL_PG_HI21: return page_distance(absolute, of.p);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return offset(absolute, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return offset(absolute, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return offset(absolute, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return offset(absolute, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return offset(absolute, 4);
    case R_AARCH64_ADR_GOT_PAGE: return page_distance(of.g + of.a, of.p);
    case R_AARCH64_LD64_GOT_LO12_NC: return offset(of.g + of.a, 3);
    default: return {0, 0, true, false};
  }
}

}  // namespace numc::machine
