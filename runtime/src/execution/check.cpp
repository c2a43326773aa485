#include "execution/check.hpp"

#include "execution/mutex.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "error.hpp"
#include "execution/run.hpp"
#include "machine/fault.hpp"

namespace numc {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kRemembered = 256;  // freed buffers whose addresses are not used again
constexpr uint32_t kPattern[] = {0x7ff4deadu, 0x3fc00000u};  // of each layout: a NaN as float32 and float64, and 1.5

struct Region {
  char *base;    // two pages that cannot be touched, the first and the last one, and what lies between them
  size_t size;
  size_t bytes;  // of the buffer
  Layout layout;
  Run *run;
};

using Regions = std::map<char *, Region>;  // by the address of the buffer

struct Freed {
  char *buffer;
  Region region;
};

struct Memory {
  Mutex mutex;
  uint64_t used = 0;  // bytes of the live regions
  Regions live;
  std::deque<Freed> freed;
};

// Never destroyed: other threads may free buffers while the process ends.
Memory &memory() {
  static Memory *const made = new Memory;
  return *made;
}

char fault[256];
Mutex &fault_mutex = *new Mutex;

// Keeps the first fault until somebody takes it.
__attribute__((format(printf, 1, 2))) void note(const char *format, ...) {
  const Lock lock(fault_mutex);
  if (*fault != '\0') return;
  va_list values;
  va_start(values, format);
  std::vsnprintf(fault, sizeof fault, format, values);
  va_end(values);
}

void fill(char *from, const char *to, Layout layout) {
  const uint32_t pattern = kPattern[static_cast<int>(layout)];
  for (; from < to; from += sizeof pattern) std::memcpy(from, &pattern, sizeof pattern);
}

// Whether the bytes beside the buffer, up to the pages that cannot be touched, are as they were.
bool untouched(const char *buffer, const Region &region) {
  const uint32_t pattern = kPattern[static_cast<int>(region.layout)];
  const char *const begin = region.base + kPage, *const end = region.base + region.size - kPage;
  for (const char *at = begin; at < end; ++at) {
    if (at == buffer) at += region.bytes;
    if (at < end && *at != reinterpret_cast<const char *>(&pattern)[(at - begin) % sizeof pattern]) return false;
  }
  return true;
}

// The caller holds the mutex. Returns whether nothing was written beside the buffer.
bool inspect(const char *buffer, const Region &region) {
  const bool good = untouched(buffer, region);
  if (!good) note("the program wrote beside a buffer of %zu bytes", region.bytes);
  return good;
}

// The caller holds the mutex.
void forget(Memory &m, Regions::iterator at) {
  const Freed freed{at->first, at->second};
  const Region &region = freed.region;
  // Gives the pages back and lets nobody touch the addresses.
  mmap(region.base, region.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  m.used -= region.size;
  m.live.erase(at);
  m.freed.push_back(freed);
  if (m.freed.size() > kRemembered) {
    munmap(m.freed.front().region.base, m.freed.front().region.size);
    m.freed.pop_front();
  }
}

bool holds(const Region &region, const char *address) {
  return address >= region.base && address < region.base + region.size;
}

// Notes the access if `address` belongs to a buffer, or to one that was freed.
bool describe(const char *address, bool writes) {
  Memory &m = memory();
  const Lock lock(m.mutex);
  const char *const does = writes ? "writes" : "reads";
  for (const auto &[buffer, region] : m.live) {
    if (!holds(region, address)) continue;
    if (address >= buffer + region.bytes)
      note("the program %s %td bytes behind the end of a buffer of %zu bytes", does,
           address - (buffer + region.bytes) + 1, region.bytes);
    else if (address < buffer)
      note("the program %s %td bytes before a buffer of %zu bytes", does, buffer - address, region.bytes);
    else
      note("the program writes into an input or a weight of %zu bytes", region.bytes);
    return true;
  }
  for (const auto &freed : m.freed)
    if (holds(freed.region, address)) {
      note("the program %s a buffer of %zu bytes that it has freed", does, freed.region.bytes);
      return true;
    }
  return false;
}

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[4];

// Whether the instruction lies in no library: then it is generated code, where no lock is held.
bool is_generated(uintptr_t instruction) {
  Dl_info info;
  return dladdr(reinterpret_cast<void *>(instruction), &info) == 0;
}

void on_fault(int signal, siginfo_t *info, void *context) {
  const auto &thread = *static_cast<ucontext_t *>(context);
  const bool memory_access = signal == SIGSEGV || signal == SIGBUS;
  if (current_escape != nullptr) {
    bool ours = memory_access && describe(static_cast<char *>(info->si_addr), machine::writes(thread));
    if (!ours && is_generated(machine::instruction(thread))) {
      ours = true;
      if (memory_access)
        note("the program reads or writes at an address that is in no buffer");
      else
        note("the program stopped at an instruction (%s)", signal == SIGFPE ? "SIGFPE" : "SIGILL");
    }
    if (ours) numc_fail(NUMC_CHECK_FAILED);
  }
  // Nothing of ours: the instruction runs again and meets whoever handled the signal before.
  for (size_t i = 0; i < 4; ++i)
    if (kSignals[i] == signal) sigaction(signal, &previous[i], nullptr);
}

}  // namespace

bool checking() {
  static const bool wanted = [] {
    const char *const text = std::getenv("NUMC_CHECK");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }();
  return wanted;
}

void validate_check_switch() {
  const char *const text = std::getenv("NUMC_CHECK");
  if (text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0 && std::strcmp(text, "1") != 0)
    throw Error("NUMC_CHECK: got '" + std::string(text) + "', want '1' or '0'");
}

void *checked_alloc(size_t size, Layout layout, size_t alignment) {
  Memory &m = memory();
  const size_t room = size == 0 ? kPage : (size + kPage - 1) / kPage * kPage, whole = room + 2 * kPage;
  {
    const Lock lock(m.mutex);
    if (current_run != nullptr && m.used + whole > current_run->memory) return nullptr;
  }
  void *const mapped = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char *const base = static_cast<char *>(mapped), *const begin = base + kPage, *const end = begin + room;
  if (mprotect(begin, room, PROT_READ | PROT_WRITE) != 0) {
    munmap(base, whole);
    return nullptr;
  }
  fill(begin, end, layout);
  char *const buffer =
      layout == Layout::kEndsAtGuard ? end - (size + alignment - 1) / alignment * alignment : begin;
  const Lock lock(m.mutex);
  m.used += whole;
  m.live[buffer] = Region{base, whole, size, layout, current_run};
  return buffer;
}

bool checked_free(void *buffer) {
  bool good = true;
  {
    Memory &m = memory();
    const Lock lock(m.mutex);
    const auto at = m.live.find(static_cast<char *>(buffer));
    if (at == m.live.end()) return false;
    if (current_escape != nullptr) good = inspect(at->first, at->second);
    forget(m, at);
  }
  if (!good) numc_fail(NUMC_CHECK_FAILED);
  return true;
}

void forbid_writes(void *buffer) {
  Memory &m = memory();
  const Lock lock(m.mutex);
  const Region &region = m.live.at(static_cast<char *>(buffer));
  mprotect(region.base + kPage, region.size - 2 * kPage, PROT_READ);
}

bool all_untouched() {
  Memory &m = memory();
  const Lock lock(m.mutex);
  bool good = true;
  for (const auto &[buffer, region] : m.live) good &= inspect(buffer, region);
  return good;
}

bool checked_release(Run &run, void *buffer) {
  Memory &m = memory();
  const Lock lock(m.mutex);
  const auto at = m.live.find(static_cast<char *>(buffer));
  if (at == m.live.end() || at->second.run != &run) return false;
  at->second.run = nullptr;
  return true;
}

void checked_release_all(Run &run) {
  Memory &m = memory();
  const Lock lock(m.mutex);
  for (auto &[buffer, region] : m.live)
    if (region.run == &run) region.run = nullptr;
}

void checked_free_run(Run &run) {
  Memory &m = memory();
  const Lock lock(m.mutex);
  for (auto at = m.live.begin(); at != m.live.end();) {
    const auto next = std::next(at);
    if (at->second.run == &run) forget(m, at);
    at = next;
  }
}

void catch_faults() {
  static const bool caught = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    // The handler does not return, so the signal must not stay blocked.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &previous[i]);
    return true;
  }();
  (void)caught;
}

std::string take_fault() {
  const Lock lock(fault_mutex);
  std::string text = *fault == '\0' ? "a fault" : fault;
  *fault = '\0';
  return text + " (found by NUMC_CHECK)";
}

}  // namespace numc
