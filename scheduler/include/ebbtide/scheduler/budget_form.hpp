// BudgetForm: a budget as people write it, in the environment, over HTTP and on the command line,
// and the bytes that it comes to. docs/configuration.md has the table of the forms.
//
//   30GiB, 24576MiB, bytes ── known at once
//   80%, auto              ── of the memory: known once the ranks that share it are
//   -50%, 60%peak          ── of a step: known once steps have been measured
//   none
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct BudgetForm {
  enum class Kind : std::uint8_t {
    kUnbounded,  // "none"
    kBytes,
    kMemoryShare,
    kAvailable,        // "auto"
    kLessActivations,  // the plain peak less a share of what a step saves
    kPeakShare,        // of the plain peak
  };

  Kind kind = Kind::kUnbounded;
  Bytes bytes = 0;     // of kBytes
  double percent = 0;  // of the shares

  // Words and units have no case, and spaces may stand before, between and after. Throws
  // std::invalid_argument: one sentence that begins with "name=text" and names the forms.
  static BudgetForm parse(const std::string& name, const std::string& text);

  bool isNone() const { return kind == Kind::kUnbounded; }
  // Of what a step takes?
  bool isOfSteps() const { return kind == Kind::kLessActivations || kind == Kind::kPeakShare; }
  // Of what the ranks of a machine share?
  bool isOfMemory() const { return kind == Kind::kMemoryShare || kind == Kind::kAvailable; }
  std::string text() const;  // as it can be parsed again

  bool operator==(const BudgetForm&) const = default;
};

struct BudgetFacts {  // what a budget may be of, as far as it is known
  std::optional<Bytes> memory_bytes = std::nullopt;     // that the rank's percentage is of
  std::optional<Bytes> available_bytes = std::nullopt;  // to the rank, less the margin
  std::optional<Bytes> plain_peak_bytes = std::nullopt;
  std::optional<Bytes> activation_bytes = std::nullopt;  // of the step with that peak
  // Of a GPU, what others than PyTorch's allocator use. It counts in each budget, so forms that are
  // of a step come on top of it.
  Bytes others_bytes = 0;
};

// At least one byte. Nothing: it is none, or what it is of is not known.
std::optional<Bytes> resolve(const BudgetForm& form, const BudgetFacts& facts);

// A number without a unit means bytes. No process trains in less than a MiB, so the user meant
// another unit: throws std::invalid_argument, which asks back. `entry`: the text that the message
// names, where it is more than the size.
void refuseFewBytes(const std::string& name, const std::string& size,
                    const std::string& entry = "");

}  // namespace ebbtide::scheduler
