#include "elf.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <vector>

#include "error.hpp"

namespace numc {
namespace {

constexpr uint64_t kMaxImage = uint64_t{1} << 30;  // 32-bit displacements inside the image can then never overflow
constexpr size_t kStubSize = 16;                   // jmp *2(%rip); pad; .quad target

#ifndef R_X86_64_REX2_GOTPCRELX
constexpr uint32_t R_X86_64_REX2_GOTPCRELX = 43;
#endif

bool inside(uint64_t offset, uint64_t length, uint64_t total) { return offset <= total && length <= total - offset; }

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

[[noreturn]] void bad(const std::string &what) { throw Error("object code: " + what); }

// How a section is protected once relocated. The order is the order in the image.
enum Group { kCode, kReadOnly, kData, kZero, kGroups };

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

}  // namespace

class Loader {
 public:
  Loader(Object &object, const uint8_t *bytes, size_t size) : object_(object), bytes_(bytes), size_(size) {}

  void load() {
    read_headers();
    read_symbols();
    scan_relocations();
    resolve_externals();
    lay_out();
    copy_sections();
    for (const auto &section : sections_)
      if (section.sh_type == SHT_RELA) relocate(section);
    protect();
    publish();
    run_constructors();
  }

 private:
  struct Symbol {
    Elf64_Sym elf{};
    std::string name;
    bool used = false, got = false, stub = false;
    bool loaded = false, unusable = false;
    uint64_t got_offset = 0, stub_offset = 0, common_offset = 0;
    uint64_t address = 0;
  };

  // Copies one record out: the object need not be aligned.
  template <typename T>
  T read(uint64_t offset) const {
    if (!inside(offset, sizeof(T), size_)) bad("truncated");
    T value;
    std::memcpy(&value, bytes_ + offset, sizeof(T));
    return value;
  }

  void read_headers() {
    if (size_ < sizeof(Elf64_Ehdr) || std::memcmp(bytes_, ELFMAG, SELFMAG) != 0) bad("not an ELF file");
    const auto header = read<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64)
      bad("not for x86-64 (machine " + std::to_string(header.e_machine) + ")");
    if (header.e_type != ET_REL) bad("not a relocatable object (type " + std::to_string(header.e_type) + ")");
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) bad("no section table");
    if (!inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), size_)) bad("truncated section table");
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      auto section = read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
          !inside(section.sh_offset, section.sh_size, size_))
        bad("section " + std::to_string(i) + " is truncated");
      if (section.sh_flags & SHF_ALLOC) {
        if (section.sh_size > kMaxImage) bad("section " + std::to_string(i) + " is larger than 1 GiB");
        if (section.sh_addralign > 4096 || (section.sh_addralign & (section.sh_addralign - 1)) != 0)
          bad("section " + std::to_string(i) + " has alignment " + std::to_string(section.sh_addralign));
        if (section.sh_flags & SHF_TLS) bad("thread-local variables are not supported");
      }
      sections_.push_back(section);
    }
  }

  void read_symbols() {
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].sh_type != SHT_SYMTAB) continue;
      if (symtab_ != 0) bad("two symbol tables");
      symtab_ = i;
    }
    if (symtab_ == 0) bad("no symbol table");
    const auto &table = sections_[symtab_];
    if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections_.size() ||
        sections_[table.sh_link].sh_type != SHT_STRTAB)
      bad("malformed symbol table");
    const auto &strings = sections_[table.sh_link];
    const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
    for (uint64_t i = 0; i < count; ++i) {
      Symbol symbol;
      symbol.elf = read<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
      const uint64_t at = symbol.elf.st_name;
      if (at >= strings.sh_size) {
        if (at != 0) bad("symbol " + std::to_string(i) + " has no name");
      } else {
        const char *text = reinterpret_cast<const char *>(bytes_ + strings.sh_offset + at);
        symbol.name.assign(text, strnlen(text, strings.sh_size - at));
      }
      symbols_.push_back(std::move(symbol));
    }
  }

  // A relocation section matters when it patches a section that is loaded.
  bool is_loaded(const Elf64_Shdr &rela) const {
    return rela.sh_info < sections_.size() && (sections_[rela.sh_info].sh_flags & SHF_ALLOC) != 0;
  }

  template <typename Visit>
  void for_each_relocation(const Elf64_Shdr &rela, Visit visit) {
    if (rela.sh_info >= sections_.size()) bad("relocations of a section that is not there");
    if (!is_loaded(rela)) return;
    if (rela.sh_entsize != sizeof(Elf64_Rela) || rela.sh_link != symtab_) bad("malformed relocation section");
    for (uint64_t i = 0; i < rela.sh_size / sizeof(Elf64_Rela); ++i) {
      const auto entry = read<Elf64_Rela>(rela.sh_offset + i * sizeof(Elf64_Rela));
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index >= symbols_.size()) bad("relocation with symbol " + std::to_string(index));
      visit(entry, symbols_[index], static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info)));
    }
  }

  // Finds which symbols need a GOT slot or a call stub, and whether the image must lie in the low 2 GiB.
  void scan_relocations() {
    for (const auto &section : sections_) {
      if (section.sh_type == SHT_REL && is_loaded(section)) bad("relocations without addends are not supported");
      if (section.sh_type != SHT_RELA) continue;
      for_each_relocation(section, [this](const Elf64_Rela &, Symbol &symbol, uint32_t type) {
        symbol.used = true;
        symbol.got |= needs_got(type);
        symbol.stub |= needs_stub(type) && symbol.elf.st_shndx == SHN_UNDEF;
        low_ |= type == R_X86_64_32 || type == R_X86_64_32S;
      });
    }
  }

  void resolve_externals() {
    std::string missing;
    for (auto &symbol : symbols_) {
      if (!symbol.used || symbol.elf.st_shndx != SHN_UNDEF || symbol.name.empty()) continue;
      if (symbol.name == "_GLOBAL_OFFSET_TABLE_" || symbol.name == "__dso_handle") continue;  // set by lay_out
      symbol.address = reinterpret_cast<uint64_t>(runtime_symbol(symbol.name));
      if (symbol.address != 0 || ELF64_ST_BIND(symbol.elf.st_info) == STB_WEAK) continue;
      missing += (missing.empty() ? "" : ", ") + symbol.name;
    }
    if (!missing.empty()) bad("needs symbols that the runtime does not have: " + missing);
  }

  static Group group_of(const Elf64_Shdr &section) {
    if (section.sh_flags & SHF_EXECINSTR) return kCode;
    if (section.sh_type == SHT_NOBITS) return kZero;
    return (section.sh_flags & SHF_WRITE) ? kData : kReadOnly;
  }

  uint64_t place(uint64_t size, uint64_t alignment) {
    cursor_ = align_up(cursor_, alignment == 0 ? 1 : alignment);
    const uint64_t at = cursor_;
    cursor_ += size;
    if (cursor_ > kMaxImage) bad("larger than 1 GiB");
    return at;
  }

  void lay_out() {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    offsets_.assign(sections_.size(), 0);
    for (int group = 0; group < kGroups; ++group) {
      group_begin_[group] = cursor_ = align_up(cursor_, page);
      for (size_t i = 0; i < sections_.size(); ++i) {
        const auto &section = sections_[i];
        if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NULL || group_of(section) != group) continue;
        if (group == kCode && section.sh_type == SHT_NOBITS) bad("code section without contents");
        offsets_[i] = place(section.sh_size, section.sh_addralign);
      }
      if (group == kCode)
        for (auto &symbol : symbols_)
          if (symbol.stub) symbol.stub_offset = place(kStubSize, kStubSize);
      if (group == kReadOnly) {
        got_ = place(0, 8);
        for (auto &symbol : symbols_)
          if (symbol.got) symbol.got_offset = place(8, 8);
      }
      if (group == kZero)
        for (auto &symbol : symbols_)
          if (symbol.elf.st_shndx == SHN_COMMON) {
            const uint64_t alignment = symbol.elf.st_value;
            if (alignment > 4096 || (alignment & (alignment - 1)) != 0 || symbol.elf.st_size > kMaxImage)
              bad("malformed common symbol " + symbol.name);
            symbol.common_offset = place(symbol.elf.st_size, alignment);
          }
    }
    const uint64_t total = align_up(cursor_ + 1, page);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (low_ ? MAP_32BIT : 0);
    void *memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) bad("no memory for " + std::to_string(total) + " bytes of code");
    object_.base_ = base_ = static_cast<uint8_t *>(memory);
    object_.size_ = total;
    object_.code_size_ = group_begin_[kReadOnly];
    for (auto &symbol : symbols_) assign(symbol);
  }

  void assign(Symbol &symbol) {
    const auto &elf = symbol.elf;
    const auto base = reinterpret_cast<uint64_t>(base_);
    const int type = ELF64_ST_TYPE(elf.st_info);
    if (symbol.used && (type == STT_TLS || type == STT_GNU_IFUNC))
      bad("symbol " + symbol.name + " is thread-local or indirect: not supported");
    if (elf.st_shndx == SHN_UNDEF) {
      if (symbol.name == "_GLOBAL_OFFSET_TABLE_") symbol.address = base + got_;
      if (symbol.name == "__dso_handle") symbol.address = base;
    } else if (elf.st_shndx == SHN_ABS) {
      symbol.address = elf.st_value;
    } else if (elf.st_shndx == SHN_COMMON) {
      symbol.address = base + symbol.common_offset;
    } else if (elf.st_shndx < sections_.size()) {
      const auto &section = sections_[elf.st_shndx];
      if (section.sh_flags & SHF_ALLOC) {
        if (elf.st_value > section.sh_size) bad("symbol " + symbol.name + " lies outside its section");
        symbol.address = base + offsets_[elf.st_shndx] + elf.st_value;
        symbol.loaded = true;
      } else if (symbol.used && type != STT_SECTION) {
        symbol.unusable = true;  // only debug sections, which are not loaded, refer to it
      }
    } else {
      bad("symbol " + symbol.name + " is in section " + std::to_string(elf.st_shndx) + ", which is not there");
    }
    if (symbol.stub) {
      uint8_t *stub = base_ + symbol.stub_offset;
      const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc};  // jmp *2(%rip)
      std::memcpy(stub, jump, sizeof jump);
      std::memcpy(stub + 8, &symbol.address, 8);
    }
    if (symbol.got) std::memcpy(base_ + symbol.got_offset, &symbol.address, 8);
  }

  void copy_sections() {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const auto &section = sections_[i];
      if ((section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
        std::memcpy(base_ + offsets_[i], bytes_ + section.sh_offset, section.sh_size);
    }
  }

  void relocate(const Elf64_Shdr &rela) {
    for_each_relocation(rela, [&](const Elf64_Rela &entry, Symbol &symbol, uint32_t type) {
      const auto &target = sections_[rela.sh_info];
      if (target.sh_type == SHT_NOBITS) bad("relocation in a section without contents");
      if (symbol.unusable) bad("loaded code refers to " + symbol.name + ", which is not loaded");
      const auto base = reinterpret_cast<uint64_t>(base_);
      const uint64_t s = symbol.address, a = static_cast<uint64_t>(entry.r_addend);
      const uint64_t got = base + got_, g = base + symbol.got_offset;
      // Where a displacement to an external function points: its stub, as the function may be further than 2 GiB.
      const uint64_t near = symbol.stub ? base + symbol.stub_offset : s;
      const uint64_t at = entry.r_offset, p = base + offsets_[rela.sh_info] + at;
      uint64_t value = 0;
      enum { kWord64, kSigned32, kUnsigned32 } width = kSigned32;
      switch (type) {
        case R_X86_64_NONE: return;
        case R_X86_64_64: value = s + a; width = kWord64; break;
        case R_X86_64_PC64: value = s + a - p; width = kWord64; break;
        case R_X86_64_GOTOFF64: value = s + a - got; width = kWord64; break;
        case R_X86_64_GOTPC64: value = got + a - p; width = kWord64; break;
        case R_X86_64_GOT64: value = g - got + a; width = kWord64; break;
        case R_X86_64_GOTPCREL64: value = g + a - p; width = kWord64; break;
        case R_X86_64_PLTOFF64: value = near + a - got; width = kWord64; break;
        case R_X86_64_32: value = s + a; width = kUnsigned32; break;
        case R_X86_64_32S: value = s + a; break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32: value = near + a - p; break;
        case R_X86_64_GOTPC32: value = got + a - p; break;
        case R_X86_64_GOT32: value = g - got + a; break;
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX:
        case R_X86_64_REX2_GOTPCRELX: value = g + a - p; break;
        default: bad("relocation type " + std::to_string(type) + " is not supported");
      }
      if (!inside(at, width == kWord64 ? 8 : 4, target.sh_size)) bad("relocation outside its section");
      const auto signed_value = static_cast<int64_t>(value);
      if ((width == kSigned32 && signed_value != static_cast<int32_t>(signed_value)) ||
          (width == kUnsigned32 && value > std::numeric_limits<uint32_t>::max()))
        bad("relocation of type " + std::to_string(type) + " against '" + symbol.name + "' is out of range");
      std::memcpy(base_ + offsets_[rela.sh_info] + at, &value, width == kWord64 ? 8 : 4);
    });
  }

  void protect() {
    const auto set = [this](uint64_t begin, uint64_t end, int protection) {
      if (end > begin && mprotect(base_ + begin, end - begin, protection) != 0)
        bad("this system refuses to make loaded code executable");
    };
    set(0, group_begin_[kReadOnly], PROT_READ | PROT_EXEC);
    set(group_begin_[kReadOnly], group_begin_[kData], PROT_READ);
  }

  void publish() {
    for (const auto &symbol : symbols_)
      if (symbol.loaded && ELF64_ST_BIND(symbol.elf.st_info) != STB_LOCAL && !symbol.name.empty())
        object_.symbols_.emplace(symbol.name, reinterpret_cast<void *>(symbol.address));
  }

  void run_constructors() {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const auto &section = sections_[i];
      if (section.sh_type != SHT_INIT_ARRAY || !(section.sh_flags & SHF_ALLOC)) continue;
      for (uint64_t k = 0; k < section.sh_size / 8; ++k) {
        uint64_t address;
        std::memcpy(&address, base_ + offsets_[i] + 8 * k, 8);
        auto *constructor = reinterpret_cast<void (*)()>(address);
        if (!object_.is_code(reinterpret_cast<void *>(address))) bad("constructor outside the code");
        constructor();
      }
    }
  }

  Object &object_;
  const uint8_t *bytes_;
  size_t size_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> offsets_;  // of each loaded section in the image
  std::vector<Symbol> symbols_;
  size_t symtab_ = 0;
  bool low_ = false;
  uint64_t cursor_ = 0, got_ = 0;
  uint64_t group_begin_[kGroups] = {};
  uint8_t *base_ = nullptr;
};

Object::Object(const uint8_t *bytes, size_t size) {
  try {
    Loader(*this, bytes, size).load();
  } catch (...) {
    if (base_ != nullptr) munmap(base_, size_);
    throw;
  }
}

Object::~Object() { munmap(base_, size_); }

void *Object::symbol(const std::string &name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : found->second;
}

bool Object::is_code(const void *address) const {
  const auto value = reinterpret_cast<uint64_t>(address), base = reinterpret_cast<uint64_t>(base_);
  return value >= base && value - base < code_size_;
}

bool Object::contains(const void *address) const {
  return reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(base_) < size_;
}

}  // namespace numc
