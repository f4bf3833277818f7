#include "ebbtide/scheduler/budget_form.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/byte_size.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = BudgetForm::Kind;

BudgetForm parsed(const std::string& text) {
  return BudgetForm::parse("EBBTIDE_BUDGET", text);
}

std::string refusal(const std::string& text) {
  try {
    parsed(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// 1,000 bytes of memory, 700 available; a step takes 412, and saves 326 of the 412.
constexpr BudgetFacts kFacts = {
    .memory_bytes = 1000, .available_bytes = 700, .plain_peak_bytes = 412, .activation_bytes = 326};

TEST(BudgetForm, EachFormComesToItsBytes) {
  const auto bytes = [](const std::string& text) { return resolve(parsed(text), kFacts); };
  EXPECT_EQ(bytes("none"), std::nullopt);
  EXPECT_EQ(bytes("4096"), 4096);
  EXPECT_EQ(bytes("3KiB"), 3 << 10);
  EXPECT_EQ(bytes("80%"), 800);
  EXPECT_EQ(bytes("auto"), 700);
  EXPECT_EQ(bytes("-50%"), 412 - 163);
  EXPECT_EQ(bytes("-100%"), 412 - 326);
  EXPECT_EQ(bytes("-12.5%"), 412 - 40);  // 40.75 in whole bytes
  EXPECT_EQ(bytes("50%peak"), 206);
  EXPECT_EQ(bytes("100%peak"), 412);
}

// Others hold 100 bytes of the GPU: 412 - 163 + 100 and 206 + 100. The rest is of the whole device.
TEST(BudgetForm, WhatOthersHoldComesOnTopOfWhatIsOfAStep) {
  BudgetFacts facts = kFacts;
  facts.others_bytes = 100;
  EXPECT_EQ(resolve(parsed("-50%"), facts), 349);
  EXPECT_EQ(resolve(parsed("50%peak"), facts), 306);
  for (const char* text : {"4096", "80%", "auto"})
    EXPECT_EQ(resolve(parsed(text), facts), resolve(parsed(text), kFacts)) << text;
}

TEST(BudgetForm, WordsHaveNoCaseAndSpacesDoNotCount) {
  for (const char* text : {"auto", "AUTO", " Auto "}) EXPECT_EQ(parsed(text).text(), "auto");
  for (const char* text : {"none", "None", " NONE"}) EXPECT_TRUE(parsed(text).isNone()) << text;
  for (const char* text : {"-50%", " - 50 % ", "-50 %", "-50.0%"})
    EXPECT_EQ(parsed(text).text(), "-50%") << text;
  for (const char* text : {"\tauto\r\n", "auto\n"}) EXPECT_EQ(parsed(text).text(), "auto");
  for (const char* text : {"60%peak", "60 % PEAK", " 60%  Peak "})
    EXPECT_EQ(parsed(text).text(), "60%peak") << text;
}

TEST(BudgetForm, WhatItIsOfIsToldApart) {
  for (const char* text : {"-50%", "60%peak"}) {
    EXPECT_TRUE(parsed(text).isOfSteps()) << text;
    EXPECT_FALSE(parsed(text).isOfMemory()) << text;
  }
  for (const char* text : {"80%", "auto"}) {
    EXPECT_FALSE(parsed(text).isOfSteps()) << text;
    EXPECT_TRUE(parsed(text).isOfMemory()) << text;
  }
  EXPECT_FALSE(parsed("1GiB").isOfSteps() || parsed("1GiB").isOfMemory());
}

TEST(BudgetForm, WhatIsNotKnownGivesNothing) {
  for (const char* text : {"80%", "auto", "-50%", "60%peak"})
    EXPECT_EQ(resolve(parsed(text), {}), std::nullopt) << text;
  EXPECT_EQ(resolve(parsed("-50%"), {.plain_peak_bytes = 412}), std::nullopt);
  EXPECT_EQ(resolve(parsed("1KiB"), {}), 1024);
}

TEST(BudgetForm, ThereIsAlwaysAByte) {
  EXPECT_EQ(resolve(parsed("0.001%"), kFacts), 1);
  EXPECT_EQ(resolve(parsed("-100%"), {.plain_peak_bytes = 5, .activation_bytes = 5}), 1);
  EXPECT_EQ(resolve(parsed("auto"), {.available_bytes = 0}), 1);
}

TEST(BudgetForm, SaysWhatIsWrong) {
  const std::string forms =
      ". Forms: 30GiB, 24576MiB, 80%, auto, -50%, 60%peak, none, a number of bytes";
  EXPECT_EQ(refusal("automatic"), "EBBTIDE_BUDGET=automatic: this is not a size" + forms);
  EXPECT_EQ(refusal("-5GiB"),
            "EBBTIDE_BUDGET=-5GiB: a minus needs a percentage of the activations" + forms);
  EXPECT_EQ(refusal("5GiB peak"), "EBBTIDE_BUDGET=5GiB peak: peak needs a percentage" + forms);
  EXPECT_EQ(refusal("-101%"),
            "EBBTIDE_BUDGET=-101%: this is over 100 % of the activations" + forms);
  EXPECT_EQ(refusal("101%peak"),
            "EBBTIDE_BUDGET=101%peak: this is over 100 % of the plain peak" + forms);
  EXPECT_EQ(refusal("-0%"), "EBBTIDE_BUDGET=-0%: this is not more than zero" + forms);
  EXPECT_EQ(refusal("30GB"),
            "EBBTIDE_BUDGET=30GB: write 30GiB (30 × 2^30 bytes). Other forms: 24576MiB, 80%, auto, "
            "-50%, 60%peak, none, a number of bytes");
  EXPECT_EQ(refusal("-0.5"),
            "EBBTIDE_BUDGET=-0.5: a minus needs a percentage of the activations" + forms);
  EXPECT_EQ(refusal("0.6peak"), "EBBTIDE_BUDGET=0.6peak: peak needs a percentage" + forms);
  EXPECT_EQ(refusal("0.8"),
            "EBBTIDE_BUDGET=0.8: this is less than a byte; did you mean 80% or 0.8GiB?");
  EXPECT_EQ(refusal("1,5GiB"), "EBBTIDE_BUDGET=1,5GiB: the decimals follow a point" + forms);
  for (const char* text : {"", "-", "%", "peak", "%peak", "--50%", "-50%peak", "+50%", "auto 1",
                           "60peak", "60%peaks", "-1e1%", "-nan%", "60% of peak"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(BudgetForm, FewBytesAreAskedBack) {
  EXPECT_THROW(refuseFewBytes("SIZE", "80"), std::invalid_argument);
  EXPECT_THROW(refuseFewBytes("SIZE", " 1048575 "), std::invalid_argument);
  for (const char* text : {"1048576", "1KiB", "80%", "auto", "-50%", "60%peak", "none"})
    EXPECT_NO_THROW(refuseFewBytes("SIZE", text)) << text;
}

// Each letter in either case, spaces where they may be.
std::string disguised(const std::vector<std::string>& parts, std::mt19937& random) {
  std::string text;
  for (const std::string& part : parts) {
    text.append(random() % 3, ' ');
    for (const char letter : part)
      text += random() % 2 ? static_cast<char>(std::toupper(letter)) : letter;
  }
  return text.append(random() % 3, ' ');
}

// What is written in any way is read as what it is, and what it is can be written and read again.
TEST(BudgetForm, AnySpellingComesThrough) {
  std::mt19937 random(1);
  constexpr std::array<const char*, 5> kUnits = {"", "kib", "mi", "gib", "ti"};
  constexpr std::array<int, 5> kShifts = {0, 10, 20, 30, 40};
  for (int i = 0; i < 20000; ++i) {
    const std::size_t unit = random() % kUnits.size();
    const Bytes count = 1 + static_cast<Bytes>(random() % 100000);
    const std::string percent =
        std::to_string(random() % 100) + "." + std::to_string(1 + random() % 9999);
    struct Case {
      BudgetForm form;
      std::vector<std::string> parts;
    };
    const double share = std::stod(percent);
    const std::array<Case, 6> cases = {
        Case{{}, {"none"}},
        Case{{.kind = Kind::kAvailable}, {"auto"}},
        Case{{.kind = Kind::kBytes, .bytes = count << kShifts[unit]},
             {std::to_string(count), kUnits[unit]}},
        Case{{.kind = Kind::kMemoryShare, .percent = share}, {percent, "%"}},
        Case{{.kind = Kind::kLessActivations, .percent = share}, {"-", percent, "%"}},
        Case{{.kind = Kind::kPeakShare, .percent = share}, {percent, "%", "peak"}}};
    const Case& one = cases[random() % cases.size()];
    const std::string text = disguised(one.parts, random);
    EXPECT_EQ(parsed(text), one.form) << text;
    EXPECT_EQ(parsed(one.form.text()), one.form) << text;
  }
}

// Any text is a form or that one exception, and a form comes to bytes.
TEST(BudgetForm, AnyTextIsReadOrRefused) {
  std::mt19937 random(2);
  const std::vector<std::string> parts = {"auto",
                                          "none",
                                          "peak",
                                          "-",
                                          "%",
                                          "50",
                                          ".",
                                          "GiB",
                                          "mi",
                                          " ",
                                          "\x01",
                                          "\xff",
                                          "1e9",
                                          "0x",
                                          "nan",
                                          "=,",
                                          "9999999999999999999999"};
  int read = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (std::size_t n = random() % 6; n > 0; --n) {
      if (random() % 10 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        text += parts[random() % parts.size()];
      }
    }
    try {
      const BudgetForm form = parsed(text);
      ++read;
      EXPECT_EQ(parsed(form.text()), form) << text;
      const auto bytes = resolve(form, kFacts);
      EXPECT_TRUE(form.isNone() ? !bytes : bytes >= 1) << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("EBBTIDE_BUDGET=")) << error.what();
    }
  }
  EXPECT_GT(read, 1000);  // it is no test of refusals alone
}

}  // namespace
}  // namespace ebbtide::scheduler
