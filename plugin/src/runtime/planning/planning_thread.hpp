// The threads that plan. Code that runs on one can ask whether it does. Torch-free.
#pragma once

#include <functional>
#include <thread>

namespace ebbtide::plugin {

// kLowest: nice 19. Linux weighs a thread by its priority: 1,024 is the normal weight, 15 that of
// nice 19, 3 that of the idle class. So beside a busy thread it gets 1.4 % of a core. The idle
// class would get 0.3 %: with a busy thread on each core a search would hardly end. Without
// privileges a thread cannot raise its priority again.
enum class Priority { kNormal, kLowest };

// `name`: a string literal of at most 15 characters.
std::thread startPlanningThread(const char* name, Priority priority, std::function<void()> run);
bool onPlanningThread() noexcept;  // is the caller one of these threads?

}  // namespace ebbtide::plugin
