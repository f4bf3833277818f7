#include "job/packed_text.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "../../scheduler/mutations.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::size_t kMost = 1 << 20;

std::string problem(const std::string& packed, const std::string& known, std::size_t most = kMost) {
  try {
    unpackText(packed, known, most);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(PackedText, ComesBackAsItWas) {
  std::mt19937_64 random(3);
  std::string noise;
  for (int i = 0; i < 100'000; ++i) noise += static_cast<char>(random());
  for (const std::string& text :
       {std::string(), std::string("a plan"), std::string(kMost, '0'), noise}) {
    for (const std::string known : {"", "a plan or two"})
      EXPECT_TRUE(unpackText(packText(text, known), known, kMost) == text) << text.size();
  }
}

// 26 letters in no order: without `known` they do not shrink.
TEST(PackedText, WhatIsKnownCostsNothing) {
  const std::string text = "qwertyuiopasdfghjklzxcvbnm";
  EXPECT_GT(packText(text, "").size(), text.size());
  EXPECT_LT(packText(text, "..." + text).size(), text.size());
}

TEST(PackedText, SaysWhatIsWrong) {
  const std::string packed = packText("a plan", "known");
  EXPECT_EQ(problem(packed, "known"), "");
  EXPECT_EQ(problem(packed, "other"), "what is packed in it is damaged");
  EXPECT_EQ(problem("", "known"), "what is packed in it is cut short");
  EXPECT_EQ(problem(packed.substr(0, packed.size() - 1), "known"),
            "what is packed in it is cut short");
  EXPECT_EQ(problem(packed + "x", "known"), "something follows what is packed in it");
  EXPECT_EQ(problem("a plan", "known"), "what is packed in it is damaged");
  EXPECT_EQ(problem(packed, "known", 6), "");
  EXPECT_EQ(problem(packed, "known", 5), "it unpacks to more than 5 bytes");
}

// The check sum tells: what comes back is the same, or nothing does.
TEST(PackedText, DamagedOnesAreRefused) {
  const std::string text = "{\"peak\":[1000,2000],\"own\":[0,0]}", packed = packText(text, "peak");
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    try {
      ASSERT_EQ(unpackText(scheduler::Mutations(seed).apply(packed), "peak", kMost), text) << seed;
    } catch (const std::invalid_argument& error) {
      ASSERT_STRNE(error.what(), "") << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide::plugin
