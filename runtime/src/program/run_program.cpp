// Runs programs: checks the inputs, calls the code, and hands the results over.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "error.hpp"
#include "execution/alloc.hpp"
#include "execution/profile.hpp"
#include "execution/run.hpp"
#include "program/capi.hpp"
#include "program/program.hpp"

namespace numc {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 42;  // MOST of passes/imported/size_limits.py

// A dtype and a shape as text: float32[?,64].
std::string shape_text(int32_t dtype, const int64_t *dims, size_t rank) {
  std::string text = std::string(dtype_name(dtype)) + "[";
  for (size_t d = 0; d < rank; ++d)
    text += (d > 0 ? "," : "") + (dims[d] < 0 ? std::string("?") : std::to_string(dims[d]));
  return text + "]";
}

// Throws Error if `got` has not the dtype and shape of the input `want`.
void check_input(const Value &want, const numc_tensor &got) {
  const auto who = [&] { return "input '" + want.name + "'"; };
  bool good = got.dtype == want.dtype && got.rank == static_cast<int32_t>(want.dims.size());
  if (got.rank < 0 || got.rank > NUMC_MAX_RANK) throw Error(who() + ": rank " + std::to_string(got.rank));
  bool negative = false, large = false;
  uint64_t elements = 1;
  for (int32_t d = 0; d < got.rank; ++d) {
    negative |= got.dims[d] < 0;
    if (good) good = want.dims[static_cast<size_t>(d)] < 0 || want.dims[static_cast<size_t>(d)] == got.dims[d];
    if (got.dims[d] > 0) large |= __builtin_mul_overflow(elements, static_cast<uint64_t>(got.dims[d]), &elements);
  }
  if (!good || negative)
    throw Error(who() + ": got " + shape_text(got.dtype, got.dims, static_cast<size_t>(got.rank)) + ", want " +
                shape_text(want.dtype, want.dims.data(), want.dims.size()));
  // Generated code relies on it: what it multiplies does not wrap. As there, a size of 0 counts as 1.
  if (large || elements > kMostElements)
    throw Error(who() + ": got " + shape_text(got.dtype, got.dims, static_cast<size_t>(got.rank)) +
                ", want at most 2^42 elements");
  if (got.data == nullptr) {
    for (int32_t d = 0; d < got.rank; ++d)
      if (got.dims[d] == 0) return;
    throw Error(who() + ": data is NULL");
  }
}

// Throws Error if sizes of one name differ, or are outside of their limits. The code relies on it and does not check.
void check_symbols(const numc_program &program, const numc_tensor *given) {
  for (const auto &symbol : program.abi.symbols) {
    for (const auto &place : symbol.places) {
      const int64_t size = given[place.input].dims[place.dimension];
      const auto text = [&] {
        return "input '" + program.inputs[place.input]->name + "': size '" + symbol.name + "' is " +
               std::to_string(size);
      };
      if (size < symbol.least || size > symbol.most) {
        const bool open = symbol.most == std::numeric_limits<int64_t>::max();
        throw Error(text() + ", want " + (open ? "at least " : "") + std::to_string(symbol.least) +
                    (open ? "" : " to " + std::to_string(symbol.most)));
      }
      const auto &first = symbol.places.front();
      const int64_t expected = given[first.input].dims[first.dimension];
      if (size != expected)
        throw Error(text() + ", but input '" + program.inputs[first.input]->name + "' has " +
                    std::to_string(expected) + ": want the same in both");
    }
  }
}

// Whether `allocated` came from numc_alloc in this run and can become the memory of a result. It cannot if it is the
// memory of an argument or of an earlier result, or a constant in the code, which MLIR marks with 0xdeadbeef.
bool owns(const numc_program &program, const void *allocated, const std::vector<void *> &args,
          const std::vector<numc_tensor> &taken) {
  if (allocated == reinterpret_cast<void *>(0xdeadbeef) || program.has_in_code(allocated)) return false;
  for (const auto &tensor : taken)
    if (tensor.owner == allocated) return false;
  for (size_t i = program.abi.results.empty() ? 0 : 1; i < args.size(); ++i)
    if (*static_cast<void **>(args[i]) == allocated) return false;
  return true;
}

// Makes the result that a memref descriptor describes a tensor of its own: takes its memory over if the run owns it
// and it is dense and row-major, else copies it. Returns false if memory is short.
bool take_result(Run &run, const Value &value, const int64_t *words, bool owned, numc_tensor &out) {
  const size_t rank = value.dims.size(), item = item_size(value.dtype);
  auto *allocated = reinterpret_cast<void *>(words[0]);
  const char *start = reinterpret_cast<const char *>(words[1]) + words[2] * static_cast<int64_t>(item);
  const int64_t *sizes = words + 3, *strides = words + 3 + rank;
  out.dtype = value.dtype;
  out.rank = static_cast<int32_t>(rank);
  std::memcpy(out.dims, sizes, rank * sizeof(int64_t));
  size_t count = 1;
  for (size_t d = 0; d < rank; ++d) count *= static_cast<size_t>(sizes[d]);
  bool dense = true;
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    dense &= sizes[d] == 1 || strides[d] == stride;
    stride *= sizes[d];
  }
  if (count == 0) dense = true;
  if (dense && owned) {
    release_from_run(run, allocated);
    out.owner = allocated;
    out.data = const_cast<char *>(start);
    return true;
  }
  auto *copy = static_cast<char *>(numc_alloc(count * item));
  if (copy == nullptr) return false;
  out.owner = out.data = copy;
  if (dense) {
    if (count > 0) std::memcpy(copy, start, count * item);
    return true;
  }
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    int64_t offset = 0;
    for (size_t d = rank; d-- > 0; rest /= static_cast<size_t>(sizes[d]))
      offset += static_cast<int64_t>(rest % static_cast<size_t>(sizes[d])) * strides[d];
    std::memcpy(copy + i * item, start + offset * static_cast<int64_t>(item), item);
  }
  return true;
}

// Appends all results to `taken`, given their descriptors one after the other. Returns false if memory is short.
bool take_results(const numc_program &program, Run &run, const int64_t *words, const std::vector<void *> &args,
                  const numc_tensor *given, std::vector<numc_tensor> &taken) {
  for (const auto &result : program.abi.results) {
    numc_tensor out{};
    const int64_t updated = program.abi.updated[taken.size()];
    if (updated >= 0 && reinterpret_cast<void *>(words[1]) == given[updated].data) {
      out = given[updated];  // the result was written into the input
      out.owner = nullptr;
    } else {
      const bool owned = owns(program, reinterpret_cast<void *>(words[0]), args, taken);
      if (!take_result(run, result, words, owned, out)) return false;
    }
    taken.push_back(out);
    words += descriptor_words(result.dims.size());
  }
  return true;
}

}  // namespace
}  // namespace numc

using namespace numc;

void numc_program::check_inputs(const numc_tensor *given) const {
  for (size_t i = 0; i < inputs.size(); ++i) check_input(*inputs[i], given[i]);
  check_symbols(*this, given);
}

int32_t numc_program::run(const numc_tensor *given, numc_tensor *outputs, Run &state, char **error) {
  state.converted = &converted;
  {
    const Lock lock(mutex);
    state.observer = observer;
    state.observer_user = observer_user;
  }
  // The descriptors of the results, then those of the inputs.
  std::vector<int64_t> words;
  words.reserve(result_words + input_words);
  words.resize(result_words);
  std::vector<void *> args;
  args.reserve(abi.arguments.size() + 1);
  if (!abi.results.empty()) args.push_back(words.data());
  size_t input = 0, weight = 0;
  for (const auto &argument : abi.arguments) {
    if (argument.weight) {
      args.push_back(const_cast<int64_t *>(weights[static_cast<int>(state.layout)][weight++].data()));
      continue;
    }
    const numc_tensor &tensor = given[input++];
    args.push_back(words.data() + words.size());
    append_descriptor(words, tensor.data, tensor.dims, static_cast<size_t>(tensor.rank));
  }
  std::vector<numc_tensor> taken;
  taken.reserve(abi.results.size());
  int32_t code = call_protected(entry, args.data(), state);
  if (code == 0 && !take_results(*this, state, words.data(), args, given, taken)) code = NUMC_OUT_OF_MEMORY;
  free_run(state);
  if (code != 0) {
    for (auto &tensor : taken) numc_tensor_release(&tensor);
    set_error(error, describe_failure(code));
    return code;
  }
  for (size_t i = 0; i < taken.size(); ++i) outputs[i] = taken[i];
  return NUMC_OK;
}

namespace {

// The widths of a run, in the form that generated code takes; `given` is null for the widest. Throws Error.
std::vector<int64_t> chosen_widths(const Abi &abi, const numc_width *given) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < abi.widths.size(); ++i) {
    const WidthRange &range = abi.widths[i];
    const numc_width width = given != nullptr ? given[i] : numc_width{range.exponent[1], range.significand[1]};
    const auto check = [&](const char *what, int32_t got, const int32_t *limits) {
      if (got < limits[0] || got > limits[1])
        throw Error("widths: layer '" + range.layer + "', " + range.operand + ": got " + std::to_string(got) + " " +
                    what + " bits, want " + std::to_string(limits[0]) + " to " + std::to_string(limits[1]));
    };
    check("exponent", width.exponent, range.exponent);
    check("significand", width.significand, range.significand);
    found.push_back(packed(width));
  }
  return found;
}

// One run whose spans go to `profile`. Throws Error where a run is something else.
int32_t run_profiled(numc_program &program, const numc_tensor *given, numc_tensor *outputs, Run &state,
                     numc_profile &profile, char **error) {
  if (checking()) throw Error("profile: NUMC_CHECK is set, which runs every program twice: unset it");
  struct Recording {
    numc_profile &profile;
    ~Recording() { profile.end(); }
  };
  profile.begin(threads_of(state));
  Recording recording{profile};
  state.profile = &profile;
  return program.run(given, outputs, state, error);
}

int32_t start(numc_program &program, const numc_tensor *given, numc_tensor *outputs, const numc_run_options &options,
              char **error) {
  if (options.size != sizeof(numc_run_options))
    throw Error("numc_run_options: size is " + std::to_string(options.size) + ", want " +
                std::to_string(sizeof(numc_run_options)));
  Run state;
  state.threads = told_threads(options.threads);
  state.memory = resolve_memory();
  program.check_inputs(given);
  state.widths = chosen_widths(program.abi, options.widths);
  state.ranges = program.abi.widths.data();
  if (options.choices != nullptr) {
    state.choices.assign(options.choices, options.choices + program.abi.widths.size());
    for (numc_choice &choice : state.choices) choice.decided = 0;
  }
  if (options.seeded != 0)
    state.seed = options.seed;
  else
    state.step = program.executions.fetch_add(1, std::memory_order_relaxed);
  const int32_t code = options.profile != nullptr
                           ? run_profiled(program, given, outputs, state, *options.profile, error)
                       : checking() ? program.run_checked(given, outputs, state, error)
                                    : program.run(given, outputs, state, error);
  if (code == NUMC_OK) std::copy(state.choices.begin(), state.choices.end(), options.choices);
  return code;
}

}  // namespace

extern "C" {

int32_t numc_run(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                 char **error) {
  const numc_run_options options{sizeof options, threads, 0, 0, nullptr, nullptr, nullptr};
  return numc_run_with(program, inputs, outputs, &options, error);
}

int32_t numc_run_seeded(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                        uint64_t seed, char **error) {
  const numc_run_options options{sizeof options, threads, 1, seed, nullptr, nullptr, nullptr};
  return numc_run_with(program, inputs, outputs, &options, error);
}

int32_t numc_run_with(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs,
                      const numc_run_options *options, char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] {
    want(program, "program"), want(options, "options");
    if (!program->inputs.empty()) want(inputs, "inputs");
    if (!program->abi.results.empty()) want(outputs, "outputs");
    return start(*program, inputs, outputs, *options, error);
  });
}

void numc_tensor_release(numc_tensor *tensor) {
  if (tensor == nullptr) return;
  numc_free(tensor->owner);
  tensor->owner = tensor->data = nullptr;
}

void numc_set_observer(numc_program *program, numc_observer observer, void *user) {
  if (program == nullptr) return;
  const Lock lock(program->mutex);
  program->observer = observer;
  program->observer_user = user;
}
}
