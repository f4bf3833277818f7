#include "ebbtide/scheduler/rank_actions.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "recorded_ranks.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

// "F0 F1 B0 B1": kinds and chunks.
std::string textOf(const RankActions& actions) {
  std::string text = actions.refusal;
  for (const RankAction& action : actions.actions) {
    text += (text.empty() ? "" : " ") + toText({action.kind, 0, action.chunk}).substr(1);
  }
  return text;
}

std::vector<Nanoseconds> timesOf(const RankActions& actions) {
  std::vector<Nanoseconds> times;
  for (const RankAction& action : actions.actions) times.push_back(action.busy_ns);
  return times;
}

std::vector<std::int32_t> messagesOf(const std::vector<RankMessage>& messages) {
  std::vector<std::int32_t> numbers;
  for (const RankMessage& message : messages) numbers.push_back(message.message);
  return numbers;
}

// Ops of one microbatch. Each saves what it reads and its parameter.
struct Stage2 : RankRecorder {
  explicit Stage2(std::int32_t rank = 0) : RankRecorder(rank) {
    weights = {source(true), source(true)};
  }
  // Its uses: x, w0, h, w1.
  std::vector<UseId> forward(ValueId x, Nanoseconds ns = 10) {
    const ValueId h = op({x, weights[0]}, ns / 2);
    std::vector<UseId> uses = {pack(x), pack(weights[0]), pack(h), pack(weights[1])};
    output = op({h, weights[1]}, ns - ns / 2);
    return uses;
  }
  std::vector<ValueId> weights;
  ValueId output = kNone;
};

// F0 10 ns, sent; F1 11 ns, sent; gradients received, waited for 100 ns each; B0 20 ns, B1 21 ns.
// 5 ns go into the batch's division before the first op, 7 ns into the optimizer: both are once a
// step only if something tells them from the actions, as the message before F1 does from F0. The 5
// ns are F0's then.
TEST(RankActions, OfAFirstStage) {
  Stage2 rank;
  rank.work(5);
  const auto first = rank.forward(rank.batch, 10);
  rank.send(1, 64);
  const auto second = rank.forward(rank.batch, 11);
  rank.send(1, 64);
  rank.receive(1, 64);
  rank.wait(100);
  rank.pass(first, 20);
  rank.receive(1, 64);
  rank.wait(100);
  rank.pass(second, 21);
  rank.op({rank.batch}, 7);
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 F1 B0 B1");
  // After the last message the clock goes by the rate before it, which is 1 without waits.
  EXPECT_EQ(timesOf(actions), (std::vector<Nanoseconds>{15, 11, 20, 21}));
  EXPECT_EQ(actions.once_ns, 7);
  EXPECT_EQ(messagesOf(actions.actions[0].sent), std::vector<std::int32_t>{0});
  EXPECT_EQ(messagesOf(actions.actions[1].sent), std::vector<std::int32_t>{1});
  EXPECT_EQ(messagesOf(actions.actions[2].received), std::vector<std::int32_t>{2});
  EXPECT_EQ(messagesOf(actions.actions[3].received), std::vector<std::int32_t>{3});
  EXPECT_EQ(actions.actions[0].sent[0].peer, 1);
  EXPECT_EQ(actions.actions[0].sent[0].bytes, 64);
  EXPECT_EQ(actions.parts, 1);
  using Event = TraceEvent::Kind;
  const std::vector<TraceEvent>& events = rank.trace.events;
  EXPECT_EQ(events[actions.actions[0].first_event].kind, Event::kOpBegin);
  EXPECT_EQ(events[actions.actions[0].end_event].kind, Event::kMessage);
  EXPECT_EQ(events[actions.actions[2].first_event].kind, Event::kBackwardPass);
  EXPECT_EQ(events[actions.tail_event].kind, Event::kOpBegin);  // the optimizer's
}

// No message between F and B of a last stage: of the 36 ns of processor time from the receive to
// the send, 12 and 24 by the clock, which shows half as much again (18 and 36 of 54 ns: another
// process had the processor) and 200 ns of waiting.
TEST(RankActions, OfALastStageShareTheTimeByTheClock) {
  Stage2 rank(1);
  rank.op({rank.batch}, 3);  // divides the labels
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    rank.receive(0);
    rank.wait(200);
    const auto uses = rank.forward(rank.source(false), 18);
    rank.pass(uses, 36);
    rank.busy_ns -= 18;
    rank.send(0);
  }
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 B0 F1 B1");
  EXPECT_EQ(timesOf(actions), (std::vector<Nanoseconds>{12, 24, 12, 24}));
  EXPECT_EQ(actions.once_ns, 3);  // before the first receive
}

// W0 comes behind F1; W1's passes, one for each parameter, are one action.
TEST(RankActions, OfTwoBackwardPassesTheFirstIsTheInputs) {
  Stage2 rank(1);
  rank.receive(0);
  const auto first = rank.forward(rank.source(false));
  rank.pass({first[1], first[3]}, 5);
  rank.send(0);
  rank.receive(0);
  const auto second = rank.forward(rank.source(false));
  rank.pass({first[0], first[2]}, 6);
  rank.pass({second[1], second[3]}, 5);
  rank.send(0);
  rank.pass({second[2]}, 3);
  rank.pass({second[0]}, 4);
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 I0 F1 W0 I1 W1");
  EXPECT_EQ(timesOf(actions), (std::vector<Nanoseconds>{10, 5, 10, 6, 5, 7}));
  EXPECT_EQ(messagesOf(actions.actions[4].sent), std::vector<std::int32_t>{3});
}

TEST(RankActions, PartsOfABackwardWithNothingInBetweenAreWhole) {
  Stage2 rank;
  const auto uses = rank.forward(rank.batch);
  rank.send(1);
  rank.receive(1);
  rank.pass({uses[1], uses[3]}, 5);
  rank.pass({uses[0], uses[2]}, 6);
  EXPECT_EQ(textOf(recogniseActions(rank.trace)), "F0 B0");
}

// What is received is a leaf that requires grad, like a parameter, but of one microbatch; weights
// tell two stages of a rank apart. What one hands to the other without a message is found.
TEST(RankActions, StagesOfARankAreToldApartByTheirParameters) {
  Stage2 rank;
  const std::vector<ValueId> one = rank.weights;
  const std::vector<ValueId> two = {rank.source(true), rank.source(true)};
  std::vector<std::vector<UseId>> uses;
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    rank.receive(1);
    rank.weights = one;
    uses.push_back(rank.forward(rank.source(true)));
    rank.send(1);
    rank.receive(1);
    rank.weights = two;
    uses.push_back(rank.forward(microbatch == 0 ? rank.source(true) : rank.output));
    rank.send(1);
  }
  for (const auto& of_one : uses) rank.pass(of_one, 1);
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(actions.parts, 2);
  for (int chunk = 0; chunk < 4; ++chunk) EXPECT_EQ(actions.chunks[chunk].part, chunk % 2);
  EXPECT_EQ(actions.chunks[1].previous, kNone);
  EXPECT_EQ(actions.chunks[3].previous, 2);
}

// Copies of parameters in a lower precision, made for the first microbatch and kept for the rest.
TEST(RankActions, CopiesOfParametersStandForThem) {
  Stage2 rank(1);
  const ValueId other = rank.source(true);
  rank.receive(0);
  const ValueId copy = rank.op({rank.weights[0]}, 1);
  const ValueId first = rank.op({rank.source(false), copy, other}, 1);
  const UseId a = rank.pack(first);
  rank.receive(0);
  const ValueId second = rank.op({rank.source(false), copy, other}, 1);
  const UseId b = rank.pack(second);
  rank.pass({a}, 1);
  rank.send(0);
  rank.pass({b}, 1);
  rank.send(0);
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 F1 B0 B1");
  EXPECT_EQ(actions.parts, 1);
  EXPECT_EQ(actions.chunks[1].previous, kNone);
}

// torch's GPipe computes the loss behind the scope of the forward.
TEST(RankActions, ALossBehindItsForwardIsPartOfIt) {
  Stage2 rank(1);
  std::vector<std::vector<UseId>> uses;
  for (const char* scope : {"Forward 0", "Forward 1"}) {
    rank.begin(scope);
    rank.receive(0);
    uses.push_back(rank.forward(rank.source(false)));
    rank.end();
    const ValueId loss = rank.op({rank.output}, 2);
    uses.back().push_back(rank.pack(loss));
  }
  for (const int microbatch : {0, 1}) {
    rank.begin("Backward " + std::to_string(microbatch));
    rank.pass(uses[microbatch], 20);
    rank.send(0);
    rank.end();
  }
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 F1 B0 B1");
  EXPECT_EQ(timesOf(actions), (std::vector<Nanoseconds>{12, 12, 20, 20}));
  EXPECT_EQ(actions.chunks[1].microbatch, 1);
  EXPECT_EQ(actions.chunks[1].stage, kNone);
}

// A forward and a backward in one scope; a first stage's input gradient, for which nothing runs;
// messages that are named.
TEST(RankActions, AsTorchNamesThem) {
  Stage2 rank;
  rank.begin("PP:0F0");
  const auto first = rank.forward(rank.batch);
  rank.end();
  rank.begin("PP:0SEND_F0");
  rank.send(1);
  rank.end();
  rank.begin("PP:0RECV_B1");  // early: not for what comes next
  rank.receive(1);
  rank.end();
  rank.begin("PP:0RECV_B0");
  rank.receive(1);
  rank.end();
  rank.begin("PP:(0F1;0B0)OVERLAP_F_B");
  const auto second = rank.forward(rank.batch);
  rank.pass(first, 20);
  rank.end();
  rank.begin("PP:0I1");
  rank.end();
  rank.begin("PP:0W1");
  rank.pass({second[0]}, 10);
  rank.pass({second[1], second[2], second[3]}, 10);
  rank.end();
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 F1 B0 I1 W1");
  EXPECT_EQ(timesOf(actions), (std::vector<Nanoseconds>{10, 10, 20, 0, 20}));
  EXPECT_EQ(messagesOf(actions.actions[2].received), std::vector<std::int32_t>{2});
  EXPECT_EQ(messagesOf(actions.actions[3].received), std::vector<std::int32_t>{1});
  EXPECT_EQ(actions.chunks[0].stage, 0);
  EXPECT_EQ(actions.chunks[1].microbatch, 1);
}

// A hint holds until the next one: its scope has what the program does after the backward pass.
TEST(RankActions, AsHintsNameThem) {
  Stage2 rank(1);
  for (const char* hint : {"ebbtide:1:5", "ebbtide:1:4"}) {
    rank.receive(0);
    rank.begin(hint);
    const auto uses = rank.forward(rank.source(false));
    rank.end();
    rank.begin(hint);
    rank.op({rank.batch}, 1);  // a gradient of ones
    rank.pass(uses, 20);
    rank.send(0);
    rank.op({rank.batch}, 1);
    rank.end();
  }
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(textOf(actions), "F0 B0 F1 B1");
  EXPECT_EQ(actions.chunks[0].microbatch, 5);
  EXPECT_EQ(actions.chunks[1].microbatch, 4);
  EXPECT_EQ(actions.chunks[1].stage, 1);
}

TEST(RankActions, NamedStagesAreThoseOfActionsAndHints) {
  Trace trace;
  for (const char* name : {"PP:4F0", "PP:(1F3;2B2)OVERLAP_F_B", "ebbtide:7:0", "Forward 3",
                           "PP:3RECV_F0", "PP:1B0", "stage 9"})
    trace.scopes.push_back({.name = name});
  EXPECT_EQ(namedStages(trace), (std::vector<std::int32_t>{1, 2, 4, 7}));
  EXPECT_TRUE(namedStages(Trace()).empty());
}

// The names say that the second backward is of the first forward, though it reads the second one's
// saved tensors: names win.
TEST(RankActions, NamesWin) {
  Stage2 rank;
  std::vector<std::vector<UseId>> uses;
  for (const char* scope : {"PP:0F0", "PP:0F1"}) {
    rank.begin(scope);
    uses.push_back(rank.forward(rank.batch));
    rank.send(1);
    rank.end();
  }
  for (const char* scope : {"PP:0B1", "PP:0B0"}) {
    rank.begin(scope);
    rank.receive(1);
    rank.pass(uses[scope[4] == '1' ? 0 : 1], 1);
    rank.end();
  }
  EXPECT_EQ(textOf(recogniseActions(rank.trace)), "F0 F1 B1 B0");
}

// A stage that is one op on the data: each use may be of any microbatch, but each is one's.
TEST(RankActions, UsesOfTheSameValueAreTakenInTurn) {
  Stage2 rank;
  std::vector<UseId> uses;
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    rank.op({rank.batch, rank.weights[0]}, 1);
    uses.push_back(rank.pack(rank.batch));
    rank.send(1);
  }
  for (const UseId use : uses) {
    rank.receive(1);
    rank.pass({use}, 1);
  }
  EXPECT_EQ(textOf(recogniseActions(rank.trace)), "F0 F1 F2 B0 B1 B2");
}

struct Unknown {
  std::string refusal;
  std::function<void(Stage2&)> program;
  friend void PrintTo(const Unknown& unknown, std::ostream* out) { *out << unknown.refusal; }
};

class Refused : public testing::TestWithParam<Unknown> {};

TEST_P(Refused, SaysWhy) {
  Stage2 rank;
  GetParam().program(rank);
  const RankActions actions = recogniseActions(rank.trace);
  EXPECT_EQ(actions.refusal, GetParam().refusal);
  EXPECT_TRUE(actions.actions.empty());
}

// Events of Stage2::forward(): begin, alloc, end of two ops, 0-5; a message, a scope's begin and
// its end are one each, a backward pass two and two for each use.
INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    testing::Values(
        Unknown{"it sends nothing", [](Stage2& rank) { rank.pass(rank.forward(rank.batch), 1); }},
        Unknown{"it receives nothing",
                [](Stage2& rank) {
                  rank.pass(rank.forward(rank.batch), 1);
                  rank.send(1);
                }},
        Unknown{"it receives from any rank",
                [](Stage2& rank) {
                  rank.receive(kNone);
                  rank.pass(rank.forward(rank.batch), 1);
                  rank.send(1);
                }},
        Unknown{"no backward pass reads what a forward pass saved",
                [](Stage2& rank) {
                  rank.receive(1);
                  rank.op({rank.batch}, 1);
                  rank.send(1);
                }},
        Unknown{"the backward pass at event 15 reads what two forward passes saved",
                [](Stage2& rank) {
                  auto uses = rank.forward(rank.batch);
                  rank.send(1);
                  const auto second = rank.forward(rank.batch);
                  uses.insert(uses.end(), second.begin(), second.end());
                  rank.send(1);
                  rank.receive(1);
                  rank.pass(uses, 1);
                }},
        Unknown{"the forward pass at event 7 has no backward pass",
                [](Stage2& rank) {
                  const auto first = rank.forward(rank.batch);
                  rank.send(1);
                  rank.forward(rank.batch);
                  rank.receive(1);
                  rank.pass(first, 1);
                }},
        Unknown{"the backward pass at event 8 is one of more than two of its forward pass",
                [](Stage2& rank) {
                  const auto uses = rank.forward(rank.batch);
                  rank.send(1);
                  for (int i = 0; i < 3; ++i) {
                    rank.receive(1);
                    rank.pass({uses[i]}, 1);
                  }
                }},
        Unknown{"the backward pass at event 8 reads nothing that a forward pass saved",
                [](Stage2& rank) {
                  rank.forward(rank.batch);
                  rank.send(1);
                  rank.receive(1);
                  rank.pass({}, 1);
                }},
        Unknown{"the message at event 18 is received after the last action",
                [](Stage2& rank) {
                  const auto uses = rank.forward(rank.batch);
                  rank.send(1);
                  rank.receive(1);
                  rank.pass(uses, 1);
                  rank.receive(1);
                }},
        Unknown{"the message at event 0 is sent before the first action",
                [](Stage2& rank) {
                  rank.send(1);
                  rank.receive(1);
                  rank.pass(rank.forward(rank.batch), 1);
                }},
        Unknown{"the backward pass at event 11 has the name of no forward",
                [](Stage2& rank) {
                  rank.begin("PP:0F0");
                  const auto uses = rank.forward(rank.batch);
                  rank.end();
                  rank.send(1);
                  rank.receive(1);
                  rank.begin("PP:0B1");
                  rank.pass(uses, 1);
                  rank.end();
                }},
        Unknown{"the message at event 1 is named for no action",
                [](Stage2& rank) {
                  rank.begin("PP:0RECV_F7");
                  rank.receive(1);
                  rank.end();
                  rank.begin("PP:0F0");
                  const auto uses = rank.forward(rank.batch);
                  rank.end();
                  rank.send(1);
                  rank.begin("PP:0B0");
                  rank.pass(uses, 1);
                  rank.end();
                }},
        Unknown{"the backward pass at event 11 and what is named of its microbatch are neither "
                "whole nor two parts",
                [](Stage2& rank) {
                  rank.begin("PP:0F0");
                  const auto uses = rank.forward(rank.batch);
                  rank.end();
                  rank.send(1);
                  rank.receive(1);
                  rank.begin("PP:0I0");
                  rank.pass(uses, 1);
                  rank.end();
                }}));

}  // namespace
}  // namespace ebbtide::scheduler
