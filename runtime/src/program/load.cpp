// Loads programs from files, from memory or from their parts.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "error.hpp"
#include "execution/check.hpp"
#include "loader/relocatable.hpp"
#include "machine/processor.hpp"
#include "machine/relocations.hpp"
#include "program/capi.hpp"
#include "program/program.hpp"
#include "program/signature.hpp"

namespace numc {

namespace {

class Descriptor {
 public:
  // O_NONBLOCK: opening a pipe does not wait.
  explicit Descriptor(const char *path) : number(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number < 0) throw Error(std::strerror(errno));
  }
  ~Descriptor() { close(number); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  // Reads the bytes from `begin` to `end` to the same places behind `data`. Throws Error if the file ends before.
  void read(uint8_t *data, size_t begin, size_t end) const {
    while (begin < end) {
      const ssize_t got = pread(number, data + begin, end - begin, static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(std::strerror(errno));
      if (got == 0) throw Error("it became shorter while it was read");
      begin += static_cast<size_t>(got);
    }
  }

  const int number;
};

constexpr size_t kSignatureBytes = 64;

bool copies_weights() {
  const char *const text = std::getenv("NUMC_COPY_WEIGHTS");
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

}  // namespace

// A constructor that delegates: if it throws, the destructor runs.
Mapping::Mapping(const char *path, bool copies) : Mapping() {
  const Descriptor file(path);
  struct stat info {};
  if (fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode)) throw Error("not a file");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return;
  void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(std::strerror(errno));
  data_ = static_cast<uint8_t *>(memory);
  size_ = size;
  const size_t head = std::min(size, kMaxHead);
  file.read(data_, 0, head);
  size_t copied = copies || copies_weights() ? size : std::max(head, weights_begin({data_, head}, size));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));  // of some systems larger than that of program files
  copied = std::min(size, (copied + page - 1) / page * page);
  file.read(data_, head, copied);
  mprotect(data_, copied, PROT_READ);
  if (copied < size && mmap(data_ + copied, size - copied, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.number,
                            static_cast<off_t>(copied)) == MAP_FAILED)
    throw Error(std::strerror(errno));
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

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
    // Strides do not matter in a tensor without elements; taking a size of 0 as 1 keeps them from overflowing.
    stride *= dims[d] > 0 ? dims[d] : 1;
  }
}

namespace {

// Throws Error if the processor lacks a feature that the code uses.
void check_features(const Abi &abi) {
  std::string missing;
  for (int bit = 0; bit < 64; ++bit) {
    if (((abi.features >> bit) & 1) == 0) continue;
    if (machine::may_use(bit)) continue;
    const char *name = numc_feature_name(bit);
    missing += (missing.empty() ? "" : ", ") +
               (name != nullptr ? std::string(name) : "feature " + std::to_string(bit) + " (unknown to this runtime)");
  }
  if (!missing.empty())
    throw Error("compiled for target '" + abi.target + "', this CPU lacks " + missing + ": recompile with --target");
}

// Throws Error if the code is for another architecture: the bits of its features have another meaning there.
void check_machine(const Abi &abi, Span code) {
  const unsigned found = machine_of(code.data, code.size);
  if (found == machine::kElfMachine) return;
  const std::string other = found == EM_AARCH64  ? "aarch64"
                            : found == EM_X86_64 ? "x86-64"
                                                 : "ELF machine " + std::to_string(found);
  throw Error("compiled for target '" + abi.target + "' (" + other + "), this machine is " + machine::kName +
              ": recompile with --target");
}

}  // namespace
}  // namespace numc

using namespace numc;

void numc_program::set_up(Span abi_bytes, Span code) {
  read(abi_bytes, code);
  object = std::make_unique<Object>(code.data, code.size);
  void *const address = object->symbol(abi.entry);
  if (address == nullptr) throw Error("damaged program file (no function " + abi.entry + " in its code)");
  if (!object->is_code(address)) throw Error("damaged program file (" + abi.entry + " is not a function)");
  entry = reinterpret_cast<void (*)(void **)>(address);
}

void numc_program::set_up(const numc_linked &made) {
  read({static_cast<const uint8_t *>(made.abi), made.abi_size});
  linked = &made;
  entry = made.entry;
  add_weights({static_cast<const uint8_t *>(made.weights), made.weights_size});
}

bool numc_program::has_in_code(const void *address) const {
  if (object) return object->contains(address);
  Dl_info here{}, ours{};
  return dladdr(address, &here) != 0 && dladdr(linked, &ours) != 0 && here.dli_fbase == ours.dli_fbase;
}

void numc_program::read(Span abi_bytes, Span code) {
  validate_check_switch();
  abi = read_abi(abi_bytes);
  if (code.size > 0) check_machine(abi, code);
  check_features(abi);
  for (const auto &argument : abi.arguments)
    if (!argument.weight) {
      inputs.push_back(&argument);
      input_words += descriptor_words(argument.dims.size());
    }
  for (const auto &result : abi.results) result_words += descriptor_words(result.dims.size());
}

void numc_program::add_weight(const Value &value, const void *data) {
  if (value.storage) {
    void *const memory = numc_alloc(value.storage->words * 4);
    if (memory == nullptr) throw std::bad_alloc();
    std::unique_ptr<void, AllocFree> owner(memory);  // growing the vector may fail
    expanded.push_back(std::move(owner));
    expand(*value.storage, static_cast<const uint8_t *>(data), static_cast<float *>(memory));
    data = memory;
  }
  for (auto &of_layout : weights) {
    const void *place = data;
    if (checking()) {
      const size_t bytes = value.storage ? value.storage->words * 4 : value.bytes;
      void *const copy = checked_alloc(bytes, static_cast<Layout>(&of_layout - weights));
      if (copy == nullptr) throw std::bad_alloc();
      std::unique_ptr<void, AllocFree> owner(copy);
      expanded.push_back(std::move(owner));
      std::memcpy(copy, data, bytes);
      forbid_writes(copy);
      place = copy;
    }
    std::vector<int64_t> words;
    append_descriptor(words, place, value.dims.data(), value.dims.size());
    of_layout.push_back(std::move(words));
    if (!checking()) break;
  }
}

void numc_program::set_up(const Container &container) {
  set_up(container.abi, container.code);
  Span data = container.weights;
  if (reinterpret_cast<uintptr_t>(data.data) % 64 != 0 && data.size > 0) {
    // Generated code uses aligned loads. The weights of a file are aligned to pages; those in memory may not be.
    void *copy = numc_alloc(data.size);
    if (copy == nullptr) throw std::bad_alloc();
    aligned_weights.reset(copy);
    std::memcpy(copy, data.data, data.size);
    data.data = static_cast<const uint8_t *>(copy);
  }
  add_weights(data);
}

void numc_program::add_weights(Span data) {
  for (const auto &value : abi.arguments) {
    if (!value.weight) continue;
    if (value.offset % 64 != 0 || value.offset > data.size || value.bytes > data.size - value.offset)
      throw Error("damaged program file (weight '" + value.name + "' is not in it)");
    add_weight(value, data.data + value.offset);
  }
}

namespace {

// Calls `body`; an Error in it gets the name of the file, if there is one, before its text.
template <typename Body>
auto in_file(const char *path, Body body) {
  requested_tools();  // an error of the environment is none of the file
  try {
    return body();
  } catch (const Error &e) {
    throw path == nullptr ? e : Error("'" + std::string(path) + "': " + e.what());
  }
}

}  // namespace

extern "C" {

numc_program *numc_program_load(const char *path, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    want(path, "path");
    return in_file(path, [&] {
      auto program = std::make_unique<numc_program>();
      program->mapping = std::make_unique<Mapping>(path);
      program->set_up(read_container(program->mapping->span()));
      return program.release();
    });
  });
}

numc_program *numc_program_load_signed(const char *path, const char *key_path, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    want(path, "path"), want(key_path, "key_path");
    return in_file(path, [&] {
      auto program = std::make_unique<numc_program>();
      program->mapping = std::make_unique<Mapping>(path, true);
      const Span bytes = program->mapping->span();
      const Container container = read_container(bytes);
      const Span signature = container.signature;
      if (signature.data == nullptr)
        throw Error("not signed: sign it (numc compile --sign KEY), or load it without verification");
      if (signature.size != kSignatureBytes || signature.data + signature.size != bytes.data + bytes.size)
        throw Error("damaged program file (the signature is not at its end)");
      verify_signature(key_path, {bytes.data, bytes.size - signature.size}, signature);
      program->set_up(container);
      return program.release();
    });
  });
}

numc_program *numc_program_load_memory(const void *bytes, size_t size, char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    want(bytes, "bytes");
    auto program = std::make_unique<numc_program>();
    program->set_up(read_container({static_cast<const uint8_t *>(bytes), size}));
    return program.release();
  });
}

numc_program *numc_program_from_parts(const char *path, const void *abi, size_t abi_size, const void *code,
                                      size_t code_size, const void *const *weights, size_t weight_count,
                                      char **error) {
  return guarded<numc_program *>(error, nullptr, [&] {
    return in_file(path, [&] {
      want(abi, "abi"), want(code, "code");
      if (weight_count > 0) want(weights, "weights");
      auto program = std::make_unique<numc_program>();
      program->set_up({static_cast<const uint8_t *>(abi), abi_size}, {static_cast<const uint8_t *>(code), code_size});
      size_t used = 0;
      for (const auto &value : program->abi.arguments)
        if (value.weight && used++ < weight_count) {
          if (value.bytes > 0) want(weights[used - 1], "a weight");
          program->add_weight(value, weights[used - 1]);
        }
      if (used != weight_count)
        throw Error("got " + std::to_string(weight_count) + " weights, want " + std::to_string(used));
      return program.release();
    });
  });
}

int32_t numc_expand(const void *storage, size_t storage_size, const void *stored, size_t stored_size, float *out,
                    size_t count, char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] {
    want(storage, "storage");
    if (stored_size > 0) want(stored, "stored");
    if (count > 0) want(out, "out");
    const Storage s = read_storage({static_cast<const uint8_t *>(storage), storage_size});
    if (s.stored_bytes != stored_size || s.words != count)
      throw Error("a packed weight has " + std::to_string(stored_size) + " bytes and " + std::to_string(count) +
                  " values, want " + std::to_string(s.stored_bytes) + " and " + std::to_string(s.words));
    expand(s, static_cast<const uint8_t *>(stored), out);
    return NUMC_OK;
  });
}

void numc_program_free(numc_program *program) {
  if (program != nullptr && program->linked == nullptr) delete program;
}
}
