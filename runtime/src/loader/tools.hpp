// Which tools are told the names and places of loaded functions. Generated code lies in anonymous memory: without this,
// profilers and debuggers see only addresses there. docs/profiling.md describes the switches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace numc {

struct Tools {
  enum Perf { kNoPerf, kPerfMap, kJitDump };
  Perf perf = kNoPerf;
  bool gdb = false;
};

// What NUMC_PERF and NUMC_GDB ask for. Throws Error for a value that they do not have.
Tools requested_tools();

// A function of a loaded object.
struct LoadedFunction {
  std::string name;
  const uint8_t *code;
  size_t size;  // in bytes
};

}  // namespace numc
