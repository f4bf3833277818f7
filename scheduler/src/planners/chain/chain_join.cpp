#include "planners/chain/chain_join.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "planners/chain/block_curve.hpp"
#include "planners/chain/budget_scan.hpp"
#include "planners/chain/persistent_dp.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kMostStages = 128;
constexpr std::int64_t kMostTableEntries = std::int64_t{1} << 25;
constexpr std::int64_t kLeastSlots = 256, kMostSlots = 4096;
constexpr std::size_t kMostSaves = 12;  // of a block

// The stage's ops that make its output and the kept values.
std::vector<OpId> opsToMake(const Block& block, const std::vector<ValueId>& kept) {
  std::vector<bool> wanted(block.values.size(), false);
  for (ValueId value : kept) wanted[value] = true;
  if (block.output != kNone) wanted[block.output] = true;
  std::vector<OpId> ops;
  for (std::size_t id = block.forward_ops; id-- > 0;) {
    const Op& op = block.graph.ops[id];
    const bool needed =
        std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return wanted[v]; });
    if (!needed || !op.rerunnable) continue;
    ops.push_back(block.ops[id]);
    for (ValueId input : op.inputs) {
      if (!block.graph.values[input].pinned) wanted[input] = true;
    }
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

Nanoseconds duration(const Graph& graph, const std::vector<OpId>& ops) {
  Nanoseconds total = 0;
  for (OpId op : ops) total += graph.ops[op].duration_ns;
  return total;
}

// Stage `index` may save as the curve of a block like its own says.
void takeCurve(const Graph& graph, const Block& block, const std::vector<BlockSave>& curve,
               std::size_t index, ChainContraction& chain) {
  ChainStage& stage = chain.stages[index];
  ChainCosts& costs = chain.costs;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    ChainStage::Partial partial;
    for (ValueId value : curve[i].kept) partial.kept.push_back(block.values[value]);
    std::sort(partial.kept.begin(), partial.kept.end());
    partial.run = opsToMake(block, curve[i].kept);
    PartialSave save;
    save.saved = costs.saved[index] + curve[i].saved_bytes - curve[0].saved_bytes;
    save.forward_below = std::max<Bytes>(curve[0].forward_peak - curve[i].forward_peak, 0);
    save.backward = std::max(
        costs.backward[index] + curve[i].backward_peak - curve[0].backward_peak, save.saved);
    save.first_ns = curve[i].replay_ns;
    const Nanoseconds again = duration(graph, partial.run) + curve[i].replay_ns;
    save.again_ns = std::max<Nanoseconds>(again - costs.save_ns[index], 0);
    stage.partial.push_back(std::move(partial));
    costs.partial[index].push_back(save);
  }
}

}  // namespace

std::size_t solveBlocks(const Graph& graph, std::vector<ChainContraction>& chains,
                        const std::function<bool()>& late) {
  std::map<std::vector<std::int64_t>, std::vector<BlockSave>> curves;
  for (ChainContraction& chain : chains) {
    chain.costs.partial.assign(chain.stages.size(), {});
    for (std::size_t index = 0; index < chain.stages.size() && !late(); ++index) {
      const Block block = blockOf(graph, chain.stages[index]);
      const auto [found, distinct] = curves.try_emplace(fingerprint(block));
      if (distinct) found->second = blockCurve(block, kMostSaves, late);
      takeCurve(graph, block, found->second, index, chain);
    }
  }
  return curves.size();
}

PlanResult joinBlocks(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options) {
  ChainSearch search(graph, budget_bytes, options, "blocks");
  if (search.best().feasible || search.late()) return search.best();
  search.contract(kMostStages);
  if (search.mostStages() < 2) return search.best();
  search.solveBlocks();
  search.considerSmallestPeak();
  const Bytes target = std::max(budget_bytes, search.best().peak_bytes);
  const auto stages = static_cast<std::int64_t>(search.mostStages());
  const std::int64_t slots =
      std::clamp(kMostTableEntries / (stages * stages), kLeastSlots, kMostSlots);
  scanBudget(search, target, {slots, SlotRounding::kNearest},
             [](const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns,
                const std::function<bool()>& late) {
               return std::make_shared<PersistentProgram>(costs, grid, most_ns, late);
             });
  return search.best();
}

}  // namespace ebbtide::scheduler
