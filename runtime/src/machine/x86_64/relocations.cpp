// x86-64: the relocations of its ABI's supplement, section 4.4.
#include "machine/relocations.hpp"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>

#ifndef R_X86_64_REX2_GOTPCRELX
constexpr uint32_t R_X86_64_REX2_GOTPCRELX = 43;
#endif

namespace numc::machine {

const uint16_t kElfMachine = EM_X86_64;
const char *const kName = "x86-64";
const int kLowMemory = MAP_32BIT;

bool needs_got(uint32_t type) {
  switch (type) {
    case R_X86_64_GOT32:
    case R_X86_64_GOT64:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
    case R_X86_64_REX2_GOTPCRELX:
    case R_X86_64_GOTPCREL64:
      return true;
    default:
      return false;
  }
}

bool needs_stub(uint32_t type) {
  return type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PLTOFF64;
}

bool needs_low(uint32_t type) { return type == R_X86_64_32 || type == R_X86_64_32S; }

void write_stub(uint8_t *stub, uint64_t address) {
  const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc};  // jmp *2(%rip); two bytes of padding
  std::memcpy(stub, jump, sizeof jump);
  std::memcpy(stub + 8, &address, 8);
}

namespace {

Patch word64(uint64_t value) { return {value, 8, true, true}; }

Patch signed32(uint64_t value) {
  const auto number = static_cast<int64_t>(value);
  return {value, 4, number == static_cast<int32_t>(number), true};
}

Patch unsigned32(uint64_t value) { return {value, 4, value <= std::numeric_limits<uint32_t>::max(), true}; }

}  // namespace

Patch patch_of(uint32_t type, const Operands &of) {
  switch (type) {
    case R_X86_64_NONE: return {0, 0, true, true};
    case R_X86_64_64: return word64(of.s + of.a);
    case R_X86_64_PC64: return word64(of.s + of.a - of.p);
    case R_X86_64_GOTOFF64: return word64(of.s + of.a - of.got);
    case R_X86_64_GOTPC64: return word64(of.got + of.a - of.p);
    case R_X86_64_GOT64: return word64(of.g - of.got + of.a);
    case R_X86_64_GOTPCREL64: return word64(of.g + of.a - of.p);
    case R_X86_64_PLTOFF64: return word64(of.near + of.a - of.got);
    case R_X86_64_32: return unsigned32(of.s + of.a);
    case R_X86_64_32S: return signed32(of.s + of.a);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return signed32(of.near + of.a - of.p);
    case R_X86_64_GOTPC32: return signed32(of.got + of.a - of.p);
    case R_X86_64_GOT32: return signed32(of.g - of.got + of.a);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
    case R_X86_64_REX2_GOTPCRELX: return signed32(of.g + of.a - of.p);
    default: return {0, 0, true, false};
  }
}

}  // namespace numc::machine
