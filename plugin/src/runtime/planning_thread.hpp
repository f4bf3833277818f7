// The threads that plan: each is known to be one by what runs on it. Torch-free.
#pragma once

#include <functional>
#include <thread>

namespace ebbtide::plugin {

// kIdle: of the idle class, which runs where nobody else wants to, if the system lets it. There is
// no way back without privileges.
enum class Priority { kNormal, kIdle };

// `name`: at most 15 characters, of a literal.
std::thread startPlanningThread(const char* name, Priority priority, std::function<void()> run);
bool onPlanningThread() noexcept;  // does one of them ask?

}  // namespace ebbtide::plugin
