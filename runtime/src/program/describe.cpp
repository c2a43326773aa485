// What C programs ask about the inputs and outputs of a program.
#include "program/program.hpp"

using numc::Value;

namespace {

const Value *input_at(const numc_program *program, int32_t index) {
  if (program == nullptr || index < 0 || static_cast<size_t>(index) >= program->inputs.size()) return nullptr;
  return program->inputs[static_cast<size_t>(index)];
}

const Value *output_at(const numc_program *program, int32_t index) {
  if (program == nullptr || index < 0 || static_cast<size_t>(index) >= program->abi.results.size()) return nullptr;
  return &program->abi.results[static_cast<size_t>(index)];
}

int32_t count_of(size_t count) { return static_cast<int32_t>(count); }
const char *name_of(const Value *value) { return value != nullptr ? value->name.c_str() : nullptr; }
int32_t dtype_of(const Value *value) { return value != nullptr ? value->dtype : -1; }
int32_t rank_of(const Value *value) { return value != nullptr ? static_cast<int32_t>(value->dims.size()) : -1; }
const int64_t *dims_of(const Value *value) { return value != nullptr ? value->dims.data() : nullptr; }

}  // namespace

extern "C" {

int32_t numc_input_count(const numc_program *p) { return p != nullptr ? count_of(p->inputs.size()) : -1; }
const char *numc_input_name(const numc_program *p, int32_t i) { return name_of(input_at(p, i)); }
int32_t numc_input_dtype(const numc_program *p, int32_t i) { return dtype_of(input_at(p, i)); }
int32_t numc_input_rank(const numc_program *p, int32_t i) { return rank_of(input_at(p, i)); }
const int64_t *numc_input_dims(const numc_program *p, int32_t i) { return dims_of(input_at(p, i)); }
int32_t numc_output_count(const numc_program *p) { return p != nullptr ? count_of(p->abi.results.size()) : -1; }
const char *numc_output_name(const numc_program *p, int32_t i) { return name_of(output_at(p, i)); }
int32_t numc_output_dtype(const numc_program *p, int32_t i) { return dtype_of(output_at(p, i)); }
int32_t numc_output_rank(const numc_program *p, int32_t i) { return rank_of(output_at(p, i)); }
const int64_t *numc_output_dims(const numc_program *p, int32_t i) { return dims_of(output_at(p, i)); }

int32_t numc_width_count(const numc_program *p) { return p != nullptr ? count_of(p->abi.widths.size()) : -1; }
int32_t numc_width_at(const numc_program *p, int32_t i, numc_width_range *range) {
  if (i < 0 || i >= numc_width_count(p) || range == nullptr) return NUMC_BAD_INPUT;
  const numc::WidthRange &w = p->abi.widths[static_cast<size_t>(i)];
  *range = {w.layer.c_str(), w.operand.c_str(), w.exponent[0], w.exponent[1], w.significand[0], w.significand[1]};
  return NUMC_OK;
}
}
