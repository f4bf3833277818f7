#include "pipeline/use_owners.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

class Owners {
 public:
  Owners(const Trace& trace, const StepPieces& step, const std::vector<std::int32_t>& forward_at,
         const std::vector<bool>& asked, bool by_ops)
      : trace_(trace), step_(step), forward_at_(forward_at), asked_(asked), by_ops_(by_ops) {}

  UseOwners find() {
    if (trace_.use_value.empty())
      return {{}, std::vector<std::int32_t>(step_.pieces.size(), kNone), {}};
    touchValues();
    boundByValues();
    readPasses();
    settle();
    settleInTurn();
    answer();
    return std::move(out_);
  }

 private:
  struct Range {
    std::int32_t first = 0, last = 0;
    bool isOne() const { return first == last; }
  };
  struct Pass {
    std::size_t piece;
    UseId first_use, last_use;
    std::vector<UseId> uses;  // distinct, by rising ids
    Range range;
  };

  void touchValues() {
    touched_.resize(trace_.values.size());
    for (std::size_t i = 0; i < step_.pieces.size(); ++i) {
      if (forward_at_[i] == kNone) continue;
      const StepPiece& piece = step_.pieces[i];
      for (std::size_t at = piece.first_event; at < piece.end_event; ++at) {
        if (trace_.events[at].kind != Kind::kOpBegin) continue;
        const TraceOp& op = trace_.ops[trace_.events[at].id];
        for (const ValueId v : op.inputs) touched_[v].push_back(forward_of_.size());
        for (const ValueId v : op.outputs) touched_[v].push_back(forward_of_.size());
        forward_of_.push_back(forward_at_[i]);
      }
    }
    forwards_ = forward_of_.empty() ? 0 : forward_of_.back() + 1;
  }

  void boundByValues() {
    for (const ValueId v : trace_.use_value) {
      const bool known = v != kNone && !touched_[v].empty();
      ranges_.push_back(
          known ? Range{forward_of_[touched_[v].front()], forward_of_[touched_[v].back()]}
                : Range{0, forwards_ - 1});
    }
    if (by_ops_) boundByOps();
    keepOrder();
  }

  // The earliest and the latest way to find for each use an op, none before that of the use before.
  void boundByOps() {
    std::size_t at = 0;
    for (std::size_t use = 0; use < ranges_.size(); ++use) {
      const ValueId v = trace_.use_value[use];
      if (v == kNone) continue;
      const auto op = std::lower_bound(touched_[v].begin(), touched_[v].end(), at);
      if (op == touched_[v].end()) continue;
      at = *op;
      ranges_[use].first = std::max(ranges_[use].first, forward_of_[at]);
    }
    at = forward_of_.empty() ? 0 : forward_of_.size() - 1;
    for (std::size_t use = ranges_.size(); use-- > 0;) {
      const ValueId v = trace_.use_value[use];
      if (v == kNone) continue;
      const auto op = std::upper_bound(touched_[v].begin(), touched_[v].end(), at);
      if (op == touched_[v].begin()) continue;
      at = *(op - 1);
      ranges_[use].last = std::min(ranges_[use].last, forward_of_[at]);
    }
  }

  void keepOrder() {
    for (std::size_t use = 1; use < ranges_.size(); ++use) {
      ranges_[use].first = std::max(ranges_[use].first, ranges_[use - 1].first);
    }
    for (std::size_t use = ranges_.size(); use-- > 1;) {
      ranges_[use - 1].last = std::min(ranges_[use - 1].last, ranges_[use].last);
    }
  }

  void readPasses() {
    for (std::size_t i = 0; i < step_.pieces.size(); ++i) {
      if (!asked_[i]) continue;
      Pass pass{i, 0, 0, {}, {}};
      const StepPiece& piece = step_.pieces[i];
      for (std::size_t at = piece.first_event; at < piece.end_event; ++at) {
        if (trace_.events[at].kind == Kind::kUnpack) pass.uses.push_back(trace_.events[at].id);
      }
      std::sort(pass.uses.begin(), pass.uses.end());
      pass.uses.erase(std::unique(pass.uses.begin(), pass.uses.end()), pass.uses.end());
      if (pass.uses.empty()) continue;  // answer() refuses it, or lets it join its neighbour
      pass.first_use = pass.uses.front();
      pass.last_use = pass.uses.back();
      passes_.push_back(std::move(pass));
    }
  }

  // Each pass to the forwards that all its uses may be of, and what that says of the uses around.
  void settle() {
    for (bool some = true; some && out_.refusal.empty();) {
      some = false;
      for (Pass& pass : passes_) {
        Range range{0, forwards_ - 1};
        for (const UseId use : pass.uses) {
          range.first = std::max(range.first, ranges_[use].first);
          range.last = std::min(range.last, ranges_[use].last);
        }
        if (range.first > range.last) {
          refuse(pass, "reads what two forward passes saved");
          return;
        }
        pass.range = range;
        for (const UseId use : pass.uses) {
          if (ranges_[use].first == range.first && ranges_[use].last == range.last) continue;
          ranges_[use] = range;
          some = true;
        }
      }
      if (some) keepOrder();
    }
  }

  // Passes that read different uses, where a pass may be of several forwards. Each pass gets one,
  // in the order of the uses. A pass for which there is more than one way is refused.
  void settleInTurn() {
    if (!out_.refusal.empty()) return;
    std::vector<Pass*> open;
    for (Pass& pass : passes_) {
      if (!pass.range.isOne()) open.push_back(&pass);
    }
    std::sort(open.begin(), open.end(),
              [](const Pass* a, const Pass* b) { return a->first_use < b->first_use; });
    std::vector<std::int32_t> earliest, latest(open.size());
    for (const Pass* pass : open) {
      const std::int32_t after = earliest.empty() ? 0 : earliest.back() + 1;
      earliest.push_back(std::max(after, pass->range.first));
    }
    for (std::size_t i = open.size(); i-- > 0;) {
      const std::int32_t before = i + 1 < open.size() ? latest[i + 1] - 1 : forwards_ - 1;
      latest[i] = std::min(before, open[i]->range.last);
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool apart = i == 0 || open[i - 1]->last_use < open[i]->first_use;
      if (!apart || earliest[i] != latest[i]) {
        refuse(*open[i], "reads what may be of several forward passes");
        return;
      }
      open[i]->range = {earliest[i], earliest[i]};
      for (const UseId use : open[i]->uses) ranges_[use] = open[i]->range;
    }
    keepOrder();
  }

  void answer() {
    if (!out_.refusal.empty()) return;
    out_.forward_of.assign(step_.pieces.size(), kNone);
    out_.saves.assign(forwards_, false);
    for (const Pass& pass : passes_) out_.forward_of[pass.piece] = pass.range.first;
    for (const Range& range : ranges_) {
      if (range.isOne()) out_.saves[range.first] = true;
    }
  }

  void refuse(const Pass& pass, const std::string& what) {
    out_ = {"the backward pass at event " + std::to_string(step_.pieces[pass.piece].first_event) +
                " " + what,
            {},
            {}};
  }

  const Trace& trace_;
  const StepPieces& step_;
  const std::vector<std::int32_t>& forward_at_;
  const std::vector<bool>& asked_;
  const bool by_ops_;
  std::int32_t forwards_ = 0;
  std::vector<std::int32_t> forward_of_;           // of each op of a forward, in their order
  std::vector<std::vector<std::size_t>> touched_;  // of each value: such ops that read or make it
  std::vector<Range> ranges_;                      // of each use
  std::vector<Pass> passes_;
  UseOwners out_;
};

}  // namespace

UseOwners ownersOfUses(const Trace& trace, const StepPieces& step,
                       const std::vector<std::int32_t>& forward_at,
                       const std::vector<bool>& asked) {
  UseOwners owners = Owners(trace, step, forward_at, asked, false).find();
  if (owners.refusal.empty()) return owners;
  UseOwners by_ops = Owners(trace, step, forward_at, asked, true).find();
  return by_ops.refusal.empty() ? by_ops : owners;
}

}  // namespace ebbtide::scheduler
