// Finding: what `ebbtide doctor` says of one thing.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

struct Finding {
  enum class Verdict {
    kOk,
    kAdvice,  // training works; it is as well to know
    kAbsent,  // not there, and not needed for all
    kProblem
  };
  std::string name;  // "torch"
  Verdict verdict = Verdict::kOk;
  std::string what;  // one line
  std::string fix;   // where there is one: what to do
};

const char* nameOf(Finding::Verdict verdict);  // "ok", "advice", "absent", "problem"

using Findings = std::vector<Finding>;

}  // namespace ebbtide::cli
