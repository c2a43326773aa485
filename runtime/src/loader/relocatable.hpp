// Reads relocatable ELF objects (ET_REL) from memory: their sections and symbols. Everything that the loader
// relies on later is checked here.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace numc {

constexpr uint64_t kMaxImage = uint64_t{1} << 30;  // 32-bit displacements inside the image can then never overflow

// Throws Error.
[[noreturn]] void bad_object(const std::string &what);

// Whether [offset, offset + length) lies inside of `total` bytes.
inline bool inside(uint64_t offset, uint64_t length, uint64_t total) {
  return offset <= total && length <= total - offset;
}

// A symbol, and what the loader decides about it.
struct Symbol {
  Elf64_Sym elf{};
  std::string name;
  bool used = false;                   // a relocation of loaded code refers to it
  bool got = false, stub = false;      // it needs a slot in the global offset table, a call stub
  bool loaded = false;                 // it lies in a section that is loaded
  bool unusable = false;               // it lies in one that is not
  uint64_t got_offset = 0, stub_offset = 0, common_offset = 0;  // in the image
  uint64_t address = 0;
  const Symbol *definition = nullptr;  // the symbol of another object that defines it
};

// One object. It refers to the bytes it was read from.
struct Relocatable {
  const uint8_t *bytes;
  size_t size;
  std::vector<Elf64_Shdr> sections;
  std::vector<uint64_t> offsets;  // of each loaded section in the image
  std::vector<Symbol> symbols;
  size_t symbol_table = 0;  // the number of its section

  // Copies one record out: the object need not be aligned. Throws Error where it ends before that.
  template <typename T>
  T read(uint64_t offset) const {
    if (!inside(offset, sizeof(T), size)) bad_object("truncated");
    T value;
    std::memcpy(&value, bytes + offset, sizeof(T));
    return value;
  }

  // A relocation section matters if it patches a section that is loaded.
  bool patches_loaded_code(const Elf64_Shdr &relocations) const {
    return relocations.sh_info < sections.size() && (sections[relocations.sh_info].sh_flags & SHF_ALLOC) != 0;
  }

  // Calls `visit` with every entry of a relocation section that matters, its symbol and its type.
  template <typename Visit>
  void for_each_relocation(const Elf64_Shdr &relocations, Visit visit) {
    if (relocations.sh_info >= sections.size()) bad_object("relocations of a section that is not there");
    if (!patches_loaded_code(relocations)) return;
    if (relocations.sh_entsize != sizeof(Elf64_Rela) || relocations.sh_link != symbol_table)
      bad_object("malformed relocation section");
    for (uint64_t i = 0; i < relocations.sh_size / sizeof(Elf64_Rela); ++i) {
      const auto entry = read<Elf64_Rela>(relocations.sh_offset + i * sizeof(Elf64_Rela));
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index >= symbols.size()) bad_object("relocation with symbol " + std::to_string(index));
      visit(entry, symbols[index], static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info)));
    }
  }
};

// The machine (ELF's number of it) of the first object of what read_objects reads; this one's if it is no object.
uint16_t machine_of(const uint8_t *bytes, size_t size);

// Reads the members of an `ar` archive, or the one object there is. Throws Error on anything malformed.
std::vector<Relocatable> read_objects(const uint8_t *bytes, size_t size);

}  // namespace numc
