// Local search over retentions by random moves, of single values and of classes of alike ones.
#include <algorithm>
#include <utility>

#include "search/retention_search.hpp"

namespace ebbtide::scheduler {
namespace {

// Random moves of one local search, however much work is left for it: some for each value that may
// be kept or dropped. Three times as many find nothing more on recorded steps.
constexpr std::size_t kMoves = 500, kMovesPerValue = 60;

}  // namespace

void RetentionSearch::proposeClassMove(Move& move, std::size_t which) {
  // Members before a border are dropped, those after it kept, or all alike.
  const std::vector<ValueId>& members = classes_[which];
  const std::size_t border = pick(members.size() + 1);
  for (std::size_t i = 0; i < members.size(); ++i) move.keep.emplace_back(members[i], i >= border);
}

RetentionSearch::Move RetentionSearch::proposeMove(const Retention& retention) {
  Move move;
  const std::size_t kind = pick(10);
  if (kind < 2) {
    proposeClassMove(move, pick(classes_.size()));
  } else if (kind < 4) {  // trade one class for another
    proposeClassMove(move, pick(classes_.size()));
    proposeClassMove(move, pick(classes_.size()));
  } else if (kind < 6) {
    const ValueId value = movable_[pick(movable_.size())];
    move.keep.emplace_back(value, !retention.keep[value]);
  } else if (kind < 9) {  // trade a value for one nearby, or for any
    const std::size_t first = pick(movable_.size());
    const std::size_t reach =
        kind == 8 ? movable_.size() : std::min<std::size_t>(12, movable_.size());
    const std::size_t second = (first + 1 + pick(reach)) % movable_.size();
    for (std::size_t i : {first, second}) {
      move.keep.emplace_back(movable_[i], !retention.keep[movable_[i]]);
    }
  } else if (const std::size_t memo = pick(4); memo == 0) {
    move.flip_memo.push_back(movable_[pick(movable_.size())]);
  } else if (memo < 3) {  // recomputed copies serve one op each until some op, or never
    const ValueId value = movable_[pick(movable_.size())];
    const OpId end = phase_end_[graph_.values[value].producer];
    const OpId span = builder_.lastNeed(value) - end + 1;
    const OpId from = memo == 1 ? end + static_cast<OpId>(pick(static_cast<std::size_t>(span))) : 0;
    move.memo_from.emplace_back(value, from);
  } else {
    move.flip_memo = classes_[pick(classes_.size())];
  }
  return move;
}

ScoredRetention RetentionSearch::moveOnce(const Retention& retention) {
  const Move move = proposeMove(retention);
  Retention next = retention;
  for (const auto& [value, keep] : move.keep) next.keep[value] = keep;
  for (ValueId value : move.flip_memo) next.memo[value] = !next.memo[value];
  if (!move.memo_from.empty()) next.memo_from.resize(graph_.values.size(), 0);
  for (const auto& [value, from] : move.memo_from) next.memo_from[value] = from;
  return score(std::move(next));
}

ScoredRetention RetentionSearch::localSearch(ScoredRetention start, std::int64_t work,
                                             double slack) {
  return walk(std::move(start), {work, kMoves + kMovesPerValue * movable_.size(), slack},
              [this](const Retention& retention) { return moveOnce(retention); });
}

}  // namespace ebbtide::scheduler
