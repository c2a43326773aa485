#include "loader/elf.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "loader/relocatable.hpp"
#include "machine/relocations.hpp"

namespace numc {
namespace {

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// Sections are grouped in the image, in this order, by how their pages are protected after relocation.
enum Group { kCode, kReadOnly, kData, kZero, kGroups };

}  // namespace

class Loader {
 public:
  Loader(Object &object, const uint8_t *bytes, size_t size) : object_(object), units_(read_objects(bytes, size)) {}

  void load(const Tools &tools) {
    for (auto &unit : units_) scan_relocations(unit);
    resolve();
    lay_out();
    for (auto &unit : units_) {
      copy_sections(unit);
      for (const auto &section : unit.sections)
        if (section.sh_type == SHT_RELA) relocate(unit, section);
    }
    protect();
    publish();
    tell(tools);
    run_constructors();
  }

 private:
  // Finds which symbols need a slot in the global offset table (GOT) or a call stub, and whether the image must lie in
  // the low 2 GiB of the address space.
  void scan_relocations(Relocatable &unit) {
    for (const auto &section : unit.sections) {
      if (section.sh_type == SHT_REL && unit.patches_loaded_code(section))
        bad_object("relocations without addends are not supported");
      if (section.sh_type != SHT_RELA) continue;
      unit.for_each_relocation(section, [this](const Elf64_Rela &, Symbol &symbol, uint32_t type) {
        symbol.used = true;
        symbol.got |= machine::needs_got(type);
        symbol.stub |= machine::needs_stub(type) && symbol.elf.st_shndx == SHN_UNDEF;
        low_ |= machine::needs_low(type);
      });
    }
  }

  // The symbols that objects define for others, by name. A weak definition yields to one that is not weak.
  std::unordered_map<std::string, const Symbol *> definitions() const {
    std::unordered_map<std::string, const Symbol *> defined;
    for (const auto &unit : units_) {
      for (const auto &symbol : unit.symbols) {
        const auto binding = ELF64_ST_BIND(symbol.elf.st_info);
        if (symbol.elf.st_shndx == SHN_UNDEF || binding == STB_LOCAL || symbol.name.empty()) continue;
        const auto [place, is_new] = defined.emplace(symbol.name, &symbol);
        if (is_new || binding == STB_WEAK) continue;
        if (ELF64_ST_BIND(place->second->elf.st_info) != STB_WEAK)
          bad_object("symbol " + symbol.name + " is defined twice");
        place->second = &symbol;
      }
    }
    return defined;
  }

  // Gives every undefined symbol its definition: in another object, or in the runtime.
  void resolve() {
    const auto defined = definitions();
    std::set<std::string> missing;
    for (auto &unit : units_) {
      for (auto &symbol : unit.symbols) {
        if (!symbol.used || symbol.elf.st_shndx != SHN_UNDEF || symbol.name.empty()) continue;
        if (symbol.name == "_GLOBAL_OFFSET_TABLE_" || symbol.name == "__dso_handle") continue;  // set by lay_out
        const auto found = defined.find(symbol.name);
        if (found != defined.end()) {
          symbol.definition = found->second;
          symbol.stub = false;  // in the same image every call reaches it
          continue;
        }
        symbol.address = reinterpret_cast<uint64_t>(runtime_symbol(symbol.name));
        if (symbol.address == 0 && ELF64_ST_BIND(symbol.elf.st_info) != STB_WEAK) missing.insert(symbol.name);
      }
    }
    std::string listed;
    for (const auto &name : missing) listed += (listed.empty() ? "" : ", ") + name;
    if (!listed.empty()) bad_object("needs symbols that the runtime does not have: " + listed);
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
    if (cursor_ > kMaxImage) bad_object("larger than 1 GiB");
    return at;
  }

  void lay_out() {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (auto &unit : units_) unit.offsets.assign(unit.sections.size(), 0);
    for (int group = 0; group < kGroups; ++group) {
      group_begin_[group] = cursor_ = align_up(cursor_, page);
      for (auto &unit : units_) place_sections(unit, group);
      if (group == kCode)
        for_each_symbol([this](Symbol &symbol) {
          if (symbol.stub) symbol.stub_offset = place(machine::kStubSize, machine::kStubSize);
        });
      if (group == kReadOnly) {
        got_ = place(0, 8);
        for_each_symbol([this](Symbol &symbol) {
          if (symbol.got) symbol.got_offset = place(8, 8);
        });
      }
      if (group == kZero)
        for_each_symbol([this](Symbol &symbol) {
          if (symbol.elf.st_shndx != SHN_COMMON) return;
          const uint64_t alignment = symbol.elf.st_value;
          if (alignment > 4096 || (alignment & (alignment - 1)) != 0 || symbol.elf.st_size > kMaxImage)
            bad_object("malformed common symbol " + symbol.name);
          symbol.common_offset = place(symbol.elf.st_size, alignment);
        });
    }
    const uint64_t total = align_up(cursor_ + 1, page);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (low_ ? machine::kLowMemory : 0);
    void *memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) bad_object("no memory for " + std::to_string(total) + " bytes of code");
    object_.base_ = base_ = static_cast<uint8_t *>(memory);
    object_.size_ = total;
    object_.code_size_ = group_begin_[kReadOnly];
    for (auto &unit : units_)
      for (auto &symbol : unit.symbols) assign(unit, symbol);
    for_each_symbol([this](Symbol &symbol) { link(symbol); });
  }

  void place_sections(Relocatable &unit, int group) {
    for (size_t i = 0; i < unit.sections.size(); ++i) {
      const auto &section = unit.sections[i];
      if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NULL || group_of(section) != group) continue;
      if (group == kCode && section.sh_type == SHT_NOBITS) bad_object("code section without contents");
      unit.offsets[i] = place(section.sh_size, section.sh_addralign);
    }
  }

  template <typename Visit>
  void for_each_symbol(Visit visit) {
    for (auto &unit : units_)
      for (auto &symbol : unit.symbols) visit(symbol);
  }

  void assign(const Relocatable &unit, Symbol &symbol) {
    const auto &elf = symbol.elf;
    const auto base = reinterpret_cast<uint64_t>(base_);
    const int type = ELF64_ST_TYPE(elf.st_info);
    if (symbol.used && (type == STT_TLS || type == STT_GNU_IFUNC))
      bad_object("symbol " + symbol.name + " is thread-local or indirect: not supported");
    if (elf.st_shndx == SHN_UNDEF) {
      if (symbol.name == "_GLOBAL_OFFSET_TABLE_") symbol.address = base + got_;
      if (symbol.name == "__dso_handle") symbol.address = base;
    } else if (elf.st_shndx == SHN_ABS) {
      symbol.address = elf.st_value;
    } else if (elf.st_shndx == SHN_COMMON) {
      symbol.address = base + symbol.common_offset;
    } else if (elf.st_shndx < unit.sections.size()) {
      const auto &section = unit.sections[elf.st_shndx];
      if (section.sh_flags & SHF_ALLOC) {
        if (elf.st_value > section.sh_size) bad_object("symbol " + symbol.name + " lies outside its section");
        symbol.address = base + unit.offsets[elf.st_shndx] + elf.st_value;
        symbol.loaded = true;
      } else if (symbol.used && type != STT_SECTION) {
        symbol.unusable = true;  // only sections that are not loaded, such as debug information, may refer to it
      }
    } else {
      bad_object("symbol " + symbol.name + " is in section " + std::to_string(elf.st_shndx) + ", which is not there");
    }
  }

  // Called when every definition has its address: fills in the symbol's stub and its slot in the GOT.
  void link(Symbol &symbol) {
    if (symbol.definition != nullptr) symbol.address = symbol.definition->address;
    if (symbol.stub) machine::write_stub(base_ + symbol.stub_offset, symbol.address);
    if (symbol.got) std::memcpy(base_ + symbol.got_offset, &symbol.address, 8);
  }

  void copy_sections(const Relocatable &unit) {
    for (size_t i = 0; i < unit.sections.size(); ++i) {
      const auto &section = unit.sections[i];
      if ((section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
        std::memcpy(base_ + unit.offsets[i], unit.bytes + section.sh_offset, section.sh_size);
    }
  }

  void relocate(Relocatable &unit, const Elf64_Shdr &rela) {
    unit.for_each_relocation(rela, [&](const Elf64_Rela &entry, Symbol &symbol, uint32_t type) {
      const auto &target = unit.sections[rela.sh_info];
      if (target.sh_type == SHT_NOBITS) bad_object("relocation in a section without contents");
      if (symbol.unusable) bad_object("loaded code refers to " + symbol.name + ", which is not loaded");
      const auto base = reinterpret_cast<uint64_t>(base_);
      const uint64_t got = base + got_, g = base + symbol.got_offset, s = symbol.address;
      // A 32-bit displacement cannot reach an external function that is further than 2 GiB away: it goes to the stub.
      const uint64_t near = symbol.stub ? base + symbol.stub_offset : s;
      const uint64_t at = entry.r_offset, p = base + unit.offsets[rela.sh_info] + at;
      const auto patch = machine::patch_of(type, {s, static_cast<uint64_t>(entry.r_addend), p, got, g, near});
      if (!patch.known) bad_object("relocation type " + std::to_string(type) + " is not supported");
      if (patch.bytes == 0) return;
      if (!inside(at, patch.bytes, target.sh_size)) bad_object("relocation outside its section");
      if (!patch.fits)
        bad_object("relocation of type " + std::to_string(type) + " against '" + symbol.name + "' is out of range");
      uint8_t *const place = base_ + unit.offsets[rela.sh_info] + at;
      uint64_t word = 0;
      std::memcpy(&word, place, patch.bytes);
      word = (word & ~patch.mask) | (patch.value & patch.mask);
      std::memcpy(place, &word, patch.bytes);
    });
  }

  void protect() {
    // Where instructions have a cache that does not see stores, what was written becomes visible in it.
    auto *const code = reinterpret_cast<char *>(base_);
    __builtin___clear_cache(code, code + group_begin_[kReadOnly]);
    const auto set = [this](uint64_t begin, uint64_t end, int protection) {
      if (end > begin && mprotect(base_ + begin, end - begin, protection) != 0)
        bad_object("this system refuses to make loaded code executable");
    };
    set(0, group_begin_[kReadOnly], PROT_READ | PROT_EXEC);
    set(group_begin_[kReadOnly], group_begin_[kData], PROT_READ);
  }

  void publish() {
    for_each_symbol([this](const Symbol &symbol) {
      if (symbol.loaded && ELF64_ST_BIND(symbol.elf.st_info) != STB_LOCAL && !symbol.name.empty())
        object_.symbols_.emplace(symbol.name, reinterpret_cast<void *>(symbol.address));
    });
  }

  // Tells perf and gdb, if the environment asks for it, which functions were loaded and where.
  void tell(const Tools &tools) {
    if (tools.perf != Tools::kNoPerf) tell_perf(tools.perf, functions());
    if (!tools.gdb) return;
    for (const auto &unit : units_) object_.debugged_.push_back(std::make_unique<DebuggedObject>(unit, base_));
  }

  // The functions in ascending order of their addresses. One that has several names is listed once, by a global one.
  std::vector<LoadedFunction> functions() {
    std::map<uint64_t, const Symbol *> found;
    for_each_symbol([&found](const Symbol &symbol) {
      if (!symbol.loaded || ELF64_ST_TYPE(symbol.elf.st_info) != STT_FUNC || symbol.elf.st_size == 0) return;
      const Symbol *&listed = found[symbol.address];
      if (listed == nullptr || ELF64_ST_BIND(listed->elf.st_info) == STB_LOCAL) listed = &symbol;
    });
    std::vector<LoadedFunction> listed;
    for (const auto &[address, symbol] : found) {
      auto *const code = reinterpret_cast<const uint8_t *>(address);
      const bool whole = object_.is_code(code) && object_.is_code(code + symbol->elf.st_size - 1);
      if (whole) listed.push_back({symbol->name, code, symbol->elf.st_size});
    }
    return listed;
  }

  void run_constructors() {
    for (const auto &unit : units_) {
      for (size_t i = 0; i < unit.sections.size(); ++i) {
        const auto &section = unit.sections[i];
        if (section.sh_type != SHT_INIT_ARRAY || !(section.sh_flags & SHF_ALLOC)) continue;
        for (uint64_t k = 0; k < section.sh_size / 8; ++k) {
          uint64_t address;
          std::memcpy(&address, base_ + unit.offsets[i] + 8 * k, 8);
          auto *constructor = reinterpret_cast<void (*)()>(address);
          if (!object_.is_code(reinterpret_cast<void *>(address))) bad_object("constructor outside the code");
          constructor();
        }
      }
    }
  }

  Object &object_;
  std::vector<Relocatable> units_;  // what is loaded as one image
  bool low_ = false;
  uint64_t cursor_ = 0, got_ = 0;
  uint64_t group_begin_[kGroups] = {};
  uint8_t *base_ = nullptr;
};

Object::Object(const uint8_t *bytes, size_t size) {
  const Tools tools = requested_tools();
  try {
    Loader(*this, bytes, size).load(tools);
  } catch (...) {
    debugged_.clear();
    if (base_ != nullptr) munmap(base_, size_);
    throw;
  }
}

Object::~Object() {
  debugged_.clear();
  munmap(base_, size_);
}

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
