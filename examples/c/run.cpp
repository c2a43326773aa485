// Runs a program file on an input of ones with the C++ interface of the runtime; with CMake: find_package(numc).
#include <numc.hpp>

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: run PROGRAM\n"), 2;
  try {
    const numc::Program program(argv[1]);
    const std::vector<float> x(64, 1.0f);
    const auto outputs = program.run({numc::tensor(x.data(), {1, 64})});
    for (int64_t k = 0; k < outputs[0].size(); ++k) std::printf("%a\n", outputs[0].data<float>()[k]);
  } catch (const numc::Error &error) {
    return std::fprintf(stderr, "run: %s\n", error.what()), 2;
  }
}
