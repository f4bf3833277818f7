// Which memory and time a graph stands for.
#pragma once

namespace ebbtide::scheduler {

// A paper's model is a Graph of its own, so validator, simulator and bounds judge it as any other.
enum class CostModel {
  kReal,
  kPaper,
};

}  // namespace ebbtide::scheduler
