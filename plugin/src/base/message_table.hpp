// The messages of a run: a code for each, and what it means. From here docs/configuration.md has
// its table (message_table_test.cpp compares them). Torch-free.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ebbtide::plugin {

struct Message {
  const char* code;                  // stays with its message, and is never given to another one
  const char* text;                  // its begin; "…" stands for what differs from run to run
  const char *meaning, *what_to_do;  // Markdown, as in the table
};

// As the table has them.
std::span<const Message> messageTable();

// Of the message that a text is: where several fit, the one with the most letters of its own.
// nullptr: it is not in the table. An error's "ebbtide: " before it is passed over.
const Message* knownMessage(std::string_view text) noexcept;

// "… [EB07]": the text and its code; the text alone where the table does not have it. The code is
// last, since batch-size finders look for words at the begin. Where a setting or an option to type
// is last, the sentence before has the code: "… [EB04]. Half would be EBBTIDE_BUDGET=249MiB".
std::string withCode(const std::string& text);
// The text again, of one that ends with a code.
std::string withoutCode(std::string line);

// The rows of the table in docs/configuration.md, with its head.
std::string markdownTable();

}  // namespace ebbtide::plugin
