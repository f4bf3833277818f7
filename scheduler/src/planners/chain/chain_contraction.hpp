// ChainContraction: a forward pass of any Graph seen as a chain. It is cut where a single value
// crosses that can be recomputed; what lies between two cuts is a stage, with the backward events
// that read what it made. A pass with no such crossing is a chain of one stage.
//
//   ops:    f f f │ f f │ f f f f │ b b b b │ b b │ b b b
//   stage:    0   │  1  │    2    │    2    │  1  │   0
//
// Values that no schedule may drop (graph inputs, what an op makes that may not run again), that
// the program holds until their last reader, or that ops elsewhere read, are resident: they cross
// freely and count wherever they are live.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "planners/chain/chain_costs.hpp"

namespace ebbtide::scheduler {

struct ChainStage {
  std::vector<OpId> forward;    // in program order, as are all of these
  std::vector<OpId> run, save;  // of these what must run again for the output, and to save as well
  std::vector<OpId> backward;   // not empty
  ValueId input = kNone;        // the output of the stage before
  ValueId output = kNone;
  std::vector<ValueId> saved;  // what its backward reads, its output left out; sorted
  std::vector<ValueId> made;   // all that its forward makes but residents
  struct Partial {
    std::vector<ValueId> kept;  // beside the output; sorted
    std::vector<OpId> run;      // what must run again for them and the output
  };
  std::vector<Partial> partial;  // one for each PartialSave of its costs
};

struct ChainContraction {
  std::vector<ChainStage> stages;
  ChainCosts costs;
};

// The residents of a graph, per value.
std::vector<bool> residentValues(const Graph& graph);

// One chain for each forward pass that backward events read from, in program order. At most
// `most_stages` stages each, then cut where little crosses.
std::vector<ChainContraction> contractToChains(const Graph& graph, std::size_t most_stages);

}  // namespace ebbtide::scheduler
