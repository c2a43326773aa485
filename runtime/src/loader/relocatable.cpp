#include "loader/relocatable.hpp"

#include <ar.h>

#include "error.hpp"
#include "machine/relocations.hpp"

namespace numc {

void bad_object(const std::string &what) { throw Error("object code: " + what); }

namespace {

std::vector<Relocatable> members(const uint8_t *bytes, size_t size) {
  std::vector<Relocatable> found;
  if (size < SARMAG || std::memcmp(bytes, ARMAG, SARMAG) != 0) {
    found.push_back(Relocatable{bytes, size, {}, {}, {}, 0});
    return found;
  }
  for (size_t at = SARMAG; at < size;) {
    ar_hdr header;
    if (!inside(at, sizeof header, size)) bad_object("truncated archive");
    std::memcpy(&header, bytes + at, sizeof header);
    at += sizeof header;
    uint64_t length = 0;
    for (const char digit : header.ar_size) {
      if (digit == ' ') break;
      if (digit < '0' || digit > '9') bad_object("malformed archive");
      length = length * 10 + static_cast<uint64_t>(digit - '0');
    }
    if (std::memcmp(header.ar_fmag, ARFMAG, 2) != 0) bad_object("malformed archive");
    if (!inside(at, length, size)) bad_object("truncated archive");
    found.push_back(Relocatable{bytes + at, length, {}, {}, {}, 0});
    at += length + length % 2;
  }
  if (found.empty()) bad_object("empty archive");
  return found;
}

void read_headers(Relocatable &object) {
  if (object.size < sizeof(Elf64_Ehdr) || std::memcmp(object.bytes, ELFMAG, SELFMAG) != 0)
    bad_object("not an ELF file");
  const auto header = object.read<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != machine::kElfMachine)
    bad_object(std::string("not for ") + machine::kName + " (machine " + std::to_string(header.e_machine) + ")");
  if (header.e_type != ET_REL) bad_object("not a relocatable object (type " + std::to_string(header.e_type) + ")");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) bad_object("no section table");
  if (!inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), object.size))
    bad_object("truncated section table");
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    auto section = object.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        !inside(section.sh_offset, section.sh_size, object.size))
      bad_object("section " + std::to_string(i) + " is truncated");
    if (section.sh_flags & SHF_ALLOC) {
      if (section.sh_size > kMaxImage) bad_object("section " + std::to_string(i) + " is larger than 1 GiB");
      if (section.sh_addralign > 4096 || (section.sh_addralign & (section.sh_addralign - 1)) != 0)
        bad_object("section " + std::to_string(i) + " has alignment " + std::to_string(section.sh_addralign));
      if (section.sh_flags & SHF_TLS) bad_object("thread-local variables are not supported");
    }
    object.sections.push_back(section);
  }
}

void read_symbols(Relocatable &object) {
  for (size_t i = 0; i < object.sections.size(); ++i) {
    if (object.sections[i].sh_type != SHT_SYMTAB) continue;
    if (object.symbol_table != 0) bad_object("two symbol tables");
    object.symbol_table = i;
  }
  if (object.symbol_table == 0) bad_object("no symbol table");
  const auto &table = object.sections[object.symbol_table];
  if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= object.sections.size() ||
      object.sections[table.sh_link].sh_type != SHT_STRTAB)
    bad_object("malformed symbol table");
  const auto &strings = object.sections[table.sh_link];
  const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
  for (uint64_t i = 0; i < count; ++i) {
    Symbol symbol;
    symbol.elf = object.read<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
    const uint64_t at = symbol.elf.st_name;
    if (at >= strings.sh_size) {
      if (at != 0) bad_object("symbol " + std::to_string(i) + " has no name");
    } else {
      const char *text = reinterpret_cast<const char *>(object.bytes + strings.sh_offset + at);
      symbol.name.assign(text, strnlen(text, strings.sh_size - at));
    }
    object.symbols.push_back(std::move(symbol));
  }
}

}  // namespace

uint16_t machine_of(const uint8_t *bytes, size_t size) {
  const std::vector<Relocatable> objects = members(bytes, size);
  const Relocatable &first = objects.front();
  const bool is_elf = first.size >= sizeof(Elf64_Ehdr) && std::memcmp(first.bytes, ELFMAG, SELFMAG) == 0;
  return is_elf ? first.read<Elf64_Ehdr>(0).e_machine : machine::kElfMachine;
}

std::vector<Relocatable> read_objects(const uint8_t *bytes, size_t size) {
  std::vector<Relocatable> objects = members(bytes, size);
  for (Relocatable &object : objects) {
    read_headers(object);
    read_symbols(object);
  }
  return objects;
}

}  // namespace numc
