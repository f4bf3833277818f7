// Chain: a heterogeneous chain as in rotor2024, section 3: forward stages 1 … L and the loss,
// stage L+1.
//
//   x⁰ ─F¹─► x¹ ─F²─► … ─Fᴸ─► xᴸ ─Fᴸ⁺¹─► loss        Fˡ saves x̄ˡ (which holds xˡ) or hands on xˡ
//   alone δ⁰ ◄─B¹─ δ¹ ◄─B²─ … ◄─Bᴸ─ δᴸ ◄─Bᴸ⁺¹─ δᴸ⁺¹        Bˡ reads δˡ, x̄ˡ and xˡ⁻¹; δˡ is as large
//   as xˡ
#pragma once

#include <vector>

#include "ebbtide/scheduler/cost_model.hpp"
#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct Chain {
  std::vector<Bytes> activation_bytes;         // a⁰ … aᴸ
  std::vector<Bytes> saved_bytes;              // ā¹ … āᴸ⁺¹
  std::vector<Bytes> forward_workspace_bytes;  // of stages 1 … L+1, as are the next three
  std::vector<Bytes> backward_workspace_bytes;
  std::vector<Nanoseconds> forward_ns;
  std::vector<Nanoseconds> backward_ns;

  std::size_t stages() const { return forward_ns.size(); }  // L+1
};

// Throws std::invalid_argument naming the first list that is not as long as the others, or that
// holds a negative entry, and where sums do not fit 63 bits. A chain has at least the loss.
void checkChain(const Chain& chain);

// Checks the chain. Ops 0 … L are F¹ … Fᴸ⁺¹, then Bᴸ⁺¹ … B¹; value 0 is a⁰. What Fˡ saves beside aˡ
// is a value of its own, of āˡ − aˡ bytes (none where āˡ is given as less than aˡ).
//   kPaper: peak and duration are those of Definitions 3.2 and 3.4. An Fˡ that saves nothing makes
//     aˡ alone.
//   kReal: Fˡ always makes āˡ, and what is not saved dies when it ends.
Graph chainGraph(const Chain& chain, CostModel model);

}  // namespace ebbtide::scheduler
