#include "launch.hpp"

#include <algorithm>

#include "seam.h"

namespace emulated_nccl {
namespace {

constexpr double kKernel = 8000, kBytesPerNs = 50;  // of virtual time
constexpr auto kUntilBroken = std::chrono::seconds(5);
constexpr auto kBetweenSearches = std::chrono::milliseconds(20);

std::string described(const Asked& asked) {
  return std::string(nameOf(static_cast<Kind>(asked.kind))) + " of " + std::to_string(asked.count) +
         " " + typeName(static_cast<ncclDataType_t>(asked.type)) + ", operation " +
         std::to_string(asked.operation) + ", root " + std::to_string(asked.root);
}

bool fromAll(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
}

bool toAll(Kind kind) {
  return kind == Kind::kAllGather || kind == Kind::kAllToAll;
}

std::vector<emulated_gpu_access> accessesOf(const std::vector<Operation>& operations, int ranks) {
  std::vector<emulated_gpu_access> result;
  const auto all = static_cast<std::size_t>(ranks);
  for (const Operation& each : operations) {
    const std::size_t sent = fromAll(each.kind) ? each.bytes() * all : each.bytes();
    const std::size_t received = toAll(each.kind) ? each.bytes() * all : each.bytes();
    if (each.send != nullptr) result.push_back({each.send, sent, 0, 1, sent});
    if (each.receive != nullptr) result.push_back({each.receive, received, 1, 1, received});
  }
  return result;
}

// Mode *clock* has no contents.
bool nothingMoves() {
  return emulated_gpu_clock_mode() != 0;
}

}  // namespace

Launch::Launch(ncclComm& comm, cudaStream_t stream, std::vector<Operation> operations)
    : comm_(comm), stream_(emulated_gpu_stream(stream)), operations_(std::move(operations)) {
  // Collectives one after the other, in the order of the calls; then all messages at once.
  std::stable_partition(operations_.begin(), operations_.end(),
                        [](const Operation& each) { return !isMessage(each.kind); });
  states_.resize(operations_.size());
  captured_ = emulated_gpu_capturing(stream_) != 0;
  std::size_t bytes = 0;
  for (const Operation& each : operations_) bytes += each.bytes();
  const double timed = emulated_gpu_communication_time(bytes, comm_.meeting.ranks());
  cost_ = timed >= 0 ? timed : kKernel + static_cast<double>(bytes) / kBytesPerNs;
}

Launch::~Launch() {
  comm_.remove(this);
}

ncclResult_t Launch::enqueue(std::unique_ptr<Launch> launch) {
  Launch& it = *launch;
  ncclComm& comm = it.comm_;
  if (comm.error != ncclSuccess) return comm.error;
  std::vector<void*> events;
  if (!it.captured_) {
    for (std::size_t i = 0; i < it.states_.size(); ++i) {
      events.push_back(it.states_[i].event = comm.profiler.start(it.operations_[i]));
    }
    if (comm.stream != nullptr) emulated_gpu_await(it.stream_, comm.stream, comm.tasks);
    comm.add(&it);
    comm.stream = it.stream_;
  }
  const auto accesses = accessesOf(it.operations_, comm.meeting.ranks());
  const cudaStream_t stream = it.stream_;
  const bool captured = it.captured_;
  const cudaError_t error = emulated_gpu_enqueue_when(
      stream, [](void* data) { return static_cast<Launch*>(data)->ready() ? 1 : 0; },
      [](void* data) { static_cast<Launch*>(data)->finish(); },
      [](void* data) { delete static_cast<Launch*>(data); }, launch.release(), it.cost_,
      accesses.data(), accesses.size());  // it may be done by now
  if (!captured) comm.tasks = emulated_gpu_tasks(stream);
  for (void* const event : events) comm.profiler.launched(event);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool Launch::ready() {
  if (comm_.aborted) return true;
  if (comm_.error != ncclSuccess) return giveUp();
  if (!running_) begin();
  const bool done = look();
  if (!done && comm_.error == ncclSuccess) wait();
  if (done) comm_.meeting.own().waits = false;
  return done;
}

void Launch::begin() {
  running_ = true;
  since_ = looked_for_lost_ = Clock::now();
  const double now = emulated_gpu_clock(stream_, 0);
  for (State& state : states_) state.channel = comm_.profiler.entered(state.event, now);
}

void Launch::finish() {
  const double now = emulated_gpu_clock(stream_, 0) + cost_;
  for (State& state : states_) {
    comm_.profiler.left(state.channel, now);
    state = {};
  }
  running_ = false;
  comm_.remove(this);
}

bool Launch::look() {
  bool all = true;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (state.done) continue;
    const Operation& operation = operations_[i];
    if (!isMessage(operation.kind)) {
      if (!collective(operation, state)) return false;
    } else {
      all = message(operation, state) && all;
    }
  }
  return all;
}

bool Launch::collective(const Operation& operation, State& state) {
  const Meeting& meeting = comm_.meeting;
  if (!state.begun) {
    state.begun = true;
    state.number = ++comm_.collectives;
    if (!publish(operation, state)) return false;
  }
  double last = 0;
  for (int i = 0; i < meeting.ranks(); ++i) {
    if (meeting.of(i).published < state.number) return false;
    const auto place = static_cast<std::size_t>(Meeting::placeOf(state.number));
    last = std::max(last, meeting.of(i).clock[place]);
  }
  if (!sameAsked(state)) return false;
  emulated_gpu_clock(stream_, last);
  if (!complete(operation, state)) {
    fault("what it receives");
    return false;
  }
  return state.done = true;
}

bool Launch::publish(const Operation& operation, State& state) {
  const Meeting& meeting = comm_.meeting;
  Rank& own = meeting.own();
  const int place = Meeting::placeOf(state.number);
  const auto at = static_cast<std::size_t>(place);
  const bool has = operation.kind != Kind::kBroadcast || operation.other == meeting.rank();
  const bool sends = has && !nothingMoves();
  const auto parts = static_cast<std::size_t>(fromAll(operation.kind) ? meeting.ranks() : 1);
  const void* from = operation.send;
  std::vector<char> scaled;
  if (sends && scales(operation.type, operation.reduction)) {
    scaled.resize(parts * operation.bytes());
    scale(scaled.data(), from, parts * operation.count, operation.type, operation.reduction,
          meeting.ranks());
    from = scaled.data();
  }
  if (sends && !meeting.write(place, from, parts * operation.bytes())) {
    fault("what it sends");
    return false;
  }
  own.asked[at] = {static_cast<int>(operation.kind), operation.type,
                   std::min<int>(operation.reduction.operation, ncclNumOps), operation.other,
                   operation.count};
  own.clock[at] = emulated_gpu_clock(stream_, 0);
  own.published = state.number;
  return true;
}

bool Launch::sameAsked(State& state) {
  const Meeting& meeting = comm_.meeting;
  const auto place = static_cast<std::size_t>(Meeting::placeOf(state.number));
  const Asked& own = meeting.own().asked[place];
  for (int i = 0; i < meeting.ranks(); ++i) {
    const Asked& other = meeting.of(i).asked[place];
    if (other == own) continue;
    comm_.fail(ncclInvalidUsage, "rank " + std::to_string(i) + " asked for " + described(other) +
                                     ", this one for " + described(own));
    return false;
  }
  return true;
}

bool Launch::complete(const Operation& operation, const State& state) {
  const Meeting& meeting = comm_.meeting;
  const int place = Meeting::placeOf(state.number);
  if (nothingMoves()) return true;
  switch (operation.kind) {
    case Kind::kReduce:
      return operation.other != meeting.rank() || reduced(operation, place);
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
      return reduced(operation, place);
    case Kind::kBroadcast:
      return meeting.read(operation.other, place, 0, operation.receive, operation.bytes());
    default:
      return scatteredOrGathered(operation, place);
  }
}

bool Launch::reduced(const Operation& operation, int place) {
  const Meeting& meeting = comm_.meeting;
  const std::size_t element = elementBytes(operation.type);
  const bool part = operation.kind == Kind::kReduceScatter;
  const std::size_t begin = part ? static_cast<std::size_t>(meeting.rank()) * operation.count : 0;
  const Read read = [&](int rank, std::size_t first, void* into, std::size_t count) {
    return meeting.read(rank, place, (begin + first) * element, into, count * element);
  };
  return reduce(operation.receive, operation.count, operation.type, operation.reduction,
                meeting.ranks(), read);
}

bool Launch::scatteredOrGathered(const Operation& operation, int place) {
  const Meeting& meeting = comm_.meeting;
  const std::size_t bytes = operation.bytes();
  const bool part = operation.kind == Kind::kAllToAll;
  const std::size_t begin = part ? static_cast<std::size_t>(meeting.rank()) * bytes : 0;
  for (int i = 0; i < meeting.ranks(); ++i) {
    char* const into = static_cast<char*>(operation.receive) + static_cast<std::size_t>(i) * bytes;
    if (!meeting.read(i, place, begin, into, bytes)) return false;
  }
  return true;
}

// Of several messages between the same two ranks the first goes first.
bool Launch::message(const Operation& operation, State& state) {
  const auto own = static_cast<std::size_t>(&state - states_.data());
  for (std::size_t i = 0; i < own; ++i) {
    const Operation& earlier = operations_[i];
    const bool same = earlier.kind == operation.kind && earlier.other == operation.other;
    if (same && !states_[i].done) return false;
  }
  return operation.kind == Kind::kSend ? send(operation, state) : receive(operation, state);
}

// Done when it was received: a larger message than NCCL's buffers hold would wait for that, too.
bool Launch::send(const Operation& operation, State& state) {
  const Meeting& meeting = comm_.meeting;
  Channel& channel = meeting.channel(meeting.rank(), operation.other);
  if (!state.begun) {
    if (channel.received != channel.sent) return false;
    const int place = Meeting::placeOfMessagesTo(operation.other);
    if (!nothingMoves() && !meeting.write(place, operation.send, operation.bytes())) {
      fault("what it sends");
      return false;
    }
    state.begun = true;
    state.number = channel.sent + 1;
    channel.bytes = operation.bytes();
    channel.clock = emulated_gpu_clock(stream_, 0);
    channel.sent = state.number;
  }
  return state.done = channel.received >= state.number;
}

bool Launch::receive(const Operation& operation, State& state) {
  const Meeting& meeting = comm_.meeting;
  Channel& channel = meeting.channel(operation.other, meeting.rank());
  if (channel.sent == channel.received) return false;
  if (channel.bytes != operation.bytes()) {
    comm_.fail(ncclInvalidUsage, "rank " + std::to_string(operation.other) + " sent " +
                                     std::to_string(channel.bytes) + " bytes, where " +
                                     std::to_string(operation.bytes()) + " are to be received");
    return false;
  }
  const int place = Meeting::placeOfMessagesTo(meeting.rank());
  if (!nothingMoves() &&
      !meeting.read(operation.other, place, 0, operation.receive, operation.bytes())) {
    fault("what it receives");
    return false;
  }
  emulated_gpu_clock(stream_, channel.clock);
  channel.received = channel.received + 1;
  return state.done = true;
}

void Launch::wait() {
  const Meeting& meeting = comm_.meeting;
  meeting.own().waits = true;
  const auto now = Clock::now();
  if (now - looked_for_lost_ >= kBetweenSearches) {
    looked_for_lost_ = now;
    const auto before = missing();
    for (const int rank : before) {
      if (!meeting.lost(rank)) continue;
      const auto still = missing();  // it may have come before it ended
      if (std::find(still.begin(), still.end(), rank) == still.end()) continue;
      comm_.fail(ncclRemoteError, "rank " + std::to_string(rank) + " has ended or aborted");
      return;
    }
  }
  if (now - since_ > timeLimit()) {
    const auto ranks = missing();
    const std::string first = ranks.empty() ? "none" : std::to_string(ranks.front());
    comm_.fail(ncclRemoteError, "rank " + first + " has not come to " +
                                    nameOf(operations_.front().kind) + " within the time limit");
  }
}

// Ranks that keep it from getting on.
std::vector<int> Launch::missing() const {
  const Meeting& meeting = comm_.meeting;
  std::vector<int> result;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    const Operation& operation = operations_[i];
    if (state.done) continue;
    if (isMessage(operation.kind)) {
      const bool sends = operation.kind == Kind::kSend;
      const int from = sends ? meeting.rank() : operation.other;
      const Channel& channel = meeting.channel(from, sends ? operation.other : meeting.rank());
      if ((channel.sent == channel.received) != sends) result.push_back(operation.other);
    } else if (state.begun) {
      for (int rank = 0; rank < meeting.ranks(); ++rank) {
        if (meeting.of(rank).published < state.number) result.push_back(rank);
      }
      break;  // the next ones have not begun
    }
  }
  return result;
}

// An abort ends the task, as it ends NCCL's kernel. Where nobody aborts, nothing may go on with
// what was not received.
bool Launch::giveUp() {
  if (Clock::now() - comm_.failed_at < kUntilBroken) return false;
  emulated_gpu_break(stream_);
  return true;
}

void Launch::fault(const char* what) {
  comm_.fail(ncclUnhandledCudaError,
             std::string(what) + " in a " + nameOf(operations_.front().kind) + " is not mapped");
}

}  // namespace emulated_nccl
