// OpInfo: what is known of an operator before it runs. Includes torch.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ebbtide::plugin {

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& op) : handle(op) {}

  c10::OperatorHandle handle;
  std::string name;                      // "aten::relu_"
  std::uint64_t hash = 0;                // of name and overload, equal in every process
  std::size_t number = 0;                // of the name: ExecutorCounters
  bool transparent = false;              // only calls other ops: look inside
  c10::DispatchKeySet autocast_kernels;  // cast its inputs first: look inside while one is on
  bool mutates = false;                  // some argument is written
  bool makes_values = false;             // not a mere view or query: returns new contents or writes
  std::vector<bool> writes;              // per argument
  bool seeded = false;                   // may draw random numbers
  int generator_argument = -1;           // -1: draws from the default generator
  bool never_replay = false;   // collectives, other libraries' ops, effects outside memory
  bool uninitialised = false;  // empty and its kin
  const char* repeats_because = nullptr;  // deterministic_ops.hpp
  bool may_differ_on_gpu = false;
  bool may_race_on_host = false;
  bool often_written_unseen = false;
  bool overwrites_fully = false;  // in-place, result independent of what was there
  // Of a normalisation that writes running statistics without saying so: these, and the argument
  // that says whether it trains (-1: it does).
  std::vector<int> statistics;
  int training_argument = -1;

  // Does this call write them? Its results depend on the batch alone then: a replay leaves them
  // out.
  bool updatesStatistics(c10::ArrayRef<const c10::IValue> arguments) const;
  bool isStatistic(int argument) const;
};

// The op's own arguments and results: a boxed call shows the whole stack, which may hold its
// caller's values beneath them. Empty where some are missing (results: of an op that threw).
c10::ArrayRef<const c10::IValue> argumentsOf(const OpInfo& info, const at::RecordFunction& call);
c10::ArrayRef<const c10::IValue> resultsOf(const OpInfo& info, const at::RecordFunction& call);

// nullptr for a call that is no dispatcher op. The pointer lives as long as the process.
const OpInfo* opInfo(const at::RecordFunction& call);

}  // namespace ebbtide::plugin
