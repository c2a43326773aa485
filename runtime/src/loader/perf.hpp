// Tells Linux perf the names of loaded functions, in one of the two formats that it reads.
#pragma once

#include <vector>

#include "loader/tools.hpp"

namespace numc {

// Appends the functions to /tmp/perf-PID.map (kPerfMap) or to jit-PID.dump (kJitDump), which lies in the folder that
// JITDUMPDIR names, else in /tmp. Throws Error where that file cannot be written.
void tell_perf(Tools::Perf format, const std::vector<LoadedFunction> &functions);

}  // namespace numc
