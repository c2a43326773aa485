#include "loader/tools.hpp"

#include <cstdlib>

#include "error.hpp"

namespace numc {
namespace {

std::string variable(const char *name) {
  const char *const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

Tools requested_tools() {
  Tools tools;
  const std::string perf = variable("NUMC_PERF"), gdb = variable("NUMC_GDB");
  if (perf == "map")
    tools.perf = Tools::kPerfMap;
  else if (perf == "jitdump")
    tools.perf = Tools::kJitDump;
  else if (!perf.empty())
    throw Error("NUMC_PERF: got '" + perf + "', want 'map' or 'jitdump'");
  if (!gdb.empty() && gdb != "0" && gdb != "1") throw Error("NUMC_GDB: got '" + gdb + "', want '1' or '0'");
  tools.gdb = gdb == "1";
  return tools;
}

}  // namespace numc
