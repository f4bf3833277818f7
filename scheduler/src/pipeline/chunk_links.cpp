#include "pipeline/chunk_links.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
using Ordered = std::pair<std::int32_t, std::int32_t>;  // from a rank, to a rank

class Linker {
 public:
  explicit Linker(const std::vector<RankActions>& ranks) : ranks_(ranks) {}

  ChunkLinks link() {
    indexActions();
    collectMessages();
    for (const auto& [between, sent] : sent_) match(between, sent);
    for (const auto& [between, received] : received_) {
      if (!sent_.contains(between)) match(between, {});
    }
    if (areNamed(ranks_)) {
      linkByName();
      checkNames();
    } else {
      for (auto& [between, forwards] : forwards_) linkForwards(between, forwards);
      for (const auto& [between, readers] : readers_) {
        if (!forwards_.contains(between)) linkForwards(between, {});
      }
      linkWithinRanks();
      checkGradients();
    }
    return std::move(links_);
  }

 private:
  struct At {  // a message, by the action that it is given to
    std::int32_t message;
    std::size_t action;
    Bytes bytes;
  };
  struct Sent {                                  // what one action sends to one rank, as one
    std::size_t action;                          // of the sender
    std::size_t first_received_at, received_at;  // of the receiver: a part, all of it
  };
  using SentBetween = std::map<Ordered, std::vector<Sent>>;
  using ActionsOfChunks = std::vector<std::vector<std::size_t>>;  // by rank and chunk

  void indexActions() {
    for (const RankActions& rank : ranks_) {
      std::vector<std::size_t> forward(rank.chunks.size(), 0), backward(rank.chunks.size(), 0);
      for (std::size_t i = 0; i < rank.actions.size(); ++i) {
        const RankAction& action = rank.actions[i];
        if (action.kind == Kind::kForward)
          forward[action.chunk] = i;
        else if (action.kind != Kind::kWeightBackward)
          backward[action.chunk] = i;
      }
      forward_.push_back(std::move(forward));
      backward_.push_back(std::move(backward));
      links_.emplace_back(rank.chunks.size());
      next_.emplace_back(rank.chunks.size());
    }
  }

  void collectMessages() {
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) {
      for (std::size_t i = 0; i < ranks_[rank].actions.size(); ++i) {
        const RankAction& action = ranks_[rank].actions[i];
        for (const RankMessage& m : action.sent) {
          checkPeer(rank, i, m);
          sent_[{rank, m.peer}].push_back({m.message, i, m.bytes});
        }
        for (const RankMessage& m : action.received) {
          checkPeer(rank, i, m);
          received_[{m.peer, rank}].push_back({m.message, i, m.bytes});
        }
      }
    }
    const auto earlier = [](const At& a, const At& b) { return a.message < b.message; };
    for (auto& [between, list] : sent_) std::stable_sort(list.begin(), list.end(), earlier);
    for (auto& [between, list] : received_) std::stable_sort(list.begin(), list.end(), earlier);
  }

  void checkPeer(std::int32_t rank, std::size_t action, const RankMessage& message) const {
    if (message.peer < 0 || static_cast<std::size_t>(message.peer) >= ranks_.size() ||
        message.peer == rank) {
      fail(rank, action, "has a message to or from rank " + std::to_string(message.peer));
    }
  }

  [[noreturn]] void fail(std::int32_t rank, std::size_t action, const std::string& what) const {
    throw std::invalid_argument(nameOf(ranks_, rank, action) + ": " + what);
  }

  void match(const Ordered& between, const std::vector<At>& sent) {
    const auto [from, to] = between;
    const auto known = received_.find(between);
    const std::vector<At> received = known == received_.end() ? std::vector<At>() : known->second;
    for (std::size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
      if (i >= received.size()) {
        fail(from, sent[i].action, "sends what rank " + std::to_string(to) + " does not receive");
      }
      if (i >= sent.size()) {
        fail(to, received[i].action,
             "receives what rank " + std::to_string(from) + " does not send");
      }
      if (sent[i].bytes != received[i].bytes) {
        fail(to, received[i].action,
             "receives " + std::to_string(received[i].bytes) + " bytes where " +
                 nameOf(ranks_, from, sent[i].action) + " sends " + std::to_string(sent[i].bytes));
      }
      const bool is_forward = ranks_[from].actions[sent[i].action].kind == Kind::kForward;
      auto& list = is_forward ? forwards_[between] : gradients_[between];
      if (list.empty() || list.back().action != sent[i].action) {
        list.push_back({sent[i].action, received[i].action, received[i].action});
        if (!is_forward) readers_[{to, from}].push_back(chunkOf(from, sent[i].action));
      } else {  // several tensors; read when all are there
        Sent& all = list.back();
        all.first_received_at = std::min(all.first_received_at, received[i].action);
        all.received_at = std::max(all.received_at, received[i].action);
      }
    }
  }

  std::int32_t chunkOf(std::int32_t rank, std::size_t action) const {
    return ranks_[rank].actions[action].chunk;
  }

  void setLink(const ChunkId& from, const ChunkId& to) {
    const auto name = [&] { return nameOf(ranks_, to.rank, forward_[to.rank][to.chunk]); };
    if (!links_[to.rank][to.chunk].isNone()) {
      throw std::invalid_argument(name() + ": reads what two forwards send");
    }
    if (!next_[from.rank][from.chunk].isNone()) {
      fail(from.rank, forward_[from.rank][from.chunk], "sends to two forwards");
    }
    links_[to.rank][to.chunk] = from;
    next_[from.rank][from.chunk] = to;
  }

  // Those that send a gradient back read the forwards' messages, in the order of these.
  void linkForwards(const Ordered& between, const std::vector<Sent>& forwards) {
    const auto [from, to] = between;
    std::vector<std::int32_t> senders, readers = readers_[between];
    for (const Sent& sent : forwards) senders.push_back(chunkOf(from, sent.action));
    std::sort(readers.begin(), readers.end(), [&, rank = to](std::int32_t a, std::int32_t b) {
      return forward_[rank][a] < forward_[rank][b];
    });
    if (senders.size() > readers.size()) {
      fail(from, forward_[from][senders[readers.size()]],
           "sends to rank " + std::to_string(to) + ", which sends back " +
               std::to_string(readers.size()) + " gradients for " + std::to_string(senders.size()) +
               " forwards");
    }
    if (senders.size() < readers.size()) {
      fail(to, backward_[to][readers[senders.size()]],
           "sends a gradient to rank " + std::to_string(from) + ", which sent it no forward");
    }
    orderByName(from, to, senders, readers);
    for (std::size_t i = 0; i < senders.size(); ++i) {
      const auto sent = std::find_if(
          forwards.begin(), forwards.end(),
          [&, rank = from](const Sent& s) { return chunkOf(rank, s.action) == senders[i]; });
      if (sent->received_at > forward_[to][readers[i]]) {
        failEarly(to, forward_[to][readers[i]], "what ", from, sent->action);
      }
      setLink({from, senders[i]}, {to, readers[i]});
    }
  }

  // Where both sides name the same microbatches, each once, the names win.
  void orderByName(std::int32_t from, std::int32_t to, std::vector<std::int32_t>& senders,
                   std::vector<std::int32_t>& readers) const {
    const auto named = [&](std::int32_t rank, const std::vector<std::int32_t>& chunks) {
      std::map<std::int32_t, std::int32_t> by_name;
      for (const std::int32_t chunk : chunks) {
        const std::int32_t microbatch = ranks_[rank].chunks[chunk].microbatch;
        if (microbatch != kNone) by_name.emplace(microbatch, chunk);
      }
      return by_name;
    };
    const auto sending = named(from, senders), reading = named(to, readers);
    if (sending.size() != senders.size() || reading.size() != readers.size()) return;
    std::vector<std::int32_t> by_name;
    for (const std::int32_t chunk : senders) {
      const auto other = reading.find(ranks_[from].chunks[chunk].microbatch);
      if (other == reading.end()) return;
      by_name.push_back(other->second);
    }
    readers = std::move(by_name);
  }

  void linkWithinRanks() {
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) {
      for (std::int32_t to = 0; to < static_cast<std::int32_t>(ranks_[rank].chunks.size()); ++to) {
        const std::int32_t from = ranks_[rank].chunks[to].previous;
        if (from == kNone || !links_[rank][to].isNone() || !next_[rank][from].isNone()) continue;
        setLink({rank, from}, {rank, to});
      }
    }
  }

  // A gradient goes to the rank whose forward was read, and is there before that one's backward.
  void checkGradients() const {
    for (const auto& [between, gradients] : gradients_) {
      const auto [from, to] = between;
      for (const Sent& gradient : gradients) {
        const ChunkId reader = links_[from][chunkOf(from, gradient.action)];
        if (reader.rank != to) {
          fail(from, gradient.action,
               "sends its gradient to rank " + std::to_string(to) +
                   ", whose output it does not read");
        }
        if (gradient.received_at > backward_[to][reader.chunk]) {
          failEarly(to, backward_[to][reader.chunk], "the gradient that ", from, gradient.action);
        }
      }
    }
  }

  void linkByName() {
    std::map<Ordered, ChunkId> of_name;  // by stage and microbatch
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) {
      for (std::size_t chunk = 0; chunk < ranks_[rank].chunks.size(); ++chunk) {
        const RankChunk& named = ranks_[rank].chunks[chunk];
        const ChunkId id{rank, static_cast<std::int32_t>(chunk)};
        if (!of_name.emplace(Ordered{named.stage, named.microbatch}, id).second) {
          fail(rank, forward_[rank][chunk], "has the name of another forward");
        }
      }
    }
    for (const auto& [name, id] : of_name) {
      if (name.first == 0) continue;
      const auto before = of_name.find({name.first - 1, name.second});
      if (before == of_name.end()) {
        fail(id.rank, forward_[id.rank][id.chunk], "no rank runs the stage before");
      }
      setLink(before->second, id);
    }
  }

  // Names link, but messages have to allow it: what reads nothing of another rank before that rank
  // sends is of another schedule. Some tensors may be for later stages that the rank has, too.
  void checkNames() const {
    checkNotEarly(forwards_, forward_, next_, "what ");
    checkNotEarly(gradients_, backward_, links_, "the gradient that ");
  }

  // `reader_of`: of each sending chunk; `read_by`: the action of each chunk that reads it.
  void checkNotEarly(const SentBetween& all, const ActionsOfChunks& read_by,
                     const ChunkLinks& reader_of, const std::string& what) const {
    for (const auto& [between, list] : all) {
      const auto [from, to] = between;
      for (const Sent& sent : list) {
        const ChunkId reader = reader_of[from][chunkOf(from, sent.action)];
        if (reader.rank != to || sent.first_received_at <= read_by[to][reader.chunk]) continue;
        failEarly(to, read_by[to][reader.chunk], what, from, sent.action);
      }
    }
  }

  [[noreturn]] void failEarly(std::int32_t to, std::size_t reader, const std::string& what,
                              std::int32_t from, std::size_t sender) const {
    fail(to, reader, "begins before it receives " + what + nameOf(ranks_, from, sender) + " sends");
  }

  const std::vector<RankActions>& ranks_;
  ActionsOfChunks forward_, backward_;
  std::map<Ordered, std::vector<At>> sent_, received_;  // in the order of the messages
  SentBetween forwards_, gradients_;
  std::map<Ordered, std::vector<std::int32_t>> readers_;  // chunks that send gradients back
  ChunkLinks links_, next_;
};

}  // namespace

std::string nameOf(const std::vector<RankActions>& ranks, std::int32_t rank, std::size_t action) {
  const RankAction& named = ranks[rank].actions[action];
  const RankChunk& chunk = ranks[rank].chunks[named.chunk];
  const std::string name = "rank " + std::to_string(rank) + ", action " + std::to_string(action);
  if (chunk.stage != kNone && chunk.microbatch != kNone) {
    return name + " (" + toText({named.kind, chunk.stage, chunk.microbatch}) + ")";
  }
  const char letter = toText({named.kind, 0, 0})[1];
  return name + " (" + letter + " of forward " + std::to_string(named.chunk) + ")";
}

bool areNamed(const std::vector<RankActions>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankActions& rank) {
    return std::all_of(rank.chunks.begin(), rank.chunks.end(), [](const RankChunk& chunk) {
      return chunk.stage != kNone && chunk.microbatch != kNone;
    });
  });
}

ChunkLinks linkChunks(const std::vector<RankActions>& ranks) {
  return Linker(ranks).link();
}

}  // namespace ebbtide::scheduler
