// The table of messages against its page, and texts as the plugin says them.
#include "base/message_table.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace ebbtide::plugin {
namespace {

std::string codeOf(const std::string& text) {
  const Message* const message = knownMessage(text);
  return message == nullptr ? "" : message->code;
}

// The page has what is printed here, as it is.
TEST(MessageTable, IsTheOneOfTheDocumentation) {
  std::ostringstream page;
  page << std::ifstream(std::string(EBBTIDE_DOCS) + "/configuration.md").rdbuf();
  ASSERT_FALSE(page.str().empty());
  EXPECT_NE(page.str().find("\n\n" + markdownTable() + "\n"), std::string::npos)
      << "docs/configuration.md, \"What the messages mean\", is to have:\n\n"
      << markdownTable();
}

TEST(MessageTable, HasACodeForEachMessage) {
  std::set<std::string> codes, texts;
  for (const Message& message : messageTable()) {
    EXPECT_TRUE(codes.insert(message.code).second) << message.code;
    EXPECT_TRUE(texts.insert(message.text).second) << message.text;
    EXPECT_EQ(std::string(message.code).size(), 4U);
    EXPECT_TRUE(std::string(message.code).starts_with("EB"));
    EXPECT_STRNE(message.meaning, "");
    EXPECT_STRNE(message.what_to_do, "");
    // None is hidden by another one.
    EXPECT_EQ(codeOf(message.text), message.code);
  }
}

TEST(MessageTable, KnowsTextsByTheirBegin) {
  EXPECT_EQ(withCode("nothing to do so far: a step needs 412.4 MiB and the budget is 14.12 GiB"),
            "nothing to do so far: a step needs 412.4 MiB and the budget is 14.12 GiB [EB04]");
  EXPECT_EQ(withCode("a text of nobody's"), "a text of nobody's");
  EXPECT_EQ(withCode(""), "");
  EXPECT_EQ(codeOf("so there is nothing to do so far"), "");  // not at its begin
}

// The rest of such a line is pasted.
TEST(MessageTable, TheCodeComesBeforeWhatIsToBeTyped) {
  EXPECT_EQ(
      withCode("nothing to do so far: a step needs 412.4 MiB and the budget is 14.12 GiB. Half "
               "of the activations would be EBBTIDE_BUDGET=249MiB"),
      "nothing to do so far: a step needs 412.4 MiB and the budget is 14.12 GiB [EB04]. Half "
      "of the activations would be EBBTIDE_BUDGET=249MiB");
  EXPECT_EQ(withCode("ebbtide status and top do not find this run: the name is too long. They do "
                     "with --endpoint 127.0.0.1:9464"),
            "ebbtide status and top do not find this run: the name is too long [EB37]. They do "
            "with --endpoint 127.0.0.1:9464");
  for (const std::string last : {"x. Set EBBTIDE_PORT", "x. EBBTIDE=1 trains", "EBBTIDE_PORT=9464",
                                 "x. Take EBBTIDE_BUDGET=1GiB.", "x. ", "x. --"}) {
    const std::string text = "no plan could be made: " + last;
    EXPECT_EQ(withCode(text), text + " [EB12]");
  }
}

TEST(MessageTable, TakesTheMessageThatFitsClosest) {
  const std::string whole = "no plan for the whole job: ";
  const std::string differ = codeOf(whole + "the versions differ: rank 0 has 0.1.0");
  const std::string silent = codeOf(whole + "rank 1 did not report within 60 s; each rank …");
  const std::string other = codeOf(whole + "rank 3: no room; each rank trains on with its own");
  EXPECT_EQ((std::set<std::string>{differ, silent, other, ""}).size(), 4U);
  EXPECT_NE(codeOf("step 7 needed at least 3.0 GiB, more than the budget of 2.0 GiB: training"),
            codeOf("step 7 went over the budget of 2.0 GiB: training goes on"));
}

// The words that finders look for come before the code.
TEST(MessageTable, KnowsErrorsAfterTheirPrefix) {
  const std::string refused =
      "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory within the budget of "
      "20.0 MiB: it is too small for this program, which needs 30.0 MiB.\nSmallest budget: …";
  const std::string failed =
      "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: 64.0 MiB asked for by "
      "GreedyBackward.\nBudget 20.0 MiB; …";
  EXPECT_TRUE(withCode(refused).starts_with(refused));
  EXPECT_NE(codeOf(refused), "");
  EXPECT_NE(codeOf(failed), "");
  EXPECT_NE(codeOf(refused), codeOf(failed));
  EXPECT_EQ(codeOf("ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: 4.0 MiB "
                   "asked for.\nBudget 40.0 MiB; …"),  // by no op that is known
            codeOf(failed));
  EXPECT_EQ(
      codeOf("CUDA out of memory. Memory cannot be allocated within the budget of 20.0 MiB: it "
             "is too small for this program, which needs 30.0 MiB.\nSmallest budget: …"),
      codeOf(refused));
  EXPECT_NE(codeOf("CUDA out of memory. Tried to allocate 2.0 GiB for aten::mm. GPU 0 has a total"),
            "");
  EXPECT_NE(codeOf("ebbtide: aten::mm gave other results when it was run again, although"), "");
  EXPECT_NE(
      codeOf("ebbtide: this GPU has no virtual memory management, so no budget can be kept on "
             "it. EBBTIDE_ALLOCATOR=torch keeps PyTorch's allocator"),
      "");
}

// An error that becomes the reason of a line: the line's code is the only one.
TEST(MessageTable, TakesACodeOffAgain) {
  const std::string error = "ebbtide: what was dropped cannot be had again: value 3 is not there";
  EXPECT_NE(withCode(error), error);
  EXPECT_EQ(withoutCode(withCode(error)), error);
  for (const char* text : {"", "]", "shapes [2, 3]", "of a list [EB]", "[EB76] and more"})
    EXPECT_EQ(withoutCode(text), text);
  const std::string reason = "the results of aten::mm are kept, not computed again: " + error;
  EXPECT_EQ(codeOf(reason), codeOf("the results of aten::mm are kept, not computed again: it"));
}

}  // namespace
}  // namespace ebbtide::plugin
