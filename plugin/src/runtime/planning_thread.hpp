// The threads that plan: each is known to be one by what runs on it. Torch-free.
#pragma once

#include <functional>
#include <thread>

namespace ebbtide::plugin {

// kLowest: nice 19. Linux weighs a thread by its priority: 1,024 is the normal weight, 15 that of
// nice 19, 3 that of the idle class. So beside a busy thread it has 1.4 % of a core, where the idle
// class would have 0.3 %: with a busy thread on each core a search would hardly end. A thread does
// not get its priority back without privileges.
enum class Priority { kNormal, kLowest };

// `name`: at most 15 characters, of a literal.
std::thread startPlanningThread(const char* name, Priority priority, std::function<void()> run);
bool onPlanningThread() noexcept;  // does one of them ask?

}  // namespace ebbtide::plugin
