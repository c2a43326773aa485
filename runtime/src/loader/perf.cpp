// The formats are those of the Linux sources: tools/perf/Documentation/jit-interface.txt (map) and
// jitdump-specification.txt (jitdump).
#include "loader/perf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "error.hpp"
#include "execution/mutex.hpp"
#include "machine/relocations.hpp"

namespace numc {
namespace {

constexpr uint32_t kMagic = 0x4A695444, kVersion = 1, kCodeLoad = 0;

struct DumpHeader {
  uint32_t magic, version, total_size, machine, padding, pid;
  uint64_t timestamp, flags;
};

// Behind it: the name with its terminating zero, then the code.
struct CodeLoad {
  uint32_t id, total_size;
  uint64_t timestamp;
  uint32_t pid, tid;
  uint64_t address, code_address, code_size, index;
};

static_assert(sizeof(DumpHeader) == 40 && sizeof(CodeLoad) == 56, "perf reads records without padding");

[[noreturn]] void cannot_write(const std::string &path) {
  throw Error("NUMC_PERF: cannot write '" + path + "': " + std::strerror(errno));
}

// Other programs may share the folder: a link that somebody left there is not followed.
int open_file(const std::string &path, int flags) {
  const int file = open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) cannot_write(path);
  return file;
}

void write_all(int file, const std::string &bytes, const std::string &path) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot_write(path);
    at += static_cast<size_t>(written);
  }
}

// A name on one line, whatever an object calls its functions.
std::string on_one_line(std::string name) {
  for (char &c : name)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return name;
}

// Lines of `START SIZE name`, both numbers in hexadecimal digits.
void write_map(const std::vector<LoadedFunction> &functions) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::string lines;
  for (const auto &function : functions) {
    char numbers[48];
    std::snprintf(numbers, sizeof numbers, "%" PRIxPTR " %zx ", reinterpret_cast<uintptr_t>(function.code),
                  function.size);
    lines += numbers + on_one_line(function.name) + "\n";
  }
  const int file = open_file(path, O_WRONLY | O_APPEND);
  try {
    write_all(file, lines, path);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
}

template <typename T>
void append(std::string &bytes, const T &record) {
  bytes.append(reinterpret_cast<const char *>(&record), sizeof record);
}

// perf orders records and samples by this clock (`perf record -k mono`).
uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

// The jitdump file of this process, opened when the first object is loaded and then kept.
struct Dump {
  pid_t pid = 0;
  int file = -1;
  std::string path;
  uint64_t functions = 0;  // written so far

  // A child of fork begins a file of its own.
  void begin() {
    if (pid == getpid()) return;
    if (file >= 0) close(file);
    const char *folder = std::getenv("JITDUMPDIR");
    pid = getpid();
    path = std::string(folder == nullptr ? "/tmp" : folder) + "/jit-" + std::to_string(pid) + ".dump";
    try {
      file = open_file(path, O_RDWR | O_TRUNC);
      std::string header;
      const auto process = static_cast<uint32_t>(pid);
      append(header, DumpHeader{kMagic, kVersion, sizeof(DumpHeader), machine::kElfMachine, 0, process, now(), 0});
      write_all(file, header, path);
      // perf finds the file by this mapping in what it records; nobody reads or runs it.
      const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
      if (mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) cannot_write(path);
    } catch (...) {
      pid = 0;
      throw;
    }
  }

  void add(const LoadedFunction &function) {
    const auto address = reinterpret_cast<uint64_t>(function.code);
    const size_t size = sizeof(CodeLoad) + function.name.size() + 1 + function.size;
    std::string record;
    record.reserve(size);
    append(record, CodeLoad{kCodeLoad, static_cast<uint32_t>(size), now(), static_cast<uint32_t>(pid),
                            static_cast<uint32_t>(syscall(SYS_gettid)), address, address, function.size, functions++});
    record.append(function.name.c_str(), function.name.size() + 1);
    record.append(reinterpret_cast<const char *>(function.code), function.size);
    write_all(file, record, path);
  }
};

}  // namespace

void tell_perf(Tools::Perf format, const std::vector<LoadedFunction> &functions) {
  static auto *const mutex = new Mutex;
  static auto *const dump = new Dump;
  const Lock lock(*mutex);
  if (format == Tools::kPerfMap) {
    write_map(functions);
    return;
  }
  dump->begin();
  for (const auto &function : functions) dump->add(function);
}

}  // namespace numc
