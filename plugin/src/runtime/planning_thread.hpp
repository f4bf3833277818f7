// The threads that plan: each is known to be one by what runs on it. Torch-free.
#pragma once

#include <functional>
#include <thread>

namespace ebbtide::plugin {

// `name`: at most 15 characters, of a literal.
std::thread startPlanningThread(const char* name, std::function<void()> run);
bool onPlanningThread() noexcept;  // does one of them ask?

}  // namespace ebbtide::plugin
