#include "loader/debugger.hpp"

#include <elf.h>

#include <cstddef>
#include <cstring>

#include "execution/mutex.hpp"

// gdb looks these names and types up: they are its interface. It stops in __jit_debug_register_code and then reads the
// descriptor. Other compilers in this process have their own, so ours are never bound to those.
extern "C" {

struct jit_code_entry {
  jit_code_entry *next, *previous;
  const char *symfile;
  uint64_t symfile_size;
};

struct jit_descriptor {
  uint32_t version;
  uint32_t action;
  jit_code_entry *relevant, *first;
};

__attribute__((visibility("protected"), used)) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};

__attribute__((visibility("protected"), used, noinline)) void __jit_debug_register_code() {
  __asm__ volatile("" ::: "memory");
}
}

namespace numc {
namespace {

enum Action : uint32_t { kNothing, kRegister, kUnregister };

Mutex &mutex() {
  static auto *const made = new Mutex;
  return *made;
}

void tell(jit_code_entry *entry, Action action) {
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_descriptor.action = action;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = kNothing;
  __jit_debug_descriptor.relevant = nullptr;
}

}  // namespace

struct DebuggedObject::Entry : jit_code_entry {};

DebuggedObject::DebuggedObject(const Relocatable &object, const uint8_t *image)
    : copy_(object.bytes, object.bytes + object.size), entry_(new Entry{}) {
  const auto header = object.read<Elf64_Ehdr>(0);
  for (size_t i = 0; i < object.sections.size(); ++i) {
    if ((object.sections[i].sh_flags & SHF_ALLOC) == 0) continue;
    const auto address = reinterpret_cast<uint64_t>(image) + object.offsets[i];
    std::memcpy(copy_.data() + header.e_shoff + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addr), &address, 8);
  }
  entry_->symfile = reinterpret_cast<const char *>(copy_.data());
  entry_->symfile_size = copy_.size();
  const Lock lock(mutex());
  entry_->next = __jit_debug_descriptor.first;
  if (entry_->next != nullptr) entry_->next->previous = entry_;
  __jit_debug_descriptor.first = entry_;
  tell(entry_, kRegister);
}

DebuggedObject::~DebuggedObject() {
  const Lock lock(mutex());
  if (entry_->previous != nullptr) entry_->previous->next = entry_->next;
  if (entry_->next != nullptr) entry_->next->previous = entry_->previous;
  if (__jit_debug_descriptor.first == entry_) __jit_debug_descriptor.first = entry_->next;
  tell(entry_, kUnregister);
  delete entry_;
}

}  // namespace numc
