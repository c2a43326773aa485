// The program half of the C interface: a container or its parts, made ready to run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "execution/alloc.hpp"
#include "program/capi.hpp"
#include "program/container.hpp"
#include "loader/elf.hpp"
#include "error.hpp"
#include "numc.h"
#include "execution/run.hpp"

namespace numc {
namespace {

// A file, mapped read-only.
class Mapping {
 public:
  explicit Mapping(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw Error(std::strerror(errno));
    struct stat info {};
    const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (regular && info.st_size > 0) {
      size_ = static_cast<size_t>(info.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (!regular) throw Error("not a file");
    if (data_ == MAP_FAILED) throw Error(std::strerror(errno));
  }
  ~Mapping() {
    if (data_ != MAP_FAILED && data_ != nullptr) munmap(data_, size_);
  }
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  Span span() const { return {static_cast<const uint8_t *>(data_), size_}; }

 private:
  void *data_ = nullptr;
  size_t size_ = 0;
};

struct AllocFree {
  void operator()(void *memory) const { numc_free(memory); }
};

// {allocated, aligned, offset, sizes[rank], strides[rank]} of a dense row-major tensor, as MLIR passes memrefs.
void append_descriptor(std::vector<int64_t> &words, const void *data, const int64_t *dims, size_t rank) {
  words.push_back(reinterpret_cast<int64_t>(data));
  words.push_back(reinterpret_cast<int64_t>(data));
  words.push_back(0);
  words.insert(words.end(), dims, dims + rank);
  const size_t strides = words.size();
  words.resize(strides + rank);
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    words[strides + d] = stride;
    // A dimension of 0 makes every stride behind it irrelevant; 1 keeps them from overflowing.
    stride *= dims[d] > 0 ? dims[d] : 1;
  }
}

size_t descriptor_words(size_t rank) { return 3 + 2 * rank; }

std::string shape_text(int32_t dtype, const int64_t *dims, size_t rank) {
  std::string text = std::string(dtype_name(dtype)) + "[";
  for (size_t d = 0; d < rank; ++d)
    text += (d > 0 ? "," : "") + (dims[d] < 0 ? std::string("?") : std::to_string(dims[d]));
  return text + "]";
}

void check_features(const Abi &abi) {
  std::string missing;
  for (int bit = 0; bit < 64; ++bit) {
    if (((abi.features >> bit) & 1) == 0) continue;
    const char *name = numc_feature_name(bit);
    const bool amx = name != nullptr && std::strncmp(name, "amx", 3) == 0;
    if (((numc_cpu_features() >> bit) & 1) != 0 && (!amx || numc_request_amx())) continue;
    missing += (missing.empty() ? "" : ", ") +
               (name != nullptr ? std::string(name) : "feature " + std::to_string(bit) + " (unknown to this runtime)");
  }
  if (!missing.empty())
    throw Error("compiled for target '" + abi.target + "', this CPU lacks " + missing + ": recompile with --target");
}

}  // namespace
}  // namespace numc

using namespace numc;

struct numc_program {
  std::unique_ptr<Mapping> mapping;
  std::unique_ptr<void, AllocFree> aligned_weights;
  std::vector<std::unique_ptr<void, AllocFree>> expanded;  // weights that came in the bytes of their format
  Abi abi;
  std::unique_ptr<Object> object;
  void (*entry)(void **) = nullptr;
  std::vector<const Value *> inputs;
  std::vector<std::vector<int64_t>> weights;  // descriptors, in the order of the arguments
  size_t result_words = 0;
  std::mutex mutex;  // of the two below
  numc_observer observer = nullptr;
  void *observer_user = nullptr;
  std::atomic<uint64_t> executions{0};  // those that were given no seed

  void set_up(Span abi_bytes, Span code) {
    abi = read_abi(abi_bytes);
    check_features(abi);
    object = std::make_unique<Object>(code.data, code.size);
    void *const address = object->symbol(abi.entry);
    if (address == nullptr) throw Error("damaged program file (no function " + abi.entry + " in its code)");
    if (!object->is_code(address)) throw Error("damaged program file (" + abi.entry + " is not a function)");
    entry = reinterpret_cast<void (*)(void **)>(address);
    for (const auto &argument : abi.arguments)
      if (!argument.weight) inputs.push_back(&argument);
    for (const auto &result : abi.results) result_words += descriptor_words(result.dims.size());
  }

  void add_weight(const Value &value, const void *data) {
    if (value.storage) {
      void *const memory = numc_alloc(value.storage->words * 4);
      if (memory == nullptr) throw std::bad_alloc();
      expanded.emplace_back(memory);
      expand(*value.storage, static_cast<const uint8_t *>(data), static_cast<float *>(memory));
      data = memory;
    }
    std::vector<int64_t> words;
    append_descriptor(words, data, value.dims.data(), value.dims.size());
    weights.push_back(std::move(words));
  }

  // From a whole container in memory that outlives the program.
  void set_up(Span bytes) {
    const Container container = read_container(bytes);
    set_up(container.abi, container.code);
    Span data = container.weights;
    if (reinterpret_cast<uintptr_t>(data.data) % 64 != 0 && data.size > 0) {
      // Generated code uses aligned loads. Never the case for a file, whose weights are page-aligned.
      void *copy = numc_alloc(data.size);
      if (copy == nullptr) throw std::bad_alloc();
      aligned_weights.reset(copy);
      std::memcpy(copy, data.data, data.size);
      data.data = static_cast<const uint8_t *>(copy);
    }
    for (const auto &value : abi.arguments) {
      if (!value.weight) continue;
      if (value.offset % 64 != 0 || value.offset > data.size || value.bytes > data.size - value.offset)
        throw Error("damaged program file (weight '" + value.name + "' is not in it)");
      add_weight(value, data.data + value.offset);
    }
  }

  void check_input(size_t index, const numc_tensor &got) const {
    const Value &want = *inputs[index];
    const std::string who = "input '" + want.name + "'";
    bool good = got.dtype == want.dtype && got.rank == static_cast<int32_t>(want.dims.size());
    if (got.rank < 0 || got.rank > NUMC_MAX_RANK) throw Error(who + ": rank " + std::to_string(got.rank));
    bool negative = false;
    uint64_t bytes = item_size(want.dtype);
    for (int32_t d = 0; d < got.rank; ++d) {
      negative |= got.dims[d] < 0;
      if (good) good = want.dims[static_cast<size_t>(d)] < 0 || want.dims[static_cast<size_t>(d)] == got.dims[d];
      if (got.dims[d] > 0 && __builtin_mul_overflow(bytes, static_cast<uint64_t>(got.dims[d]), &bytes)) good = false;
    }
    if (!good || negative)
      throw Error(who + ": got " + shape_text(got.dtype, got.dims, static_cast<size_t>(got.rank)) + ", want " +
                  shape_text(want.dtype, want.dims.data(), want.dims.size()));
    if (got.data == nullptr) {
      for (int32_t d = 0; d < got.rank; ++d)
        if (got.dims[d] == 0) return;
      throw Error(who + ": data is NULL");
    }
  }

  // Whether `allocated` came from numc_alloc in this run and was not handed out yet: not an argument handed through, a
  // constant of the code (MLIR marks those), or one buffer returned twice.
  bool owns(const void *allocated, const std::vector<void *> &args, const std::vector<numc_tensor> &taken) const {
    if (allocated == reinterpret_cast<void *>(0xdeadbeef) || object->contains(allocated)) return false;
    for (const auto &tensor : taken)
      if (tensor.owner == allocated) return false;
    for (size_t i = abi.results.empty() ? 0 : 1; i < args.size(); ++i)
      if (*static_cast<void **>(args[i]) == allocated) return false;
    return true;
  }

  // Moves one result out of its descriptor, or copies what is not owned or not dense row-major. False: no memory.
  bool take_result(Run &run, const Value &value, const int64_t *words, bool owned, numc_tensor &out) const {
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

  int32_t run(const numc_tensor *given, numc_tensor *outputs, int32_t threads, const uint64_t *seed, char **error) {
    Run state;
    state.threads = resolve_threads(threads);
    {
      std::lock_guard<std::mutex> lock(mutex);
      state.observer = observer;
      state.observer_user = observer_user;
    }
    std::vector<int64_t> results(result_words, 0);
    std::vector<std::vector<int64_t>> descriptors(inputs.size());
    std::vector<void *> args;
    if (!abi.results.empty()) args.push_back(results.data());
    size_t input = 0, weight = 0;
    for (const auto &argument : abi.arguments) {
      if (argument.weight) {
        args.push_back(const_cast<int64_t *>(weights[weight++].data()));
        continue;
      }
      check_input(input, given[input]);
      append_descriptor(descriptors[input], given[input].data, given[input].dims,
                        static_cast<size_t>(given[input].rank));
      args.push_back(descriptors[input++].data());
    }
    std::vector<numc_tensor> taken;
    taken.reserve(abi.results.size());
    if (seed != nullptr)
      state.seed = *seed;
    else
      state.step = executions.fetch_add(1, std::memory_order_relaxed);
    int32_t code = call_protected(entry, args.data(), state);
    if (code == 0) {
      const int64_t *words = results.data();
      for (const auto &result : abi.results) {
        numc_tensor out{};
        const int64_t updated = abi.updated[taken.size()];
        const bool in_place = updated >= 0 && reinterpret_cast<void *>(words[1]) == given[updated].data;
        const bool owned = owns(reinterpret_cast<void *>(words[0]), args, taken);
        if (in_place) {
          out = given[updated];
          out.owner = nullptr;
        } else if (!take_result(state, result, words, owned, out)) {
          code = NUMC_OUT_OF_MEMORY;
          break;
        }
        taken.push_back(out);
        words += descriptor_words(result.dims.size());
      }
    }
    free_run(state);
    if (code != 0) {
      for (auto &tensor : taken) numc_tensor_release(&tensor);
      set_error(error, describe_failure(code));
      return code;
    }
    for (size_t i = 0; i < taken.size(); ++i) outputs[i] = taken[i];
    return NUMC_OK;
  }
};

namespace {

const Value *input_at(const numc_program *program, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= program->inputs.size()) return nullptr;
  return program->inputs[static_cast<size_t>(index)];
}

const Value *output_at(const numc_program *program, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= program->abi.results.size()) return nullptr;
  return &program->abi.results[static_cast<size_t>(index)];
}

const char *name_of(const Value *value) { return value != nullptr ? value->name.c_str() : nullptr; }
int32_t dtype_of(const Value *value) { return value != nullptr ? value->dtype : -1; }
int32_t rank_of(const Value *value) { return value != nullptr ? static_cast<int32_t>(value->dims.size()) : -1; }
const int64_t *dims_of(const Value *value) { return value != nullptr ? value->dims.data() : nullptr; }

}  // namespace

extern "C" {

numc_program *numc_program_load(const char *path, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    requested_tools();  // what it refuses is no fault of the file
    try {
      auto program = std::make_unique<numc_program>();
      program->mapping = std::make_unique<Mapping>(path);
      program->set_up(program->mapping->span());
      return program.release();
    } catch (const Error &e) {
      throw Error("'" + std::string(path) + "': " + e.what());
    }
  });
}

numc_program *numc_program_load_memory(const void *bytes, size_t size, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    auto program = std::make_unique<numc_program>();
    program->set_up({static_cast<const uint8_t *>(bytes), size});
    return program.release();
  });
}

numc_program *numc_program_from_parts(const void *abi, size_t abi_size, const void *code, size_t code_size,
                                      const void *const *weights, size_t weight_count, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    auto program = std::make_unique<numc_program>();
    program->set_up({static_cast<const uint8_t *>(abi), abi_size}, {static_cast<const uint8_t *>(code), code_size});
    size_t used = 0;
    for (const auto &value : program->abi.arguments)
      if (value.weight && used++ < weight_count) program->add_weight(value, weights[used - 1]);
    if (used != weight_count)
      throw Error("got " + std::to_string(weight_count) + " weights, want " + std::to_string(used));
    return program.release();
  });
}

int32_t numc_expand(const void *storage, size_t storage_size, const void *stored, size_t stored_size, float *out,
                    size_t count, char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] {
    const Storage s = read_storage({static_cast<const uint8_t *>(storage), storage_size});
    if (s.stored_bytes != stored_size || s.words != count)
      throw Error("a packed weight has " + std::to_string(stored_size) + " bytes and " + std::to_string(count) +
                  " values, want " + std::to_string(s.stored_bytes) + " and " + std::to_string(s.words));
    expand(s, static_cast<const uint8_t *>(stored), out);
    return NUMC_OK;
  });
}

void numc_program_free(numc_program *program) { delete program; }

int32_t numc_input_count(const numc_program *p) { return static_cast<int32_t>(p->inputs.size()); }
const char *numc_input_name(const numc_program *p, int32_t i) { return name_of(input_at(p, i)); }
int32_t numc_input_dtype(const numc_program *p, int32_t i) { return dtype_of(input_at(p, i)); }
int32_t numc_input_rank(const numc_program *p, int32_t i) { return rank_of(input_at(p, i)); }
const int64_t *numc_input_dims(const numc_program *p, int32_t i) { return dims_of(input_at(p, i)); }
int32_t numc_output_count(const numc_program *p) { return static_cast<int32_t>(p->abi.results.size()); }
const char *numc_output_name(const numc_program *p, int32_t i) { return name_of(output_at(p, i)); }
int32_t numc_output_dtype(const numc_program *p, int32_t i) { return dtype_of(output_at(p, i)); }
int32_t numc_output_rank(const numc_program *p, int32_t i) { return rank_of(output_at(p, i)); }
const int64_t *numc_output_dims(const numc_program *p, int32_t i) { return dims_of(output_at(p, i)); }

int32_t numc_run(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                 char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] { return program->run(inputs, outputs, threads, nullptr, error); });
}

int32_t numc_run_seeded(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                        uint64_t seed, char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] { return program->run(inputs, outputs, threads, &seed, error); });
}

void numc_tensor_release(numc_tensor *tensor) {
  numc_free(tensor->owner);
  tensor->owner = tensor->data = nullptr;
}

void numc_set_observer(numc_program *program, numc_observer observer, void *user) {
  std::lock_guard<std::mutex> lock(program->mutex);
  program->observer = observer;
  program->observer_user = user;
}
}
